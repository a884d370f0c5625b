"""Fetch: committed batches out of partitions, as file ranges, at once or when there are enough.

Theory of operation. A request gathers what its partitions have, in the order of its session, within
its byte limits. If that is less than it wants as a minimum, it leaves a watcher at each of its
partitions and a timer, and gathers again when a high watermark moves. Partitions whose bytes are
not in memory are located off the loop; the request goes on when they are. A request for very many
partitions is spread over turns of the loop. Nothing polls. Who reads committed transactions only
gets what lies before the last stable offset, and is told which transactions in it were aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_sealing import Located
from kafkaesque.broker.tracer import Tracer
from kafkaesque.chassis.readable_logs import extent_of, is_view, readable_replica
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.kafka.call import Call, Part
from kafkaesque.gateway.kafka.errors import code_of
from kafkaesque.gateway.kafka.fetch_sessions import (
    FetchSession,
    FetchSessions,
    SessionEpochWrong,
    SessionNotFound,
    SessionPartition,
)
from kafkaesque.gateway.kafka.queue_views import read_view
from kafkaesque.gateway.kafka.topics import TopicForbidden, leader_hint, resolve_topic
from kafkaesque.gateway.kafka.turns import Turn
from kafkaesque.model.errors import (
    NotLeader,
    OffsetOutOfRange,
    OverBound,
    RequestRefused,
    StorageFailed,
)
from kafkaesque.model.ids import NodeId, Offset, TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.fetch_path import (
    FetchCall,
    PartitionAsked,
    PartitionFetched,
    read_fetch_request,
    write_fetch_response,
)
from kafkaesque.protocols.kafka.produce_path import TopicKey

MAX_WAIT_MS_MAX = 10 * 60 * 1000
#: After so many partitions a look at the clock tells whether others are kept waiting.
PARTITIONS_PER_LOOK = 64

_READ_COMMITTED = 1

#: Producer ids, and the offsets where their aborted transactions begin.
Aborted = list[tuple[int, int]]


def on_fetch(doors: Doors, sessions: FetchSessions, call: Call) -> None:
    """Answer a fetch, now or later."""
    request = read_fetch_request(call.frame, call.header.body_offset, call.version)
    quota_bytes = None if call.meter is None else call.meter.fetch_bytes_max
    if quota_bytes is not None:
        # As in Kafka: no answer is to be throttled for longer than the quota looks back.
        request.max_bytes = min(request.max_bytes, quota_bytes)
        request.min_bytes = min(request.min_bytes, quota_bytes)
    try:
        session = sessions.open(request, doors.clock.now_ms(), call.connection.user)
    except SessionNotFound:
        _answer_error(call, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    except SessionEpochWrong:
        _answer_error(call, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    else:
        _Fetch(doors, call, request, session).gather()


def _answer_error(call: Call, code: ErrorCode) -> None:
    parts, _ = write_fetch_response(call.version, call.header.correlation_id, (), error_code=code)
    call.answer_parts(parts)


class _Fetch:
    """A request that is being answered."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_call",
        "_deadline_ms",
        "_doors",
        "_is_asked",
        "_is_done",
        "_is_gathering",
        "_is_written",
        "_pending",
        "_request",
        "_results",
        "_session",
        "_timer",
        "_watches",
    )

    def __init__(self, doors: Doors, call: Call, request: FetchCall, session: FetchSession) -> None:
        self._doors = doors
        self._call = call
        self._request = request
        self._session = session
        wait_ms = min(max(0, request.max_wait_ms), MAX_WAIT_MS_MAX)
        self._deadline_ms = doors.clock.now_ms() + wait_ms
        self._timer: Timer | None = None
        self._watches: list[tuple[Partition, int]] = []
        self._results: list[tuple[SessionPartition, PartitionFetched]] = []
        self._pending: list[SessionPartition] = []
        self._bytes = 0
        #: Whatever the client asks for, the answer holds at most so many bytes and one batch.
        self._bytes_max = min(request.max_bytes, int(doors.configuration.get("fetch.max.bytes")))
        self._is_asked = False
        self._is_done = False
        #: From `gather` until `_conclude`, which may be turns later: one at a time.
        self._is_gathering = False
        #: Whether something of a queue was written anew, which takes the loop some 10 ms each time.
        self._is_written = False

    # -- gathering

    def gather(self) -> None:
        """Collect from every partition, then answer or wait."""
        self._is_asked = False
        self._is_gathering = True
        self._is_written = False
        self._unwatch()
        self._results = []
        self._bytes = 0
        self._pending = list(self._session.partitions.values())
        self._pending.reverse()
        self._go_on()

    def _go_on(self) -> None:
        if self._is_done:
            return
        if not self._call.connection.is_open:
            self._finish()
            return
        turn = Turn(self._doors.clock) if len(self._pending) > 1 else None
        while self._pending:
            wanted = self._pending.pop()
            fetched = self._read(wanted)
            if fetched is None:
                return  # `_on_located` goes on
            self._take(wanted, fetched)
            is_look = self._is_written or len(self._pending) % PARTITIONS_PER_LOOK == 0
            if turn is not None and is_look and self._pending and turn.is_over():
                self._doors.clock.call_soon(self._go_on)
                return
        self._is_gathering = False
        self._conclude()

    def _take(self, wanted: SessionPartition, fetched: PartitionFetched) -> None:
        self._results.append((wanted, fetched))
        self._bytes += fetched.records_bytes

    def _read(self, wanted: SessionPartition) -> PartitionFetched | None:
        asked = wanted.asked
        try:
            name = resolve_topic(self._doors, wanted.topic)
            rights = self._call.connection.rights
            if rights is not None and not rights.may(Operation.READ, ResourceType.TOPIC, name):
                # Asked each time: what a session names, its client may have no right to any more.
                raise TopicForbidden
            partition = readable_replica(self._doors, TopicPartition(name, asked.partition))
            if is_view(partition):
                return self._read_view(wanted, partition)
            if not self._is_served_by_follower(partition, asked):
                partition.check_leader(asked.current_leader_epoch)
                nearer = self._nearer_replica(partition, Offset(asked.fetch_offset))
                if nearer is not None:
                    fetched = self._fetched(partition, asked.partition, [])
                    fetched.preferred_read_replica = nearer
                    return fetched
            if asked.last_fetched_epoch >= 0:
                diverging = _find_divergence(partition, asked.last_fetched_epoch, asked)
                if diverging is not None:
                    return self._fetched(partition, asked.partition, [], diverging)
            partition.check_fetch_offset(Offset(asked.fetch_offset))
            tracer = self._doors.activity.tracer
            if tracer is not None:
                self._trace(tracer, TopicPartition(name, asked.partition), asked)
            limit = self._limit(asked.partition_max_bytes)
            if self._request.isolation_level == _READ_COMMITTED:
                return self._read_committed(wanted, partition, limit)
            if limit <= 0 or asked.fetch_offset >= partition.high_watermark:
                return self._fetched(partition, asked.partition, [])
            ranges = partition.read_now(Offset(asked.fetch_offset), limit)
        except OffsetOutOfRange as refusal:
            if not partition.is_after_end(Offset(asked.fetch_offset)):
                return self._refused(wanted, refusal)
            partition.confirm_refusal(refusal, self._on_located(wanted, partition))
            return None
        except RequestRefused as refusal:
            return self._refused(wanted, refusal)
        if ranges is None:
            partition.read_later(
                Offset(asked.fetch_offset), limit, self._on_located(wanted, partition)
            )
            return None
        return self._fetched(partition, asked.partition, self._within_limit(ranges))

    def _trace(self, tracer: Tracer, where: TopicPartition, asked: PartitionAsked) -> None:
        call = self._call
        client_id = call.header.client_id or ""
        tracer.on_asked(call.connection.number, where, asked.fetch_offset, client_id)

    def _is_served_by_follower(self, partition: Partition, asked: PartitionAsked) -> bool:
        return self._doors.reading.is_served_by_follower(
            partition,
            self._request.rack_id,
            asked.current_leader_epoch,
            Offset(asked.fetch_offset),
        )

    def _nearer_replica(self, partition: Partition, offset: Offset) -> NodeId | None:
        request = self._request
        if request.replica_id >= 0:
            return None
        return self._doors.reading.nearer_replica(partition, request.rack_id, offset)

    def _read_committed(
        self, wanted: SessionPartition, partition: Partition, limit: int
    ) -> PartitionFetched | None:
        index, offset = wanted.asked.partition, Offset(wanted.asked.fetch_offset)
        end, aborted = partition.stable_range(offset)
        if limit <= 0 or offset >= end:
            return self._fetched(partition, index, [], aborted=[])
        ranges = partition.read_now(offset, limit, end)
        if ranges is None:
            on_located = self._on_located(wanted, partition, aborted)
            partition.read_later(offset, limit, on_located, end)
            return None
        return self._fetched(partition, index, self._within_limit(ranges), aborted=aborted)

    def _read_view(self, wanted: SessionPartition, partition: Partition) -> PartitionFetched | None:
        """Read a queue's log, at its leader alone: each replica cleans it by itself."""
        asked = wanted.asked
        partition.check_leader(asked.current_leader_epoch)
        limit, on_later = (
            self._limit(asked.partition_max_bytes),
            self._on_located(wanted, partition),
        )
        found = read_view(self._doors, partition, asked.fetch_offset, limit, on_later)
        if found is None:
            return None
        return self._fetched(partition, asked.partition, self._within_limit(found))

    def _limit(self, partition_max_bytes: int) -> int:
        """Return how many bytes a partition may give.

        Its first batch may be longer if it is the first of the whole answer.
        """
        left = self._bytes_max - self._bytes
        return min(left, partition_max_bytes)

    def _within_limit(self, ranges: Sequence[Located]) -> Sequence[Located]:
        """Drop a batch that is longer than what is left, unless the answer were empty."""
        size = sum(piece.length for piece in ranges)
        left = self._bytes_max - self._bytes
        return [] if self._bytes and size > left else ranges

    def _on_located(
        self, wanted: SessionPartition, partition: Partition, aborted: Aborted | None = None
    ) -> Callable[[Sequence[Located] | Exception], None]:
        def on_located(found: Sequence[Located] | Exception) -> None:
            index = wanted.asked.partition
            if isinstance(found, RequestRefused):
                self._take(wanted, self._refused(wanted, found))
            elif isinstance(found, Exception):
                refusal = StorageFailed(f"the log cannot be read: {found}")
                self._take(wanted, self._refused(wanted, refusal))
            else:
                ranges = self._within_limit(found)
                self._take(wanted, self._fetched(partition, index, ranges, aborted=aborted))
            self._go_on()

        return on_located

    def _fetched(
        self,
        partition: Partition,
        index: int,
        ranges: Sequence[Located],
        diverging: tuple[int, int] | None = None,
        aborted: Aborted | None = None,
    ) -> PartitionFetched:
        if is_view(partition):
            start, stable_offset = extent_of(self._doors, partition)
            high_watermark = stable_offset
            self._is_written = self._is_written or bool(ranges)
        else:
            start, stable_offset = partition.log_start_offset, partition.last_stable_offset
            high_watermark = partition.high_watermark
        return PartitionFetched(
            index,
            0,
            high_watermark,
            stable_offset,
            start,
            ranges,
            sum(piece.length for piece in ranges),
            aborted if ranges or not aborted else [],
            diverging_epoch=diverging,
        )

    def _refused(self, wanted: SessionPartition, refusal: RequestRefused) -> PartitionFetched:
        index = wanted.asked.partition
        leader = None
        if isinstance(refusal, NotLeader):
            where = TopicPartition(_name_of(self._doors, wanted.topic), index)
            leader = leader_hint(self._doors, where)
        return PartitionFetched(index, code_of(refusal), -1, leader=leader)

    # -- answering or waiting

    def _conclude(self) -> None:
        now_ms = self._doors.clock.now_ms()
        # What was written anew is answered, and not written again whenever more is committed.
        is_urgent = self._is_written or any(
            fetched.error_code
            or fetched.diverging_epoch is not None
            or fetched.preferred_read_replica >= 0
            for _, fetched in self._results
        )
        if (
            is_urgent
            or self._bytes >= self._request.min_bytes
            or now_ms >= self._deadline_ms
            or not self._results
        ):
            self._answer()
            return
        try:
            for wanted, _ in self._results:
                name = resolve_topic(self._doors, wanted.topic)
                where = TopicPartition(name, wanted.asked.partition)
                partition = readable_replica(self._doors, where)
                self._watches.append((partition, partition.watch(self._on_more)))
        except (OverBound, RequestRefused):
            self._answer()
            return
        if self._timer is None:
            delay_ms = self._deadline_ms - now_ms
            self._timer = self._doors.clock.call_later(delay_ms, self._on_deadline)

    def _on_more(self) -> None:
        """A high watermark has moved: look again at the end of this turn, once."""
        if not self._is_asked and not self._is_done:
            self._is_asked = True
            self._doors.clock.call_soon(self._on_asked)

    def _on_asked(self) -> None:
        if not self._is_done and not self._is_gathering:
            self.gather()

    def _on_deadline(self) -> None:
        # What is being gathered is answered in any case: the time is up.
        if not self._is_done and not self._is_gathering:
            self.gather()

    def _unwatch(self) -> None:
        for partition, ticket in self._watches:
            partition.unwatch(ticket)
        self._watches.clear()

    def _finish(self) -> None:
        self._is_done = True
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()

    def _answer(self) -> None:
        self._finish()
        session, activity = self._session, self._doors.activity
        activity.bytes_out += self._bytes
        topics: dict[TopicKey, list[PartitionFetched]] = {}
        for wanted, fetched in self._results:
            if session.is_incremental and not _is_news(wanted, fetched):
                continue
            wanted.high_watermark = fetched.high_watermark
            wanted.log_start_offset = fetched.log_start_offset
            wanted.was_error = bool(fetched.error_code)
            if fetched.error_code:
                activity.note_fetch_error(fetched.error_code)
            topics.setdefault(wanted.topic, []).append(fetched)
            if fetched.records_bytes:
                session.to_end((wanted.topic, wanted.asked.partition))
        parts, size = write_fetch_response(
            self._call.version,
            self._call.header.correlation_id,
            list(topics.items()),
            session_id=session.session_id,
        )
        if self._call.meter is not None:
            self._call.meter.on_fetched(size)
        self._call.answer_parts(_flat(parts))


def _is_news(wanted: SessionPartition, fetched: PartitionFetched) -> bool:
    """Tell whether an incremental answer has to name the partition."""
    return (
        fetched.records_bytes > 0
        or fetched.error_code != 0
        or wanted.was_error
        or fetched.diverging_epoch is not None
        or fetched.preferred_read_replica >= 0
        or fetched.high_watermark != wanted.high_watermark
        or fetched.log_start_offset != wanted.log_start_offset
    )


def _name_of(doors: Doors, topic: TopicKey) -> str:
    try:
        return resolve_topic(doors, topic)
    except RequestRefused:
        return ""


def _find_divergence(partition: Partition, last_epoch: int, asked: Any) -> tuple[int, int] | None:
    """Return where the client's log and this one part, if the client is on a branch (KIP-595)."""
    epoch, end_offset = partition.end_of_epoch(last_epoch)
    if epoch < last_epoch or end_offset < asked.fetch_offset:
        return epoch, end_offset
    return None


def _flat(parts: list[Any]) -> list[Part]:
    flat: list[Part] = []
    for part in parts:
        if isinstance(part, list):
            flat.extend(part)
        else:
            flat.append(part)
    return flat
