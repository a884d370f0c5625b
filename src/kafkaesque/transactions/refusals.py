"""The answer to each kind of request when nothing at all can be done for it."""

from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import (
    AddOffsets,
    AddPartitions,
    DescribeTransactions,
    EndTransaction,
    ForceAbort,
    InitProducerId,
    ListTransactions,
    Request,
)
from kafkaesque.transactions.results import (
    AddedResult,
    AddOffsetsResult,
    AddPartitionsResult,
    DescribedTransaction,
    DescribeResult,
    EndResult,
    ForceAbortResult,
    InitResult,
    ListResult,
    PartitionError,
    Result,
)


def refusal(request: Request, error: TransactionError) -> Result:
    """Return the answer that says `error` and nothing else."""
    match request:
        case InitProducerId():
            return InitResult(error=error)
        case AddPartitions():
            added = (
                AddedResult(
                    each.transactional_id,
                    tuple(PartitionError(partition, error) for partition in each.partitions),
                )
                for each in request.transactions
            )
            return AddPartitionsResult(transactions=tuple(added))
        case AddOffsets():
            return AddOffsetsResult(error=error)
        case EndTransaction():
            return EndResult(error=error)
        case ForceAbort():
            return ForceAbortResult(error=error)
        case DescribeTransactions():
            described = (
                DescribedTransaction(error=error, transactional_id=each)
                for each in request.transactional_ids
            )
            return DescribeResult(transactions=tuple(described))
        case ListTransactions():
            return ListResult(error=error)
