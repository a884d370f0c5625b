"""What is known of a member and of an expression: values, as they are stored."""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Partitions
from kafkaesque.groups.events import JoinProtocol

#: Member epochs that are not ones, in a heartbeat: joins, leaves for a short while; -1: for good.
JOINING_EPOCH = 0
LEAVING_STATIC_EPOCH = -2


class MemberState(IntEnum):
    """How far a member is on its way to its target; the numbers are those of the records."""

    #: It has all that it can get in its epoch.
    STABLE = 0
    #: It has been told to give partitions up, and has not said that it did.
    UNREVOKED_PARTITIONS = 1
    #: It waits for partitions that others have not given up.
    UNRELEASED_PARTITIONS = 2


class ClassicMember(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs to a member that speaks the classic protocol."""

    session_timeout_ms: int
    #: What it offers; the assignments that it is sent have the form of all of them.
    protocols: tuple[JoinProtocol, ...]


class Subscription(NamedTuple):
    """Topics by name, and by an expression."""

    topic_names: tuple[str, ...]
    topic_expression: str | None

    @property
    def size_bytes(self) -> int:
        """What it takes."""
        return len("".join(self.topic_names).encode()) + len((self.topic_expression or "").encode())


class MemberMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a member says about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    #: Sorted, each once.
    topic_names: tuple[str, ...] = ()
    #: An RE2 expression; None and "" match nothing.
    topic_expression: str | None = None
    rebalance_timeout_ms: int = -1
    #: The assignor that it would like; None leaves it to the others and the coordinator.
    assignor: str | None = None
    #: None: it speaks the new protocol.
    classic: ClassicMember | None = None

    @property
    def subscription(self) -> Subscription:
        """What it subscribes to."""
        return Subscription(self.topic_names, self.topic_expression)

    @property
    def subscription_bytes(self) -> int:
        """What it says of what it wants takes."""
        if self.classic is not None:
            return sum(each.size_bytes for each in self.classic.protocols)
        return self.subscription.size_bytes


class CurrentAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a member is: what it has been told, and what it has still to do."""

    epoch: int = JOINING_EPOCH
    #: The one before: an answer with the present one may have been lost.
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    #: What it may have; all of it has been offered to it.
    assigned: Partitions = NO_PARTITIONS
    #: What it is to give up; nobody else gets it before it has.
    pending_revocation: Partitions = NO_PARTITIONS

    @property
    def held(self) -> Partitions:
        """All that nobody else may have."""
        if not self.pending_revocation:
            return self.assigned
        return self.assigned | self.pending_revocation


class ResolvedExpression(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that an expression matched when it was last looked at."""

    #: Sorted.
    topic_names: tuple[str, ...] = ()
    #: Grows with each evaluation.
    version: int = 0
    wall_ms: int = 0
