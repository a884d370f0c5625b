"""What clients and coordinators are told of a verdict on a producer's batch or marker."""

from kafkaesque.model.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OverBound,
    RequestRefused,
    TransactionCoordinatorFenced,
)
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.transactions.producer_verdicts import Verdict


def refuse(verdict: Verdict, producer_id: int, epoch: int) -> RequestRefused:
    """Return the error that a verdict, which is neither good nor a repetition, is told as."""
    match verdict:
        case Verdict.INVALID_PRODUCER_EPOCH:
            return InvalidProducerEpoch(f"epoch {epoch} of producer {producer_id} is over")
        case Verdict.INVALID_TXN_STATE:
            return InvalidTxnState(f"producer {producer_id} has a transaction that is open")
        case Verdict.TRANSACTION_COORDINATOR_FENCED:
            return TransactionCoordinatorFenced(
                f"a newer coordinator has ended a transaction of producer {producer_id}"
            )
        case Verdict.OVER_BOUND:
            return OverBound("too many transactions are open, or were aborted, in the partition")
        case _:
            return InvalidRecord(f"producer {producer_id} has an impossible id, epoch or sequence")
