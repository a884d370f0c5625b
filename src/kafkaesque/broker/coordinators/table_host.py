"""One coordinator's table, and what connects it to the partition that it lives in.

Theory of operation. A table is a core (`GroupTable`, `TransactionTable`): it takes events and says
what is to be appended and answered. When the leadership of its partition comes here, the host waits
until the leader's own term is committed, reads the partition from its start and restores the table
from it; until then requests are told that it is loading. The table's writes are proposed to the
partition and reported back when they are committed. When leadership is lost, the table is unloaded
and whoever waits is told to look for the coordinator again.

A coordinator that was deposed does not know it for a while, and answers from the past whatever it
answers from memory. What a client acts upon for good is therefore told only once it is known that
this broker has led since the request came: because something that was appended since is committed,
or else because a majority confirms it. So an answer that waits for its own record costs no more.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkaesque.broker.partitions.log_reader import LogReader
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.reports import Reports
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.env.disk import Disk
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.batch_encoder import DEFAULT_OPTIONS, BatchOptions, encode_batch
from kafkaesque.model.errors import (
    DiskFailed,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    RequestRefused,
    StorageFailed,
)
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.tables.log_table import (
    Append,
    Instant,
    LogRecord,
    RequestToken,
    Respond,
    WriteFailure,
    WriteToken,
)

#: A write waits for its commit as long as the partition is led here; its asker does not.
WRITE_TIMEOUT_MS = 24 * 60 * 60 * 1000
RELOAD_MS = 500
#: What needs a table that has nothing to load waits so long for it, then it is refused.
NEW_WAIT_MS_MAX = 2_000
#: Requests that wait for one such table; more are refused at once.
HELD_MAX = 10_000
#: Events that nobody waits for, kept while a table is loaded; any more are lost.
MISSED_EVENTS_MAX = 10_000


class Request(Protocol):
    """What somebody waits for an answer to."""

    @property
    def token(self) -> RequestToken:
        """Names the request; the answer comes with it."""


class LogTable(Protocol):
    """The core, but for its words, which its kind knows; see `TableCore` for the promises."""

    @property
    def records_skipped(self) -> int:
        """How many records `restore` could not read."""

    def restore(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Replay committed (key, value) records in the order of the log."""

    def activate(self, now: Instant) -> None:
        """Begin to serve."""

    def unload(self) -> None:
        """Give up: leadership is lost."""

    def tick(self, now: Instant) -> None:
        """Do what is due."""

    def on_appended(self, token: WriteToken, now: Instant) -> None:
        """Take the report that an `Append` is committed."""

    def on_append_failed(self, token: WriteToken, failure: WriteFailure, now: Instant) -> None:
        """Take the report that an `Append` never will be."""

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is needed next."""


TableT = TypeVar("TableT", bound=LogTable)
RequestT = TypeVar("RequestT", bound=Request)
#: What nobody waits for an answer to.
NoticeT = TypeVar("NoticeT")
#: Answers, and what those are told who come where there is no table to ask.
ResultT = TypeVar("ResultT")
#: What a table wants done beside answers and appends.
WorkT = TypeVar("WorkT")


def restore_plain(table: LogTable, header: BatchHeader, records: list[Record]) -> None:
    """Replay a batch of a log in which there are no transactions."""
    if not header.is_control:
        table.restore((record.key, record.value) for record in records)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKind(Generic[TableT, RequestT, NoticeT, ResultT, WorkT]):
    """What kind of tables live in the partitions of a topic."""

    topic: str
    #: For reports.
    what: str
    partition_count_option: str
    replication_factor_option: str
    segment_bytes_option: str
    make_table: Callable[[Partition], TableT]
    #: The table's own `step` and `take_ready`: here, because they speak the kind's words.
    step: Callable[[TableT, RequestT | NoticeT, Instant], None]
    take_ready: Callable[[TableT], Sequence[Respond[ResultT] | Append | WorkT]]
    #: Replays a batch while the table is loaded.
    restore: Callable[[TableT, BatchHeader, list[Record]], None] = restore_plain
    #: Makes the event that a transaction has ended in the log, from the producer id and whether it
    #: was committed; None where there are no transactions.
    make_ended: Callable[[int, bool], NoticeT] | None = None
    #: What those are told who come while the log is read, after leadership has gone, or before the
    #: topic is there.
    is_loading: ResultT
    not_coordinator: ResultT
    not_available: ResultT
    #: Does what is neither an answer nor an append.
    perform: "Callable[[TableHost[TableT, RequestT, NoticeT, ResultT, WorkT], WorkT], None]"
    #: Told after each event.
    on_event: "Callable[[TableHost[TableT, RequestT, NoticeT, ResultT, WorkT]], None]"
    #: Tells answers that others act upon for good: a coordinator that was deposed gives none.
    is_final: Callable[[ResultT], bool] = lambda result: False
    #: Told before each request that a loaded table gets.
    before_request: Callable[
        ["TableHost[TableT, RequestT, NoticeT, ResultT, WorkT]", RequestT], None
    ] = lambda host, event: None


class _Waiting(NamedTuple, Generic[ResultT]):
    """Who waits for an answer."""

    on_result: Callable[[ResultT], None]
    #: How many appends had been asked for when the request came.
    appends_before: int


class TableHost(Generic[TableT, RequestT, NoticeT, ResultT, WorkT]):
    """The table of one partition."""

    def __init__(
        self,
        partition: Partition,
        kind: TableKind[TableT, RequestT, NoticeT, ResultT, WorkT],
        *,
        clock: Clock,
        disk: Disk,
        reports: Reports,
    ) -> None:
        self.partition = partition
        self.kind = kind
        self.table = kind.make_table(partition)
        partition.on_transaction_ended = self._on_transaction_ended
        self.is_loaded = False
        self._clock = clock
        self._disk = disk
        self._reports = reports
        self._waiting: dict[RequestToken, _Waiting[ResultT]] = {}
        #: Appends that were proposed, and up to which of them one is committed.
        self._appends = 0
        self._appends_committed = 0
        #: Appends that were refused, until the table is told: what follows them is refused, too.
        self._refused: dict[WriteToken, WriteFailure] = {}
        self._reader: LogReader | None = None
        self._timer: Timer | None = None
        self._timer_ms: int | None = None
        self._watch: int | None = None
        #: What happened while the table was being loaded.
        self._missed: list[NoticeT] = []
        #: Whether more has happened than can be kept: it is loaded once more then.
        self._is_outdated = False
        #: Requests that wait until the table, which is empty, may be used.
        self._held: list[tuple[RequestT, Callable[[ResultT], None]]] = []
        self._held_timer: Timer | None = None
        #: Leadership is gone; nothing comes of reports any more.
        self.is_closed = False

    def _on_transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        if self.kind.make_ended is not None:
            self.notify(self.kind.make_ended(producer_id, is_commit))

    @property
    def name(self) -> str:
        """The partition, for people to read."""
        return str(self.partition.state.topic_partition)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in the log, so that nothing is to be loaded."""
        replica = self.partition.replica
        return replica is not None and replica.next_offset == 0

    # -- loading

    def load(self) -> None:
        """Restore the table from the log, once this leader's term is committed."""
        if self.is_closed:
            return
        replica = self.partition.replica
        if replica is None or not replica.term_committed:
            # Not within the group's turn: loading asks the log for its ends.
            self._watch = self.partition.watch(lambda: self._clock.call_soon(self.load))
            return
        self.table = self.kind.make_table(self.partition)
        self._reader = LogReader(
            partition=self.partition,
            disk=self._disk,
            end=self.partition.high_watermark,
            on_batch=self._on_batch,
            on_done=self._on_loaded,
        )
        self._reader.start()

    def _on_batch(self, header: BatchHeader, records: list[Record]) -> None:
        self.kind.restore(self.table, header, records)

    def _on_loaded(self, error: Exception | None) -> None:
        if error is not None:
            self._reports.info(
                f"loading {self.kind.what} from {self.name} failed, trying again: {error}"
            )
            replica = self.partition.replica
            if replica is not None and isinstance(error, DiskFailed | StorageCorrupt | RecordError):
                replica.on_unreadable(error)
            self._clock.call_later(RELOAD_MS, self.load)
            return
        if self._is_outdated:
            self._is_outdated = False
            self._missed.clear()
            self._clock.call_soon(self.load)
            return
        if self.table.records_skipped:
            self._reports.info(
                f"{self.table.records_skipped} records of {self.name} could not be read"
            )
        self.table.activate(self._instant())
        self.is_loaded = True
        missed, self._missed = self._missed, []
        for event in missed:
            self.kind.step(self.table, event, self._instant())
        self._after_event()
        for request, on_result in self._take_held():
            self.step(request, on_result)

    def hold(self, event: RequestT, on_result: Callable[[ResultT], None]) -> None:
        """Keep a request until the table may be used: for an empty log that is not long."""
        if len(self._held) >= HELD_MAX:
            on_result(self.kind.is_loading)
            return
        self._held.append((event, on_result))
        if self._held_timer is None:
            self._held_timer = self._clock.call_later(NEW_WAIT_MS_MAX, self._on_held_too_long)

    def _on_held_too_long(self) -> None:
        for _, on_result in self._take_held():
            on_result(self.kind.is_loading)

    def _take_held(self) -> list[tuple[RequestT, Callable[[ResultT], None]]]:
        if self._held_timer is not None:
            self._held_timer.cancel()
            self._held_timer = None
        held, self._held = self._held, []
        return held

    # -- events

    def _instant(self) -> Instant:
        return Instant(self._clock.now_ms(), self._clock.wall_ms())

    def step(self, event: RequestT, on_result: Callable[[ResultT], None]) -> None:
        """Take a request; `on_result` gets its answer, exactly once."""
        self.kind.before_request(self, event)
        self._waiting[event.token] = _Waiting(on_result, self._appends)
        self.kind.step(self.table, event, self._instant())
        self._after_event()

    def notify(self, event: NoticeT) -> None:
        """Take an event that nobody waits for, at once or when the table is loaded."""
        if self.is_closed:
            return
        if self.is_loaded:
            self.kind.step(self.table, event, self._instant())
            self._after_event()
        elif len(self._missed) < MISSED_EVENTS_MAX:
            self._missed.append(event)
        else:
            # What is lost here is in the log, too, or comes again.
            self._is_outdated = True

    def run(self, work: Callable[[TableT, Instant], None]) -> None:
        """Report something to the table that it has asked for, unless it is too late."""
        if not self.is_closed:
            work(self.table, self._instant())
            self._after_event()

    def _after_event(self) -> None:
        take_ready, table = self.kind.take_ready, self.table
        while work := take_ready(table):
            for item in work:
                if isinstance(item, Respond):
                    self._respond(item.token, item.result)
                elif isinstance(item, Append):
                    self._append(item)
                else:
                    self.kind.perform(self, item)
        self._set_timer()
        self.kind.on_event(self)

    def _respond(self, token: RequestToken, result: ResultT) -> None:
        """Give an answer, if need be once it is known that it is not of the past."""
        waiting = self._waiting.pop(token, None)
        if waiting is None:
            return
        on_result = waiting.on_result
        if waiting.appends_before < self._appends_committed or not self.kind.is_final(result):
            on_result(result)
            return
        replica = self.partition.replica
        if replica is None:
            on_result(self.kind.not_coordinator)
            return
        replica.confirm(
            lambda is_leader: on_result(result if is_leader else self.kind.not_coordinator)
        )

    def _append(self, item: Append) -> None:
        failure = None if item.follows is None else self._refused.get(item.follows)
        if failure is None:
            self.append(item.token, item.records)
        else:
            self._refuse(item.token, failure)

    def append(
        self,
        token: WriteToken,
        records: Sequence[LogRecord],
        options: BatchOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Append records, and report to the table what becomes of them."""
        timestamp_ms = self._clock.wall_ms()
        batch = encode_batch(
            [
                Record(number, timestamp_ms, record.key, record.value, ())
                for number, record in enumerate(records)
            ],
            options,
        )

        self._appends += 1
        number = self._appends

        def on_done(outcome: object) -> None:
            written = not isinstance(outcome, RequestRefused)
            if written or isinstance(outcome, NotEnoughReplicasAfterAppend):
                self._appends_committed = max(self._appends_committed, number)
                self.run(lambda table, now: table.on_appended(token, now))
            # Else leadership is lost, or the disk: `close` follows and tells everybody.

        try:
            self.partition.produce(
                batch,
                acks=-1,
                timeout_ms=WRITE_TIMEOUT_MS,
                on_done=on_done,
                in_transaction=options.transactional,
            )
        except RequestRefused as refusal:
            self._refuse(token, _failure_of(refusal))

    def _refuse(self, token: WriteToken, failure: WriteFailure) -> None:
        self._refused[token] = failure

        def report() -> None:
            del self._refused[token]
            self.run(lambda table, now: table.on_append_failed(token, failure, now))

        # Not within the call: the table is in the middle of handing out its work.
        self._clock.call_soon(report)

    def _set_timer(self) -> None:
        due_ms = self.table.next_deadline_ms()
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms is not None:
            delay_ms = max(0, due_ms - self._clock.now_ms())
            self._timer = self._clock.call_later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_ms = None
        self.run(lambda table, now: table.tick(now))

    def close(self) -> None:
        """Leadership is gone: whoever waits has to look for the coordinator again."""
        self.is_closed = True
        self.is_loaded = False
        if self._reader is not None:
            self._reader.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self.partition.unwatch(self._watch)
        self.table.unload()
        self._respond_all()
        waiting, self._waiting = self._waiting, {}
        answered = (each.on_result for each in waiting.values())
        for on_result in (*answered, *(held for _, held in self._take_held())):
            on_result(self.kind.not_coordinator)

    def _respond_all(self) -> None:
        for item in self.kind.take_ready(self.table):
            if isinstance(item, Respond):
                self._respond(item.token, item.result)


def _failure_of(refusal: RequestRefused) -> WriteFailure:
    match refusal:
        case NotEnoughReplicas():
            return WriteFailure.NOT_ENOUGH_REPLICAS
        case MessageTooLarge():
            return WriteFailure.TOO_LARGE
        case StorageFailed():
            return WriteFailure.STORAGE_FAILED
        case _:
            return WriteFailure.NOT_LEADER
