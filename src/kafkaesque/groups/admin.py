"""ListGroups, DescribeGroups and DeleteGroups, and what time takes away from groups."""

from functools import partial

from kafkaesque.groups.commits import write_in_parts
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.leftovers import tombstones
from kafkaesque.groups.consumer.records import ConsumerGroupKey, KeyKind
from kafkaesque.groups.context import Context
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import NOT_GIVEN, DeleteGroups, DescribeGroups, ListGroups
from kafkaesque.groups.group import Group, GroupState
from kafkaesque.groups.offsets import OffsetChange
from kafkaesque.groups.results import (
    CommittedOffset,
    DeleteGroupsResult,
    DescribedGroup,
    DescribeResult,
    ListResult,
)
from kafkaesque.tables.log_table import WriteToken

AnyGroup = Group | ConsumerGroup


class Admin:
    """Handles groups as things to look at and to throw away."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def on_list(self, listing: ListGroups) -> None:
        """List the groups that pass both filters."""
        states = [state.lower() for state in listing.states]
        types = [each.lower() for each in listing.types]
        lines = (group.listed() for group in self._all_groups())
        groups = tuple(
            line
            for line in lines
            if (not states or line.state.lower() in states)
            and (not types or line.group_type in types)
        )
        self._context.respond(listing.token, ListResult(error=GroupError.NONE, groups=groups))

    def _all_groups(self) -> list[AnyGroup]:
        context = self._context
        return [*context.groups.values(), *context.consumer_groups.values()]

    def on_describe(self, describe: DescribeGroups) -> None:
        """Show groups; one that is not there is Dead."""
        groups = self._context.groups
        described = tuple(
            groups[group_id].described()
            if group_id in groups
            else DescribedGroup(error=GroupError.GROUP_ID_NOT_FOUND, group_id=group_id)
            for group_id in describe.group_ids
        )
        self._context.respond(describe.token, DescribeResult(groups=described))

    def on_delete(self, delete: DeleteGroups) -> None:
        """Remove groups that have no members; answered when that is committed for all of them."""
        context = self._context
        outcomes: dict[str, GroupError] = {}
        waiting: list[str] = []

        def answer() -> None:
            groups = tuple((group_id, outcomes[group_id]) for group_id in delete.group_ids)
            context.respond(delete.token, DeleteGroupsResult(groups=groups))

        def on_removed(group_id: str, error: GroupError) -> None:
            if outcomes[group_id] is GroupError.NONE:
                outcomes[group_id] = error
            waiting.remove(group_id)
            if not waiting:
                answer()

        for group_id in dict.fromkeys(delete.group_ids):
            group: AnyGroup | None = context.groups.get(group_id)
            if group is None:
                group = context.consumer_groups.get(group_id)
            outcomes[group_id] = _check_delete(group)
            if group is None or outcomes[group_id] is not GroupError.NONE:
                continue
            # Also what is in open transactions, which would come back with their end.
            partitions = dict.fromkeys(
                (
                    *(partition for partition, _ in context.offsets.known_items(group_id)),
                    *context.pending.partitions(group_id),
                )
            )
            changes = [OffsetChange(group_id, partition, None) for partition in partitions]
            for token in self._remove(group, changes):
                waiting.append(group_id)
                context.writes.then_answer(token, partial(on_removed, group_id))
        if not waiting:
            answer()

    def _remove(self, group: AnyGroup, changes: list[OffsetChange]) -> list[WriteToken]:
        """Have a group and its offsets written off; it is gone at once for whoever comes now.

        Should that fail, the group is put back, unless there is a new one of its name.
        """
        context = self._context
        keys = context.leftovers.take(group.group_id)
        if isinstance(group, Group):
            del context.groups[group.group_id]
            context.cancel_all(group)
            keys[ConsumerGroupKey(KeyKind.CLASSIC_GROUP)] = None
        else:
            del context.consumer_groups[group.group_id]
            keys.update(group.stored_keys())
        _, records = tombstones(group.group_id, keys)

        outcomes: list[GroupError] = []

        def on_written(error: GroupError) -> None:
            outcomes.append(error)
            if error is not GroupError.NONE:
                self._put_back(group, keys)
            elif outcomes == [GroupError.NONE] * len(tokens) and isinstance(group, Group):
                group.transition(GroupState.DEAD, context.now.wall_ms)

        tokens = write_in_parts(context, changes, *records)
        for token in tokens:
            context.writes.then(token, on_written)
        return tokens

    def _put_back(self, group: AnyGroup, keys: dict[ConsumerGroupKey, None]) -> None:
        """Have it again; of its records, and those of others, nobody knows which are deleted."""
        context = self._context
        context.leftovers.add(group.group_id, keys)
        if group.group_id in context.groups or group.group_id in context.consumer_groups:
            return
        if isinstance(group, Group):
            context.groups[group.group_id] = group
        else:
            context.consumer_groups[group.group_id] = group

    def expire(self) -> None:
        """Remove offsets that nobody has cared for long enough, and groups with nothing left."""
        for group in self._all_groups():
            if self._context.is_over_bound:
                return
            self._expire_group(group)
        for group_id in self._context.leftovers.group_ids():
            if self._may_write_off(group_id) and not self._context.is_over_bound:
                self._context.write_off(group_id)

    def _may_write_off(self, group_id: str) -> bool:
        """Whether what is left of a group that is gone may be deleted without a further word.

        A group of the new kind takes care of it with its next write; so does a classic one in a
        rebalance, which need not have been stored yet since it took the other one's place.
        """
        classic = self._context.groups.get(group_id)
        is_settled = classic is None or classic.state in (GroupState.EMPTY, GroupState.STABLE)
        return is_settled and group_id not in self._context.consumer_groups

    def _expire_group(self, group: AnyGroup) -> None:
        """Remove what nobody has cared for; what open transactions have a hand in stays."""
        context = self._context
        pending = context.pending.partitions(group.group_id)
        expired: list[OffsetChange] = []
        is_all = not pending
        for partition, committed in context.offsets.known_items(group.group_id):
            is_free = partition not in pending and not group.is_subscribed(partition.topic)
            if is_free and self._is_expired(group, committed):
                expired.append(OffsetChange(group.group_id, partition, None))
            else:
                is_all = False
        is_coming = isinstance(group, Group) and bool(group.pending_joins)
        if is_all and group.is_empty and not is_coming:
            self._remove(group, expired)
        elif expired:
            write_in_parts(context, expired)

    def _is_expired(self, group: AnyGroup, committed: CommittedOffset) -> bool:
        """Whether the offset's time is over.

        It runs from when a classic group with members became empty; from the last commit where
        there never were any, where consumers have turned away from the topic, and in groups of the
        new kind. Source: KIP-211, and Apache Kafka's coordinator.
        """
        since_wall_ms = committed.commit_wall_ms
        if isinstance(group, Group) and group.protocol_type is not None:
            if group.state is GroupState.EMPTY:
                if group.state_since_wall_ms is not None:
                    since_wall_ms = group.state_since_wall_ms
            elif group.state is not GroupState.STABLE or group.subscribed_topics is None:
                return False
        now_wall_ms = self._context.now.wall_ms
        if committed.expire_wall_ms != NOT_GIVEN:
            return now_wall_ms >= committed.expire_wall_ms
        return now_wall_ms - since_wall_ms >= self._context.config.offsets_retention_ms


def _check_delete(group: AnyGroup | None) -> GroupError:
    if group is None:
        return GroupError.GROUP_ID_NOT_FOUND
    return GroupError.NONE if group.is_empty else GroupError.NON_EMPTY_GROUP
