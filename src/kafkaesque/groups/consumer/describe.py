"""Groups of the new kind, for people."""

from kafkaesque.groups.consumer.events import ConsumerGroupDescribe
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.results import (
    ConsumerDescribeResult,
    DescribedConsumer,
    DescribedConsumerGroup,
    NamedPartitions,
)
from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Partitions, TopicCatalog
from kafkaesque.groups.context import Context
from kafkaesque.groups.errors import GroupError
from kafkaesque.model.ids import TopicId


class Describer:
    """Handles ConsumerGroupDescribe."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def on_describe(self, describe: ConsumerGroupDescribe) -> None:
        """Show groups; one that is not there, or is of the classic kind, is an error."""
        groups = tuple(map(self._described, describe.group_ids))
        self._context.respond(describe.token, ConsumerDescribeResult(groups=groups))

    def _described(self, group_id: str) -> DescribedConsumerGroup:
        group = self._context.consumer_groups.get(group_id)
        if group is None:
            is_classic = group_id in self._context.groups
            what = "is not a consumer group" if is_classic else "not found"
            return DescribedConsumerGroup(
                error=GroupError.GROUP_ID_NOT_FOUND,
                group_id=group_id,
                message=f"Group {group_id} {what}."[:1_000],
            )
        topics = self._context.topics
        return DescribedConsumerGroup(
            error=GroupError.NONE,
            group_id=group_id,
            state=group.state.value,
            group_epoch=group.epoch,
            target_epoch=group.target_epoch,
            assignor=group.assignor
            or group.preferred_assignor(self._context.config.consumer.assignors),
            members=tuple(_member(group, each, topics) for each in group.members),
        )


def _member(group: ConsumerGroup, member_id: str, topics: TopicCatalog) -> DescribedConsumer:
    member = group.members[member_id]
    current = group.currents[member_id]
    target = group.target.get(member_id, NO_PARTITIONS)
    return DescribedConsumer(
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=member.topic_names,
        topic_expression=member.topic_expression,
        assignment=_named(current.assigned, topics),
        target_assignment=_named(target, topics),
        is_classic=member.classic is not None,
    )


def _named(partitions: Partitions, topics: TopicCatalog) -> tuple[NamedPartitions, ...]:
    """Return partitions by topic; those of topics that are gone are left out."""
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return tuple(
        NamedPartitions(topic_id, topics.by_id[topic_id].name, tuple(indexes))
        for topic_id, indexes in by_topic.items()
        if topic_id in topics.by_id
    )
