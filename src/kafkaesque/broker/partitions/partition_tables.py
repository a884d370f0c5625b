"""The tables that live on one partition of this broker, and what connects them to its log.

Theory of operation. Each table follows the log (see `kafkaesque.tables.replicated`). On the leader
requests wait for the end of the turn; what was produced in it stands before what is decided about
it, so that one control batch for each table and turn goes into the same group commit, directly
behind the turn's records. When leadership is lost, whoever waits is told so: what was decided for
him may be in the log, or not.

A table that is loaded is fed with the log from its newest snapshot on, which is looked for from the
log's end, a piece at a time. Whether that is committed is not known: the hint of what is, is as old
as the last checkpoint. Should the log be cut before it, the table is loaded again. A new replica is
fed with all that it gets: the log's start goes no further than the tables allow. Before that
snapshot the cleaner may remove what a table says is not needed. A table that has met such a hole,
and no snapshot behind it, does not lead: its state is not known. That takes a truncation of what
all had (`write.caching`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.replication.replica import AppendedBatch
from kafkaesque.broker.replication.stored_batches import replay
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.env.disk import Buffer
from kafkaesque.model.batch import BatchHeader, read_batch_header
from kafkaesque.model.errors import InvariantBroken, RequestRefused
from kafkaesque.model.ids import Offset
from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.tables.log_table import Instant, RequestToken, Respond
from kafkaesque.tables.logged import (
    Logged,
    LoggedKind,
    may_be_snapshot,
    read_logged,
    write_logged,
)
from kafkaesque.tables.replicated import ReplicatedTable

#: So many offsets at the log's end are looked at first for a snapshot.
SEARCHED_OFFSETS = 1_024
#: Requests to one table that wait for their answers.
WAITING_MAX = 20_000
#: A request for whose answer nobody waits is decided after so long, if nothing else comes before.
PATIENCE_MS = 5
#: A leader that could not append, for a full disk or so, decides nothing for this long.
LEAD_AGAIN_MS = 500


class TableRequest(Protocol):
    """What somebody waits for an answer to."""

    @property
    def token(self) -> RequestToken:
        """Names the request; the answer comes with it."""


RequestT = TypeVar("RequestT", bound=TableRequest)
ResultT = TypeVar("ResultT")
WorkT = TypeVar("WorkT")
UndoT = TypeVar("UndoT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTableKind(Generic[RequestT, ResultT, WorkT, UndoT]):
    """A kind of table that lives on partitions."""

    #: Names the table on its partition, in the log.
    number: int
    #: Whether a partition has such a table.
    is_for: Callable[[PartitionState], bool]
    make_table: Callable[[int], ReplicatedTable[RequestT, Respond[ResultT] | WorkT, UndoT]]
    #: Does, on the leader, what is no answer.
    perform: Callable[[WorkT], None]
    #: What those are told who come elsewhere than to the leader, or wait when it is deposed: then
    #: it may have been done.
    not_leader: ResultT
    #: What those are told whose request is not taken, because too much is under way.
    over_bound: ResultT

    def make_host(self, clock: Clock, state: PartitionState) -> "PartitionTable":
        """Return a partition's table."""
        return PartitionTableHost(self, clock)


class PartitionTable(Protocol):
    """A table, as its partition sees it."""

    @property
    def number(self) -> int:
        """Names the table on its partition, in the log."""

    def follow(
        self, header: BatchHeader, data: Buffer, base_offset: Offset, logged: Logged | None
    ) -> None:
        """A batch has come into the log, or is about to stand there on the leader."""

    def on_committed(self, high_watermark: Offset) -> None:
        """What is before the high watermark is certain."""

    def cut(self, end_offset: Offset) -> bool:
        """What was appended from there on is gone; False: the log is to be followed anew."""

    def begin_at(self, start_offset: Offset, held_from: Offset | None = None) -> None:
        """The log begins there, and what was known is none of it; see `ReplicatedTable`."""

    def on_leading(self, replica: Replica, partition: "PartitionTables") -> None:
        """This replica leads."""

    def on_following(self) -> None:
        """It leads no more."""

    def told_of(self, header: BatchHeader, data: Buffer) -> bytes:
        """Return what is to be told of a batch in the clear, before it is sealed."""

    def start_held_at(self) -> Offset | None:
        """Return what the log has to keep."""

    def live_before(self, end_offset: Offset, *, is_forecast: bool = False) -> LiveRecords | None:
        """See `ReplicatedTable`."""


class PartitionTableKinds(Protocol):
    """A kind, as the table of partitions sees it."""

    @property
    def is_for(self) -> Callable[[PartitionState], bool]:
        """Whether a partition has such a table."""

    def make_host(self, clock: Clock, state: PartitionState) -> PartitionTable:
        """Return a partition's table."""


class PartitionTables:
    """All tables of one partition."""

    __slots__ = ("_log", "_note_control", "all", "replica")

    def __init__(
        self,
        tables: Sequence[PartitionTable],
        note_control: Callable[[BatchHeader, Buffer, int], None],
    ) -> None:
        self.all = tuple(tables)
        self.replica: Replica | None = None
        self._log: GroupLog | None = None
        #: Lets the producers' state know of a control batch.
        self._note_control = note_control

    def restore(self, log: GroupLog) -> None:
        """Follow the log to its end, from snapshots of all tables on; waits.

        Raises:
            StorageCorrupt: a batch of the log is damaged.
        """
        self._log = log
        committed_index = min(max(log.commit_hint, log.start_index), log.last_index)
        committed_offset = log.offset_after(committed_index)
        numbers = [table.number for table in self.all]
        start_offset = find_snapshots(log, numbers)
        held_from = log.start_offset if start_offset > log.start_offset else None
        self.begin_at(start_offset, held_from)
        for header, data in replay(log, start_offset):
            self.note(header, data, Offset(header.base_offset))
            if header.next_offset <= committed_offset:
                # So that no more is kept for taking back than can be taken back.
                self.on_committed(Offset(header.next_offset))

    def note(self, header: BatchHeader, data: Buffer, base_offset: Offset) -> None:
        """Take note of a batch that stands, or is about to stand, at the log's end."""
        logged = read_logged(header, data)
        for table in self.all:
            table.follow(header, data, base_offset, logged)

    def on_appended(self, batches: Sequence[AppendedBatch]) -> None:
        """Take note of batches, of which those that this broker proposed are known already."""
        for batch in batches:
            self.note(read_batch_header(batch.data), batch.data, batch.base_offset)

    def told_of(self, header: BatchHeader, data: Buffer) -> bytes:
        """Return what followers have to know of a batch, which is about to be sealed.

        Raises:
            InvariantBroken: two tables have something to tell, and nobody knows whose it is.
        """
        told = [found for table in self.all if (found := table.told_of(header, data))]
        if len(told) > 1:
            raise InvariantBroken("two tables tell something of one sealed batch")
        return told[0] if told else b""

    def propose(self, author: PartitionTable, logged: Logged) -> tuple[Offset, Offset]:
        """Append what a table has decided, and let the others know; return where it stands.

        Raises:
            RequestRefused: it is not appended.
        """
        data = write_logged(logged)
        header = read_batch_header(data)
        if self.replica is None:
            raise InvariantBroken("a table decides where no replica leads")
        # What queues settle, a full disk has to take, or it would never become free.
        appended = self.replica.append(data, header, gives_back=True)
        self._note_control(header, data, appended.base_offset)
        for table in self.all:
            if table is not author:
                table.follow(header, data, appended.base_offset, logged)
        return appended.base_offset, appended.next_offset

    def on_truncated(self, end_offset: Offset) -> None:
        """The log's end was cut off."""
        results = [table.cut(end_offset) for table in self.all]
        if not all(results) and self._log is not None:
            # What was committed is gone (only with `write.caching`), or what a start began with.
            self.restore(self._log)

    def on_committed(self, high_watermark: Offset) -> None:
        """What is before the high watermark is certain."""
        for table in self.all:
            table.on_committed(high_watermark)

    def begin_at(self, start_offset: Offset, held_from: Offset | None = None) -> None:
        """The log begins there, and what was known is none of it; see `ReplicatedTable`."""
        for table in self.all:
            table.begin_at(start_offset, held_from)

    def on_leading(self, replica: Replica) -> None:
        """This replica leads."""
        self.replica = replica
        for table in self.all:
            table.on_leading(replica, self)

    def on_following(self) -> None:
        """It leads no more, or its disk has failed."""
        for table in self.all:
            table.on_following()

    def start_held_at(self) -> Offset | None:
        """Return from where on the log has to be kept, if it has to be."""
        held = [start for table in self.all if (start := table.start_held_at()) is not None]
        return min(held, default=None)

    def live_before(self, end_offset: Offset, *, is_forecast: bool = False) -> LiveRecords | None:
        """See `ReplicatedTable`; None also where several tables live, which may need other things.

        `end_offset` says which committed snapshots will not be lost, `is_forecast` that this is a
        guess.
        """
        if len(self.all) != 1:
            return None
        return self.all[0].live_before(end_offset, is_forecast=is_forecast)


def find_snapshots(log: GroupLog, tables: Sequence[int]) -> Offset:
    """Return an offset from which on a snapshot of each table is in the log; waits.

    That is the log's start where there is none. It is looked for from the end, in pieces of which
    each is twice as long as the one before, so that a log without end costs no more than what has
    to be replayed. A snapshot that begins in one piece and ends in the next is passed over.

    Raises:
        StorageCorrupt: a batch of the log is damaged.
    """
    end_offset, length = log.end_offset, SEARCHED_OFFSETS
    found: dict[int, Offset] = {}
    while end_offset > log.start_offset:
        first_offset = max(Offset(end_offset - length), log.start_offset)
        found = _snapshots_between(log, first_offset, end_offset) | found
        if all(table in found for table in tables):
            return min(found[table] for table in tables)
        end_offset, length = first_offset, 2 * length
    return log.start_offset


def _snapshots_between(log: GroupLog, offset: Offset, end_offset: Offset) -> dict[int, Offset]:
    """Return where the newest whole snapshot of each table begins."""
    found: dict[int, Offset] = {}
    begun: dict[int, Offset] = {}
    for header, data in replay(log, offset, end_offset):
        logged = read_logged(header, data) if may_be_snapshot(header, data) else None
        if logged is None or logged.kind is not LoggedKind.SNAPSHOT:
            continue
        if not logged.parts_before:
            begun[logged.table] = Offset(header.base_offset)
        if not logged.parts_left and logged.table in begun:
            found[logged.table] = begun.pop(logged.table)
    return found


class PartitionTableHost(Generic[RequestT, ResultT, WorkT, UndoT]):
    """One table, and those who ask it on the leader."""

    def __init__(
        self, kind: PartitionTableKind[RequestT, ResultT, WorkT, UndoT], clock: Clock
    ) -> None:
        self.kind = kind
        self.number = kind.number
        self.table = kind.make_table(kind.number)
        self._clock = clock
        self._replica: Replica | None = None
        self._tables: PartitionTables | None = None
        self._waiting: dict[RequestToken, Callable[[ResultT], None]] = {}
        #: Requests of this turn.
        self._requests: list[RequestT] = []
        self._is_turn_asked = False
        #: Whether a timer runs for requests that are patient.
        self._is_patience_timed = False
        self._timer: Timer | None = None
        self._timer_ms: int | None = None

    # -- requests

    def ask(
        self,
        request: RequestT,
        on_result: Callable[[ResultT], None],
        *,
        is_patient: bool = False,
    ) -> None:
        """Bring a request to the leader's table; `on_result` is called exactly once.

        It is decided at the end of this turn, and answered when that is committed. One that is
        patient is decided with what comes to the table next, after `PATIENCE_MS` at the latest: so
        it shares a commit. Requests are decided in the order in which they came in any case.
        """
        if not self.table.is_leading:
            on_result(self.kind.not_leader)
        elif len(self._waiting) >= WAITING_MAX or not self.table.has_room:
            on_result(self.kind.over_bound)
        else:
            self._waiting[request.token] = on_result
            self._requests.append(request)
            if is_patient:
                self._wait_for_company()
            else:
                self._ask_turn()

    def _wait_for_company(self) -> None:
        if not self._is_turn_asked and not self._is_patience_timed:
            self._is_patience_timed = True
            self._clock.call_later(PATIENCE_MS, self._on_waited)

    def _on_waited(self) -> None:
        self._is_patience_timed = False
        if self._requests:
            self._ask_turn()

    def _ask_turn(self) -> None:
        if not self._is_turn_asked and self._replica is not None:
            self._is_turn_asked = True
            self._replica.driver.before_turn(self._on_turn_end)

    def _on_turn_end(self) -> None:
        """Everything of this turn is proposed: decide about it."""
        self._is_turn_asked = False
        if not self.table.is_leading:
            return
        try:
            self._take_turn()
        except RequestRefused:
            self._give_up()
            return
        self._do_ready()
        self._set_timer()

    def _take_turn(self) -> None:
        table, now = self.table, self._instant()
        if not table.is_based:
            self._log_snapshot()
        requests, self._requests = self._requests, []
        for request in requests:
            table.decide(request, now)
        due_ms = table.next_deadline_ms()
        if due_ms is not None and due_ms <= now.now_ms:
            table.tick(now)
        logged = table.turn()
        if logged is not None:
            self._log(logged)
        self._log_snapshot()

    def _log(self, logged: Logged) -> None:
        if self._tables is None:
            raise InvariantBroken("a table decides that does not lead")
        base_offset, next_offset = self._tables.propose(self, logged)
        self.table.on_logged(logged, base_offset, next_offset)

    def _log_snapshot(self) -> None:
        for part in self.table.snapshot_parts():
            self._log(part)

    def _give_up(self) -> None:
        """What was decided could not be proposed: take it back; try again while this one leads."""
        replica, tables = self._replica, self._tables
        self.on_following()
        if replica is not None and tables is not None:
            self._lead_later(replica, tables)

    def _lead_later(self, replica: Replica, tables: PartitionTables) -> None:
        def lead_again() -> None:
            if self._replica is None and replica.is_leader:
                self._begin_to_lead(replica, tables)

        self._clock.call_later(LEAD_AGAIN_MS, lead_again)

    def _do_ready(self) -> None:
        for effect in self.table.take_ready():
            self._do(effect)
        unconfirmed = self.table.take_unconfirmed()
        if unconfirmed and self._replica is not None:
            self._replica.confirm(lambda is_leader: self._on_confirmed(is_leader, unconfirmed))

    def _on_confirmed(self, is_leader: bool, effects: "list[Respond[ResultT] | WorkT]") -> None:
        for effect in effects:
            if is_leader:
                self._do(effect)
            elif isinstance(effect, Respond):
                self._answer(effect.token, self.kind.not_leader)

    def _do(self, effect: "Respond[ResultT] | WorkT") -> None:
        if isinstance(effect, Respond):
            self._answer(effect.token, effect.result)
        else:
            self.kind.perform(effect)

    def _answer(self, token: RequestToken, result: ResultT) -> None:
        on_result = self._waiting.pop(token, None)
        if on_result is not None:
            on_result(result)

    def _instant(self) -> Instant:
        return Instant(self._clock.now_ms(), self._clock.wall_ms())

    def _set_timer(self) -> None:
        due_ms = self.table.next_deadline_ms()
        if due_ms == self._timer_ms:
            return
        self._stop_timer()
        self._timer_ms = due_ms
        if due_ms is not None:
            delay_ms = max(0, due_ms - self._clock.now_ms())
            self._timer = self._clock.call_later(delay_ms, self._on_timer)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_ms = None

    def _on_timer(self) -> None:
        self._timer = self._timer_ms = None
        due_ms = self.table.next_deadline_ms()
        if due_ms is None or due_ms <= self._clock.now_ms():
            self._ask_turn()
        else:
            self._set_timer()  # what was due then is due later

    # -- see `PartitionTable`

    def follow(
        self, header: BatchHeader, data: Buffer, base_offset: Offset, logged: Logged | None
    ) -> None:
        self.table.apply(header, data, base_offset, logged)
        # What was appended may be what somebody waits for.
        self._ask_turn()

    def on_committed(self, high_watermark: Offset) -> None:
        self.table.commit(high_watermark)
        if self.table.is_leading:
            self._do_ready()

    def cut(self, end_offset: Offset) -> bool:
        return self.table.cut(end_offset)

    def begin_at(self, start_offset: Offset, held_from: Offset | None = None) -> None:
        self.table.begin_at(start_offset, held_from)

    def on_leading(self, replica: Replica, partition: PartitionTables) -> None:
        self.on_following()
        self._begin_to_lead(replica, partition)

    def _begin_to_lead(self, replica: Replica, partition: PartitionTables) -> None:
        if self.table.is_incomplete:
            # Another one knows the state, and is to lead; nobody is told that it is empty.
            replica.on_unreadable(StorageCorrupt("the snapshot behind a hole in the log is lost"))
            self._lead_later(replica, partition)
            return
        self._replica, self._tables = replica, partition
        self.table.lead(self._instant())
        self._ask_turn()

    def on_following(self) -> None:
        self.table.unlead()
        self._stop_timer()
        self._requests = []
        self._is_turn_asked = False
        self._replica = None
        waiting, self._waiting = self._waiting, {}
        for on_result in waiting.values():
            on_result(self.kind.not_leader)

    def told_of(self, header: BatchHeader, data: Buffer) -> bytes:
        return self.table.told_of(header, data)

    def start_held_at(self) -> Offset | None:
        return self.table.start_held_at()

    def live_before(self, end_offset: Offset, *, is_forecast: bool = False) -> LiveRecords | None:
        return self.table.live_before(end_offset, is_forecast=is_forecast)
