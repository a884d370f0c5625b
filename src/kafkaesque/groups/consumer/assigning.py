"""From a group's subscriptions to its target."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kafkaesque.groups.consumer.assignors import Assignor, Subscriber
from kafkaesque.groups.consumer.expressions import Expressions
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.range_assignor import assign_ranges
from kafkaesque.groups.consumer.states import ResolvedExpression
from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Topic, TopicCatalog, metadata_hash
from kafkaesque.groups.consumer.uniform_assignor import assign_uniformly

_ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)
#: Members, partitions, and where members subscribe to different topics what each subscribes to: a
#: target of fewer is computed without a rest. That takes a few milliseconds at most.
SMALL_WORK_MAX: Final = 1_000
#: So much of it takes 0.05 to 0.2 ms of processor time with either assignor, whatever the
#: subscriptions and the history, up to 10,000 members and 10,000 partitions.
WORK_PER_MS: Final = 25


def refresh_topics(
    group: ConsumerGroup, topics: TopicCatalog, expressions: Expressions, wall_ms: int
) -> int:
    """Look the group's topics up anew; return the hash of what its assignment depends on."""
    used = group.used_expressions()
    for expression in sorted(used):
        known = group.expressions.get(expression)
        names = expressions.matches(expression, topics)
        if known is None or known.topic_names != names:
            version = 1 if known is None else known.version + 1
            resolved = ResolvedExpression(topic_names=names, version=version, wall_ms=wall_ms)
            group.put_expression(expression, resolved)
    for expression in sorted(set(group.expressions) - used):
        group.put_expression(expression, None)
    group.topics_seen = topics
    return metadata_hash(_existing(group, topics))


def assign(group: ConsumerGroup, topics: TopicCatalog, supported: tuple[str, ...]) -> int:
    """Compute the target of the group's present epoch; return how much work that was."""
    by_id = {topic.topic_id: topic for topic in _existing(group, topics)}
    # Members with the same subscription share it, which thousands of them usually do.
    topic_ids = {
        each: frozenset(
            topics.by_name[name].topic_id
            for name in group.topic_names_of(each)
            if name in topics.by_name
        )
        for each in group.subscriptions
    }
    subscribers = {
        member_id: Subscriber(
            topic_ids=topic_ids[member.subscription],
            rack_id=member.rack_id,
            instance_id=member.instance_id,
            previous=group.target.get(member_id, NO_PARTITIONS),
        )
        for member_id, member in group.members.items()
    }
    group.assignor = group.preferred_assignor(supported)
    group.put_target(_ASSIGNORS[group.assignor](subscribers, by_id))
    partitions = sum(topic.partition_count for topic in by_id.values())
    subscribed = sum(len(topic_ids[each]) * count for each, count in group.subscriptions.items())
    return len(subscribers) + partitions + (subscribed if len(topic_ids) > 1 else 0)


def rest_ms(work: int) -> int:
    """Return how long a group is to wait after a target before it gets the next one.

    So thousands of members that come at once take only a part of the broker's time from everybody
    else. They have their places with one of the next targets.
    """
    return 0 if work < SMALL_WORK_MAX else work // WORK_PER_MS


def _existing(group: ConsumerGroup, topics: TopicCatalog) -> list[Topic]:
    return [topics.by_name[name] for name in group.subscribed_topics if name in topics.by_name]
