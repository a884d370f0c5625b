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

from collections.abc import Callable
from typing import Any

from kafkaesque.tables.core import TableCore, TableState
from kafkaesque.tables.log_table import Instant
from kafkaesque.transactions.admin import Admin
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.context import Context
from kafkaesque.transactions.endings import Endings
from kafkaesque.transactions.errors import TABLE_ERRORS, TransactionError
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


class TransactionTable(TableCore[Event, TransactionError, Work]):
    """The coordinator of the transactional ids that hash to one partition.

    `coordinator_epoch` is the leader epoch of that partition; markers carry it.
    """

    __slots__ = ("_admin", "_context", "_endings", "_handlers", "_journal", "_loaded")

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        context = Context(config, coordinator_epoch)
        journal = Journal(context)
        producers = Producers(context, journal)
        partitions = Partitions(context, journal)
        endings = Endings(context, journal)
        admin = Admin(context)
        deadlines = (context.deadlines, context.producer_ids, context.additions)
        super().__init__(context, TABLE_ERRORS, deadlines)
        self._context = context
        self._journal = journal
        self._endings = endings
        self._admin = admin
        self._loaded: dict[str, TransactionValue] = {}
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

    def on_producer_id(self, token: ProducerIdToken, producer_id: int | None, now: Instant) -> None:
        """Take a producer id that nobody has had, or None if there is none to be had now."""
        if self.state is TableState.ACTIVE:
            self._context.now = now
            self._context.producer_ids.end(token, producer_id)

    # -- see `TableCore`

    def _replay(self, key: bytes, value: bytes | None) -> None:
        transactional_id = read_key(key)
        if transactional_id is None:
            return
        if value is None:
            self._loaded.pop(transactional_id, None)
        else:
            self._loaded[transactional_id] = read_value(value)

    def _on_active(self) -> None:
        """What is decided is carried on, what is open has its time left."""
        for transactional_id, value in self._loaded.items():
            transaction = Transaction(transactional_id, value)
            self._context.transactions[transactional_id] = transaction
            self._journal.resume(transaction)
        self._loaded = {}

    def _on_unloaded(self) -> None:
        self._loaded = {}
        self._context.producer_ids.abandon(TransactionError.NOT_COORDINATOR)
        self._context.additions.abandon(TransactionError.NOT_COORDINATOR)
        self._context.writes.give_up(TransactionError.NOT_COORDINATOR)

    def _handle(self, event: Event) -> None:
        if isinstance(event, _WRITING) and self._context.is_over_bound:
            self._refuse(event, TransactionError.COORDINATOR_NOT_AVAILABLE)
        else:
            self._handlers[type(event)](event)

    def _refuse(self, event: Event, error: TransactionError) -> None:
        if not isinstance(event, MarkersWritten):
            self._context.respond(event.token, refusal(event, error))

    def _on_due(self) -> None:
        context, now_ms = self._context, self._context.now.now_ms
        # It ends, because deadlines that are set on the way lie ahead.
        while (transactional_id := context.deadlines.pop_due(now_ms)) is not None:
            self._endings.on_deadline(transactional_id)
        context.producer_ids.expire(now_ms)
        context.additions.expire(now_ms)

    def _expire(self) -> None:
        self._admin.expire()

    @property
    def _expiry_interval_ms(self) -> int:
        return self._context.config.expiration_check_interval_ms
