"""What a transactional request can end with, in the domain's own words; gateways pick the codes."""

from enum import Enum, auto

from kafkaesque.tables.core import TableErrors
from kafkaesque.tables.log_table import BadTableRecord, WriteFailure


class TransactionError(Enum):
    """The outcome of a request, or of a partition in it.

    Named as Apache Kafka names its errors, but these are not wire codes: what an old version of a
    request must be told instead (INVALID_PRODUCER_EPOCH for PRODUCER_FENCED before KIP-588) is the
    gateway's to know.
    """

    NONE = auto()
    COORDINATOR_LOAD_IN_PROGRESS = auto()
    COORDINATOR_NOT_AVAILABLE = auto()
    NOT_COORDINATOR = auto()
    INVALID_REQUEST = auto()
    INVALID_TRANSACTION_TIMEOUT = auto()
    #: The transactional id has no such producer id (any more).
    INVALID_PRODUCER_ID_MAPPING = auto()
    #: A newer incarnation, or the coordinator itself, has shut this one out.
    PRODUCER_FENCED = auto()
    #: A delayed request: its client has spoken over a newer connection since.
    INVALID_PRODUCER_EPOCH = auto()
    #: What is asked for contradicts what is decided, or there is nothing to decide.
    INVALID_TXN_STATE = auto()
    #: Something of this transactional id is under way; try again.
    CONCURRENT_TRANSACTIONS = auto()
    #: The partition is not part of the transaction; aborting it is the way on.
    TRANSACTION_ABORTABLE = auto()
    TRANSACTIONAL_ID_NOT_FOUND = auto()
    #: A named bound of the coordinator is reached.
    OVER_BOUND = auto()
    UNKNOWN_SERVER_ERROR = auto()


class BadTransactionRecord(BadTableRecord):
    """A record of the transaction log does not have the form that its version promises."""


#: What those are told whose request cannot be taken, or needed a write that failed.
TABLE_ERRORS = TableErrors(
    none=TransactionError.NONE,
    is_loading=TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
    not_here=TransactionError.NOT_COORDINATOR,
    of_write={
        WriteFailure.NOT_LEADER: TransactionError.NOT_COORDINATOR,
        WriteFailure.NOT_ENOUGH_REPLICAS: TransactionError.COORDINATOR_NOT_AVAILABLE,
        WriteFailure.TOO_LARGE: TransactionError.UNKNOWN_SERVER_ERROR,
        WriteFailure.STORAGE_FAILED: TransactionError.NOT_COORDINATOR,
    },
)
