"""What the controller decides of queues, as records of the metadata's log."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kafkaesque.broker.metadata.cluster_state import ClusterState, QueueState, TopicState
from kafkaesque.broker.metadata.exchange_planner import (
    check_may_add_vhost,
    exchanges_that_end_with_queue,
    exchanges_that_end_with_topic,
)
from kafkaesque.broker.metadata.feature_planner import check_may_have_queues
from kafkaesque.broker.metadata.queue_names import (
    QueueName,
    check_queue_name,
    share_group_of,
    share_queue,
)
from kafkaesque.broker.metadata.records import (
    AnyMetadataRecord,
    PartitionPlacement,
    PartitionsAdded,
    QueueChanged,
    QueueCreated,
    TopicDeleted,
)
from kafkaesque.broker.options.queues import (
    QUEUES_MAX,
    SOURCE_START,
    SOURCE_TOPIC,
    exchange_of_target,
    make_policy,
    topic_of_target,
)
from kafkaesque.broker.requests.queue_commands import (
    ChangeQueue,
    CreateQueue,
    CreateShareQueue,
    DeleteQueue,
    DeleteShareGroup,
)
from kafkaesque.model.errors import ConfigError, InvalidConfig, OverBound, QueueExists
from kafkaesque.model.ids import NodeId, TopicId

#: The longest value of an option: those of all queues are in the memory of every broker.
OPTION_LENGTH_MAX: Final = 64 * 1024
#: The longest batch of messages that is appended at once.
MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
#: A queue's log keeps what the queue needs, and nothing by its age. Its segments are short, because
#: a whole one is deleted when the queue needs nothing of it any more.
LOG_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
    # The age of a message counts from when it came.
    "message.timestamp.type": "LogAppendTime",
}


#: Gives placed partitions their groups.
Number = Callable[[list[tuple[NodeId, ...]]], tuple[PartitionPlacement, ...]]


def plan_queue(
    state: ClusterState,
    command: CreateQueue,
    *,
    place: Callable[[], tuple[PartitionPlacement, ...]],
    number: Number,
    new_id: Callable[[], TopicId],
    wall_ms: int,
) -> tuple[TopicId, list[QueueCreated]]:
    """Return the id of a queue's log, and the record that makes it, if it is not there already.

    Raises:
        RequestRefused: the name or an option is not allowed, there are too many queues, or there is
            one of the name with other options.
    """
    check_may_have_queues(state)
    name = QueueName(command.vhost, command.name)
    check_queue_name(name)
    options = _checked(state, name, command.options)
    existing = state.queues.get(name)
    if existing is not None:
        _expect_equal(existing, options)
        return existing.topic_id, []
    if len(state.queues) >= QUEUES_MAX:
        raise OverBound(f"there are {QUEUES_MAX} queues already")
    check_may_add_vhost(state, name.vhost)
    log_id = new_id()
    source = _source(state, options)
    record = QueueCreated(
        vhost=name.vhost,
        name=name.name,
        log_id=log_id,
        partitions=place() if source is None else number(_placed_as(source)),
        options=options,
        configs=LOG_CONFIGS,
        source=msgspec.UNSET if source is None else source.topic_id,
        at_ms=wall_ms,
    )
    return log_id, [record]


def _source(state: ClusterState, options: Mapping[str, str]) -> TopicState | None:
    """Return the topic that a queue is a cursor over.

    Raises:
        InvalidConfig: there is no such topic.
    """
    name = options.get(SOURCE_TOPIC)
    if not name:
        return None
    topic = state.topics.get(name)
    if topic is None or topic.is_internal:
        raise InvalidConfig(f"{SOURCE_TOPIC}: there is no topic {name!r}")
    return topic


def _placed_as(topic: TopicState) -> list[tuple[NodeId, ...]]:
    return [each.wanted for each in topic.partitions]


def plan_cursor_growth(
    state: ClusterState, topic_id: TopicId, added: tuple[PartitionPlacement, ...]
) -> list[PartitionsAdded]:
    """Return the records by which the cursors over a topic grow as it does, by `added`."""
    grown: list[PartitionsAdded] = []
    next_group = state.next_group + len(added)
    for queue in state.queues.values():
        if queue.source == topic_id:
            placed = tuple(
                PartitionPlacement(group=next_group + at, replicas=each.replicas)
                for at, each in enumerate(added)
            )
            next_group += len(added)
            grown.append(PartitionsAdded(topic_id=queue.topic_id, partitions=placed))
    return grown


def plan_share_queue(
    state: ClusterState,
    command: CreateShareQueue,
    *,
    number: Number,
    new_id: Callable[[], TopicId],
    wall_ms: int,
) -> tuple[TopicId, list[QueueCreated | PartitionsAdded]]:
    """Return the id of a cursor's log, and the record that makes it or lets it grow.

    Each of its partitions is placed as the topic's, so that mostly one broker leads both.

    Raises:
        UnknownTopicId: there is no such topic.
        OverBound: there are too many queues.
    """
    check_may_have_queues(state)
    topic = state.topic_by_id(TopicId(command.topic_id))
    name = share_queue(command.group, topic.topic_id)
    existing = state.queues.get(name)
    have = 0 if existing is None else len(existing.partitions)
    placed = number([each.wanted for each in topic.partitions[have:]])
    if existing is not None:
        added = PartitionsAdded(topic_id=existing.topic_id, partitions=placed)
        return existing.topic_id, [added] if placed else []
    if len(state.queues) >= QUEUES_MAX:
        raise OverBound(f"there are {QUEUES_MAX} queues already")
    log_id = new_id()
    record = QueueCreated(
        vhost=name.vhost,
        name=name.name,
        log_id=log_id,
        partitions=placed,
        configs=LOG_CONFIGS,
        source=topic.topic_id,
        at_ms=wall_ms,
    )
    return log_id, [record]


def plan_share_group_deletion(
    state: ClusterState, command: DeleteShareGroup, wall_ms: int
) -> list[TopicDeleted]:
    """Return the records that end cursors of a share group."""
    return [
        TopicDeleted(topic_id=each.topic_id, name=each.name, at_ms=wall_ms)
        for each in state.queues.values()
        if share_group_of(each.queue) == command.group and command.topic_id in (None, each.source)
    ]


def plan_ends_with_topic(
    state: ClusterState, topic_id: TopicId, wall_ms: int
) -> list[AnyMetadataRecord]:
    """Return the records that end what goes with a topic: cursors over it, exchanges."""
    cursors = [
        TopicDeleted(topic_id=each.topic_id, name=each.name, at_ms=wall_ms)
        for each in state.queues.values()
        if each.source == topic_id
    ]
    return [*cursors, *exchanges_that_end_with_topic(state, state.topic_by_id(topic_id).name)]


def plan_queue_deletion(
    state: ClusterState, command: DeleteQueue, wall_ms: int
) -> list[AnyMetadataRecord]:
    """Return the records that end a queue, and the exchanges that go with it.

    Raises:
        UnknownQueue: there is none of the name.
    """
    queue = state.queue(QueueName(command.vhost, command.name))
    deleted = TopicDeleted(topic_id=queue.topic_id, name=queue.name, at_ms=wall_ms)
    return [*exchanges_that_end_with_queue(state, queue.queue), deleted]


def plan_queue_change(state: ClusterState, command: ChangeQueue) -> list[QueueChanged]:
    """Return the record of a queue's options, if they change.

    Raises:
        UnknownQueue: there is none of the name.
        InvalidConfig: an option is unknown, or its value not allowed.
    """
    queue = state.queue(QueueName(command.vhost, command.name))
    options = dict(queue.options)
    for name, value in command.changes.items():
        if value is None:
            options.pop(name, None)
        else:
            options[name] = value
    for fixed in (SOURCE_TOPIC, SOURCE_START):
        if options.get(fixed) != queue.options.get(fixed):
            raise InvalidConfig(f"{fixed} cannot be changed: make another queue")
    options = _checked(state, queue.queue, options)
    if options == queue.options:
        return []
    return [QueueChanged(log_id=queue.topic_id, options=options)]


def _checked(state: ClusterState, name: QueueName, options: Mapping[str, str]) -> dict[str, str]:
    for option, value in options.items():
        if len(value) > OPTION_LENGTH_MAX:
            raise InvalidConfig(
                f"{option} has {len(value):,} characters, and may have {OPTION_LENGTH_MAX:,}"
            )
    try:
        policy = make_policy(options)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    target = policy.dead_letters_to
    topic = topic_of_target(target)
    if topic is not None:
        if topic not in state.topics or state.topics[topic].is_internal:
            raise InvalidConfig(f"dead.letter.topic: there is no topic {topic!r} for it")
    elif (
        exchange_of_target(target) is None
        and target
        and QueueName(name.vhost, target) not in state.queues
        and target != name.name
    ):
        raise InvalidConfig(f"dead.letter.queue: there is no queue {target!r}")
    return dict(options)


def _expect_equal(queue: QueueState, options: Mapping[str, str]) -> None:
    if make_policy(queue.options) != make_policy(options):
        differing = sorted(
            name
            for name in {*queue.options, *options}
            if queue.options.get(name) != options.get(name)
        )
        raise QueueExists(
            f"queue {queue.queue} exists, and differs in {', '.join(differing)}: change its "
            "options instead"
        )
