"""InitProducerId: a producer begins, and whoever had its transactional id before is shut out.

Source: KIP-98; KIP-360 for a producer that goes on after an error.
"""

from kafkaesque.transactions.context import Context
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import NO_CONNECTION, InitProducerId
from kafkaesque.transactions.journal import Journal
from kafkaesque.transactions.producer_entries import EPOCH_MAX, NO_PRODUCER_ID
from kafkaesque.transactions.records import NO_EPOCH, TransactionValue
from kafkaesque.transactions.results import InitResult
from kafkaesque.transactions.states import PREPARED, TransactionState
from kafkaesque.transactions.transaction import CLIENT_EPOCH_MAX, Transaction, fenced, initialized


class Producers:
    """Handles the beginning of producers."""

    __slots__ = ("_context", "_journal")

    def __init__(self, context: Context, journal: Journal) -> None:
        self._context = context
        self._journal = journal

    def on_init(self, init: InitProducerId) -> None:
        """Give a producer id and epoch; an open transaction is aborted first."""
        error = self._check_request(init)
        if error is not TransactionError.NONE:
            self._refuse(init, error)
            return
        context = self._context
        transaction = context.transactions.get(init.transactional_id)
        if transaction is None:
            # An id that is not known, or has been forgotten, begins anew, whatever is given.
            transaction = Transaction(init.transactional_id)
            context.transactions[init.transactional_id] = transaction
            transaction.begin(TransactionState.EMPTY)
            self._begin_with_new_id(init, transaction)
            return
        value = transaction.value
        if value is None or transaction.is_changing:
            self._refuse(init, TransactionError.CONCURRENT_TRANSACTIONS)
            return
        error = _check_given(init, transaction, value)
        if error is not TransactionError.NONE:
            self._refuse(init, error)
        elif value.state is TransactionState.ONGOING:
            self._fence(init, transaction, value)
        else:
            self._begin_again(init, transaction, value)

    def _check_request(self, init: InitProducerId) -> TransactionError:
        config = self._context.config
        if not 0 < len(init.transactional_id.encode()) <= config.id_bytes_max:
            return TransactionError.INVALID_REQUEST
        if (init.producer_id == NO_PRODUCER_ID) != (init.producer_epoch == NO_EPOCH):
            return TransactionError.INVALID_REQUEST
        if not 0 < init.timeout_ms <= config.transaction_timeout_ms_max:
            return TransactionError.INVALID_TRANSACTION_TIMEOUT
        transactions = self._context.transactions
        is_full = len(transactions) >= config.transactional_ids_max
        if is_full and init.transactional_id not in transactions:
            return TransactionError.OVER_BOUND
        return TransactionError.NONE

    def _begin_again(
        self, init: InitProducerId, transaction: Transaction, value: TransactionValue
    ) -> None:
        """Give the next epoch, or a new producer id when there is none."""
        transaction.begin(TransactionState.EMPTY)
        is_repeated = _is_given(init) and init.producer_epoch != value.producer_epoch
        if is_repeated and value.producer_epoch <= CLIENT_EPOCH_MAX:
            # The answer to the first one was lost: this is what it said.
            self._store(init, transaction, value.producer_id, value.producer_epoch)
        elif value.producer_epoch >= CLIENT_EPOCH_MAX:
            self._begin_with_new_id(init, transaction)
        else:
            self._store(init, transaction, value.producer_id, value.producer_epoch + 1)

    def _begin_with_new_id(self, init: InitProducerId, transaction: Transaction) -> None:
        def on_producer_id(producer_id: int | None, error: TransactionError) -> None:
            if producer_id is None:
                self._journal.give_up(transaction)
                self._refuse(init, error)
            else:
                self._store(init, transaction, producer_id, 0)

        self._context.need_producer_id(on_producer_id)

    def _store(
        self, init: InitProducerId, transaction: Transaction, producer_id: int, epoch: int
    ) -> None:
        before = transaction.value
        value = initialized(
            before,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_epoch=NO_EPOCH if before is None else init.producer_epoch,
            timeout_ms=init.timeout_ms,
            wall_ms=self._context.now.wall_ms,
        )

        def on_written(error: TransactionError) -> None:
            if error is TransactionError.NONE:
                result = InitResult(error=error, producer_id=producer_id, producer_epoch=epoch)
                self._context.respond(init.token, result)
            else:
                self._refuse(init, error)

        def on_settled() -> None:
            if not _is_given(init):
                # Somebody else, whose connection may well be older than that of the one before: a
                # stand-by that takes over. The epoch tells the two apart. Nor does the connection
                # of this request count: nothing can be late that has to know its answer, and
                # aiokafka speaks on over another one.
                transaction.connection = NO_CONNECTION

        self._journal.store(transaction, value, on_written, on_settled)

    def _fence(
        self, init: InitProducerId, transaction: Transaction, value: TransactionValue
    ) -> None:
        """Abort the open transaction; the client is to come again when that is done.

        A producer that asks with its own id and epoch may do so with these; any other one gets an
        epoch above the one that the abort takes.
        """
        transaction.begin(TransactionState.PREPARE_EPOCH_FENCE, TransactionState.PREPARE_ABORT)
        after = fenced(
            value,
            last_epoch=init.producer_epoch,
            is_learned=False,
            wall_ms=self._context.now.wall_ms,
        )

        def on_written(error: TransactionError) -> None:
            is_aborting = error is TransactionError.NONE
            self._refuse(init, TransactionError.CONCURRENT_TRANSACTIONS if is_aborting else error)

        self._journal.store(transaction, after, on_written)

    def _refuse(self, init: InitProducerId, error: TransactionError) -> None:
        self._context.respond(init.token, InitResult(error=error))


def _is_given(init: InitProducerId) -> bool:
    return init.producer_id != NO_PRODUCER_ID


def _check_given(
    init: InitProducerId, transaction: Transaction, value: TransactionValue
) -> TransactionError:
    """Return whether whoever gives a producer id and epoch may go on from them (KIP-360).

    It may from the present ones, and from those before if these were its own as well: then it asks
    again because the answer was lost. Kafka looks at the epoch only after it has aborted an open
    transaction; here somebody who is shut out aborts nothing.
    """
    if not _is_given(init):
        is_deciding = value.state in PREPARED
        return TransactionError.CONCURRENT_TRANSACTIONS if is_deciding else TransactionError.NONE
    is_own_id = init.producer_id == value.producer_id
    is_id_before = (
        init.producer_id == value.previous_producer_id and init.producer_epoch >= CLIENT_EPOCH_MAX
    )
    if init.producer_id == value.next_producer_id and value.state in PREPARED:
        return TransactionError.CONCURRENT_TRANSACTIONS
    if not (is_own_id or is_id_before) or init.producer_epoch == EPOCH_MAX:
        return TransactionError.PRODUCER_FENCED
    if value.state in PREPARED:
        return TransactionError.CONCURRENT_TRANSACTIONS
    is_present = is_own_id and init.producer_epoch == value.producer_epoch
    is_repeated = init.producer_epoch == value.last_epoch
    is_open = value.state is TransactionState.ONGOING
    if not is_present and (is_open or not is_repeated):
        return TransactionError.PRODUCER_FENCED
    if not transaction.hears(init.connection):
        return TransactionError.INVALID_PRODUCER_EPOCH
    return TransactionError.NONE
