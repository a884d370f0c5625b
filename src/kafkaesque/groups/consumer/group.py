"""One group whose partitions the coordinator assigns: its members, its target, who holds what.

Theory of operation. A group has an *epoch*, which grows whenever something changes that its
assignment depends on: a member comes, goes or subscribes to something else, a topic comes, grows
or vanishes. The *target* says who is to have what, and carries the epoch that it was computed for.
Each member has an epoch of its own and follows the target at its own pace (`reconciliation.py`); a
partition is held by one member at a time, and `holder` says by which.

The state is in memory first. What was changed is noted by its record's key (`mark`); whoever
changed it has the records written and answers when they are committed. A group has one write in
flight at most, so that each builds upon what is in the log; of one that is cut into parts the log
may have the first ones only. Keys whose write failed are marked again: the next write of the group
brings them, and nobody is told before what depends on them.
"""

from collections import Counter
from enum import Enum

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.records import (
    KEY_ORDER,
    ConsumerGroupKey,
    GroupEpoch,
    KeyKind,
    write_consumer_key,
    write_current,
    write_expression,
    write_group_epoch,
    write_member,
    write_partitions,
    write_target_epoch,
)
from kafkaesque.groups.consumer.states import (
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
    Subscription,
)
from kafkaesque.groups.consumer.topics import (
    NO_PARTITIONS,
    Partitions,
    TopicCatalog,
    TopicIdPartition,
)
from kafkaesque.groups.results import ListedGroup
from kafkaesque.groups.subscription import CONSUMER_PROTOCOL_TYPE
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.tables.log_table import LogRecord, WriteToken

GROUP_TYPE = "consumer"


class ConsumerGroupState(Enum):
    """States of a group; the values are the names that clients see."""

    EMPTY = "Empty"
    #: The target is older than the group.
    ASSIGNING = "Assigning"
    #: Some member is on its way to the target.
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """The books of one group."""

    __slots__ = (
        "_holders",
        "_subscribed",
        "assignor",
        "currents",
        "different_topics",
        "dirty",
        "epoch",
        "expressions",
        "group_id",
        "has_failed",
        "in_flight",
        "members",
        "metadata_hash",
        "static_members",
        "subscription_bytes",
        "subscriptions",
        "target",
        "target_due_ms",
        "target_epoch",
        "topics_seen",
        "writes_begun",
        "writes_done",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        #: Of the topics that the group was last assigned with.
        self.metadata_hash = 0
        self.target_epoch = 0
        #: The time at which the next target may be computed; what asks for it before has to wait.
        self.target_due_ms = 0
        #: The one that computed the target; empty if that was another coordinator's.
        self.assignor = ""
        self.members: dict[str, MemberMetadata] = {}
        #: Of each member, where it is.
        self.currents: dict[str, CurrentAssignment] = {}
        #: What members subscribe to, and how many of them to the same.
        self.subscriptions: dict[Subscription, int] = {}
        #: How many topic names these have, in all.
        self.different_topics = 0
        #: What all members say of what they want takes.
        self.subscription_bytes = 0
        #: instance id -> member id
        self.static_members: dict[str, str] = {}
        #: Of members that are to have something, what.
        self.target: dict[str, Partitions] = {}
        self.expressions: dict[str, ResolvedExpression] = {}
        #: What the group's topics were last looked up in.
        self.topics_seen: TopicCatalog | None = None
        self._holders: dict[TopicIdPartition, str] = {}
        self._subscribed: frozenset[str] | None = None
        #: Keys whose records are to be written.
        self.dirty: dict[ConsumerGroupKey, None] = {}
        #: Keys whose records are being written, by the parts of the one write in flight.
        self.in_flight: dict[WriteToken, tuple[ConsumerGroupKey, ...]] = {}
        #: A part of it has failed.
        self.has_failed = False
        self.writes_begun = 0
        #: The number of the last one that is committed as a whole.
        self.writes_done = 0

    # --- views ---

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether it is known what it consumes: always."""
        return True

    @property
    def state(self) -> ConsumerGroupState:
        """What the group is busy with."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        is_settled = all(map(self._is_settled, self.members))
        return ConsumerGroupState.STABLE if is_settled else ConsumerGroupState.RECONCILING

    def _is_settled(self, member_id: str) -> bool:
        """Whether the member has its target.

        A classic member learns a new epoch only when there is something for it to do.
        """
        current = self.currents[member_id]
        if current.state is not MemberState.STABLE:
            return False
        if self.members[member_id].classic is not None:
            return current.assigned == self.target.get(member_id, NO_PARTITIONS)
        return current.epoch == self.target_epoch

    def holder(self, partition: TopicIdPartition) -> str | None:
        """Return the member that nobody may have the partition beside."""
        return self._holders.get(partition)

    def topic_names_of(self, subscription: Subscription) -> frozenset[str]:
        """Return what is subscribed to, by name or by expression."""
        if not subscription.topic_expression:
            return frozenset(subscription.topic_names)
        resolved = self.expressions.get(subscription.topic_expression, ResolvedExpression())
        return frozenset((*subscription.topic_names, *resolved.topic_names))

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics that some member subscribes to; they need not exist."""
        if self._subscribed is None:
            self._subscribed = frozenset().union(*map(self.topic_names_of, self.subscriptions))
        return self._subscribed

    def is_subscribed(self, topic: str) -> bool:
        """Whether some member subscribes to the topic."""
        return topic in self.subscribed_topics

    def used_expressions(self) -> set[str]:
        """Return the expressions that members subscribe by."""
        return {each.topic_expression for each in self.subscriptions if each.topic_expression}

    def preferred_assignor(self, supported: tuple[str, ...]) -> str:
        """Return the assignor that most members ask for, or else the coordinator's first."""
        votes = Counter(each.assignor for each in self.members.values() if each.assignor)
        known = [(votes[each], -position, each) for position, each in enumerate(supported)]
        return max(known)[2]

    def overflow(self, known_id: str, member: MemberMetadata, config: GroupConfig) -> str | None:
        """Return which bound the group would go beyond with what a member says of itself.

        Who asks for no more than before never meets one.
        """
        known = self.members.get(known_id)
        added = member.subscription_bytes - (known.subscription_bytes if known else 0)
        size_max = config.group_subscriptions_bytes_max
        if added > 0 and self.subscription_bytes + added > size_max:
            return f"{size_max} bytes of subscriptions"
        if member.subscription in self.subscriptions:
            return None
        topics = len(member.topic_names)
        if known is not None and self.subscriptions[known.subscription] == 1:
            topics -= len(known.topic_names)
        topics_max = config.consumer.different_topics_max
        if topics > 0 and self.different_topics + topics > topics_max:
            return f"{topics_max} topics in subscriptions that differ"
        expressions_max = config.consumer.different_expressions_max
        is_new = member.topic_expression and member.topic_expression not in self.expressions
        if is_new and len(self.expressions) >= expressions_max:
            return f"{expressions_max} different expressions"
        return None

    def listed(self) -> ListedGroup:
        """Return the group's line in a list."""
        return ListedGroup(self.group_id, CONSUMER_PROTOCOL_TYPE, self.state.value, GROUP_TYPE)

    # --- changes ---

    def mark(self, kind: KeyKind, name: str = "") -> None:
        """Note that a record is to be written."""
        self.dirty[ConsumerGroupKey(kind, name)] = None

    def bump(self, metadata_hash: int | None = None) -> None:
        """Go to the next epoch."""
        self.epoch += 1
        if metadata_hash is not None:
            self.metadata_hash = metadata_hash
        self.mark(KeyKind.GROUP)

    def put_member(self, member_id: str, member: MemberMetadata) -> None:
        """Take over what a member says about itself; a new one has nothing yet."""
        known = self.members.get(member_id)
        if known is not None and known.instance_id is not None:
            self.static_members.pop(known.instance_id, None)
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise InvariantBroken(f"instance {member.instance_id} is in {self.group_id!r}")
            self.static_members[member.instance_id] = member_id
        if known is not None:
            self._forget_subscription(known)
        self.members[member_id] = member
        self._note_subscription(member)
        self.mark(KeyKind.MEMBER, member_id)
        if known is None:
            self.put_current(member_id, CurrentAssignment())

    def _note_subscription(self, member: MemberMetadata) -> None:
        count = self.subscriptions.get(member.subscription, 0)
        self.subscriptions[member.subscription] = count + 1
        self.subscription_bytes += member.subscription_bytes
        if not count:
            self.different_topics += len(member.topic_names)
            self._subscribed = None

    def _forget_subscription(self, member: MemberMetadata) -> None:
        self.subscriptions[member.subscription] -= 1
        self.subscription_bytes -= member.subscription_bytes
        if not self.subscriptions[member.subscription]:
            del self.subscriptions[member.subscription]
            self.different_topics -= len(member.topic_names)
            self._subscribed = None

    def put_current(self, member_id: str, current: CurrentAssignment) -> None:
        """Take over where a member is."""
        known = self.currents.get(member_id)
        held = current.held
        if known is not None:
            for each in known.held - held:
                del self._holders[each]
        for each in held:
            if self._holders.setdefault(each, member_id) != member_id:
                raise InvariantBroken(f"{each} of {self.group_id!r} has a holder already")
        self.currents[member_id] = current
        self.mark(KeyKind.CURRENT, member_id)

    def put_target(self, target: dict[str, Partitions]) -> None:
        """Take over a new target, for the group's present epoch."""
        for member_id in (*self.target, *target):
            if self.target.get(member_id) != target.get(member_id):
                self.mark(KeyKind.TARGET_MEMBER, member_id)
        self.target = target
        self.target_epoch = self.epoch
        self.mark(KeyKind.TARGET)

    def put_expression(self, expression: str, resolved: ResolvedExpression | None) -> None:
        """Take over what an expression matches, or that nobody uses it any more."""
        if resolved is None:
            del self.expressions[expression]
        else:
            self.expressions[expression] = resolved
        self._subscribed = None
        self.mark(KeyKind.EXPRESSION, expression)

    def remove_member(self, member_id: str) -> None:
        """Remove a member; what it held is free."""
        member = self.members.pop(member_id)
        for each in self.currents.pop(member_id).held:
            del self._holders[each]
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        self.target.pop(member_id, None)
        self._forget_subscription(member)
        for kind in (KeyKind.MEMBER, KeyKind.TARGET_MEMBER, KeyKind.CURRENT):
            self.mark(kind, member_id)

    def rename_member(self, old_id: str, new_id: str) -> None:
        """Let a static member that comes back under another id have what it had."""
        member, current = self.members[old_id], self.currents[old_id]
        target = self.target.get(old_id)
        self.remove_member(old_id)
        self.put_member(new_id, member)
        self.put_current(new_id, current)
        if target is not None:
            self.target[new_id] = target
            self.mark(KeyKind.TARGET_MEMBER, new_id)

    # --- records ---

    def take_dirty(self) -> list[ConsumerGroupKey]:
        """Return the keys to be written, in the order of the records; they are the caller's now."""
        keys = sorted(self.dirty, key=lambda key: KEY_ORDER[key.kind])
        self.dirty = {}
        return keys

    def record(self, key: ConsumerGroupKey) -> LogRecord:
        """Return what is to be stored for a key now."""
        return LogRecord(write_consumer_key(self.group_id, key), self._value(key))

    def stored_keys(self) -> dict[ConsumerGroupKey, None]:
        """Return all keys that may have a record in the log."""
        keys = {ConsumerGroupKey(KeyKind.GROUP): None, ConsumerGroupKey(KeyKind.TARGET): None}
        for written in (self.dirty, *self.in_flight.values()):
            keys.update(dict.fromkeys(written))
        for member_id in self.members:
            for kind in (KeyKind.MEMBER, KeyKind.TARGET_MEMBER, KeyKind.CURRENT):
                keys[ConsumerGroupKey(kind, member_id)] = None
        for expression in self.expressions:
            keys[ConsumerGroupKey(KeyKind.EXPRESSION, expression)] = None
        return keys

    def _value(self, key: ConsumerGroupKey) -> bytes | None:
        match key.kind:
            case KeyKind.CLASSIC_GROUP:
                return None
            case KeyKind.GROUP:
                return write_group_epoch(GroupEpoch(self.epoch, self.metadata_hash))
            case KeyKind.TARGET:
                return write_target_epoch(self.target_epoch)
            case KeyKind.MEMBER:
                member = self.members.get(key.name)
                return None if member is None else write_member(member)
            case KeyKind.TARGET_MEMBER:
                if key.name not in self.members:
                    return None
                return write_partitions(self.target.get(key.name, NO_PARTITIONS))
            case KeyKind.CURRENT:
                current = self.currents.get(key.name)
                return None if current is None else write_current(current)
            case KeyKind.EXPRESSION:
                resolved = self.expressions.get(key.name)
                return None if resolved is None else write_expression(resolved)
