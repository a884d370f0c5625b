"""What the coordinator is asked, and when."""

from typing import NamedTuple

import msgspec

from kafkaesque.groups.consumer.events import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    TopicsChanged,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import RequestToken

#: "Not given" for a generation, a retention time and a leader epoch, as Kafka writes it.
NOT_GIVEN = -1

#: The member id of somebody who has none yet.
NO_MEMBER_ID = ""


class JoinProtocol(NamedTuple):
    """A way to assign partitions that a member offers, and what it says to the leader about it."""

    name: str
    metadata: bytes

    @property
    def size_bytes(self) -> int:
        """What it takes."""
        return len(self.name.encode()) + len(self.metadata)


class JoinGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A member asks to be in the next generation; answered when that begins."""

    token: RequestToken
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    #: Below zero: as long as the session, as in JoinGroup 0.
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    #: Unique in the cluster; becomes part of the member's id if it needs one.
    member_id_suffix: str
    #: The client comes back with the id that it is given (KIP-394, JoinGroup 4 and later).
    requires_known_member_id: bool
    #: The client understands "leader, but assign nothing" (KIP-814, JoinGroup 9 and later).
    supports_skipping_assignment: bool

    @property
    def rebalance_ms(self) -> int:
        """How long the member needs to join again."""
        is_given = self.rebalance_timeout_ms >= 0
        return self.rebalance_timeout_ms if is_given else self.session_timeout_ms


class SyncGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A member asks for its assignment; the leader's request brings everybody's."""

    token: RequestToken
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    #: None: the request is too old to say.
    protocol_type: str | None
    protocol_name: str | None
    #: (member id, assignment)
    assignments: tuple[tuple[str, bytes], ...]


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A member says that it lives."""

    token: RequestToken
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class LeavingMember(NamedTuple):
    """A member by its id, or a static one by its instance alone."""

    member_id: str
    instance_id: str | None


class LeaveGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Members leave, or are removed by an administrator."""

    token: RequestToken
    group_id: str
    members: tuple[LeavingMember, ...]


class OffsetToCommit(NamedTuple):
    """How far a partition has been consumed."""

    partition: TopicPartition
    #: The next one to consume.
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: bytes | None = None
    #: The client gave the topic's name; the id is what the coordinator took it for.
    is_by_name: bool = False


class CommitOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Store offsets; answered when they are committed to the log."""

    token: RequestToken
    group_id: str
    #: Or the member's epoch; -1: the client manages its partitions by itself.
    generation: int
    member_id: str
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    #: OffsetCommit 2 to 4 may say how long to keep them; else -1.
    retention_ms: int = NOT_GIVEN
    #: The client knows STALE_MEMBER_EPOCH (KIP-848, OffsetCommit 9 and later).
    knows_member_epochs: bool = True

    @property
    def is_by_name(self) -> bool:
        """Whether any topic was given by its name."""
        return any(each.is_by_name for each in self.offsets)


class CommitOffsetsInTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """Store offsets that count when a transaction is committed; answered when they are in the log.

    Whoever brings it has seen to it that the transaction is open.
    """

    commit: CommitOffsets
    producer_id: int
    producer_epoch: int

    @property
    def token(self) -> RequestToken:
        """Names the request."""
        return self.commit.token

    @property
    def is_by_name(self) -> bool:
        """Whether any topic was given by its name."""
        return self.commit.is_by_name


class TransactionEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction's marker is committed to this table's log; nobody waits for an answer."""

    producer_id: int
    is_commit: bool


class FetchOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Read committed offsets: of these partitions, or of all that there are."""

    token: RequestToken
    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    #: Say of which partitions there are offsets in open transactions (KIP-447).
    require_stable: bool = False
    #: None: somebody who is no member, or does not say (before OffsetFetch 9).
    member_id: str | None = None
    member_epoch: int = NOT_GIVEN


class DeleteOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Remove committed offsets of topics that the group does not consume."""

    token: RequestToken
    group_id: str
    partitions: tuple[TopicPartition, ...]


class DescribeGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Show groups and their members."""

    token: RequestToken
    group_ids: tuple[str, ...]


class ListGroups(msgspec.Struct, frozen=True, kw_only=True):
    """List the groups of this table; empty filters take all. Case does not matter."""

    token: RequestToken
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class DeleteGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Remove groups that have no members, with their offsets."""

    token: RequestToken
    group_ids: tuple[str, ...]


class DeletedTopic(NamedTuple):
    """A topic that is gone. With an id, offsets of its namesakes stay."""

    name: str
    topic_id: bytes | None = None
    #: What was committed by name from this Unix time on stays: it was a namesake's. None: goes.
    since_wall_ms: int | None = None


class TopicsDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """Remove all groups' offsets of these topics; nobody waits for an answer."""

    topics: tuple[DeletedTopic, ...]


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | CommitOffsetsInTransaction
    | FetchOffsets
    | DeleteOffsets
    | DescribeGroups
    | ListGroups
    | DeleteGroups
    | ConsumerGroupHeartbeat
    | ConsumerGroupDescribe
)
#: What nobody waits for an answer to.
Notice = TopicsDeleted | TopicsChanged | TransactionEnded
Event = Request | Notice
