"""Topics made, grown and deleted, and where their partitions are placed.

Pure functions over `ClusterState`; `planner.py` calls them.
"""

from collections.abc import Mapping, Sequence

from kafkaesque.broker.metadata.cluster_state import ClusterState, TopicState
from kafkaesque.broker.metadata.config_planner import (
    check_encryption,
    check_policy,
    checked_topic_options,
)
from kafkaesque.broker.metadata.internal_topics import SESSION_MESSAGES_CONFIGS
from kafkaesque.broker.metadata.key_planner import keys_that_end_with
from kafkaesque.broker.metadata.placement import place_partitions
from kafkaesque.broker.metadata.plan import Plan, PlanInputs
from kafkaesque.broker.metadata.queue_planner import plan_cursor_growth, plan_ends_with_topic
from kafkaesque.broker.metadata.records import (
    PartitionPlacement,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from kafkaesque.broker.metadata.topic_names import (
    AUDIT_TOPIC,
    RETAINED_TOPIC,
    SCHEMAS_TOPIC,
    SESSION_MESSAGES_TOPIC,
    TABLE_TOPICS,
    check_topic_name,
    find_collision,
)
from kafkaesque.broker.requests.commands import (
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    Done,
    TopicResult,
)
from kafkaesque.model.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopic,
    OverBound,
    TopicExists,
    TopicNameTaken,
)
from kafkaesque.model.ids import NodeId, TopicId

#: Partitions of one topic.
TOPIC_PARTITIONS_MAX = 100_000
#: Partitions of the cluster.
CLUSTER_PARTITIONS_MAX = 1_000_000


def plan_topic(state: ClusterState, command: CreateTopic, inputs: PlanInputs) -> Plan:
    """Return the record of a new topic, placed and with its options checked.

    Raises:
        RequestRefused: the name, the options or the placement cannot be had.
    """
    existing = state.topics.get(command.name)
    if existing is not None and existing.topic_id in command.doubtful_ids:
        return Plan(records=[], result=_result_of(existing))
    check_new_topic(state, command)
    configs = checked_topic_options({}, _with_policy(command.name, command.configs), inputs)
    check_policy(command.name, {}, configs)
    check_encryption(state, command.name, {}, configs)
    if command.assignments is not None:
        if command.partition_count not in (-1,) or command.replication_factor not in (-1,):
            raise InvalidRequest("give either replica assignments or counts, not both")
        placed = _checked_assignments(state, command.assignments)
    else:
        placed = place_new(state, command.partition_count, command.replication_factor, inputs)
    topic_id = TopicId(command.topic_id) if command.topic_id else inputs.new_topic_id()
    record = TopicCreated(
        name=command.name,
        topic_id=topic_id,
        partitions=number_groups(state, placed),
        configs=configs,
        at_ms=inputs.wall_ms,
    )
    result = TopicResult(
        name=command.name,
        topic_id=topic_id,
        partition_count=len(placed),
        replication_factor=len(placed[0]),
        configs=configs,
    )
    return Plan(records=[] if command.validate_only else [record], result=result)


def check_new_topic(state: ClusterState, command: CreateTopic) -> None:
    """Refuse a name that a new topic cannot have.

    Raises:
        RequestRefused: it is no name, or another topic has it, or one like it.
    """
    check_topic_name(command.name)
    if command.name in state.topics:
        raise TopicExists(f"topic {command.name!r} exists")
    if command.name in state.topic_views:
        raise TopicNameTaken(f"topic {command.name!r} exists: it shows a queue")
    other = find_collision(command.name, [*state.topics, *state.topic_views])
    if other is not None:
        raise InvalidTopic(
            f"topic {command.name!r} collides with {other!r}: they differ only in '.' and '_'"
        )


def _result_of(topic: TopicState) -> TopicResult:
    return TopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=topic.configs,
    )


def place_new(
    state: ClusterState, partition_count: int, replication_factor: int, inputs: PlanInputs
) -> list[tuple[NodeId, ...]]:
    """Return the replicas of new partitions, the leader's first.

    Raises:
        RequestRefused: there are too many partitions, or too few brokers alive.
    """
    if partition_count == -1:
        partition_count = int(str(inputs.broker_option("num.partitions")))
    if not 1 <= partition_count <= TOPIC_PARTITIONS_MAX:
        raise InvalidPartitions(
            f"a topic has from 1 to {TOPIC_PARTITIONS_MAX} partitions, not {partition_count}"
        )
    if len(state.partitions_by_group) + partition_count > CLUSTER_PARTITIONS_MAX:
        raise OverBound(f"the cluster would have more than {CLUSTER_PARTITIONS_MAX} partitions")
    if replication_factor == -1:
        default = int(str(inputs.broker_option("default.replication.factor")))
        replication_factor = min(default, inputs.expected_brokers)
    alive = set(inputs.alive)
    return place_partitions(
        racks={node: broker.rack for node, broker in state.brokers.items()},
        away=[node for node in state.brokers if node not in alive],
        existing=[p.wanted for p in state.partitions_by_group.values()],
        partition_count=partition_count,
        replication_factor=replication_factor,
        start=inputs.draw,
    )


def _checked_assignments(
    state: ClusterState, assignments: Sequence[Sequence[int]], factor: int | None = None
) -> list[tuple[NodeId, ...]]:
    if not assignments:
        raise InvalidReplicaAssignment("the assignment names no partition")
    if len(assignments) > TOPIC_PARTITIONS_MAX:
        raise InvalidPartitions(f"a topic has at most {TOPIC_PARTITIONS_MAX} partitions")
    factor = len(assignments[0]) if factor is None else factor
    for replicas in assignments:
        if not replicas or len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(
                f"replicas {list(replicas)} are empty or name a broker twice"
            )
        if len(replicas) != factor:
            raise InvalidReplicaAssignment("partitions differ in their number of replicas")
        unknown = [node for node in replicas if NodeId(node) not in state.brokers]
        if unknown:
            raise InvalidReplicaAssignment(f"there is no broker {unknown[0]}")
    return [tuple(NodeId(node) for node in replicas) for replicas in assignments]


def number_groups(
    state: ClusterState, placed: Sequence[tuple[NodeId, ...]]
) -> tuple[PartitionPlacement, ...]:
    """Return placed replicas with the next free numbers of groups."""
    return tuple(
        PartitionPlacement(group=state.next_group + number, replicas=replicas)
        for number, replicas in enumerate(placed)
    )


def _with_policy(name: str, configs: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a new topic: the brokers' own are what they are, whoever makes them."""
    if name == SESSION_MESSAGES_TOPIC:
        return {**SESSION_MESSAGES_CONFIGS, **configs}
    is_compacted = name in (*TABLE_TOPICS, SCHEMAS_TOPIC, RETAINED_TOPIC)
    return {"cleanup.policy": "compact", **configs} if is_compacted else configs


def _named_topic(state: ClusterState, command: DeleteTopic) -> TopicState:
    if command.name is None:
        return state.topic_by_id(TopicId(command.topic_id))
    return state.topic(command.name)


def plan_deletion(state: ClusterState, command: DeleteTopic, inputs: PlanInputs) -> Plan:
    """Return the records that delete a topic, its keys, and what ends with it.

    Raises:
        RequestRefused: there is no such topic, or it may not be deleted.
    """
    topic = _named_topic(state, command)
    if topic.name == AUDIT_TOPIC:
        raise InvalidTopic(f"{AUDIT_TOPIC} is the audit log and cannot be deleted")
    if topic.name == SCHEMAS_TOPIC:
        raise InvalidTopic(f"{SCHEMAS_TOPIC} has all schemas: delete subjects at the registry")
    if topic.name == RETAINED_TOPIC:
        raise InvalidTopic(
            f"{RETAINED_TOPIC} has all retained messages: publish empty ones to clear them"
        )
    if topic.name == SESSION_MESSAGES_TOPIC:
        raise InvalidTopic(f"{SESSION_MESSAGES_TOPIC} has messages that sessions of MQTT refer to")
    deleted = TopicDeleted(topic_id=topic.topic_id, name=topic.name, at_ms=inputs.wall_ms)
    keys = keys_that_end_with(state, topic.topic_id)
    return Plan(
        records=[deleted, *keys, *plan_ends_with_topic(state, topic.topic_id, inputs.wall_ms)],
        result=_topic_result(topic),
    )


def _topic_result(topic: TopicState) -> TopicResult:
    return TopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=len(topic.partitions),
        replication_factor=len(topic.partitions[0].wanted),
        configs=topic.configs,
    )


def plan_partitions(state: ClusterState, command: CreatePartitions, inputs: PlanInputs) -> Plan:
    """Return the record of a topic's new partitions.

    Raises:
        RequestRefused: the number does not grow, or the placement cannot be had.
    """
    topic = state.topic(command.name)
    if topic.is_internal:
        raise InvalidTopic(
            f"{topic.name} is an internal topic: its number of partitions decides which partition "
            "holds what, so after a change most of it would not be found"
        )
    have = len(topic.partitions)
    wanted = command.count
    if wanted <= have:
        raise InvalidPartitions(
            f"topic {topic.name!r} has {have} partitions; the number can only grow, not to {wanted}"
        )
    if wanted > TOPIC_PARTITIONS_MAX:
        raise InvalidPartitions(f"a topic has at most {TOPIC_PARTITIONS_MAX} partitions")
    factor = len(topic.partitions[0].wanted)
    if command.assignments is not None:
        if len(command.assignments) != wanted - have:
            raise InvalidReplicaAssignment(
                f"{wanted - have} new partition(s), but {len(command.assignments)} assignment(s)"
            )
        placed = _checked_assignments(state, command.assignments, factor)
    else:
        placed = place_new(state, wanted - have, factor, inputs)
    numbered = number_groups(state, placed)
    record = PartitionsAdded(topic_id=topic.topic_id, partitions=numbered)
    grown = plan_cursor_growth(state, topic.topic_id, numbered)
    return Plan(records=[] if command.validate_only else [record, *grown], result=Done())
