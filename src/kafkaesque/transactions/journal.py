"""What is written down of a transaction, and what follows once it is committed.

An open transaction gets its deadline. A decided one gets its markers written, whoever has decided
it and on whatever broker: the same happens for one that a new coordinator finds in the log. When
the last partition has taken its marker, that too is written down. None of this gives up: what fails
is tried again until it succeeds or the table is unloaded.
"""

from collections.abc import Callable

from kafkaesque.tables.log_table import LogRecord
from kafkaesque.transactions.context import Context, OnEnd
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import MarkerOutcome, MarkersToken, MarkersWritten
from kafkaesque.transactions.records import TransactionValue, write_key, write_value
from kafkaesque.transactions.results import WriteMarkers
from kafkaesque.transactions.states import PREPARED, TransactionState
from kafkaesque.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    Transaction,
    completed,
    open_ms,
)


class Journal:
    """Writes transactions down and carries them on."""

    __slots__ = ("_context", "_last_markers_token", "when_free")

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Asked when a change is over and none follows by itself, and when all markers are written:
        #: whether somebody has waited for that and has begun a change, which completes the
        #: transaction as well.
        self.when_free: Callable[[Transaction], bool] = lambda transaction: False
        self._last_markers_token = 0

    def store(
        self,
        transaction: Transaction,
        value: TransactionValue,
        answer: OnEnd | None = None,
        on_settled: Callable[[], None] | None = None,
    ) -> None:
        """Have the change that was begun written; what follows from it is done by itself.

        `answer` is called once, when the outcome is known or the time for it is up; `on_settled`
        when the change is committed.
        """

        def on_end(error: TransactionError) -> None:
            if error is TransactionError.NONE:
                transaction.settle(value)
                if on_settled is not None:
                    on_settled()
                self.resume(transaction)
                self._maybe_free(transaction)
            else:
                self.give_up(transaction)
                self._retry_later(transaction)

        record = LogRecord(write_key(transaction.transactional_id), write_value(value))
        self._context.append([record], on_end, answer)

    def give_up(self, transaction: Transaction) -> None:
        """Take note that a change which was begun will not be."""
        transaction.cancel()
        self._context.forget_if_new(transaction)
        self._maybe_free(transaction)

    def _maybe_free(self, transaction: Transaction) -> None:
        if not transaction.is_concurrent:
            self.when_free(transaction)

    def resume(self, transaction: Transaction) -> None:
        """Do what the committed state asks for; not while a change is under way."""
        context = self._context
        value = transaction.value
        if value is None:
            return
        if value.state is TransactionState.ONGOING:
            left_ms = value.timeout_ms - open_ms(value, context.now.wall_ms)
            deadline_ms = context.now.now_ms + max(left_ms, 1)
            context.deadlines.schedule(transaction.transactional_id, deadline_ms)
            return
        context.deadlines.cancel(transaction.transactional_id)
        if value.state not in PREPARED:
            return
        self._last_markers_token += 1
        token = transaction.markers_token = MarkersToken(self._last_markers_token)
        transaction.markers_left = set(value.partitions)
        if value.partitions:
            context.ready.append(
                WriteMarkers(
                    token=token,
                    transactional_id=transaction.transactional_id,
                    producer_id=value.producer_id,
                    producer_epoch=value.producer_epoch,
                    is_epoch_bumped=value.client_version >= EPOCH_BUMP_VERSION,
                    coordinator_epoch=context.coordinator_epoch,
                    is_commit=value.state is TransactionState.PREPARE_COMMIT,
                    partitions=tuple(sorted(value.partitions)),
                )
            )
        self.maybe_complete(transaction)

    def on_markers_written(self, event: MarkersWritten) -> None:
        """Take note of one marker; reports of earlier ones count for nothing."""
        transaction = self._context.transactions.get(event.transactional_id)
        if transaction is None or transaction.markers_token != event.token:
            return
        if event.outcome is MarkerOutcome.COORDINATOR_FENCED:
            # Another coordinator carries this on; what we think of it no longer matters.
            return
        transaction.markers_left.discard(event.partition)
        self.maybe_complete(transaction)

    def maybe_complete(self, transaction: Transaction) -> None:
        """Write down that all markers are written, if they are and it is not being done.

        Where partitions wait for the next transaction, its beginning says it.
        """
        value = transaction.value
        if value is None or value.state not in PREPARED:
            return
        if transaction.is_changing or transaction.markers_left:
            return
        if self.when_free(transaction):
            return
        after = completed(value, self._context.now.wall_ms)
        transaction.begin(after.state)
        self.store(transaction, after)

    def _retry_later(self, transaction: Transaction) -> None:
        """See to it that what the coordinator itself has to do is tried again."""
        deadlines = self._context.deadlines
        transactional_id = transaction.transactional_id
        is_due = transaction.state in PREPARED or transaction.state is TransactionState.ONGOING
        if is_due and transactional_id not in deadlines:
            self.retry_later(transactional_id)

    def retry_later(self, transactional_id: str) -> None:
        """Come back to this id after a short while."""
        context = self._context
        deadline_ms = context.now.now_ms + context.config.retry_backoff_ms
        context.deadlines.schedule(transactional_id, deadline_ms)
