"""What the coordinator answers, and what it wants done."""

from typing import NamedTuple

import msgspec

from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import Append, Respond
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import MarkersToken, ProducerIdToken
from kafkaesque.transactions.producer_entries import NO_PRODUCER_ID
from kafkaesque.transactions.records import NO_EPOCH, NO_TIME


class InitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The producer id and epoch to go on with, or an error."""

    error: TransactionError
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class PartitionError(NamedTuple):
    """How it went for one partition."""

    partition: TopicPartition
    error: TransactionError


class AddedResult(NamedTuple):
    """How it went for one transaction of the request, partition by partition, in its order."""

    transactional_id: str
    partitions: tuple[PartitionError, ...]


class AddPartitionsResult(msgspec.Struct, frozen=True, kw_only=True):
    """One for each transaction of the request, in its order."""

    transactions: tuple[AddedResult, ...]


class ConfirmPartitions(NamedTuple):
    """Work: their leaders need not ask whether these partitions take part. Of no consequence."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class AddOffsetsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the group's partition is in the transaction."""

    error: TransactionError


class EndResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the end is decided; for who learns it, what the next transaction begins with."""

    error: TransactionError
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class ForceAbortResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the abort is decided; its markers may still be under way."""

    error: TransactionError


class DescribedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id, for people."""

    error: TransactionError
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_wall_ms: int = NO_TIME
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    #: In order. While markers are written, also those that have theirs.
    partitions: tuple[TopicPartition, ...] = ()


class DescribeResult(msgspec.Struct, frozen=True, kw_only=True):
    """One for each id that was asked for, in that order."""

    transactions: tuple[DescribedTransaction, ...]


class ListedTransaction(NamedTuple):
    """A line of the list of transactional ids."""

    transactional_id: str
    producer_id: int
    state: str


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    """The transactional ids of this table that pass the filters."""

    error: TransactionError
    transactions: tuple[ListedTransaction, ...] = ()
    #: Filters that name no state.
    unknown_states: tuple[str, ...] = ()


Result = (
    InitResult
    | AddPartitionsResult
    | AddOffsetsResult
    | EndResult
    | ForceAbortResult
    | DescribeResult
    | ListResult
)


class NeedProducerId(msgspec.Struct, frozen=True):
    """Get a producer id that nobody has had, and say `on_producer_id`."""

    token: ProducerIdToken


class WriteMarkers(msgspec.Struct, frozen=True, kw_only=True):
    """Have the end of a transaction written into each of these partitions.

    Repeat it for each partition until its leader has taken it or the partition is gone, then say
    `MarkersWritten`. Once that is said, no further copy may still be on its way: a transaction of
    the same producer id and epoch may be open there again.
    """

    token: MarkersToken
    transactional_id: str
    producer_id: int
    producer_epoch: int
    #: The epoch is above that of what was written in the transaction.
    is_epoch_bumped: bool
    coordinator_epoch: int
    is_commit: bool
    #: In order.
    partitions: tuple[TopicPartition, ...]


Work = Respond[Result] | Append | NeedProducerId | WriteMarkers | ConfirmPartitions
