"""AddPartitionsToTxn and AddOffsetsToTxn: what takes part in a transaction.

Source: KIP-98; KIP-890 for partitions that other brokers ask about or add.
"""

from collections.abc import Callable
from functools import partial

from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import RequestToken
from kafkaesque.transactions.additions import Addition, answer_all
from kafkaesque.transactions.context import Context
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import NO_CONNECTION, AddedPartitions, AddOffsets, AddPartitions
from kafkaesque.transactions.journal import Journal
from kafkaesque.transactions.records import TransactionValue, write_value
from kafkaesque.transactions.results import (
    AddedResult,
    AddOffsetsResult,
    AddPartitionsResult,
    ConfirmPartitions,
    PartitionError,
)
from kafkaesque.transactions.states import PREPARED, TransactionState
from kafkaesque.transactions.transaction import Transaction, completed, with_partitions

#: What the end of a transaction adds to its value: two producer ids and a version, tagged.
_TAGS_BYTES = 32

_OnErrors = Callable[[dict[TopicPartition, TransactionError]], None]


class _Gathering:
    """The answer to many transactions, given when the last of them has its own."""

    def __init__(self, context: Context, token: RequestToken, size: int) -> None:
        self._context = context
        self._token = token
        self._results: list[AddedResult | None] = [None] * size
        self._missing = size

    def put(
        self,
        position: int,
        added: AddedPartitions,
        errors: dict[TopicPartition, TransactionError],
    ) -> None:
        each = tuple(PartitionError(partition, errors[partition]) for partition in added.partitions)
        self._results[position] = AddedResult(added.transactional_id, each)
        self._missing -= 1
        if not self._missing:
            self.finish()

    def finish(self) -> None:
        results = tuple(each for each in self._results if each is not None)
        self._context.respond(self._token, AddPartitionsResult(transactions=results))


class Partitions:
    """Handles what is added to transactions."""

    __slots__ = ("_context", "_journal")

    def __init__(self, context: Context, journal: Journal) -> None:
        self._context = context
        self._journal = journal
        journal.when_free = self._on_free

    def on_add_partitions(self, add: AddPartitions) -> None:
        """Add or verify partitions of many transactions, answered together."""
        gathering = _Gathering(self._context, add.token, len(add.transactions))
        if not add.transactions:
            gathering.finish()
        bound = self._context.config.transactions_per_request_max
        for position, each in enumerate(add.transactions):
            self._add_one(
                each,
                add.connection,
                is_over_bound=position >= bound,
                on_errors=partial(gathering.put, position, each),
            )

    def on_add_offsets(self, add: AddOffsets) -> None:
        """Add the partition that holds a group's offsets."""
        added = AddedPartitions(
            add.transactional_id, add.producer_id, add.producer_epoch, (add.partition,)
        )

        def on_errors(errors: dict[TopicPartition, TransactionError]) -> None:
            result = AddOffsetsResult(error=errors[add.partition])
            self._context.respond(add.token, result)

        self._add_one(added, add.connection, is_over_bound=False, on_errors=on_errors)

    def _add_one(
        self,
        added: AddedPartitions,
        connection: int,
        *,
        is_over_bound: bool,
        on_errors: _OnErrors,
    ) -> None:
        def answer(error: TransactionError) -> None:
            on_errors(dict.fromkeys(added.partitions, error))

        if not added.transactional_id:
            answer(TransactionError.INVALID_REQUEST)
        elif is_over_bound:
            answer(TransactionError.OVER_BOUND)
        elif added.verify_only:
            on_errors(self._verified(added))
        else:
            self._add(added, connection, answer)

    def _verified(self, added: AddedPartitions) -> dict[TopicPartition, TransactionError]:
        """Return which of the partitions take part.

        A change that is under way does not matter: a marker that it may lead to is seen by the
        partition itself, before it appends what it asks about.
        """
        transaction = self._context.transactions.get(added.transactional_id)
        if transaction is None or transaction.value is None:
            error = TransactionError.INVALID_PRODUCER_ID_MAPPING
            return dict.fromkeys(added.partitions, error)
        error = transaction.check_producer(added.producer_id, added.producer_epoch, NO_CONNECTION)
        value = transaction.value
        if error is TransactionError.NONE and value.state in PREPARED:
            error = TransactionError.CONCURRENT_TRANSACTIONS
        if error is not TransactionError.NONE:
            return dict.fromkeys(added.partitions, error)
        return {
            each: TransactionError.NONE
            if each in value.partitions
            else TransactionError.TRANSACTION_ABORTABLE
            for each in added.partitions
        }

    def _add(
        self,
        added: AddedPartitions,
        connection: int,
        answer: Callable[[TransactionError], None],
    ) -> None:
        context = self._context
        transaction = context.transactions.get(added.transactional_id)
        if transaction is None or transaction.value is None:
            answer(TransactionError.INVALID_PRODUCER_ID_MAPPING)
            return
        addition = Addition(added, connection, answer)
        if not transaction.is_concurrent:
            self._begin(transaction, transaction.value, [addition])
            return
        # It has spoken, even if what else is wrong with it can only be told later: its next
        # producer id may not be in force yet.
        transaction.check_producer(added.producer_id, added.producer_epoch, connection)
        if context.is_over_bound:
            answer(TransactionError.COORDINATOR_NOT_AVAILABLE)
        else:
            context.additions.add(addition, context.now.now_ms)

    def _on_free(self, transaction: Transaction) -> bool:
        """Begin what waits, together with the end of the transaction before; False if nothing."""
        waiting = self._context.additions.take(transaction.transactional_id)
        if not waiting:
            return False
        value = transaction.value
        if value is not None and value.state in PREPARED:
            value = completed(value, self._context.now.wall_ms)
        self._begin(transaction, value, waiting)
        return transaction.is_changing

    def _begin(
        self, transaction: Transaction, value: TransactionValue | None, additions: list[Addition]
    ) -> None:
        """Add all that fits the value, which is committed or can be with what is added."""
        new: list[Addition] = []
        for each in additions:
            error = self._judge(transaction, value, each)
            if error is None:
                new.append(each)
            else:
                each.answer(error)
        if value is None or not new:
            return
        partitions = frozenset().union(*(each.added.partitions for each in new))
        after = with_partitions(value, partitions, self._context.now.wall_ms)
        if not self._fits(after):
            answer_all(new, TransactionError.OVER_BOUND)
            return
        path = (after.state,) if value.state is transaction.state else (value.state, after.state)
        transaction.begin(*path)
        self._journal.store(
            transaction,
            after,
            answer=lambda error: answer_all(new, error),
            on_settled=lambda: self._announce(transaction, after, new),
        )

    def _judge(
        self, transaction: Transaction, value: TransactionValue | None, addition: Addition
    ) -> TransactionError | None:
        """Return what can be answered at once; None if partitions are to be added."""
        added = addition.added
        error = transaction.check_producer(
            added.producer_id, added.producer_epoch, addition.connection, value
        )
        if error is not TransactionError.NONE or value is None:
            return error
        is_open = value.state is TransactionState.ONGOING
        if not added.partitions or (is_open and value.partitions.issuperset(added.partitions)):
            return TransactionError.NONE
        if self._context.is_over_bound:
            return TransactionError.COORDINATOR_NOT_AVAILABLE
        return None

    def _announce(
        self, transaction: Transaction, value: TransactionValue, additions: list[Addition]
    ) -> None:
        """Spare the leaders the question; those that have added their own know already."""
        partitions: set[TopicPartition] = set()
        for each in additions:
            if each.connection != NO_CONNECTION:
                partitions.update(each.added.partitions)
        if partitions:
            self._context.ready.append(
                ConfirmPartitions(
                    transaction.transactional_id,
                    value.producer_id,
                    value.producer_epoch,
                    tuple(sorted(partitions)),
                )
            )

    def _fits(self, value: TransactionValue) -> bool:
        """Return whether the value can be written now, and when the transaction ends."""
        config = self._context.config
        if len(value.partitions) > config.partitions_max:
            return False
        return len(write_value(value)) + _TAGS_BYTES <= config.value_bytes_max
