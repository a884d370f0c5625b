"""DescribeTransactions, ListTransactions, and the ids that nobody has used for long.

Source: KIP-664; KIP-994 and KIP-1152 for filters; KIP-98 for what expires.
"""

from kafkaesque.tables.log_table import LogRecord
from kafkaesque.transactions.context import Context
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import DescribeTransactions, ListTransactions
from kafkaesque.transactions.records import write_key
from kafkaesque.transactions.results import (
    DescribedTransaction,
    DescribeResult,
    ListedTransaction,
    ListResult,
)
from kafkaesque.transactions.states import AT_REST, TransactionState
from kafkaesque.transactions.transaction import Transaction, open_ms

_TITLES = frozenset(state.title for state in TransactionState)


class Admin:
    """Shows transactional ids, and forgets them in the end."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def on_describe(self, describe: DescribeTransactions) -> None:
        """Show what is committed to the log of some ids."""
        bound = self._context.config.transactions_per_request_max
        described = tuple(
            self._describe(each)
            if position < bound
            else DescribedTransaction(error=TransactionError.OVER_BOUND, transactional_id=each)
            for position, each in enumerate(describe.transactional_ids)
        )
        self._context.respond(describe.token, DescribeResult(transactions=described))

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        if not transactional_id:
            error = TransactionError.INVALID_REQUEST
            return DescribedTransaction(error=error, transactional_id=transactional_id)
        transaction = self._context.transactions.get(transactional_id)
        value = None if transaction is None else transaction.value
        if value is None:
            error = TransactionError.TRANSACTIONAL_ID_NOT_FOUND
            return DescribedTransaction(error=error, transactional_id=transactional_id)
        return DescribedTransaction(
            error=TransactionError.NONE,
            transactional_id=transactional_id,
            state=value.state.title,
            timeout_ms=value.timeout_ms,
            start_wall_ms=value.start_wall_ms,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            partitions=tuple(sorted(value.partitions)),
        )

    def on_list(self, wanted: ListTransactions) -> None:
        """List what passes all filters; a state that does not exist is said to be none."""
        known = [each for each in wanted.states if each in _TITLES]
        unknown = tuple(each for each in wanted.states if each not in _TITLES)
        result = ListResult(
            error=TransactionError.NONE,
            transactions=tuple(
                ListedTransaction(
                    each.transactional_id, each.value.producer_id, each.value.state.title
                )
                for each in self._context.transactions.values()
                if each.value is not None and self._passes(each, wanted, known)
            ),
            unknown_states=unknown,
        )
        self._context.respond(wanted.token, result)

    def _passes(self, transaction: Transaction, wanted: ListTransactions, known: list[str]) -> bool:
        value = transaction.value
        if value is None:
            return False
        if wanted.states and value.state.title not in known:
            return False
        if wanted.producer_ids and value.producer_id not in wanted.producer_ids:
            return False
        if wanted.duration_ms >= 0:
            is_longer = open_ms(value, self._context.now.wall_ms) > wanted.duration_ms
            if value.state in AT_REST or not is_longer:
                return False
        return wanted.is_wanted_id is None or wanted.is_wanted_id(transaction.transactional_id)

    def expire(self) -> None:
        """Forget the ids that have been at rest for too long."""
        config = self._context.config
        limit_ms = self._context.now.wall_ms - config.transactional_id_expiration_ms
        expired = [
            each
            for each in self._context.transactions.values()
            if each.value is not None
            and not each.is_changing
            and each.state in AT_REST
            and each.value.update_wall_ms <= limit_ms
        ]
        size = config.records_per_write_max
        for start in range(0, len(expired), size):
            self._forget(expired[start : start + size])

    def _forget(self, expired: list[Transaction]) -> None:
        for each in expired:
            each.begin(TransactionState.DEAD)

        def on_end(error: TransactionError) -> None:
            for each in expired:
                if error is TransactionError.NONE:
                    del self._context.transactions[each.transactional_id]
                else:
                    each.cancel()

        records = [LogRecord(write_key(each.transactional_id), None) for each in expired]
        self._context.append(records, on_end, None)
