"""Produce and fetch for clients that cannot find a partition's leader themselves.

A gateway whose protocol knows no leaders asks here; the request is done on this broker or passed to
the leader. `serve` is the other end.

A batch that comes here has no producer id, so nobody would notice that it comes twice: it is sent
again only while it is certain that no leader has appended it. The leader itself tells that apart. A
refusal says that nothing was appended; from the append on there is the result, or a doubt
(`RequestTimedOut`), for what one leader has appended the next one may have, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.partitions.batch_checks import LongCheck
from kafkaesque.broker.partitions.few_names import FewNames, Passed
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_sealing import Located
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.partitions.read_ranges import read_ranges
from kafkaesque.broker.partitions.schema_checks import ProduceChecks
from kafkaesque.broker.partitions.waiting_read import WaitingRead
from kafkaesque.broker.peers.link import PeerNetwork, PeerNotAsked, PeerUnreachable
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.caller import RemoteCaller, refused_where_unreachable
from kafkaesque.broker.requests.commands import (
    EARLIEST,
    LATEST,
    FetchResult,
    ForwardAppend,
    ForwardFetch,
    ForwardProduce,
    ProduceResult,
    WantedNames,
)
from kafkaesque.broker.requests.retries import OnOutcome, retry
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    LogEndMoved,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    OffsetOutOfRange,
    RequestRefused,
    RequestTimedOut,
    StorageFailed,
)
from kafkaesque.model.ids import NodeId, Offset, TopicPartition

#: One answer between brokers carries at most this many bytes of records, or one batch.
FORWARD_BYTES_MAX = 8 * 1024 * 1024

#: A read waits at a leader for at most this.
WAIT_MS_MAX = 30_000
#: What of a read's time is kept for its answer to arrive.
ANSWER_MS = 1_000

_NEVER_TRIED = "there was no time left to try"

ResultT = TypeVar("ResultT")
OnProduced = Callable[[ProduceResult | RequestRefused], None]
OnFetched = Callable[[FetchResult | RequestRefused], None]


class Forwarder:
    """Brings produce and fetch requests to the leader."""

    def __init__(
        self,
        *,
        clock: Clock,
        caller: RemoteCaller,
        node: NodeId,
        metadata: MetadataView,
        leaders: LeadersTable,
        peers: PeerNetwork,
        partitions: PartitionTable,
        batch_checks: ProduceChecks,
        disk: Disk,
        few_names: FewNames,
    ) -> None:
        self._clock = clock
        self._caller = caller
        self._node = node
        self._metadata = metadata
        self._leaders = leaders
        self._peers = peers
        self._partitions = partitions
        self._batch_checks = batch_checks
        self._disk = disk
        self._few_names = few_names

    def produce(
        self,
        where: TopicPartition,
        records: bytes,
        acks: int,
        timeout_ms: int,
        on_done: OnProduced,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Append a batch at the partition's leader.

        It is tried again while the leader is unknown, out of reach or has moved. `RequestTimedOut`
        means that it may or may not have been appended, any other refusal that it was not. It is
        not tried any more once `is_wanted` says no: who waited for the answer may be publishing it
        elsewhere, and so no more batches wait here than there are clients.
        """

        def attempt(left_ms: int, on_outcome: OnProduced) -> None:
            if not is_wanted():
                raise RequestRefused("nobody waits for the answer any more")
            request = ForwardProduce(
                topic=where.topic,
                partition=where.partition,
                acks=acks,
                timeout_ms=left_ms,
                records=records,
            )
            leader = self._leader(where)
            if leader == self._node:
                self.serve_produce(request, on_outcome)
            else:
                settle = _settled(_told_by_release_before(where, on_outcome))
                self._caller.ask(leader, request, ProduceResult, left_ms, settle)

        self._retry(attempt, timeout_ms, on_done)

    def append_at(
        self,
        where: TopicPartition,
        end_offset: int,
        records: bytes,
        timeout_ms: int,
        on_done: OnProduced,
    ) -> None:
        """Append a batch at the leader if its log ends at `end_offset`, and wait for the commit.

        `LogEndMoved` says that it does not end there, which may be because of a batch that is not
        committed. `RequestTimedOut` means that it may or may not have been appended, any other
        refusal that it was not.
        """

        def attempt(left_ms: int, on_outcome: OnProduced) -> None:
            request = ForwardAppend(
                topic=where.topic,
                partition=where.partition,
                end_offset=end_offset,
                timeout_ms=left_ms,
                records=records,
            )
            leader = self._leader(where)
            if leader == self._node:
                self.serve_append(request, on_outcome)
            else:
                self._caller.ask(leader, request, ProduceResult, left_ms, _settled(on_outcome))

        self._retry(attempt, timeout_ms, on_done)

    def fetch(
        self,
        where: TopicPartition,
        offset: int,
        bytes_max: int,
        timeout_ms: int,
        on_done: OnFetched,
        *,
        wait_ms: int = 0,
        reads_all: bool = False,
        names: WantedNames | None = None,
    ) -> None:
        """Return batches from the partition's leader, none if there are no more within `wait_ms`.

        It is tried again while the leader is unknown, out of reach or has moved, or cannot read
        what is committed yet. The batches lie before the last stable offset, and what of them was
        aborted is named beside them; an answer without batches says that there are none. With
        `reads_all` they lie before the high watermark, nothing is named, and an offset at which
        nothing is yet is out of range: whoever asks so knows that it was committed.
        `offset` may be `commands.EARLIEST` or `LATEST`. Records that `names` do not want may be
        left out; the result says where reading goes on.
        """

        def attempt(left_ms: int, on_outcome: OnFetched) -> None:
            request = ForwardFetch(
                topic=where.topic,
                partition=where.partition,
                offset=offset,
                bytes_max=bytes_max,
                wait_ms=max(0, min(wait_ms, left_ms - ANSWER_MS, WAIT_MS_MAX)),
                reads_all=True if reads_all else msgspec.UNSET,
                names=msgspec.UNSET if names is None else names,
            )
            leader = self._leader(where)
            if leader == self._node:
                self.serve_fetch(request, on_outcome)
            else:
                settle = refused_where_unreachable(LeaderNotAvailable, on_outcome)
                self._caller.ask(leader, request, FetchResult, left_ms, settle)

        self._retry(attempt, timeout_ms, on_done)

    def _leader(self, where: TopicPartition) -> NodeId:
        state = self._metadata.state.partition(where)
        leader = self._leaders.leader(state.group)
        if leader is None:
            raise LeaderNotAvailable(f"{where} has no leader at the moment")
        return leader

    def _retry(
        self,
        attempt: Callable[[int, OnOutcome[ResultT]], None],
        timeout_ms: int,
        on_done: OnOutcome[ResultT],
    ) -> None:
        """Try until there is an outcome, or time is up; then nothing was done."""

        def attempt_unless_closed(left_ms: int, on_outcome: OnOutcome[ResultT]) -> None:
            if self._peers.closed:
                on_done(LeaderNotAvailable(f"broker {self._node} stops"))
            else:
                attempt(left_ms, on_outcome)

        def too_late(last: RequestRefused | None) -> RequestRefused:
            obstacle = last or _NEVER_TRIED
            return LeaderNotAvailable(f"its leader could not be reached in time: {obstacle}")

        retry(self._clock, timeout_ms, attempt_unless_closed, on_done, too_late)

    # -- the leader's end

    def serve_produce(self, request: ForwardProduce, on_done: OnProduced) -> None:
        """Append here what a gateway or another broker asks for; `on_done` gets refusals, too."""
        try:
            self._serve_produce(request, on_done)
        except RequestRefused as refusal:
            on_done(refusal)

    def serve_append(self, request: ForwardAppend, on_done: OnProduced) -> None:
        """Append here if the log ends where it is to end; `on_done` gets refusals, too."""
        where = TopicPartition(request.topic, request.partition)
        try:
            partition = self._partitions.find(where)
            partition.check_leader()
            # What others have appended in this turn is proposed, and not in the log below yet.
            next_offset = partition.next_offset
            if next_offset != request.end_offset:
                raise LogEndMoved(f"{where} ends at {next_offset}, not at {request.end_offset}")
            # Nothing comes between: a batch without compression is checked and appended at once.
            check = partition.produce(
                bytearray(request.records),
                acks=-1,
                timeout_ms=request.timeout_ms,
                on_done=_after_append(on_done),
            )
            if check is not None:
                raise InvalidRequest("such a batch takes no compression")
        except RequestRefused as refusal:
            on_done(refusal)

    def serve_fetch(self, request: ForwardFetch, on_done: OnFetched) -> None:
        """Read here what a gateway or another broker asks for; `on_done` gets refusals, too."""
        try:
            if request.wait_ms > 0:
                self._wait_and_fetch(request, on_done)
            else:
                self._serve_fetch(request, on_done)
        except RequestRefused as refusal:
            on_done(refusal)

    def _serve_produce(self, request: ForwardProduce, on_done: OnProduced) -> None:
        records = bytearray(request.records)
        where = TopicPartition(request.topic, request.partition)

        def append(checked: LongCheck | None) -> None:
            partition = self._partitions.find(where)

            def produce(inner: LongCheck | None) -> LongCheck | None:
                return partition.produce(
                    records,
                    acks=request.acks,
                    timeout_ms=request.timeout_ms,
                    on_done=_after_append(on_done),
                    checked=inner,
                )

            check = self._batch_checks.append(partition, records, checked, produce)
            if check is not None:
                self._batch_checks.run(check, lambda: append_checked(check))

        def append_checked(check: LongCheck) -> None:
            try:
                append(check)
            except RequestRefused as refusal:
                on_done(refusal)

        append(None)

    def _wait_and_fetch(self, request: ForwardFetch, on_done: OnFetched) -> None:
        partition = self._partitions.find(TopicPartition(request.topic, request.partition))
        partition.check_leader()
        if request.offset == EARLIEST:
            offset = partition.log_start_offset
        elif request.offset == LATEST:
            offset = partition.last_stable_offset
        else:
            offset = Offset(request.offset)
        at_once = replace(request, offset=offset, wait_ms=0)
        if not partition.log_start_offset <= offset <= partition.log.end_offset:
            self._serve_fetch(at_once, on_done)
            return
        read = WaitingRead(
            self._clock, partition, offset, lambda: self.serve_fetch(at_once, on_done)
        )
        read.start(min(request.wait_ms, WAIT_MS_MAX))

    def _serve_fetch(self, request: ForwardFetch, on_done: OnFetched) -> None:
        partition = self._partitions.find(TopicPartition(request.topic, request.partition))
        partition.check_leader()
        stable_offset = partition.last_stable_offset
        start_offset = partition.log_start_offset
        named = {EARLIEST: start_offset, LATEST: stable_offset}
        offset = named.get(request.offset, Offset(request.offset))
        try:
            partition.check_fetch_offset(offset)
        except OffsetOutOfRange as refusal:
            if not partition.is_after_end(offset):
                raise
            partition.confirm_refusal(refusal, on_done)
            return
        aborted: list[tuple[int, int]] = []
        if request.reads_all is True:
            end = partition.high_watermark
            if offset >= partition.next_offset:
                lost = OffsetOutOfRange(f"{partition.name} does not have offset {offset} any more")
                partition.confirm_refusal(lost, on_done)
                return
            if offset >= end:
                raise LeaderNotAvailable(f"{partition.name} does not know what is committed yet")
        else:
            end, aborted = partition.stable_range(offset)

        bytes_max = min(request.bytes_max, FORWARD_BYTES_MAX)
        result = FetchResult(
            records=b"",
            aborted=aborted,
            last_stable_offset=stable_offset,
            log_start_offset=start_offset,
        )
        names = request.names
        if isinstance(names, msgspec.UnsetType) or request.reads_all is True:
            self._read(partition, offset, end, bytes_max, result, on_done)
            return

        def on_passed(passed: Passed | RequestRefused) -> None:
            if isinstance(passed, RequestRefused):
                on_done(passed)
                return
            told = replace(result, records=passed.records, next_offset=passed.next_offset)
            if passed.records:
                on_done(told)
                return
            try:
                partition.check_leader()
                self._read(partition, passed.next_offset, end, bytes_max, told, on_done)
            except RequestRefused as refusal:
                on_done(refusal)

        self._few_names.read(partition, names, offset, end, bytes_max, on_passed)

    def _read(
        self,
        partition: Partition,
        offset: Offset,
        end: Offset,
        bytes_max: int,
        result: FetchResult,
        on_done: OnFetched,
    ) -> None:
        """Answer with a result, and the records from an offset on."""

        def on_read(records: bytes | Exception) -> None:
            if isinstance(records, Exception):
                on_done(StorageFailed(f"the log cannot be read: {records}"))
            else:
                on_done(replace(result, records=records))

        def on_located(ranges: Sequence[Located] | Exception) -> None:
            if isinstance(ranges, RequestRefused):
                on_done(ranges)
            elif isinstance(ranges, Exception):
                on_done(StorageFailed(f"the log cannot be read: {ranges}"))
            elif not ranges and offset < end and partition.log.written_end < end:
                # After a cut the files follow later. To answer that there is nothing would be to
                # tell readers that they know all that is committed.
                on_done(LeaderNotAvailable(f"{partition.name} cannot be read up to {end} yet"))
            else:
                read_ranges(self._disk, ranges, on_read)

        ranges = partition.read_now(offset, bytes_max, end)
        if ranges is None:
            partition.read_later(offset, bytes_max, on_located, end)
        else:
            on_located(ranges)


def _doubt(why: object) -> RequestTimedOut:
    return RequestTimedOut(f"{why}; it may or may not be done")


def _after_append(on_done: OnProduced) -> OnProduced:
    """Turn into a doubt what a leader refuses of a batch that it has appended."""

    def settle(outcome: ProduceResult | RequestRefused) -> None:
        is_doubt = isinstance(outcome, RequestRefused) and not isinstance(outcome, RequestTimedOut)
        on_done(_doubt(outcome) if is_doubt else outcome)

    return settle


def _settled(
    on_outcome: OnProduced,
) -> Callable[[ProduceResult | RequestRefused | PeerUnreachable], None]:
    """Turn "could not be reached" into a refusal that gateways know."""

    def settle(outcome: ProduceResult | RequestRefused | PeerUnreachable) -> None:
        if isinstance(outcome, PeerNotAsked):
            on_outcome(LeaderNotAvailable(str(outcome)))
        elif isinstance(outcome, PeerUnreachable):
            on_outcome(_doubt(outcome))
        else:
            on_outcome(outcome)

    return settle


def _told_by_release_before(where: TopicPartition, on_outcome: OnProduced) -> OnProduced:
    """Do the same with what a leader of the release before has answered.

    It tells only in its refusal's words that it had appended the batch; no leader of this release
    refuses with these.
    """
    words = (f"{where} has another leader", f"{where} went offline: ")

    def settle(outcome: ProduceResult | RequestRefused) -> None:
        is_doubt = isinstance(outcome, NotEnoughReplicasAfterAppend) or (
            isinstance(outcome, NotLeader | StorageFailed) and str(outcome).startswith(words)
        )
        on_outcome(_doubt(outcome) if is_doubt else outcome)

    return settle
