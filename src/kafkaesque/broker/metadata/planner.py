"""What the controller decides: a command and the state give records and an answer, or a refusal.

Pure functions over `ClusterState`; nothing is proposed here.
"""

from collections.abc import Sequence

from kafkaesque.broker.metadata.access_planner import plan_access, plan_first_access
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.config_planner import plan_config, plan_group_config, plan_quotas
from kafkaesque.broker.metadata.controller_planner import (
    plan_controllers,
    plan_founders,
    wanted_controllers,
)
from kafkaesque.broker.metadata.exchange_planner import plan_exchanges
from kafkaesque.broker.metadata.feature_planner import check_may_move, plan_first_levels, plan_level
from kafkaesque.broker.metadata.features import LEVEL_WITH_LISTENERS, METADATA
from kafkaesque.broker.metadata.move_planner import (
    list_moves,
    plan_finish,
    plan_moves,
    plan_take_up,
)
from kafkaesque.broker.metadata.plan import Plan, PlanInputs
from kafkaesque.broker.metadata.queue_planner import (
    plan_queue,
    plan_queue_change,
    plan_queue_deletion,
    plan_share_group_deletion,
    plan_share_queue,
)
from kafkaesque.broker.metadata.records import (
    BrokerRegistered,
    BrokerRemoved,
    Endpoint,
    FeatureLevelChanged,
    ProducerIdsAllocated,
)
from kafkaesque.broker.metadata.recovery_planner import (
    plan_asked,
    plan_begin,
    plan_decision,
    plan_given_up,
    plan_told,
)
from kafkaesque.broker.metadata.topic_planner import (
    number_groups,
    place_new,
    plan_deletion,
    plan_partitions,
    plan_topic,
)
from kafkaesque.broker.metadata.transient_queues import ends_with_broker
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
    ControllerCommand,
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
from kafkaesque.model.errors import BrokerNotRegistered, DuplicateBroker, InvalidRequest, OverBound
from kafkaesque.model.ids import NodeId

PRODUCER_ID_MAX = 2**63 - 1


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
            return plan_topic(state, command, inputs)
        case DeleteTopic():
            return plan_deletion(state, command, inputs)
        case CreatePartitions():
            return plan_partitions(state, command, inputs)
        case ChangeConfig():
            return plan_config(state, command, inputs)
        case ChangeGroupConfig():
            return plan_group_config(state, command, inputs)
        case ChangeQuotas():
            return plan_quotas(state, command)
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
    gone = ends_with_broker(state, NodeId(command.node), inputs.wall_ms, but=command.incarnation)
    return Plan(records=[*levels, *founders, *users, *gone, *news], result=Done())


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
    gone = ends_with_broker(state, node, inputs.wall_ms)
    return Plan(records=[*gone, BrokerRemoved(node=node)], result=Done())


def _plan_queues(state: ClusterState, command: QueueCommand, inputs: PlanInputs) -> Plan:
    match command:
        case CreateQueue():
            log_id, records = plan_queue(
                state,
                command,
                place=lambda count: number_groups(
                    state, place_new(state, count, command.replication_factor, inputs)
                ),
                number=lambda placed: number_groups(state, placed),
                new_id=inputs.new_topic_id,
                wall_ms=inputs.wall_ms,
                per_user_max=int(str(inputs.broker_option("user.queues.max"))),
                incarnation=inputs.incarnation,
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
                number=lambda placed: number_groups(state, placed),
                new_id=inputs.new_topic_id,
                wall_ms=inputs.wall_ms,
            )
            return Plan(records=list(made), result=QueueResult(log_id=log_id))
        case DeleteShareGroup():
            ended = plan_share_group_deletion(state, command, inputs.wall_ms)
            return Plan(records=list(ended), result=Done())


def _plan_producer_ids(state: ClusterState, command: AllocateProducerIds) -> Plan:
    first = state.next_producer_id
    if not 1 <= command.count <= 1_000_000:
        raise InvalidRequest(f"a block has from 1 to 1000000 producer ids, not {command.count}")
    if first + command.count > PRODUCER_ID_MAX:
        raise OverBound("all producer ids have been given away")
    record = ProducerIdsAllocated(node=command.node, next_producer_id=first + command.count)
    return Plan(records=[record], result=ProducerIdBlock(first=first, count=command.count))
