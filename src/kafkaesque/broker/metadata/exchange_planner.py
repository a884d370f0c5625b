"""What the controller decides of virtual hosts, exchanges and bindings, as records."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from kafkaesque.access.rules import VHOST_MARK
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.feature_planner import check_may_have_exchanges
from kafkaesque.broker.metadata.key_planner import keys_that_end_with
from kafkaesque.broker.metadata.policy_planner import plan_policy, plan_policy_removal
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName, check_vhost
from kafkaesque.broker.metadata.records import AnyMetadataRecord, RoutingChanged, TopicDeleted
from kafkaesque.broker.options.queues import TRANSFORMATION_OUT
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    DeleteExchange,
    DeleteVhost,
    ExchangeCommand,
    PutPolicy,
    PutTransformation,
    RemovePolicy,
    RemoveTransformation,
    UnbindDestination,
)
from kafkaesque.model.counted import counted, have
from kafkaesque.model.errors import InvalidRequest, OverBound
from kafkaesque.routing.errors import BadName, NotExpressible
from kafkaesque.routing.exchanges import planner, transformation_planner
from kafkaesque.routing.exchanges.errors import BadArgument, NoSuchVhost, TransformationInUse
from kafkaesque.routing.exchanges.records import (
    AnyRoutingRecord,
    Bound,
    ExchangeDeclared,
    TransformationPut,
    Unbound,
    VhostAdded,
    VhostRemoved,
)

#: Each has its exchanges in the memory of every broker.
VHOSTS_MAX: Final = 10_000


def plan_exchanges(
    state: ClusterState, command: ExchangeCommand, wall_ms: int
) -> list[AnyMetadataRecord]:
    """Return the records that do what is asked; none if it is done already.

    Raises:
        RequestRefused: it cannot be done; see `routing.exchanges.planner`.
    """
    check_may_have_exchanges(state)
    match command:
        case CreateVhost():
            return _plan_vhost(state, command)
        case DeleteVhost():
            return _plan_vhost_deletion(state, command, wall_ms)
        case DeclareExchange():
            return _changes(_plan_exchange(state, command))
        case DeleteExchange():
            return _changes(
                planner.delete_exchange(
                    state.routing, command.vhost, command.name, if_unused=command.if_unused
                )
            )
        case BindDestination():
            return _changes(_plan_binding(state, command))
        case UnbindDestination():
            unwanted = Unbound(
                vhost=command.vhost,
                source=command.source,
                destination=command.destination,
                key=command.key,
                arguments=command.arguments,
            )
            return _changes(planner.unbind(state.routing, unwanted))
        case PutPolicy():
            return _changes(plan_policy(state, command))
        case RemovePolicy():
            return _changes(plan_policy_removal(state, command))
        case PutTransformation():
            return _changes(_plan_transformation(state, command))
        case RemoveTransformation(vhost=vhost, name=name):
            return _changes(_plan_transformation_removal(state, vhost, name))


def exchanges_that_end_with_queue(state: ClusterState, queue: QueueName) -> list[AnyMetadataRecord]:
    """Return the ends of exchanges that are deleted with a queue."""
    if queue.vhost not in state.routing.vhosts:
        return []
    # The queue's own record is another one.
    return _changes(planner.remove_queue(state.routing, queue.vhost, queue.name)[1:])


def exchanges_that_end_with_topic(state: ClusterState, topic: str) -> list[AnyMetadataRecord]:
    """Return the ends of exchanges that are deleted with a topic."""
    return _changes(planner.remove_topic(state.routing, topic))


def check_may_add_vhost(state: ClusterState, vhost: str) -> None:
    """Refuse one virtual host too many; one that is there is well.

    Raises:
        OverBound: there are too many.
    """
    vhosts = state.routing.vhosts
    if vhost not in vhosts and len(vhosts) >= VHOSTS_MAX:
        raise OverBound(f"there are {VHOSTS_MAX} virtual hosts already")


def _changes(records: Iterable[AnyRoutingRecord]) -> list[AnyMetadataRecord]:
    return [RoutingChanged(change=each) for each in records]


def _check_exchange_name(vhost: str, name: str) -> None:
    """Refuse a name that rules could not tell from one of another virtual host.

    Raises:
        BadArgument: it begins as those do.
    """
    if vhost == DEFAULT_VHOST and name.startswith(VHOST_MARK):
        raise BadArgument(f"names of exchanges do not begin with {VHOST_MARK!r}")


def _plan_vhost(state: ClusterState, command: CreateVhost) -> list[AnyMetadataRecord]:
    check_vhost(command.vhost)
    if command.vhost in state.routing.vhosts:
        return []
    check_may_add_vhost(state, command.vhost)
    return _changes([VhostAdded(vhost=command.vhost)])


def _plan_vhost_deletion(
    state: ClusterState, command: DeleteVhost, wall_ms: int
) -> list[AnyMetadataRecord]:
    if command.vhost == DEFAULT_VHOST:
        raise InvalidRequest(f"the virtual host {DEFAULT_VHOST!r} is always there")
    if command.vhost not in state.routing.vhosts:
        raise NoSuchVhost(f"vhost '{command.vhost}' not found")
    records: list[AnyMetadataRecord] = [
        TopicDeleted(topic_id=each.topic_id, name=each.name, at_ms=wall_ms)
        for each in state.queues_of(command.vhost)
    ]
    for each in state.queues_of(command.vhost):
        records += keys_that_end_with(state, each.topic_id)
    return records + _changes([VhostRemoved(vhost=command.vhost)])


def _plan_exchange(state: ClusterState, command: DeclareExchange) -> list[AnyRoutingRecord]:
    _check_exchange_name(command.vhost, command.name)
    wanted = ExchangeDeclared(
        vhost=command.vhost,
        name=command.name,
        type=command.type,
        is_durable=command.is_durable,
        is_auto_delete=command.is_auto_delete,
        is_internal=command.is_internal,
        arguments=command.arguments,
    )
    return planner.declare_exchange(state.routing, wanted, has_topic=partial(has_topic, state))


def has_topic(state: ClusterState, name: str) -> bool:
    """Tell whether there is a topic that clients may write to."""
    return name in state.topics and not state.topics[name].is_internal


def _plan_binding(state: ClusterState, command: BindDestination) -> list[AnyRoutingRecord]:
    wanted = Bound(
        vhost=command.vhost,
        source=command.source,
        destination=command.destination,
        key=command.key,
        arguments=command.arguments,
    )

    to = command.destination
    if to.is_exchange and to.is_topic:
        raise InvalidRequest("a binding leads to an exchange or to a topic, not to both")
    if not to.is_exchange and not to.is_topic:
        queue = state.queues.get(QueueName(command.vhost, to.name))
        if queue is not None and queue.source is not None:
            raise InvalidRequest(
                f"queue {queue.queue} takes its messages from a topic: bind the topic instead"
            )
    try:
        return planner.bind(state.routing, wanted, has_topic=partial(has_topic, state))
    except (BadName, NotExpressible) as error:
        raise BadArgument(str(error)) from None


def _plan_transformation(state: ClusterState, command: PutTransformation) -> list[AnyRoutingRecord]:
    failures = command.rule.failures
    queue = state.queues.get(QueueName(command.vhost, failures)) if failures else None
    if queue is not None and queue.source is not None:
        raise InvalidRequest(
            f"queue {queue.queue} takes its messages from a topic, and no failures"
        )
    wanted = TransformationPut(vhost=command.vhost, name=command.name, rule=command.rule)
    return transformation_planner.put_transformation(state.routing, wanted)


def _plan_transformation_removal(
    state: ClusterState, vhost: str, name: str
) -> list[AnyRoutingRecord]:
    queues = state.queues_by_vhost.get(vhost, {})
    count = sum(each.options.get(TRANSFORMATION_OUT) == name for each in queues.values())
    if count:
        raise TransformationInUse(
            f"{counted(count, 'queue')} in vhost '{vhost}' {have(count)} "
            f"transformation.out={name}: change {'it' if count == 1 else 'them'} first"
        )
    return transformation_planner.remove_transformation(state.routing, vhost, name)
