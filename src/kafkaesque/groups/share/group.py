"""One share group's members, as its coordinator knows them.

Members are soft state: a coordinator that has just become it knows none, and each member that asks
is told to join again. Nothing is lost by that, because a partition is nobody's own: what is locked,
settled and tried is kept by the cursors.

Members that come and go within `share.assignment.interval.ms` of an assignment are considered by
the next one, together (KIP-1263): each assignment takes partitions from members that are reading
them. Until then, members that ask are told to ask again soon. A change of topics is not put off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaesque.groups.consumer.topics import TopicIdPartition
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.share.assignor import assign
from kafkaesque.model.ids import TopicId

#: Member epochs of requests that join and leave.
JOINS, LEAVES = 0, -1

Topics = Mapping[str, tuple[TopicId, int]]


class ShareHeartbeat(NamedTuple):
    """What a member says."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    #: None: as before.
    topic_names: frozenset[str] | None
    client_id: str
    client_host: str


class ShareHeartbeatResult(NamedTuple):
    """What it is told."""

    error: GroupError
    member_epoch: int = 0
    #: None: as before.
    assignment: frozenset[TopicIdPartition] | None = None
    #: When to ask again, if that is before the next heartbeat is due.
    again_ms: int | None = None


@dataclass(slots=True)
class ShareMember:
    """One member."""

    member_id: str
    client_id: str
    client_host: str
    rack_id: str | None = None
    topic_names: frozenset[str] = frozenset()
    epoch: int = 0
    #: The epoch before, which a member has that has lost an answer.
    epoch_before: int = 0
    deadline_ms: int = 0
    assignment: frozenset[TopicIdPartition] = frozenset()
    #: What it was told last.
    told: frozenset[TopicIdPartition] | None = None


@dataclass(slots=True)
class ShareGroup:
    """One group; `epoch` rises with each assignment."""

    group_id: str
    epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    #: The topics of which partitions were assigned, as they were.
    topics: dict[str, tuple[TopicId, int]] = field(default_factory=dict)
    #: Members have changed since the last assignment.
    is_stale: bool = False
    #: When the last assignment was made.
    assigned_ms: int = 0

    @property
    def state(self) -> str:
        """Kafka's name."""
        return "Stable" if self.members else "Empty"

    @property
    def topic_names(self) -> frozenset[str]:
        """All topics that any member wants."""
        return frozenset(name for each in self.members.values() for name in each.topic_names)

    def heartbeat(
        self,
        asked: ShareHeartbeat,
        topics: Topics,
        *,
        now_ms: int,
        session_ms: int,
        interval_ms: int,
        members_max: int,
    ) -> ShareHeartbeatResult:
        """Take a member's word; `topics` are those that there are, with the cursors' partitions.

        Members that have changed less than `interval_ms` after an assignment wait for the next one.
        """
        self.expire(now_ms)
        member = self.members.get(asked.member_id)
        if asked.member_epoch == LEAVES:
            if member is None:
                return ShareHeartbeatResult(GroupError.UNKNOWN_MEMBER_ID)
            del self.members[asked.member_id]
            self.is_stale = True
            self._assign(topics, now_ms, interval_ms)
            return ShareHeartbeatResult(GroupError.NONE, LEAVES)
        if asked.member_epoch == JOINS:
            if member is None and len(self.members) >= members_max:
                return ShareHeartbeatResult(GroupError.GROUP_MAX_SIZE_REACHED)
            member = self._join(asked, member)
        elif member is None:
            return ShareHeartbeatResult(GroupError.UNKNOWN_MEMBER_ID)
        elif asked.member_epoch not in (member.epoch, member.epoch_before):
            return ShareHeartbeatResult(GroupError.FENCED_MEMBER_EPOCH)
        elif asked.member_epoch != member.epoch:
            member.told = None
        if asked.member_epoch == JOINS:
            self.is_stale = True
        if asked.topic_names is not None and asked.topic_names != member.topic_names:
            member.topic_names = asked.topic_names
            self.is_stale = True
        member.deadline_ms = now_ms + session_ms
        self._assign(topics, now_ms, interval_ms)
        wait_ms = self._wait_ms(now_ms, interval_ms)
        return self._answer(member, wait_ms if self.is_stale else None)

    def _join(self, asked: ShareHeartbeat, member: ShareMember | None) -> ShareMember:
        if member is None:
            member = ShareMember(asked.member_id, asked.client_id, asked.client_host)
            self.members[asked.member_id] = member
        member.rack_id, member.told = asked.rack_id, None
        return member

    def _answer(self, member: ShareMember, again_ms: int | None) -> ShareHeartbeatResult:
        if member.epoch != self.epoch:
            member.epoch_before, member.epoch = member.epoch, self.epoch
        assignment = None
        if member.told != member.assignment:
            assignment = member.told = member.assignment
        return ShareHeartbeatResult(GroupError.NONE, member.epoch, assignment, again_ms)

    def expire(self, now_ms: int) -> None:
        """Let members be gone that have not been heard of for too long."""
        gone = [each for each, member in self.members.items() if member.deadline_ms <= now_ms]
        for each in gone:
            del self.members[each]
            self.is_stale = True

    def _wait_ms(self, now_ms: int, interval_ms: int) -> int:
        """Return for how long members that have changed wait for the next assignment."""
        if not any(each.assignment for each in self.members.values()):
            return 0  # it takes nothing from anybody
        return max(0, self.assigned_ms + interval_ms - now_ms)

    def _assign(self, topics: Topics, now_ms: int, interval_ms: int) -> None:
        """Assign anew if anything has changed, and it is not to wait."""
        wanted = {name: topics[name] for name in self.topic_names if name in topics}
        is_due = self.is_stale and not self._wait_ms(now_ms, interval_ms)
        if not is_due and wanted == self.topics:
            return
        self.topics, self.is_stale = wanted, False
        self.epoch += 1
        subscriptions = {each: member.topic_names for each, member in self.members.items()}
        for each, partitions in assign(subscriptions, wanted).items():
            self.members[each].assignment = partitions
        self.assigned_ms = now_ms
