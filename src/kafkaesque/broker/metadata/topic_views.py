"""Queues that Kafka's clients see as topics: their names, and what can be read by these.

A view has the queue's log, its id and its partitions. Only what reads asks here: `ClusterState`
does not count views among its topics, so that whatever changes a topic refuses them.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from kafkaesque.broker.metadata.cluster_state import (
    ClusterState,
    PartitionState,
    QueueState,
    TopicState,
)
from kafkaesque.broker.metadata.topic_names import (
    INTERNAL_TOPICS,
    check_topic_name,
    find_collision,
)
from kafkaesque.broker.options.queues import KAFKA_TOPIC
from kafkaesque.model.errors import (
    InvalidConfig,
    InvalidTopic,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import TopicId

#: Nothing that was committed by name before the view was there counts for it.
_NEVER_MS: Final = 0


def find_readable(state: ClusterState, name: str) -> TopicState | None:
    """Return what can be read by a topic's name; None: nothing."""
    topic = state.topics.get(name)
    if topic is None and name in state.topic_views:
        return _view(name, state.topic_views[name])
    return topic


def find_readable_by_id(state: ClusterState, topic_id: TopicId) -> TopicState | None:
    """Return what can be read by a topic's id; None: nothing."""
    topic = state.topics_by_id.get(topic_id)
    if topic is None:
        queue = state.queues_by_log.get(topic_id)
        name = "" if queue is None else queue.options.get(KAFKA_TOPIC, "")
        if queue is not None and state.topic_views.get(name) is queue:
            return _view(name, queue)
    return topic


def all_readable(state: ClusterState) -> Iterator[TopicState]:
    """Yield all topics, then all views."""
    yield from state.topics.values()
    for name, queue in state.topic_views.items():
        if name not in state.topics:
            yield _view(name, queue)


def readable(state: ClusterState, name: str) -> TopicState:
    """Return what can be read by a topic's name.

    Raises:
        UnknownTopicOrPartition: nothing.
    """
    found = find_readable(state, name)
    if found is None:
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    return found


def readable_by_id(state: ClusterState, topic_id: TopicId) -> TopicState:
    """Return what can be read by a topic's id.

    Raises:
        UnknownTopicId: nothing.
    """
    found = find_readable_by_id(state, topic_id)
    if found is None:
        raise UnknownTopicId(f"no topic has the id {topic_id.hex()}")
    return found


def readable_partition(state: ClusterState, name: str, number: int) -> PartitionState:
    """Return the placement of what can be read by a topic's name and a number.

    Raises:
        UnknownTopicOrPartition: no such topic, or it has fewer partitions.
    """
    found = readable(state, name)
    if not 0 <= number < len(found.partitions):
        raise UnknownTopicOrPartition(
            f"topic {name!r} has partitions 0 to {len(found.partitions) - 1}, not {number}"
        )
    return found.partitions[number]


def _view(name: str, queue: QueueState) -> TopicState:
    return TopicState(
        name=name,
        topic_id=queue.topic_id,
        partitions=queue.partitions,
        configs=queue.configs,
        created_ms=_NEVER_MS,
    )


def check_view(state: ClusterState, queue: QueueState | None, options: Mapping[str, str]) -> None:
    """Refuse a name that a queue cannot have as a topic.

    Raises:
        InvalidConfig: it is no topic's name, or a topic or another queue has it.
    """
    name = options.get(KAFKA_TOPIC)
    if not name:
        return
    try:
        check_topic_name(name)
    except InvalidTopic as refusal:
        raise InvalidConfig(f"{KAFKA_TOPIC}: {refusal}") from None
    if name in INTERNAL_TOPICS:
        raise InvalidConfig(f"{KAFKA_TOPIC}: {name} is the brokers' own")
    if name in state.topics:
        raise InvalidConfig(f"{KAFKA_TOPIC}: there is a topic {name!r}")
    other = state.topic_views.get(name)
    if other is not None and other is not queue:
        raise InvalidConfig(f"{KAFKA_TOPIC}: the topic {name!r} shows another queue")
    views = [each for each, shown in state.topic_views.items() if shown is not queue]
    collision = find_collision(name, [*state.topics, *views])
    if collision is not None:
        raise InvalidConfig(
            f"{KAFKA_TOPIC}: {name!r} collides with the topic {collision!r}: they differ only in "
            "'.' and '_'"
        )
