"""What the coordinator answers, and what it wants done."""

from typing import NamedTuple

import msgspec

from kafkaesque.groups.consumer.results import ConsumerDescribeResult, ConsumerHeartbeatResult
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import NOT_GIVEN
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import Append, LogRecord, Respond, WriteToken


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a generation, or an error and perhaps the id to try again with."""

    error: GroupError
    member_id: str
    generation: int = NOT_GIVEN
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    #: Everybody, for the leader alone.
    members: tuple[JoinedMember, ...] = ()
    #: The leader is to leave the assignment as it is.
    skip_assignment: bool = False


class SyncResult(msgspec.Struct, frozen=True, kw_only=True):
    """A member's assignment in the generation."""

    error: GroupError
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the member is still one, and whether it has to join again."""

    error: GroupError


class LeftMember(NamedTuple):
    """How it went for one leaving member."""

    member_id: str
    instance_id: str | None
    error: GroupError


class LeaveResult(msgspec.Struct, frozen=True, kw_only=True):
    """Who has left."""

    error: GroupError
    members: tuple[LeftMember, ...] = ()


class PartitionError(NamedTuple):
    """How it went for one partition."""

    partition: TopicPartition
    error: GroupError


class CommitResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every partition of the request, in its order; those without error are committed."""

    partitions: tuple[PartitionError, ...]


class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A committed offset, as it is read back and stored."""

    offset: int
    leader_epoch: int = NOT_GIVEN
    metadata: str = ""
    commit_wall_ms: int = 0
    #: Only if the client said how long to keep it.
    expire_wall_ms: int = NOT_GIVEN
    topic_id: bytes | None = None
    #: The id is what the coordinator took the topic's name for, perhaps with metadata of before.
    is_by_name: bool = False


class FetchedOffset(NamedTuple):
    """A partition and what is committed for it: None for nothing."""

    partition: TopicPartition
    committed: CommittedOffset | None
    #: There is one in an open transaction, and who asked wants to wait for its end.
    is_unstable: bool = False


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets that are committed to the log; in the request's order, or the order of commits."""

    error: GroupError
    offsets: tuple[FetchedOffset, ...] = ()


class DeleteOffsetsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every partition of the request, or an error for the whole."""

    error: GroupError
    partitions: tuple[PartitionError, ...] = ()


class DescribedMember(NamedTuple):
    """A member, for people."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    #: Only in a stable group.
    metadata: bytes
    assignment: bytes


class DescribedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group, for people. One that does not exist is Dead, with GROUP_ID_NOT_FOUND."""

    error: GroupError
    group_id: str
    state: str = "Dead"
    protocol_type: str = ""
    #: Only in a stable group.
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribeResult(msgspec.Struct, frozen=True, kw_only=True):
    """One for each group that was asked for, in that order."""

    groups: tuple[DescribedGroup, ...]


class ListedGroup(NamedTuple):
    """A line of the list of groups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of this table that pass the filters."""

    error: GroupError
    groups: tuple[ListedGroup, ...] = ()


class DeleteGroupsResult(msgspec.Struct, frozen=True, kw_only=True):
    """(group id, error) for each group that was asked for, in that order."""

    groups: tuple[tuple[str, GroupError], ...]


Result = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | CommitResult
    | FetchResult
    | DeleteOffsetsResult
    | DescribeResult
    | ListResult
    | DeleteGroupsResult
    | ConsumerHeartbeatResult
    | ConsumerDescribeResult
)


class AppendInTransaction(msgspec.Struct, frozen=True):
    """Append all these records or none, as part of a producer's transaction; else as `Append`."""

    token: WriteToken
    records: tuple[LogRecord, ...]
    producer_id: int
    producer_epoch: int


Work = Respond[Result] | Append | AppendInTransaction
