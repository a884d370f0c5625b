"""Which members of a share group read which partitions: several may read one."""

from collections.abc import Mapping, Sequence

from kafkaesque.groups.consumer.topics import TopicIdPartition
from kafkaesque.model.ids import TopicId

Assignment = dict[str, frozenset[TopicIdPartition]]


def assign(
    subscriptions: Mapping[str, frozenset[str]],
    topics: Mapping[str, tuple[TopicId, int]],
) -> Assignment:
    """Return what each member reads of the topics that it wants.

    Every partition that somebody wants has a member, and every member has a partition of each topic
    that it wants, if that has any. With more members than partitions several read one.

    Args:
        subscriptions: the topics' names, by member.
        topics: ids and numbers of partitions, by name.
    """
    found: dict[str, set[TopicIdPartition]] = {member: set() for member in subscriptions}
    wanted = sorted({name for names in subscriptions.values() for name in names})
    for number, name in enumerate(wanted):
        topic = topics.get(name)
        if topic is not None and topic[1] > 0:
            members = sorted(each for each, names in subscriptions.items() if name in names)
            # One begins where the last one ended, so that no member gets the first of all topics.
            _spread(found, _rotated(members, number), *topic)
    return {member: frozenset(partitions) for member, partitions in found.items()}


def _spread(
    found: dict[str, set[TopicIdPartition]], members: Sequence[str], topic_id: TopicId, count: int
) -> None:
    for at in range(max(len(members), count)):
        found[members[at % len(members)]].add(TopicIdPartition(topic_id, at % count))


def _rotated(members: list[str], by: int) -> list[str]:
    at = by % len(members)
    return members[at:] + members[:at]
