"""What members of groups of the new kind are answered."""

from typing import NamedTuple

import msgspec

from kafkaesque.groups.consumer.topics import Partitions
from kafkaesque.groups.errors import GroupError


class ConsumerHeartbeatResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a member is now."""

    error: GroupError
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    #: All that it may have from now on; None: what it was told last.
    assignment: Partitions | None = None


class NamedPartitions(NamedTuple):
    """Partitions of one topic, for people."""

    topic_id: bytes
    topic_name: str
    partitions: tuple[int, ...]


class DescribedConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A member, for people."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_expression: str | None
    assignment: tuple[NamedPartitions, ...]
    target_assignment: tuple[NamedPartitions, ...]
    #: It speaks the classic protocol.
    is_classic: bool = False


class DescribedConsumerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group, for people; one that does not exist has GROUP_ID_NOT_FOUND."""

    error: GroupError
    group_id: str
    message: str | None = None
    state: str = ""
    group_epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


class ConsumerDescribeResult(msgspec.Struct, frozen=True, kw_only=True):
    """One for each group that was asked for, in that order."""

    groups: tuple[DescribedConsumerGroup, ...]
