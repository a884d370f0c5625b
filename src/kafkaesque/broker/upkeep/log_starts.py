"""Where logs start: what one replica has given up, all of them give up.

Theory of operation. Records are deleted from the front of a log, by request or because they are
old: the leader decides, and only about what is committed. So of two replicas that have, or had, the
same records the one that starts later is right, and no order among deletions has to be kept: every
replica moves to the greatest start that it has heard of, as soon as what it gives up is committed
and durable there. Leaders say theirs in their reports; a replica that is ahead of its leader tells
it, because the leader may have been away when the records were deleted.

The same records: that is not sure. An unclean election, or caches that were lost (`write.caching`),
may have taken what was deleted before from all who are left, and other records get its offsets. So
a start is said with the term of the last record before it, and is believed as Raft believes an
append: by a log that has that term there, because up to there it is the same log then. What was
acknowledged after an election has a later term than anything that was deleted before it.

- A leader that does not have that record never gets it: it refuses the start.
- A follower that does not have it yet waits for it, and meanwhile gives up what it has that is
  committed and of no later term: that was before the start in any log with such a record. It
  forgets the start when another record comes there, or if it is elected before the record comes.
- A log may start after its end: where the leader's snapshot says so, until what lies between has
  come, or after a power cut. Nobody can tell the term there. So with each change of its leader, and
  when it is cut, a replica lets its log start at its end at the latest. If the later start was
  right, the leader's next report says it again, or a replica that is ahead of the leader does.
- Who says no term is of an earlier release: followers believe it as they did then, leaders do not.

What a log has said of idempotent producers is made durable before it is given up: then the start
moves a little later, and what was wanted is looked at again.

A deletion by request is answered when the leader and all followers in sync have made it durable:
whoever leads next has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.life import Life
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.peers.link import PeerUnreachable
from kafkaesque.broker.peers.messages import LeaderReport
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import AdvanceStart, Done
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import (
    DiskFailed,
    NotLeader,
    OffsetOutOfRange,
    OverBound,
    RequestRefused,
    RequestTimedOut,
    StorageFailed,
)
from kafkaesque.model.ids import GroupId, NodeId, Offset
from kafkaesque.storage.log_store import LogStore

#: Requests that wait until a replica has committed what it is to give up.
WAITING_MAX = 10_000
#: A follower that could not be reached is asked again after this long.
RETRY_MS = 100
#: So long a leader is given to follow a replica that is ahead of it, before it is told again.
TELL_TIMEOUT_MS = 5_000

OnDone = Callable[[Done | RequestRefused], None]


class _Start(NamedTuple):
    """Where a log starts elsewhere; of two, the greater is the newer."""

    #: Of the last record before it; -1: not known.
    term: int
    offset: int


class _Waiting(NamedTuple):
    """Somebody who wants to know when a log starts at an offset."""

    group: GroupId
    start: int
    deadline_ms: int
    on_done: OnDone


class LogStarts:
    """Moves the starts of the logs on this broker."""

    def __init__(
        self,
        *,
        clock: Clock,
        partitions: PartitionTable,
        metadata: MetadataView,
        node: NodeId,
        driver: RaftDriver,
        life: Life,
        store: LogStore,
        leaders: LeadersTable,
        caller: RemoteCaller,
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._metadata = metadata
        self._node = node
        self._driver = driver
        self._life = life
        self._store = store
        self._leaders = leaders
        self._caller = caller
        #: What is to be given up here as soon as that is possible.
        self._wanted: dict[GroupId, _Start] = {}
        #: Groups whose leader is behind this replica; True: it is being told.
        self._ahead: dict[GroupId, bool] = {}
        self._waiting: list[_Waiting] = []
        #: Groups whose producers' state is on its way to the disk.
        self._covering: dict[GroupId, None] = {}

    # -- what others say

    def on_leader_report(self, report: LeaderReport) -> None:
        """A leader elsewhere says where its log starts: follow it, or tell it better."""
        group = GroupId(report.group)
        if report.log_start_offset > 0:
            self._want(group, _Start(report.log_start_term, report.log_start_offset))
        self._look_ahead(group)

    def serve(self, request: AdvanceStart, timeout_ms: int, on_done: OnDone) -> None:
        """Do what another replica has done; answered when it is durable here."""
        start = _Start(request.start_term, request.start_offset)
        self._give_up(GroupId(request.group), start, timeout_ms, on_done)

    # -- what is decided here

    def give_up(self, group: GroupId, start: int, timeout_ms: int, on_done: OnDone) -> None:
        """Let a log on this broker start at an offset; `on_done` when that is durable here."""
        self._give_up(group, self._start_here(group, start), timeout_ms, on_done)

    def _give_up(self, group: GroupId, start: _Start, timeout_ms: int, on_done: OnDone) -> None:
        if self._want(group, start):
            self._answer_when_durable(on_done)
        elif group not in self._wanted:
            on_done(OffsetOutOfRange("this log does not have what was deleted"))
        elif len(self._waiting) >= WAITING_MAX:
            on_done(OverBound(f"{WAITING_MAX} deletions of records wait"))
        else:
            deadline_ms = self._clock.now_ms() + timeout_ms
            self._waiting.append(_Waiting(group, start.offset, deadline_ms, on_done))

    def delete(self, partition: Partition, start: int, timeout_ms: int, on_done: OnDone) -> None:
        """Delete the committed records before an offset, on the leader and all in sync with it."""
        clock = self._clock
        kept_from = partition.kept_from_offset
        start = start if kept_from is None else min(start, kept_from)
        start = max(start, partition.log_start_offset)
        term = partition.log.term_before(start)
        deadline_ms = clock.now_ms() + timeout_ms

        def on_here(outcome: Done | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
                return
            said = _Start(term, start)
            deletion = _Deletion(
                partition,
                said,
                deadline_ms,
                on_done,
                node=self._node,
                clock=self._clock,
                caller=self._caller,
            )
            deletion.begin()

        self.give_up(partition.state.group, start, timeout_ms, on_here)

    def on_sweep(self, now_ms: int) -> None:
        """Try again what was not possible yet."""
        for group in list(self._wanted):
            self._reach(group)
        for group, is_told in list(self._ahead.items()):
            if not is_told:
                self._tell_leader(group)
        self._answer_waiting(now_ms)

    def _answer_waiting(self, now_ms: int) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            if self._is_reached(item.group, item.start):
                self._answer_when_durable(item.on_done)
            elif item.deadline_ms <= now_ms:
                item.on_done(RequestTimedOut("what is to be deleted is not committed here yet"))
            else:
                self._waiting.append(item)

    # -- moving

    def want(self, group: GroupId, start: int) -> bool:
        """Let a log on this broker start at an offset as soon as it can; tell whether it does."""
        return self._want(group, self._start_here(group, start))

    def _start_here(self, group: GroupId, start: int) -> _Start:
        """Return a start that is decided here, on what this log has."""
        partition = self._partitions.get(group)
        if partition is None or partition.replica is None:
            return _Start(-1, start)
        return _Start(partition.log.term_before(start), start)

    def _want(self, group: GroupId, start: _Start) -> bool:
        if self._is_reached(group, start.offset):
            return True
        self._wanted[group] = max(start, self._wanted.get(group, start))
        self._reach(group)
        return self._is_reached(group, start.offset)

    def _is_reached(self, group: GroupId, start: int) -> bool:
        partition = self._partitions.get(group)
        if partition is None or partition.replica is None:
            state = self._metadata.state
            placed = state.partitions_by_group.get(group)
            if placed is None:
                # A topic that is gone has given up everything; ids grow, and one that is not given
                # yet is of a topic that this broker has yet to hear of.
                return group < state.next_group
            return self._node not in placed.replicas
        return partition.log_start_offset >= start

    def _reach(self, group: GroupId) -> None:
        """Give up what is wanted, as far as it is committed and durable here."""
        wanted = self._wanted.get(group)
        if wanted is None:
            return
        partition = self._partitions.get(group)
        if partition is not None and partition.replica is not None and partition.failure is None:
            start = _believed(partition, wanted)
            if start is None:
                self._wanted.pop(group, None)
                return
            self._advance(partition, start)
        if self._is_reached(group, wanted.offset):
            self._wanted.pop(group, None)

    def _advance(self, partition: Partition, start: Offset) -> None:
        replica = partition.replica
        if replica is None or replica.is_closed or start <= partition.log_start_offset:
            return
        if not partition.producers.is_covered(start):
            self._cover(partition)
            return
        try:
            replica.advance_start(start)
        except DiskFailed as error:
            self._driver.fail(error)
            return
        if partition.is_leader:
            self._driver.on_leadership(replica)
        else:
            self._look_ahead(partition.state.group)

    def _cover(self, partition: Partition) -> None:
        """Make durable what is known of producers, then go on; on failure the next sweep does."""
        group = partition.state.group
        if group in self._covering:
            return
        self._covering[group] = None

        def on_done(is_covered: bool) -> None:
            self._covering.pop(group, None)
            if is_covered and not self._life.is_stopping and self._life.failure is None:
                self._reach(group)
                self._answer_waiting(self._clock.now_ms())

        partition.producers.cover(partition.log, partition.high_watermark, on_done)

    def _answer_when_durable(self, on_done: OnDone) -> None:
        try:
            self._store.submit(lambda: on_done(Done()))
        except DiskFailed as error:
            on_done(StorageFailed(str(error)))

    # -- a leader that is behind

    def _look_ahead(self, group: GroupId) -> None:
        if self._is_ahead(group) and group not in self._ahead:
            self._ahead[group] = False
            self._tell_leader(group)

    def _is_ahead(self, group: GroupId) -> bool:
        partition = self._partitions.get(group)
        report = self._leaders.get(group)
        if partition is None or partition.replica is None or report is None:
            return False
        return (
            report.leader not in (-1, self._node)
            and report.log_start_offset < partition.log_start_offset
            and partition.log.term_before(partition.log_start_offset) >= 0
        )

    def _tell_leader(self, group: GroupId) -> None:
        partition, leader = self._partitions.get(group), self._leaders.leader(group)
        if not self._is_ahead(group) or partition is None:
            self._ahead.pop(group, None)
            return
        if leader is None:
            return  # The next sweep looks again.

        def on_outcome(_: object) -> None:
            # Whether it was done is told by the leader's next report.
            if group in self._ahead:
                self._ahead[group] = False

        self._ahead[group] = True
        start = partition.log_start_offset
        term = partition.log.term_before(start)
        request = AdvanceStart(group=group, start_offset=start, start_term=term)
        self._caller.ask(leader, request, Done, TELL_TIMEOUT_MS, on_outcome)


def _believed(partition: Partition, start: _Start) -> Offset | None:
    """Return how far a log may be given up by now for a start; None: that is nothing to it."""
    log, has_said = partition.log, start.term >= 0
    if partition.is_leader and not (has_said and log.term_before(start.offset) == start.term):
        return None
    upto = min(Offset(start.offset), partition.settled_offset)
    kept_from = partition.kept_from_offset
    if kept_from is not None:
        upto = min(upto, kept_from)
    if upto <= log.start_offset or not has_said:
        return upto
    term = log.term_before(upto)
    is_same = term == start.term if upto == start.offset else term <= start.term
    return upto if is_same else None


class _Deletion:
    """A deletion that is done here, on its way to the followers."""

    __slots__ = (
        "_caller",
        "_clock",
        "_deadline_ms",
        "_left",
        "_node",
        "_on_done",
        "_partition",
        "_start",
    )

    def __init__(
        self,
        partition: Partition,
        start: _Start,
        deadline_ms: int,
        on_done: OnDone,
        *,
        node: NodeId,
        clock: Clock,
        caller: RemoteCaller,
    ) -> None:
        self._node = node
        self._clock = clock
        self._caller = caller
        self._partition = partition
        self._start = start
        self._deadline_ms = deadline_ms
        self._on_done: OnDone | None = on_done
        self._left = 1

    def begin(self) -> None:
        """Tell all that are in sync."""
        for node in self._followers():
            self._left += 1
            self._tell(node)
        self._count_one()

    def _followers(self) -> list[NodeId]:
        replica = self._partition.replica
        in_sync = replica.in_sync() if replica is not None else ()
        return [node for node in in_sync if node != self._node]

    def _tell(self, node: NodeId) -> None:
        left_ms = self._deadline_ms - self._clock.now_ms()
        if not self._partition.is_leader:
            self._finish(NotLeader("the leader has changed; deleted here, but maybe not elsewhere"))
        elif node not in self._followers():
            self._count_one()
        elif left_ms <= 0:
            self._finish(RequestTimedOut(f"broker {node} has not deleted in time"))
        else:
            term, start = self._start
            group = self._partition.state.group
            request = AdvanceStart(group=group, start_offset=start, start_term=term)
            self._caller.ask(node, request, Done, left_ms, lambda each: self._on_told(node, each))

    def _on_told(self, node: NodeId, outcome: Done | RequestRefused | PeerUnreachable) -> None:
        if isinstance(outcome, Done):
            self._count_one()
        else:
            self._clock.call_later(RETRY_MS, lambda: self._tell(node))

    def _count_one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._finish(Done())

    def _finish(self, outcome: Done | RequestRefused) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(outcome)
