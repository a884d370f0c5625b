"""EndTxn, and the ends that a producer does not choose: its time is up, or somebody aborts for it.

Source: KIP-98; KIP-890 part 2 for clients that learn their next epoch from the answer.
"""

from enum import Enum, auto

from kafkaesque.transactions.context import Context, OnEnd
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import EndTransaction, ForceAbort
from kafkaesque.transactions.journal import Journal
from kafkaesque.transactions.producer_entries import NO_PRODUCER_ID
from kafkaesque.transactions.records import NO_EPOCH, TransactionValue
from kafkaesque.transactions.results import EndResult, ForceAbortResult
from kafkaesque.transactions.states import PREPARED, TransactionState
from kafkaesque.transactions.transaction import (
    CLIENT_EPOCH_MAX,
    EPOCH_BUMP_VERSION,
    Transaction,
    decided,
    fenced,
    heir,
)

_S = TransactionState


class _Answer(Enum):
    """What to do about an end that is asked for."""

    #: Decide it.
    DECIDE = auto()
    #: It is so already.
    DONE = auto()
    #: It is decided so, and will be.
    WAIT = auto()
    #: It is decided otherwise, or there is nothing to decide.
    INVALID = auto()


#: (state, commits?) for a client that asks again, with an epoch that its first request has put an
#: end to, or may have.
_REPEATED: dict[tuple[TransactionState, bool], _Answer] = {
    (_S.PREPARE_COMMIT, True): _Answer.WAIT,
    (_S.PREPARE_COMMIT, False): _Answer.INVALID,
    (_S.PREPARE_ABORT, True): _Answer.INVALID,
    (_S.PREPARE_ABORT, False): _Answer.WAIT,
    (_S.COMPLETE_COMMIT, True): _Answer.DONE,
    (_S.COMPLETE_COMMIT, False): _Answer.INVALID,
    (_S.COMPLETE_ABORT, True): _Answer.INVALID,
    (_S.COMPLETE_ABORT, False): _Answer.DONE,
}

#: The same for a client whose epoch stays. It may ask for the same end any number of times, because
#: it cannot be told from a repetition.
_SAME_EPOCH: dict[tuple[TransactionState, bool], _Answer] = {
    (_S.EMPTY, True): _Answer.INVALID,
    (_S.EMPTY, False): _Answer.INVALID,
    (_S.ONGOING, True): _Answer.DECIDE,
    (_S.ONGOING, False): _Answer.DECIDE,
} | _REPEATED

#: And for a client that learns its next epoch, and asks with the present one. It may abort where
#: nothing is open, because it does not know whether its first batch has arrived.
_NEXT_EPOCH: dict[tuple[TransactionState, bool], _Answer] = {
    (_S.EMPTY, True): _Answer.INVALID,
    (_S.EMPTY, False): _Answer.DECIDE,
    (_S.ONGOING, True): _Answer.DECIDE,
    (_S.ONGOING, False): _Answer.DECIDE,
    (_S.COMPLETE_COMMIT, True): _Answer.INVALID,
    (_S.COMPLETE_COMMIT, False): _Answer.DECIDE,
    (_S.COMPLETE_ABORT, True): _Answer.INVALID,
    (_S.COMPLETE_ABORT, False): _Answer.DECIDE,
}


class Endings:
    """Handles the ends of transactions."""

    __slots__ = ("_context", "_journal")

    def __init__(self, context: Context, journal: Journal) -> None:
        self._context = context
        self._journal = journal

    # --- by the producer ---

    def on_end(self, end: EndTransaction) -> None:
        """Decide a transaction; answered when the decision is committed to the log."""
        transaction = self._context.transactions.get(end.transactional_id)
        if not end.transactional_id:
            self._refuse(end, TransactionError.INVALID_REQUEST)
            return
        if transaction is None or transaction.value is None:
            self._refuse(end, TransactionError.INVALID_PRODUCER_ID_MAPPING)
            return
        value = transaction.value
        is_repeated = end.learns_epoch and _is_repeated(end, value)
        error = TransactionError.NONE
        if end.learns_epoch and _is_early(end, value):
            error = TransactionError.CONCURRENT_TRANSACTIONS
        elif not is_repeated:
            error = transaction.check_producer(end.producer_id, end.producer_epoch, end.connection)
        if error is TransactionError.NONE and transaction.is_changing:
            error = TransactionError.CONCURRENT_TRANSACTIONS
        if error is not TransactionError.NONE:
            self._refuse(end, error)
            return
        answers = _SAME_EPOCH if not end.learns_epoch else _REPEATED if is_repeated else _NEXT_EPOCH
        match answers[value.state, end.is_commit]:
            case _Answer.DECIDE:
                self._decide(end, transaction, value)
            case _Answer.DONE:
                self._accept(end, value)
            case _Answer.WAIT:
                self._refuse(end, TransactionError.CONCURRENT_TRANSACTIONS)
            case _Answer.INVALID:
                self._refuse(end, TransactionError.INVALID_TXN_STATE)

    def _decide(
        self, end: EndTransaction, transaction: Transaction, value: TransactionValue
    ) -> None:
        transaction.begin(_S.PREPARE_COMMIT if end.is_commit else _S.PREPARE_ABORT)
        if not (end.learns_epoch and value.producer_epoch >= CLIENT_EPOCH_MAX):
            self._store(end, transaction, value, NO_PRODUCER_ID)
            return

        def on_producer_id(producer_id: int | None, error: TransactionError) -> None:
            if producer_id is None:
                self._journal.give_up(transaction)
                self._refuse(end, error)
            else:
                self._store(end, transaction, value, producer_id)

        self._context.need_producer_id(on_producer_id)

    def _store(
        self,
        end: EndTransaction,
        transaction: Transaction,
        value: TransactionValue,
        next_producer_id: int,
    ) -> None:
        after = decided(
            value,
            is_commit=end.is_commit,
            learns_epoch=end.learns_epoch,
            next_producer_id=next_producer_id,
            wall_ms=self._context.now.wall_ms,
        )

        def on_written(error: TransactionError) -> None:
            if error is TransactionError.NONE:
                self._accept(end, after)
            else:
                self._refuse(end, error)

        self._journal.store(transaction, after, on_written)

    def _accept(self, end: EndTransaction, value: TransactionValue) -> None:
        result = EndResult(error=TransactionError.NONE)
        if end.learns_epoch:
            producer_id, epoch = heir(value)
            result = EndResult(
                error=TransactionError.NONE, producer_id=producer_id, producer_epoch=epoch
            )
        self._context.respond(end.token, result)

    def _refuse(self, end: EndTransaction, error: TransactionError) -> None:
        self._context.respond(end.token, EndResult(error=error))

    # --- by the coordinator ---

    def on_force_abort(self, force: ForceAbort) -> None:
        """Abort the open transaction of an id, for an administrator."""
        transaction = self._context.transactions.get(force.transactional_id)

        def answer(error: TransactionError) -> None:
            self._context.respond(force.token, ForceAbortResult(error=error))

        if transaction is None or transaction.value is None:
            answer(TransactionError.TRANSACTIONAL_ID_NOT_FOUND)
        elif transaction.is_concurrent:
            answer(TransactionError.CONCURRENT_TRANSACTIONS)
        elif transaction.state is not _S.ONGOING:
            answer(TransactionError.INVALID_TXN_STATE)
        else:
            self._abort(transaction, transaction.value, answer)

    def on_deadline(self, transactional_id: str) -> None:
        """Abort a transaction whose time is up, or complete one for which that has failed."""
        transaction = self._context.transactions.get(transactional_id)
        if transaction is None or transaction.value is None:
            return
        if transaction.state is not _S.ONGOING:
            self._journal.maybe_complete(transaction)
        elif transaction.is_changing:
            self._journal.retry_later(transactional_id)
        else:
            self._abort(transaction, transaction.value, None)

    def _abort(
        self, transaction: Transaction, value: TransactionValue, answer: OnEnd | None
    ) -> None:
        """Abort with a higher epoch.

        A client that learns its epochs finds this one when it aborts as well, and goes on; but not
        the last epoch, with which nobody could be shut out any more (KAFKA-20090).
        """
        transaction.begin(_S.PREPARE_EPOCH_FENCE, _S.PREPARE_ABORT)
        after = fenced(
            value,
            last_epoch=NO_EPOCH,
            is_learned=value.producer_epoch < CLIENT_EPOCH_MAX,
            wall_ms=self._context.now.wall_ms,
        )
        self._journal.store(transaction, after, answer)


def _is_early(end: EndTransaction, value: TransactionValue) -> bool:
    """Return whether it is the next transaction that is to end, while this one does still.

    The client has learned its next epoch before the markers are written, and may have failed to add
    a partition because of that.
    """
    return value.state in PREPARED and heir(value) == (end.producer_id, end.producer_epoch)


def _is_repeated(end: EndTransaction, value: TransactionValue) -> bool:
    """Return whether a request like this one has led to the present epoch."""
    if value.client_version < EPOCH_BUMP_VERSION or (value.state, end.is_commit) not in _REPEATED:
        return False
    if end.producer_id == value.producer_id and end.producer_epoch + 1 == value.producer_epoch:
        return True
    return (
        end.producer_id == value.previous_producer_id
        and end.producer_epoch == CLIENT_EPOCH_MAX
        and value.producer_epoch == 0
    )
