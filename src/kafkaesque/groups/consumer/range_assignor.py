"""The assignor "range": each topic is cut into as many consecutive pieces as it has subscribers.

The pieces of one topic differ by one partition at most. Members stand in one order for all topics,
so that the same member has the same piece of all topics that have the same subscribers and as many
partitions: what belongs together can be joined by one consumer. The order is that in which they
stood before, and newcomers stand at the end, so that members who stay keep their places.
"""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from kafkaesque.groups.consumer.assignors import Subscriber
from kafkaesque.groups.consumer.topics import Partitions, Topic, TopicIdPartition
from kafkaesque.model.ids import TopicId


def assign_ranges(
    members: Mapping[str, Subscriber], topics: Mapping[TopicId, Topic]
) -> dict[str, Partitions]:
    """Assign consecutive partitions of each topic to its subscribers."""
    by_name = _subscribers(sorted(members, key=lambda each: _name(each, members)), members, topics)
    held: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in members}
    for topic_id, member_ids in _subscribers(_order(by_name, members), members, topics).items():
        size, extra = divmod(topics[topic_id].partition_count, len(member_ids))
        begin = 0
        for position, member_id in enumerate(member_ids):
            end = begin + size + (position < extra)
            held[member_id] += [TopicIdPartition(topic_id, each) for each in range(begin, end)]
            begin = end
    return {member_id: frozenset(partitions) for member_id, partitions in held.items()}


def _name(member_id: str, members: Mapping[str, Subscriber]) -> tuple[bool, str, str]:
    """Return a name that outlives a restart; static members stand first, as in Kafka."""
    instance_id = members[member_id].instance_id
    return instance_id is None, instance_id or "", member_id


def _subscribers(
    order: list[str], members: Mapping[str, Subscriber], topics: Mapping[TopicId, Topic]
) -> dict[TopicId, list[str]]:
    """Return each topic's subscribers in an order."""
    found: dict[TopicId, list[str]] = {
        topic_id: [] for topic_id in sorted(topics, key=lambda each: topics[each].name)
    }
    for member_id in order:
        for topic_id in members[member_id].topic_ids:
            if topic_id in found:
                found[topic_id].append(member_id)
    return {topic_id: member_ids for topic_id, member_ids in found.items() if member_ids}


def _order(
    subscribers: Mapping[TopicId, list[str]], members: Mapping[str, Subscriber]
) -> list[str]:
    """Return an order in which members have what they had before, as far as there is one.

    Of each topic, those who had something of it stand as they stood, and before those who had
    nothing. Where no order does that for all topics, because another assignor was at work, it is
    that of names.
    """
    by_name = sorted(members, key=lambda each: _name(each, members))
    first = {member_id: _first_partitions(members[member_id].previous) for member_id in by_name}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for member_id in by_name:
        sorter.add(member_id)
    # Topics that are alike, which many usually are, say the same.
    seen: set[tuple[str, ...]] = set()
    for topic_id, member_ids in subscribers.items():
        holders = [each for each in member_ids if topic_id in first[each]]
        holders.sort(key=lambda each: first[each][topic_id])
        others = [each for each in member_ids if topic_id not in first[each]]
        if not holders or (said := (*holders, "", *others)) in seen:
            continue
        seen.add(said)
        for before, after in pairwise(holders):
            sorter.add(after, before)
        for member_id in others:
            sorter.add(member_id, holders[-1])
    try:
        return list(sorter.static_order())
    except CycleError:
        return by_name


def _first_partitions(partitions: Partitions) -> dict[TopicId, int]:
    """Return the lowest partition of each topic."""
    found: dict[TopicId, int] = {}
    for topic_id, partition in partitions:
        found[topic_id] = min(partition, found.get(topic_id, partition))
    return found
