"""The transactional ids of one partition of the transaction log, behind one door.

Theory of operation. A table belongs to the leader of one partition of `__transaction_state`, for as
long as it leads. It is *loading* while the log is replayed into it (`restore`), *active* from
`activate` on, and *unloaded* for good when leadership is lost (`unload`); a new leader makes a new
table from the log. Everything that happens is `step`, `tick` or a report of work done; what is to
be done comes out of `take_ready`, in order: answers, records to append, producer ids to fetch, and
markers to write.

A transactional id belongs to one *incarnation* of a producer at a time, named by producer id and
epoch. InitProducerId begins a new one and shuts out the one before. Its transaction is open from
the first partition that is added (Ongoing), decided once PrepareCommit or PrepareAbort is committed
to the log, and over when every partition has taken its marker and that is committed too
(CompleteCommit, CompleteAbort, or the next Ongoing). What is decided stays decided: a new leader
finds it in the log and has the same markers written again. Nothing is answered that depends on a
record before that record is committed. Each id has at most one change under way. What is to be
added meanwhile waits a while, and is then written all together; anybody else is told to come again
(CONCURRENT_TRANSACTIONS).

Three fences keep what is late from doing harm. The *epoch*: a transaction that the coordinator ends
by itself, and every one of a client that learns its epochs, ends with a higher epoch, and markers
carry it (KIP-890). The *producer id*, which changes when the epochs are used up: 32766 is the last
that a client gets, 32767 only ever stands in a marker. The *connection* (ADR 6): a client speaks
over one connection at a time, so within an incarnation a request over an older connection than the
newest is a delayed one, and is refused. An InitProducerId that gives no producer id is not judged
by its connection, because a stand-by that takes over may have connected long ago; it begins a new
incarnation, of which no connection is known until it speaks. What is known of connections ends with
the table.
"""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.log_table import Instant, WriteFailure, WriteToken
from kafkaesque.transactions.admin import Admin
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.context import Context
from kafkaesque.transactions.endings import Endings
from kafkaesque.transactions.errors import BadTransactionRecord, TransactionError, error_of_write
from kafkaesque.transactions.events import (
    AddOffsets,
    AddPartitions,
    DescribeTransactions,
    EndTransaction,
    Event,
    ForceAbort,
    InitProducerId,
    ListTransactions,
    MarkersWritten,
    ProducerIdToken,
)
from kafkaesque.transactions.journal import Journal
from kafkaesque.transactions.partitions import Partitions
from kafkaesque.transactions.producers import Producers
from kafkaesque.transactions.records import TransactionValue, read_key, read_value
from kafkaesque.transactions.refusals import refusal
from kafkaesque.transactions.results import Work
from kafkaesque.transactions.states import AT_REST
from kafkaesque.transactions.transaction import Transaction

#: Requests that need a write; what is added to transactions is judged one by one.
_WRITING = (InitProducerId, EndTransaction, ForceAbort)


class TableState(Enum):
    """The life of a table; there is no way back."""

    LOADING = auto()
    ACTIVE = auto()
    UNLOADED = auto()


class TransactionTable:
    """The coordinator of the transactional ids that hash to one partition.

    `coordinator_epoch` is the leader epoch of that partition; markers carry it.
    """

    __slots__ = (
        "_admin",
        "_context",
        "_endings",
        "_handlers",
        "_journal",
        "_loaded",
        "_next_expiry_ms",
        "_records_skipped",
        "_state",
    )

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        context = Context(config, coordinator_epoch)
        journal = Journal(context)
        producers = Producers(context, journal)
        partitions = Partitions(context, journal)
        endings = Endings(context, journal)
        admin = Admin(context)
        self._context = context
        self._journal = journal
        self._endings = endings
        self._admin = admin
        self._state = TableState.LOADING
        self._loaded: dict[str, TransactionValue] = {}
        self._records_skipped = 0
        self._next_expiry_ms: int | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            InitProducerId: producers.on_init,
            AddPartitions: partitions.on_add_partitions,
            AddOffsets: partitions.on_add_offsets,
            EndTransaction: endings.on_end,
            ForceAbort: endings.on_force_abort,
            DescribeTransactions: admin.on_describe,
            ListTransactions: admin.on_list,
            MarkersWritten: journal.on_markers_written,
        }

    @property
    def state(self) -> TableState:
        """Where in its life the table is."""
        return self._state

    @property
    def records_skipped(self) -> int:
        """How many records `restore` could not read; each is a loss to be reported."""
        return self._records_skipped

    def open_since_ms(self) -> list[int]:
        """Return since when transactions are open, one Unix time for each that is."""
        values = (each.value for each in self._context.transactions.values())
        return [
            value.start_wall_ms
            for value in values
            if value is not None and value.state not in AT_REST
        ]

    @property
    def transactional_id_count(self) -> int:
        """How many transactional ids there are."""
        return len(self._context.transactions)

    # --- life ---

    def restore(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Replay committed (key, value) records in the order of the log; may be called again.

        The last value of a key wins; no value deletes it. Records that cannot be read are skipped
        and counted, those of later versions of the key are passed over.
        """
        self._expect(TableState.LOADING)
        for key, value in records:
            try:
                self._replay(key, value)
            except BadTransactionRecord:
                self._records_skipped += 1

    def activate(self, now: Instant) -> None:
        """Begin to serve: what is decided is carried on, what is open has its time left."""
        self._expect(TableState.LOADING)
        self._state = TableState.ACTIVE
        context = self._context
        context.now = now
        for transactional_id, value in self._loaded.items():
            transaction = Transaction(transactional_id, value)
            context.transactions[transactional_id] = transaction
            self._journal.resume(transaction)
        self._loaded = {}
        self._schedule_expiry()

    def unload(self) -> None:
        """Give up: leadership is lost. Whoever waits is told to look for the new coordinator.

        Writes in flight may or may not be committed; nothing is made of their reports any more, nor
        of those of markers and producer ids.
        """
        if self._state is TableState.UNLOADED:
            return
        self._state = TableState.UNLOADED
        self._loaded = {}
        self._context.producer_ids.abandon(TransactionError.NOT_COORDINATOR)
        self._context.additions.abandon(TransactionError.NOT_COORDINATOR)
        self._context.writes.abandon(TransactionError.NOT_COORDINATOR)

    # --- events ---

    def step(self, event: Event, now: Instant) -> None:
        """Take one event; its answer comes out of `take_ready` now or later."""
        context = self._context
        if self._state is not TableState.ACTIVE:
            is_loading = self._state is TableState.LOADING
            self._refuse(
                event,
                TransactionError.COORDINATOR_LOAD_IN_PROGRESS
                if is_loading
                else TransactionError.NOT_COORDINATOR,
            )
            return
        context.now = now
        if isinstance(event, _WRITING) and context.is_over_bound:
            self._refuse(event, TransactionError.COORDINATOR_NOT_AVAILABLE)
            return
        self._handlers[type(event)](event)

    def tick(self, now: Instant) -> None:
        """Do what is due; needed only when `next_deadline_ms` has come."""
        if self._state is not TableState.ACTIVE:
            return
        context = self._context
        context.now = now
        # It ends, because deadlines that are set on the way lie ahead.
        while (transactional_id := context.deadlines.pop_due(now.now_ms)) is not None:
            self._endings.on_deadline(transactional_id)
        context.producer_ids.expire(now.now_ms)
        context.writes.expire(now.now_ms)
        context.additions.expire(now.now_ms)
        if self._next_expiry_ms is not None and self._next_expiry_ms <= now.now_ms:
            self._admin.expire()
            self._schedule_expiry()

    def on_appended(self, token: WriteToken, now: Instant) -> None:
        """Take the report that an `Append` is committed."""
        self._end_write(token, TransactionError.NONE, now)

    def on_append_failed(self, token: WriteToken, failure: WriteFailure, now: Instant) -> None:
        """Take the report that an `Append` is not in the log and never will be."""
        self._end_write(token, error_of_write(failure), now)

    def on_producer_id(self, token: ProducerIdToken, producer_id: int | None, now: Instant) -> None:
        """Take a producer id that nobody has had, or None if there is none to be had now."""
        if self._state is not TableState.ACTIVE:
            return
        self._context.now = now
        self._context.producer_ids.end(token, producer_id)

    def take_ready(self) -> list[Work]:
        """Return what is to be done since the last call, in order."""
        ready = self._context.ready
        self._context.ready = []
        return ready

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is needed next, or None for never."""
        if self._state is not TableState.ACTIVE:
            return None
        deadlines = (
            self._context.deadlines.next_deadline_ms(),
            self._context.producer_ids.next_deadline_ms(),
            self._context.writes.next_deadline_ms(),
            self._context.additions.next_deadline_ms(),
            self._next_expiry_ms,
        )
        return min((each for each in deadlines if each is not None), default=None)

    # --- inside ---

    def _end_write(self, token: WriteToken, outcome: TransactionError, now: Instant) -> None:
        if self._state is not TableState.ACTIVE:
            return
        self._context.now = now
        self._context.writes.end(token, outcome)

    def _replay(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            raise BadTransactionRecord("a record without a key")
        transactional_id = read_key(key)
        if transactional_id is None:
            return
        if value is None:
            self._loaded.pop(transactional_id, None)
        else:
            self._loaded[transactional_id] = read_value(value)

    def _refuse(self, event: Event, error: TransactionError) -> None:
        if not isinstance(event, MarkersWritten):
            self._context.respond(event.token, refusal(event, error))

    def _schedule_expiry(self) -> None:
        interval_ms = self._context.config.expiration_check_interval_ms
        self._next_expiry_ms = self._context.now.now_ms + interval_ms

    def _expect(self, state: TableState) -> None:
        if self._state is not state:
            raise InvariantBroken(f"a table that is {self._state.name} is not {state.name}")
