"""What a batch or a marker says to a partition's producer state, and what that answers."""

from enum import Enum, auto
from typing import NamedTuple

from kafkaesque.model.batch_encoder import EndMarker
from kafkaesque.model.ids import Offset
from kafkaesque.transactions.verification_guards import Guard


class Verdict(Enum):
    """What to do with a batch that is no duplicate."""

    ACCEPT = auto()
    #: Its numbers do not follow.
    OUT_OF_ORDER_SEQUENCE = auto()
    #: A producer with a higher epoch has taken over.
    INVALID_PRODUCER_EPOCH = auto()
    #: It carries numbers that no producer can mean.
    INVALID_RECORD = auto()
    #: It is in no transaction, and one of its producer is open.
    INVALID_TXN_STATE = auto()
    #: A coordinator with a higher epoch has written a marker.
    TRANSACTION_COORDINATOR_FENCED = auto()
    #: It would open a transaction, and there are too many.
    OVER_BOUND = auto()


class Duplicate(NamedTuple):
    """The batch is in the log already.

    Its answer is that of the first one, and may be given only once `last_offset` is committed.
    """

    first_offset: Offset
    last_offset: Offset
    timestamp_ms: int


class NeedsVerification(NamedTuple):
    """The batch would open a transaction: its coordinator is to confirm that first."""

    guard: Guard


class AlreadyEnded(NamedTuple):
    """The marker is in the log already, and may be answered once its offset is committed."""

    marker_offset: Offset


class SequencedBatch(NamedTuple):
    """What a batch says that matters here."""

    producer_id: int
    epoch: int
    first_sequence: int
    #: Positions that it takes in the log.
    record_count: int
    first_offset: Offset
    timestamp_ms: int
    is_transactional: bool = False
    #: What a control batch's record says.
    marker: EndMarker | None = None
