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
from kafkaesque.broker.metadata.feature_planner import check_may_encrypt, check_may_have_queues
from kafkaesque.broker.metadata.key_planner import keys_that_end_with
from kafkaesque.broker.metadata.queue_names import (
    NAME_BYTES_MAX,
    QueueName,
    check_queue_name,
    is_own_vhost,
    share_group_of,
    share_queue,
)
from kafkaesque.broker.metadata.queue_sealing import is_sealed
from kafkaesque.broker.metadata.records import (
    AnyMetadataRecord,
    PartitionPlacement,
    PartitionsAdded,
    QueueChanged,
    QueueCreated,
    TopicConfigChanged,
    TopicDeleted,
)
from kafkaesque.broker.metadata.topic_views import check_view
from kafkaesque.broker.metadata.transient_queues import (
    Incarnation,
    end_of_queue,
    home_for,
    is_lost,
)
from kafkaesque.broker.options.encryption import ENCRYPTION, is_encrypted
from kafkaesque.broker.options.queues import (
    DECLARATION,
    KAFKA_TOPIC,
    MOVE_TASKS,
    NAMES_OF_TARGETS,
    OF_THE_LOG,
    PARTITIONS,
    QUEUES_MAX,
    SHORT_TEXTS,
    SOURCE_START,
    SOURCE_TOPIC,
    STREAM_TOPIC,
    TRANSFORMATION_OUT,
    TRANSIENT,
    exchange_of_target,
    is_transient,
    make_policy,
    partition_count,
    topic_of_target,
)
from kafkaesque.broker.requests.queue_commands import (
    ChangeQueue,
    CreateQueue,
    CreateShareQueue,
    DeleteQueue,
    DeleteShareGroup,
)
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import (
    ConfigError,
    InvalidConfig,
    OverBound,
    QueueExists,
    UnknownQueue,
)
from kafkaesque.model.ids import NodeId, TopicId

#: The longest value of an option: those of all queues are in the memory of every broker.
OPTION_LENGTH_MAX: Final = 64 * 1024
#: The longest batch of messages that is appended at once: one of AMQP's longest, with all that is
#: said of it.
MESSAGE_BYTES_MAX: Final = 17 * 1024 * 1024
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


#: Options by which gateways remember something of their own: nobody is told to change them.
_NOTES: Final = (DECLARATION, MOVE_TASKS)
#: Gives placed partitions their groups.
Number = Callable[[list[tuple[NodeId, ...]]], tuple[PartitionPlacement, ...]]


def plan_queue(
    state: ClusterState,
    command: CreateQueue,
    *,
    place: Callable[[int], tuple[PartitionPlacement, ...]],
    number: Number,
    new_id: Callable[[], TopicId],
    wall_ms: int,
    per_user_max: int = QUEUES_MAX,
    incarnation: Incarnation = lambda node: None,
) -> tuple[TopicId, list[AnyMetadataRecord]]:
    """Return the id of a queue's log, and the records that make it, if it is not there already.

    A transient one of which the broker is not heard of is made anew, where it is asked for.

    Raises:
        RequestRefused: the name or an option is not allowed, there are too many queues, or there is
            one of the name with other options.
    """
    check_may_have_queues(state)
    name = QueueName(command.vhost, command.name)
    check_queue_name(name)
    options = _checked(state, name, command.options)
    home = home_for(state, command) if is_transient(options) else None
    existing = state.queues.get(name)
    before: list[AnyMetadataRecord] = []
    if existing is not None:
        _expect_equal(existing, options)
        if not is_lost(existing, incarnation):
            return existing.topic_id, []
        before = end_of_queue(state, existing, wall_ms)
    owner = "" if command.on_behalf_of is None else command.on_behalf_of.principal
    _check_bounds(state, owner, per_user_max)
    check_may_add_vhost(state, name.vhost)
    check_view(state, existing, options)
    log_id = new_id()
    source = _source(state, options)
    partitions: tuple[PartitionPlacement, ...] = ()
    if home is None:
        own = partition_count(options)
        partitions = place(own) if source is None else number(_placed_as(source))
    record = QueueCreated(
        vhost=name.vhost,
        name=name.name,
        log_id=log_id,
        partitions=partitions,
        options=options,
        configs=log_configs(options),
        source=msgspec.UNSET if source is None else source.topic_id,
        at_ms=wall_ms,
        owner=owner or msgspec.UNSET,
        home=msgspec.UNSET if home is None else home,
    )
    return log_id, [*before, record]


def _check_bounds(state: ClusterState, owner: str, per_user_max: int) -> None:
    """Refuse one more queue if the cluster, or its owner, has as many as there may be."""
    if len(state.queues) >= QUEUES_MAX:
        raise OverBound(f"there are {QUEUES_MAX} queues already")
    if owner and state.queue_counts[owner] >= per_user_max:
        made = counted(state.queue_counts[owner], "queue")
        raise OverBound(
            f"{owner} has made {made} already: delete some, or let an administrator "
            "set user.queues.max of the brokers"
        )


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
    name = state.topic_by_id(topic_id).name
    streams = [each for each in state.queues.values() if each.options.get(STREAM_TOPIC) == name]
    ends = [end for each in streams for end in exchanges_that_end_with_queue(state, each.queue)]
    cursors += [
        TopicDeleted(topic_id=each.topic_id, name=each.name, at_ms=wall_ms) for each in streams
    ]
    return [*cursors, *ends, *exchanges_that_end_with_topic(state, name)]


def plan_queue_deletion(
    state: ClusterState, command: DeleteQueue, wall_ms: int
) -> list[AnyMetadataRecord]:
    """Return the records that end a queue, and the exchanges that go with it.

    Raises:
        UnknownQueue: there is none of the name.
    """
    queue = _clients_queue(state, command)
    keys = keys_that_end_with(state, queue.topic_id)
    return [*end_of_queue(state, queue, wall_ms), *keys]


def _clients_queue(state: ClusterState, command: ChangeQueue | DeleteQueue) -> QueueState:
    """Return the queue that a command is about.

    Raises:
        UnknownQueue: there is none of the name, or it is the brokers' own, which no client sees.
    """
    name = QueueName(command.vhost, command.name)
    if is_own_vhost(name.vhost):
        raise UnknownQueue(f"queue {name} does not exist")
    return state.queue(name)


def log_configs(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a queue's log, as the queue's options have it."""
    return {**LOG_CONFIGS, **{name: options[name] for name in OF_THE_LOG if name in options}}


def plan_queue_change(
    state: ClusterState, command: ChangeQueue
) -> list[QueueChanged | TopicConfigChanged]:
    """Return the records of a queue's options, and of its log's, if they change.

    Raises:
        UnknownQueue: there is none of the name.
        InvalidConfig: an option is unknown, or its value not allowed.
    """
    queue = _clients_queue(state, command)
    options = dict(queue.options)
    for name, value in command.changes.items():
        if value is None:
            options.pop(name, None)
        else:
            options[name] = value
    for fixed in (SOURCE_TOPIC, SOURCE_START, STREAM_TOPIC, TRANSIENT):
        if options.get(fixed) != queue.options.get(fixed):
            raise InvalidConfig(f"{fixed} cannot be changed: make another queue")
    options = _checked(state, queue.queue, options)
    if partition_count(options) != partition_count(queue.options):
        raise InvalidConfig(f"{PARTITIONS} cannot be changed: make another queue")
    if options == queue.options:
        return []
    if options.get(KAFKA_TOPIC) != queue.options.get(KAFKA_TOPIC):
        check_view(state, queue, options)
    changed: list[QueueChanged | TopicConfigChanged] = [
        QueueChanged(log_id=queue.topic_id, options=options)
    ]
    configs = {
        **{name: value for name, value in queue.configs.items() if name not in OF_THE_LOG},
        **{name: value for name, value in options.items() if name in OF_THE_LOG},
    }
    if configs != queue.configs:
        changed.append(TopicConfigChanged(topic_id=queue.topic_id, configs=configs))
    return changed


def _checked(state: ClusterState, name: QueueName, options: Mapping[str, str]) -> dict[str, str]:
    for option, value in options.items():
        if len(value) > OPTION_LENGTH_MAX:
            raise InvalidConfig(
                f"{option} has {len(value):,} characters, and may have {OPTION_LENGTH_MAX:,}"
            )
        if option in NAMES_OF_TARGETS and "\0" in value:
            # The engine tells queues, topics and exchanges by one: see `topic_of_target`.
            raise InvalidConfig(f"{option}: a name has no NUL in it")
        if option in SHORT_TEXTS and len(value.encode()) > NAME_BYTES_MAX:
            raise InvalidConfig(f"{option} has more than {NAME_BYTES_MAX} bytes")
    try:
        policy = make_policy(options)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    stream = options.get(STREAM_TOPIC)
    if stream and (stream not in state.topics or state.topics[stream].is_internal):
        raise InvalidConfig(f"{STREAM_TOPIC}: there is no topic {stream!r}")
    rule = options.get(TRANSFORMATION_OUT)
    vhost = state.routing.vhosts.get(name.vhost)
    if rule and (vhost is None or rule not in vhost.transformations):
        raise InvalidConfig(
            f"{TRANSFORMATION_OUT}: there is no transformation {rule!r} in vhost {name.vhost!r}"
        )
    taker = _dead_letters_taker(state, name, policy.dead_letters_to)
    if is_encrypted(options):
        check_may_encrypt(state)
        if taker is not None and not is_sealed(state, taker):
            raise InvalidConfig(
                f"dead letters of an encrypted queue go where they are encrypted, too: set "
                f"{ENCRYPTION} of {_shown(taker)} first"
            )
    return dict(options)


def _dead_letters_taker(state: ClusterState, name: QueueName, target: str) -> TopicState | None:
    """Return the queue or topic that takes a queue's dead letters; None: nothing, or who knows.

    Raises:
        InvalidConfig: there is no such queue or topic.
    """
    topic = topic_of_target(target)
    if topic is not None:
        if topic not in state.topics or state.topics[topic].is_internal:
            raise InvalidConfig(f"dead.letter.topic: there is no topic {topic!r} for it")
        return state.topics[topic]
    if exchange_of_target(target) is not None or target in ("", name.name):
        return None
    taker = state.queues.get(QueueName(name.vhost, target))
    if taker is None:
        raise InvalidConfig(f"dead.letter.queue: there is no queue {target!r}")
    return taker


def _shown(taker: TopicState) -> str:
    return f"queue {taker.queue}" if isinstance(taker, QueueState) else f"topic {taker.name}"


def _expect_equal(queue: QueueState, options: Mapping[str, str]) -> None:
    is_equal = make_policy(queue.options) == make_policy(options)
    is_equal = is_equal and is_transient(queue.options) == is_transient(options)
    rules = [each.get(TRANSFORMATION_OUT, "") for each in (queue.options, options)]
    is_equal = is_equal and rules[0] == rules[1]
    is_equal = is_equal and partition_count(queue.options) == partition_count(options)
    # Who does not ask for a view leaves the one that there is: most protocols cannot ask.
    is_equal = is_equal and options.get(KAFKA_TOPIC) in (None, queue.options.get(KAFKA_TOPIC))
    if not is_equal or is_encrypted(queue.options) != is_encrypted(options):
        differing = sorted(
            name
            for name in {*queue.options, *options}
            if queue.options.get(name) != options.get(name) and name not in _NOTES
        )
        raise QueueExists(
            f"queue {queue.queue} exists, and differs in {', '.join(differing)}: change its "
            "options instead"
        )
