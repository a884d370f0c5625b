"""What a group request can end with, in the domain's own words; gateways choose the wire codes."""

from enum import Enum, auto

from kafkaesque.tables.core import TableErrors
from kafkaesque.tables.log_table import BadTableRecord, WriteFailure


class GroupError(Enum):
    """The outcome of a request, of a member or of a partition in it.

    Named as Apache Kafka names its errors, but these are not wire codes: what an old version of a
    request must be told instead (for example ILLEGAL_GENERATION for GROUP_ID_NOT_FOUND before
    OffsetCommit 9) is the gateway's to know.
    """

    NONE = auto()
    COORDINATOR_LOAD_IN_PROGRESS = auto()
    COORDINATOR_NOT_AVAILABLE = auto()
    NOT_COORDINATOR = auto()
    INVALID_GROUP_ID = auto()
    INVALID_SESSION_TIMEOUT = auto()
    INCONSISTENT_GROUP_PROTOCOL = auto()
    MEMBER_ID_REQUIRED = auto()
    UNKNOWN_MEMBER_ID = auto()
    FENCED_INSTANCE_ID = auto()
    ILLEGAL_GENERATION = auto()
    REBALANCE_IN_PROGRESS = auto()
    GROUP_MAX_SIZE_REACHED = auto()
    GROUP_ID_NOT_FOUND = auto()
    NON_EMPTY_GROUP = auto()
    GROUP_SUBSCRIBED_TO_TOPIC = auto()
    OFFSET_METADATA_TOO_LARGE = auto()
    #: A member of a group of the new kind is not where it believes to be (KIP-848).
    FENCED_MEMBER_EPOCH = auto()
    STALE_MEMBER_EPOCH = auto()
    UNRELEASED_INSTANCE_ID = auto()
    UNSUPPORTED_ASSIGNOR = auto()
    INVALID_REGULAR_EXPRESSION = auto()
    INVALID_REQUEST = auto()
    UNSUPPORTED_VERSION = auto()
    #: The commit does not fit into one write, or its group has offsets of too many partitions.
    INVALID_COMMIT_OFFSET_SIZE = auto()
    #: The coordinator keeps as many groups as it may; that passes when one of them is deleted.
    OVER_BOUND = auto()
    UNKNOWN_SERVER_ERROR = auto()


class BadGroupRecord(BadTableRecord):
    """A record of the offsets topic does not have the form that its version promises."""


#: What those are told whose request cannot be taken, or needed a write that failed.
TABLE_ERRORS = TableErrors(
    none=GroupError.NONE,
    is_loading=GroupError.COORDINATOR_LOAD_IN_PROGRESS,
    not_here=GroupError.NOT_COORDINATOR,
    of_write={
        WriteFailure.NOT_LEADER: GroupError.NOT_COORDINATOR,
        WriteFailure.NOT_ENOUGH_REPLICAS: GroupError.COORDINATOR_NOT_AVAILABLE,
        WriteFailure.TOO_LARGE: GroupError.UNKNOWN_SERVER_ERROR,
        WriteFailure.STORAGE_FAILED: GroupError.NOT_COORDINATOR,
    },
)
