"""The assignor "range": each topic is cut into as many consecutive pieces as it has subscribers.

The pieces of one topic differ by one partition at most. Members stand in one order for all topics,
so that the same member has the same piece of all topics that have the same subscribers and as many
partitions: what belongs together can be joined by one consumer. The order is that in which they
stood before, and newcomers stand at the end, so that members who stay keep their places.
"""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final

from kafkaesque.groups.consumer.assignors import Subscriber, subscribers_by_topic
from kafkaesque.groups.consumer.topics import Partitions, Topic, TopicIdPartition
from kafkaesque.model.ids import TopicId

#: So many "stands behind" are looked at to find an order in which everybody stands as before.
_CONSTRAINTS_MAX: Final = 200_000


def assign_ranges(
    members: Mapping[str, Subscriber], topics: Mapping[TopicId, Topic]
) -> dict[str, Partitions]:
    """Assign consecutive partitions of each topic to its subscribers."""
    names = sorted(members, key=lambda each: _name(each, members))
    order = _order(names, subscribers_by_topic(names, members, topics), members)
    held: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in members}
    for topic_id, member_ids in subscribers_by_topic(order, members, topics).items():
        count = topics[topic_id].partition_count
        size, extra = divmod(count, len(member_ids))
        begin = 0
        # Where there are fewer partitions than subscribers, the others get nothing.
        for position, member_id in enumerate(member_ids[:count]):
            end = begin + size + (position < extra)
            held[member_id] += [TopicIdPartition(topic_id, each) for each in range(begin, end)]
            begin = end
    return {member_id: frozenset(partitions) for member_id, partitions in held.items()}


def _name(member_id: str, members: Mapping[str, Subscriber]) -> tuple[bool, str, str]:
    """Return a name that outlives a restart; static members stand first, as in Kafka."""
    instance_id = members[member_id].instance_id
    return instance_id is None, instance_id or "", member_id


def _order(
    names: list[str], subscribers: Mapping[TopicId, list[str]], members: Mapping[str, Subscriber]
) -> list[str]:
    """Return an order in which members have what they had before, as far as there is one.

    Of each topic, those who had something of it stand as they stood, and before those who had
    nothing. Where no order does that for all topics, because another assignor was at work, or to
    find it would take too long, it is that of names.
    """
    first = {member_id: _first_partitions(members[member_id].previous) for member_id in names}
    holders: dict[TopicId, list[str]] = {}
    for member_id in names:
        for topic_id in first[member_id]:
            holders.setdefault(topic_id, []).append(member_id)
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for member_id in names:
        sorter.add(member_id)
    constraints = 0
    # Topics that are alike, which many usually are, say the same.
    seen: set[tuple[int, tuple[str, ...]]] = set()
    for topic_id, member_ids in subscribers.items():
        standing = [
            each for each in holders.get(topic_id, ()) if topic_id in members[each].topic_ids
        ]
        standing.sort(key=lambda each: first[each][topic_id])
        # The list is shared by the topics that have the same subscribers.
        said = (id(member_ids), tuple(standing))
        if not standing or said in seen:
            continue
        seen.add(said)
        constraints += len(member_ids)
        if constraints > _CONSTRAINTS_MAX:
            return names
        for before, after in pairwise(standing):
            sorter.add(after, before)
        is_standing = set(standing)
        for member_id in member_ids:
            if member_id not in is_standing:
                sorter.add(member_id, standing[-1])
    try:
        return list(sorter.static_order())
    except CycleError:
        return names


def _first_partitions(partitions: Partitions) -> dict[TopicId, int]:
    """Return the lowest partition of each topic."""
    found: dict[TopicId, int] = {}
    for topic_id, partition in partitions:
        found[topic_id] = min(partition, found.get(topic_id, partition))
    return found
