"""Who is to have which partitions: pure functions, by the names that clients choose them by.

An assignor gets every member with its subscription, its rack and what it was to have until now, and
every topic that somebody subscribes to. It gives every partition of a subscribed topic to exactly
one member that subscribes to it. The same input gives the same output.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Partitions, Topic
from kafkaesque.model.ids import TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member, as an assignor sees it."""

    #: Topics that it wants and that exist.
    topic_ids: frozenset[TopicId]
    rack_id: str | None = None
    #: Stays the same across restarts, which the member's id does not.
    instance_id: str | None = None
    #: What it was to have until now.
    previous: Partitions = NO_PARTITIONS


#: Members by id, topics by id; every member is in the result.
Assignor = Callable[[Mapping[str, Subscriber], Mapping[TopicId, Topic]], dict[str, Partitions]]


def subscribers_by_topic(
    order: Iterable[str], members: Mapping[str, Subscriber], topics: Mapping[TopicId, Topic]
) -> dict[TopicId, list[str]]:
    """Return each topic's subscribers in an order; topics that nobody wants are left out.

    Topics with the same subscribers share one list, which nobody may change: so where thousands of
    members want the same thousands of topics, not each pair of them is looked at.
    """
    positions: dict[str, int] = {}
    alike: dict[frozenset[TopicId], list[str]] = {}
    for member_id in order:
        positions[member_id] = len(positions)
        alike.setdefault(members[member_id].topic_ids, []).append(member_id)
    classes = list(alike.values())
    wanted: dict[TopicId, list[int]] = {}
    for number, topic_ids in enumerate(alike):
        for topic_id in topic_ids:
            if topic_id in topics:
                wanted.setdefault(topic_id, []).append(number)
    merged: dict[tuple[int, ...], list[str]] = {}
    found: dict[TopicId, list[str]] = {}
    for topic_id in sorted(wanted, key=lambda each: topics[each].name):
        key = tuple(wanted[topic_id])
        if key not in merged:
            everybody = (member_id for number in key for member_id in classes[number])
            merged[key] = sorted(everybody, key=positions.__getitem__)
        found[topic_id] = merged[key]
    return found
