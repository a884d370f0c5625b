"""What the coordinator is asked, and when."""

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, NewType

import msgspec

from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import RequestToken
from kafkaesque.transactions.producer_entries import NO_PRODUCER_ID
from kafkaesque.transactions.records import NO_EPOCH

#: Names one producer id that the coordinator asked for. Rises by one with each.
ProducerIdToken = NewType("ProducerIdToken", int)

#: Names the markers of one decided transaction. Rises by one with each.
MarkersToken = NewType("MarkersToken", int)

#: The request does not come from a client, but from another broker.
NO_CONNECTION = -1

#: No filter by duration.
NO_DURATION = -1


class InitProducerId(msgspec.Struct, frozen=True, kw_only=True):
    """A producer begins, or goes on after an error with the id and epoch that it has (KIP-360)."""

    token: RequestToken
    #: The client's connection, by the order in which the broker has accepted them.
    connection: int
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class AddedPartitions(NamedTuple):
    """Partitions that are to be, or are asked whether they are, in one transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    #: Ask only (KIP-890, part 1).
    verify_only: bool = False


class AddPartitions(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions are added to transactions: one of a client's, or many from another broker."""

    token: RequestToken
    connection: int
    transactions: tuple[AddedPartitions, ...]


class AddOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """A group's offsets are to be committed with the transaction."""

    token: RequestToken
    connection: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    #: The partition of `__consumer_offsets` that the group belongs to.
    partition: TopicPartition


class EndTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The producer commits or aborts."""

    token: RequestToken
    connection: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    #: The client takes its next epoch from the answer (KIP-890 part 2, EndTxn 5 and later).
    learns_epoch: bool


class ForceAbort(msgspec.Struct, frozen=True, kw_only=True):
    """An administrator ends the open transaction of an id; its producer is shut out."""

    token: RequestToken
    transactional_id: str


class DescribeTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """Show transactional ids (KIP-664)."""

    token: RequestToken
    transactional_ids: tuple[str, ...]


class ListTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """List the transactional ids of this table; empty filters take all (KIP-664)."""

    token: RequestToken
    #: By title, as `TransactionState` has it.
    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    #: Only those that have been open for longer (KIP-994); below zero: all.
    duration_ms: int = NO_DURATION
    #: Whether an id is wanted (KIP-1152). The gateway compiles the pattern, and answers for it.
    is_wanted_id: Callable[[str], bool] | None = None


class MarkerOutcome(Enum):
    """What became of a marker at one partition; whatever else happens, the driver repeats it."""

    #: Committed to the partition's log, now or already before.
    WRITTEN = auto()
    #: The partition is gone for good, and no other one of its name can have records of the
    #: transaction: there is nothing to end.
    PARTITION_GONE = auto()
    #: The partition has seen a later coordinator: this one will be unloaded.
    COORDINATOR_FENCED = auto()


class MarkersWritten(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's leader has taken the marker that `WriteMarkers` asked for."""

    token: MarkersToken
    transactional_id: str
    partition: TopicPartition
    outcome: MarkerOutcome


Request = (
    InitProducerId
    | AddPartitions
    | AddOffsets
    | EndTransaction
    | ForceAbort
    | DescribeTransactions
    | ListTransactions
)
Event = Request | MarkersWritten
