"""What the controller decides: a command and the state give records and an answer, or a refusal.

Pure functions over `ClusterState`; nothing is proposed here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafkaesque.broker.metadata.access_planner import plan_access, plan_first_access
from kafkaesque.broker.metadata.client_quotas import ENTITIES_MAX, check_quota, make_entity
from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS, ClusterState, TopicState
from kafkaesque.broker.metadata.controller_planner import (
    ControllerFacts,
    plan_controllers,
    plan_founders,
    wanted_controllers,
)
from kafkaesque.broker.metadata.exchange_planner import plan_exchanges
from kafkaesque.broker.metadata.feature_planner import (
    check_may_encrypt,
    check_may_move,
    check_may_set_group_options,
    plan_first_levels,
    plan_level,
)
from kafkaesque.broker.metadata.features import LEVEL_WITH_LISTENERS, METADATA
from kafkaesque.broker.metadata.key_planner import keys_that_end_with
from kafkaesque.broker.metadata.move_planner import (
    list_moves,
    plan_finish,
    plan_moves,
    plan_take_up,
)
from kafkaesque.broker.metadata.placement import place_partitions
from kafkaesque.broker.metadata.queue_planner import (
    plan_cursor_growth,
    plan_ends_with_topic,
    plan_queue,
    plan_queue_change,
    plan_queue_deletion,
    plan_share_group_deletion,
    plan_share_queue,
)
from kafkaesque.broker.metadata.records import (
    AnyMetadataRecord,
    BrokerConfigChanged,
    BrokerRegistered,
    BrokerRemoved,
    ClientQuotaChanged,
    Endpoint,
    FeatureLevelChanged,
    GroupConfigChanged,
    PartitionPlacement,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from kafkaesque.broker.metadata.recovery_planner import (
    plan_asked,
    plan_begin,
    plan_decision,
    plan_given_up,
    plan_told,
)
from kafkaesque.broker.metadata.topic_names import (
    AUDIT_TOPIC,
    SCHEMAS_TOPIC,
    TABLE_TOPICS,
    check_topic_name,
    find_collision,
)
from kafkaesque.broker.options.encryption import ENCRYPTION, NONE
from kafkaesque.broker.options.groups import (
    GROUP_OPTIONS,
    GROUPS_MAX,
    check_group_name,
    check_group_options,
)
from kafkaesque.broker.options.tables import BROKER_OPTIONS, TOPIC_OPTIONS
from kafkaesque.broker.requests.access_commands import AccessCommand, RemovedRules
from kafkaesque.broker.requests.commands import (
    AllocateProducerIds,
    AskElection,
    AskMetadataEnd,
    AskMoves,
    BeginRecovery,
    ChangeConfig,
    ChangeControllers,
    ChangeGroupConfig,
    ChangeQuotas,
    ConfigChange,
    ControllerCommand,
    ControllerResult,
    CreatePartitions,
    CreateTopic,
    DecideRecovery,
    DeleteTopic,
    Done,
    FinishMove,
    MetadataEnd,
    MoveReplicas,
    MovesResult,
    MovesView,
    ProducerIdBlock,
    RaiseFeature,
    RegisterBroker,
    RemoveBroker,
    TakeUpMove,
    TellGivenUp,
    TellSurvivors,
    TopicResult,
)
from kafkaesque.broker.requests.exchange_commands import ExchangeCommand
from kafkaesque.broker.requests.queue_commands import (
    ChangeQueue,
    CreateQueue,
    CreateShareQueue,
    DeleteQueue,
    DeleteShareGroup,
    QueueCommand,
    QueueResult,
)
from kafkaesque.model.errors import (
    BrokerNotRegistered,
    ConfigError,
    DuplicateBroker,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopic,
    OverBound,
    TopicExists,
)
from kafkaesque.model.ids import GroupId, NodeId, Offset, TopicId, read_node
from kafkaesque.model.options import Option, OptionTable, OptionType, OptionValue

#: Partitions of one topic.
TOPIC_PARTITIONS_MAX = 100_000
#: Partitions of the cluster.
CLUSTER_PARTITIONS_MAX = 1_000_000
PRODUCER_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Records to be proposed, and the answer once they are committed."""

    records: list[AnyMetadataRecord]
    result: ControllerResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What a plan needs besides the state."""

    #: Brokers that can take replicas now.
    alive: Sequence[NodeId]
    #: How many brokers the cluster is meant to have, as far as is known.
    expected_brokers: int
    #: Broker options in force, by name.
    broker_option: Callable[[str], OptionValue]
    #: Broker options as they were given to this broker at its start; the others have the same.
    start_option: Callable[[str], OptionValue]
    new_topic_id: Callable[[], TopicId]
    #: Any number; breaks ties in placement.
    draw: int
    #: Unix time.
    wall_ms: int = 0
    #: Up to where the metadata's log is in the state.
    applied_offset: Offset = Offset(0)
    controllers: ControllerFacts = ControllerFacts()
    #: Who leads a group, as far as is heard.
    leader: Callable[[GroupId], NodeId | None] = lambda group: None
    #: Which process of a broker is alive, as far as is heard.
    incarnation: Callable[[NodeId], int | None] = lambda node: None


def plan(state: ClusterState, command: ControllerCommand, inputs: PlanInputs) -> Plan:
    """Return what is to be done.

    Raises:
        RequestRefused: the command cannot be done; the message says why.
    """
    if isinstance(command, AccessCommand):
        access_changes, removed = plan_access(state, command, inputs.wall_ms)
        return Plan(records=list(access_changes), result=RemovedRules(removed=removed))
    if isinstance(command, QueueCommand):
        return _plan_queues(state, command, inputs)
    if isinstance(command, ExchangeCommand):
        return Plan(records=plan_exchanges(state, command, inputs.wall_ms), result=Done())
    match command:
        case RegisterBroker():
            return _plan_registration(state, command, inputs)
        case RemoveBroker():
            return _plan_removal(state, command, inputs)
        case CreateTopic():
            return _plan_topic(state, command, inputs)
        case DeleteTopic():
            return _plan_deletion(state, command, inputs)
        case CreatePartitions():
            return _plan_partitions(state, command, inputs)
        case ChangeConfig():
            return _plan_config(state, command, inputs)
        case ChangeGroupConfig():
            return _plan_group_config(state, command, inputs)
        case ChangeQuotas():
            return _plan_quotas(state, command)
        case AllocateProducerIds():
            return _plan_producer_ids(state, command)
        case BeginRecovery():
            return Plan(records=plan_begin(state, command), result=Done())
        case AskElection():
            records = plan_asked(state, command, alive=inputs.alive, leader=inputs.leader)
            return Plan(records=records, result=Done())
        case TellSurvivors():
            return Plan(records=plan_told(state, command), result=Done())
        case DecideRecovery():
            return Plan(records=plan_decision(state, command), result=Done())
        case TellGivenUp():
            return Plan(records=plan_given_up(state, command), result=Done())
        case RaiseFeature():
            levels = plan_level(state, command)
            founders = plan_founders(state, levels, inputs.controllers) if levels else []
            return Plan(records=[*levels, *founders], result=Done())
        case ChangeControllers():
            changes = plan_controllers(state, command, inputs.controllers, inputs.alive)
            return Plan(records=list(changes), result=Done())
        case MoveReplicas():
            check_may_move(state)
            moves, refusals = plan_moves(state, command)
            return Plan(records=list(moves), result=MovesResult(refusals=refusals))
        case AskMoves():
            return Plan(records=[], result=MovesView(moving=list_moves(state)))
        case AskMetadataEnd():
            return Plan(records=[], result=MetadataEnd(offset=inputs.applied_offset))
        case TakeUpMove():
            return Plan(records=list(plan_take_up(state, command)), result=Done())
        case FinishMove():
            return Plan(records=list(plan_finish(state, command)), result=Done())


def _plan_registration(state: ClusterState, command: RegisterBroker, inputs: PlanInputs) -> Plan:
    if inputs.incarnation(NodeId(command.node)) not in (None, command.incarnation):
        raise DuplicateBroker(
            f"broker {command.node} is already running: another process, at {command.peer_host}:"
            f"{command.peer_port}, cannot register with its id"
        )
    levels = plan_first_levels(state, command)
    record = BrokerRegistered(
        node=command.node,
        host=command.host,
        kafka_port=command.kafka_port,
        text_port=command.text_port,
        peer_host=command.peer_host,
        peer_port=command.peer_port,
        rack=command.rack,
        incarnation=command.incarnation,
        directory_id=command.directory_id,
        features=command.features,
        admin_port=command.admin_port,
        endpoints=_plan_endpoints(state, command, levels),
    )
    founders = plan_founders(state, levels, inputs.controllers)
    users = plan_first_access(state, levels, command)
    news = [] if state.brokers.get(NodeId(command.node)) == record else [record]
    return Plan(records=[*levels, *founders, *users, *news], result=Done())


def _plan_endpoints(
    state: ClusterState, command: RegisterBroker, levels: Sequence[FeatureLevelChanged]
) -> dict[str, Endpoint]:
    """Return what a broker's record says of its listeners: nothing, until all know of them."""
    first = next((each.level for each in levels if each.name == METADATA), None)
    level = state.level(METADATA) if first is None else first
    if level < LEVEL_WITH_LISTENERS:
        return {}
    return {name: Endpoint(*endpoint) for name, endpoint in command.endpoints.items()}


def _plan_removal(state: ClusterState, command: RemoveBroker, inputs: PlanInputs) -> Plan:
    node = NodeId(command.node)
    if node not in state.brokers:
        raise BrokerNotRegistered(f"there is no broker {node}")
    controllers = inputs.controllers
    if node in controllers.voters or node in wanted_controllers(state, controllers.founders):
        raise InvalidRequest(
            f"broker {node} is a controller: let another one take its place first (kafkaesque "
            f"cluster controllers add BROKER, kafkaesque cluster controllers remove {node})"
        )
    held = sum(node in each.replicas for each in state.partitions_by_group.values())
    if held:
        raise InvalidRequest(
            f"broker {node} holds {held} replica(s): move them first (kafkaesque cluster drain "
            f"{node})"
        )
    if node in inputs.alive:
        raise InvalidRequest(f"broker {node} is running: stop it first")
    return Plan(records=[BrokerRemoved(node=node)], result=Done())


def _plan_topic(state: ClusterState, command: CreateTopic, inputs: PlanInputs) -> Plan:
    check_topic_name(command.name)
    existing = state.topics.get(command.name)
    if existing is not None:
        if existing.topic_id in command.doubtful_ids:
            return Plan(records=[], result=_result_of(existing))
        raise TopicExists(f"topic {command.name!r} exists")
    other = find_collision(command.name, state.topics)
    if other is not None:
        raise InvalidTopic(
            f"topic {command.name!r} collides with {other!r}: they differ only in '.' and '_'"
        )
    configs = _checked_topic({}, _with_policy(command.name, command.configs), inputs)
    _check_policy(command.name, {}, configs)
    _check_encryption(state, command.name, {}, configs)
    if command.assignments is not None:
        if command.partition_count not in (-1,) or command.replication_factor not in (-1,):
            raise InvalidRequest("give either replica assignments or counts, not both")
        placed = _checked_assignments(state, command.assignments)
    else:
        placed = _place_new(state, command.partition_count, command.replication_factor, inputs)
    topic_id = TopicId(command.topic_id) if command.topic_id else inputs.new_topic_id()
    record = TopicCreated(
        name=command.name,
        topic_id=topic_id,
        partitions=_number(state, placed),
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


def _plan_queues(state: ClusterState, command: QueueCommand, inputs: PlanInputs) -> Plan:
    match command:
        case CreateQueue():
            log_id, records = plan_queue(
                state,
                command,
                place=lambda: _number(
                    state, _place_new(state, 1, command.replication_factor, inputs)
                ),
                number=lambda placed: _number(state, placed),
                new_id=inputs.new_topic_id,
                wall_ms=inputs.wall_ms,
            )
            return Plan(records=list(records), result=QueueResult(log_id=log_id))
        case DeleteQueue():
            ends = plan_queue_deletion(state, command, inputs.wall_ms)
            return Plan(records=ends, result=Done())
        case ChangeQueue():
            return Plan(records=list(plan_queue_change(state, command)), result=Done())
        case CreateShareQueue():
            log_id, made = plan_share_queue(
                state,
                command,
                number=lambda placed: _number(state, placed),
                new_id=inputs.new_topic_id,
                wall_ms=inputs.wall_ms,
            )
            return Plan(records=list(made), result=QueueResult(log_id=log_id))
        case DeleteShareGroup():
            ended = plan_share_group_deletion(state, command, inputs.wall_ms)
            return Plan(records=list(ended), result=Done())


def _result_of(topic: TopicState) -> TopicResult:
    return TopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=topic.configs,
    )


def _place_new(
    state: ClusterState, partition_count: int, replication_factor: int, inputs: PlanInputs
) -> list[tuple[NodeId, ...]]:
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


def _number(
    state: ClusterState, placed: Sequence[tuple[NodeId, ...]]
) -> tuple[PartitionPlacement, ...]:
    return tuple(
        PartitionPlacement(group=state.next_group + number, replicas=replicas)
        for number, replicas in enumerate(placed)
    )


def _with_policy(name: str, configs: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a new topic: those with tables are compacted, whoever makes them."""
    is_compacted = name in TABLE_TOPICS or name == SCHEMAS_TOPIC
    return {"cleanup.policy": "compact", **configs} if is_compacted else configs


def _check_policy(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Let nobody have the brokers' own records deleted by their age.

    Other options of a topic that is so from before may be changed all the same.
    """
    policy = "cleanup.policy"
    is_changed = before.get(policy) != after.get(policy)
    if name == AUDIT_TOPIC and is_changed and after.get(policy) != "delete":
        raise InvalidConfig(
            f"{name} is the audit log, and its {policy} must be delete: compaction would remove "
            "entries from the middle of it"
        )
    if name == SCHEMAS_TOPIC and is_changed and after.get(policy) != "compact":
        raise InvalidConfig(
            f"{name} is an internal topic, and its {policy} must be compact: otherwise schemas "
            "would be deleted in time"
        )
    if name in TABLE_TOPICS and is_changed and after.get(policy) != "compact":
        raise InvalidConfig(
            f"{name} is an internal topic, and its {policy} must be compact: otherwise committed "
            "offsets and the state of transactions would be deleted in time"
        )


def _check_encryption(
    state: ClusterState, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Let no topic be encrypted of which some broker could not read what is encrypted."""
    wanted = after.get(ENCRYPTION, NONE)
    if wanted in (NONE, before.get(ENCRYPTION)):
        return
    check_may_encrypt(state)


def _named_topic(state: ClusterState, command: DeleteTopic) -> TopicState:
    if command.name is None:
        return state.topic_by_id(TopicId(command.topic_id))
    return state.topic(command.name)


def _plan_deletion(state: ClusterState, command: DeleteTopic, inputs: PlanInputs) -> Plan:
    topic = _named_topic(state, command)
    if topic.name == AUDIT_TOPIC:
        raise InvalidTopic(f"{AUDIT_TOPIC} is the audit log and cannot be deleted")
    if topic.name == SCHEMAS_TOPIC:
        raise InvalidTopic(f"{SCHEMAS_TOPIC} has all schemas: delete subjects at the registry")
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


def _plan_partitions(state: ClusterState, command: CreatePartitions, inputs: PlanInputs) -> Plan:
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
        placed = _place_new(state, wanted - have, factor, inputs)
    numbered = _number(state, placed)
    record = PartitionsAdded(topic_id=topic.topic_id, partitions=numbered)
    grown = plan_cursor_growth(state, topic.topic_id, numbered)
    return Plan(records=[] if command.validate_only else [record, *grown], result=Done())


def _checked_topic(
    before: Mapping[str, str], configs: Mapping[str, str], inputs: PlanInputs
) -> dict[str, str]:
    """Return a topic's options, each checked, and what has changed against the others."""
    try:
        values = TOPIC_OPTIONS.defaults()
        for option in TOPIC_OPTIONS:
            if option.broker_name is not None:
                values[option.name] = inputs.broker_option(option.broker_name)
        values.update(TOPIC_OPTIONS.parse(configs))
        TOPIC_OPTIONS.check_orders(values.__getitem__, _differing(before, configs))
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    return dict(configs)


def _checked_broker(
    state: ClusterState, node: NodeId, configs: Mapping[str, str], inputs: PlanInputs
) -> dict[str, str]:
    """Return a broker's options, each checked, and what has changed against the others.

    What is set for all brokers has to fit on each of them.
    """
    layers = {**state.broker_configs, node: configs}
    changed = _differing(state.broker_configs.get(node, {}), configs)
    try:
        BROKER_OPTIONS.parse(configs)
        for each in layers if node == ALL_BROKERS else (node,):
            values = {name: inputs.start_option(name) for name in BROKER_OPTIONS.names()}
            for layer in (ALL_BROKERS, each):
                values.update(BROKER_OPTIONS.parse_stored(layers.get(layer, {}))[0])
            BROKER_OPTIONS.check_orders(values.__getitem__, changed)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    return dict(configs)


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def _plan_config(state: ClusterState, command: ChangeConfig, inputs: PlanInputs) -> Plan:
    record: AnyMetadataRecord
    if command.topic is not None:
        topic = state.topic(command.topic)
        configs = _changed(TOPIC_OPTIONS, topic.configs, command)
        _check_policy(topic.name, topic.configs, configs)
        _check_encryption(state, topic.name, topic.configs, configs)
        configs = _checked_topic(topic.configs, configs, inputs)
        record = TopicConfigChanged(topic_id=topic.topic_id, configs=configs)
    else:
        node = read_node(command.node)
        if node != ALL_BROKERS and node not in state.brokers:
            raise InvalidRequest(f"there is no broker {node}")
        current = state.broker_configs.get(node, {})
        configs = _changed(BROKER_OPTIONS, current, command)
        configs = _checked_broker(state, node, configs, inputs)
        record = BrokerConfigChanged(node=command.node, configs=configs)
    return Plan(records=[] if command.validate_only else [record], result=Done())


def _plan_group_config(state: ClusterState, command: ChangeGroupConfig, inputs: PlanInputs) -> Plan:
    check_may_set_group_options(state)
    check_group_name(command.group)
    current = state.group_configs.get(command.group, {})
    configs = _changed(GROUP_OPTIONS, current, command)
    try:
        check_group_options(configs, inputs.broker_option)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    if configs and not current and len(state.group_configs) >= GROUPS_MAX:
        raise OverBound(f"{GROUPS_MAX} groups have options already")
    is_news = configs != current and not command.validate_only
    record = GroupConfigChanged(group=command.group, configs=configs)
    return Plan(records=[record] if is_news else [], result=Done())


def _changed(
    table: OptionTable, current: Mapping[str, str], command: ChangeConfig | ChangeGroupConfig
) -> dict[str, str]:
    configs = {} if command.replace_all else dict(current)
    seen: list[str] = []
    for change in command.changes:
        if change.name in seen:
            raise InvalidRequest(f"option {change.name!r} is named twice")
        seen.append(change.name)
        _change_one(table, configs, change)
    return configs


def _change_one(table: OptionTable, configs: dict[str, str], change: ConfigChange) -> None:
    try:
        option = table.get(change.name)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    if not option.dynamic:
        raise InvalidConfig(f"option {option.name} can only be changed by restarting the broker")
    if change.operation == "delete":
        configs.pop(option.name, None)
        return
    if change.value is None:
        raise InvalidConfig(f"option {option.name} needs a value")
    if change.operation == "set":
        configs[option.name] = change.value
        return
    configs[option.name] = _changed_list(option, configs, change)


def _changed_list(option: Option, configs: Mapping[str, str], change: ConfigChange) -> str:
    if option.type is not OptionType.LIST:
        raise InvalidConfig(f"option {option.name} is not a list: it has no append or subtract")
    assert change.value is not None
    words = [word for word in configs.get(option.name, str(option.default)).split(",") if word]
    given = [word.strip() for word in change.value.split(",")]
    if change.operation == "append":
        words.extend(word for word in given if word not in words)
    elif change.operation == "subtract":
        words = [word for word in words if word not in given]
    else:
        raise InvalidRequest(f"unknown operation {change.operation!r}")
    return ",".join(words)


def _plan_quotas(state: ClusterState, command: ChangeQuotas) -> Plan:
    entity = make_entity(command.entity)
    current = state.client_quotas.get(entity, {})
    quotas = dict(current)
    seen: list[str] = []
    for change in command.changes:
        check_quota(entity, change.name, change.value)
        if change.name in seen:
            raise InvalidRequest(f"quota {change.name} is named twice")
        seen.append(change.name)
        if change.value is None:
            quotas.pop(change.name, None)
        else:
            quotas[change.name] = change.value
    if quotas and not current and len(state.client_quotas) >= ENTITIES_MAX:
        raise OverBound(f"{ENTITIES_MAX} entities have quotas already")
    is_news = quotas != current and not command.validate_only
    record = ClientQuotaChanged(entity=entity, quotas=quotas)
    return Plan(records=[record] if is_news else [], result=Done())


def _plan_producer_ids(state: ClusterState, command: AllocateProducerIds) -> Plan:
    first = state.next_producer_id
    if not 1 <= command.count <= 1_000_000:
        raise InvalidRequest(f"a block has from 1 to 1000000 producer ids, not {command.count}")
    if first + command.count > PRODUCER_ID_MAX:
        raise OverBound("all producer ids have been given away")
    record = ProducerIdsAllocated(node=command.node, next_producer_id=first + command.count)
    return Plan(records=[record], result=ProducerIdBlock(first=first, count=command.count))
