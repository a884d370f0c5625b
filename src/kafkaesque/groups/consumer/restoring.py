"""Groups of the new kind, from the records of the log."""

from collections.abc import Container
from typing import Any

from msgspec.structs import replace

from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.leftovers import Leftovers
from kafkaesque.groups.consumer.records import (
    ConsumerGroupKey,
    GroupEpoch,
    KeyKind,
    read_current,
    read_expression,
    read_group_epoch,
    read_member,
    read_partitions,
    read_target_epoch,
)
from kafkaesque.groups.consumer.states import CurrentAssignment
from kafkaesque.groups.consumer.topics import NO_PARTITIONS, TopicIdPartition

_READERS = {
    KeyKind.GROUP: read_group_epoch,
    KeyKind.MEMBER: read_member,
    KeyKind.TARGET_MEMBER: read_partitions,
    KeyKind.TARGET: read_target_epoch,
    KeyKind.CURRENT: read_current,
    KeyKind.EXPRESSION: read_expression,
}
_OF_MEMBERS = (KeyKind.MEMBER, KeyKind.TARGET_MEMBER, KeyKind.CURRENT)


class ConsumerGroupLoader:
    """The last value of each key, while the log is replayed."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[ConsumerGroupKey, Any]] = {}

    def replay(self, group_id: str, key: ConsumerGroupKey, value: bytes | None) -> None:
        """Take over one record.

        Raises:
            BadGroupRecord: its value is not what its version promises.
        """
        if value is not None:
            read = _READERS[key.kind](value)
            self._groups.setdefault(group_id, {})[key] = read
        elif group_id in self._groups:
            self._groups[group_id].pop(key, None)
            if not self._groups[group_id]:
                del self._groups[group_id]

    def take(self, classic: Container[str], leftovers: Leftovers) -> list[ConsumerGroup]:
        """Return the groups; what is no group any more is left over from a write that failed.

        Of two of one name the classic one counts: either it has taken the other one's place, whose
        records are not deleted yet, or the other was about to take its place and is not complete.
        """
        groups, self._groups = self._groups, {}
        restored: list[ConsumerGroup] = []
        for group_id, values in groups.items():
            if ConsumerGroupKey(KeyKind.GROUP) in values and group_id not in classic:
                restored.append(_restored(group_id, values))
            else:
                leftovers.add(group_id, values)
        return restored


def _restored(group_id: str, values: dict[ConsumerGroupKey, Any]) -> ConsumerGroup:
    group = ConsumerGroup(group_id)
    stored: GroupEpoch = values[ConsumerGroupKey(KeyKind.GROUP)]
    group.epoch, group.metadata_hash = stored
    group.target_epoch = values.get(ConsumerGroupKey(KeyKind.TARGET), 0)
    for key, value in values.items():
        if key.kind is KeyKind.EXPRESSION:
            group.put_expression(key.name, value)
        elif key.kind is KeyKind.MEMBER:
            # The same instance twice cannot have been written by a coordinator.
            if value.instance_id not in group.static_members:
                group.put_member(key.name, value)
    _restore_currents(group, values)
    is_whole = _restore_target(group, values)
    # What is there of members who are gone is deleted with the next write.
    group.dirty = {
        key: None for key in values if key.kind in _OF_MEMBERS and key.name not in group.members
    }
    newest = max((current.epoch for current in group.currents.values()), default=0)
    if newest > group.target_epoch or not is_whole:
        # The target that it follows is missing: only another one, of a later epoch, helps.
        group.epoch = max(group.epoch, newest + 1, group.target_epoch + 1)
        group.mark(KeyKind.GROUP)
    return group


def _restore_target(group: ConsumerGroup, values: dict[ConsumerGroupKey, Any]) -> bool:
    """Take over who is to have what; return whether it can be the target of one epoch.

    A write of which only a part is in the log may have left some of one and some of another. One
    that is older than the group need not be whole, because it is computed again.
    """
    keys = {each: ConsumerGroupKey(KeyKind.TARGET_MEMBER, each) for each in group.members}
    group.target = {each: values.get(key, NO_PARTITIONS) for each, key in keys.items()}
    if group.target_epoch < group.epoch:
        return True
    is_known = all(key in values for key in keys.values())
    count = sum(map(len, group.target.values()))
    is_disjoint = count == len(NO_PARTITIONS.union(*group.target.values()))
    return is_known and is_disjoint and group.target_epoch == group.epoch


def _restore_currents(group: ConsumerGroup, values: dict[ConsumerGroupKey, Any]) -> None:
    """Take over where members are.

    Of two who have the same partition, the one with the higher epoch has it: it was given it after
    the other one had given it up. A member without a record begins again.
    """
    currents: dict[str, CurrentAssignment] = {
        member_id: values.get(ConsumerGroupKey(KeyKind.CURRENT, member_id), CurrentAssignment())
        for member_id in group.members
    }
    taken: set[TopicIdPartition] = set()
    for member_id in sorted(currents, key=lambda each: (-currents[each].epoch, each)):
        current = currents[member_id]
        if not taken.isdisjoint(current.held):
            current = replace(
                current,
                assigned=current.assigned - taken,
                pending_revocation=current.pending_revocation - taken,
            )
        taken |= current.held
        group.put_current(member_id, current)
