"""Topics as requests name them: by name, or since KIP-516 by id."""

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_views import find_readable, readable_by_id
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NO_NODE, TopicId, TopicPartition
from kafkaesque.protocols.kafka.produce_path import TopicKey


class TopicForbidden(RequestRefused):
    """The client may not do that to the topic, or to any of its name."""


def resolve_topic(doors: Doors, topic: TopicKey) -> str:
    """Return the name of a topic, or of a view of a queue, that may be given by its id.

    Raises:
        UnknownTopicId: no topic has this id.
    """
    if isinstance(topic, str):
        return topic
    return readable_by_id(doors.cluster.state, TopicId(bytes(topic))).name


def leader_hint(doors: Doors, where: TopicPartition) -> tuple[int, int] | None:
    """Return (leader, leader epoch) of a partition, where known, for clients that were wrong."""
    topic = find_readable(doors.cluster.state, where.topic)
    if topic is None or not 0 <= where.partition < len(topic.partitions):
        return None
    report = doors.cluster.leaders.get(topic.partitions[where.partition].group)
    # Whoever is asked was not the one: it may be handing over, and not know to whom.
    if report is None or report.leader in (NO_NODE, doors.cluster.node):
        return None
    return report.leader, report.term
