"""What the controller decides of its own group's voters (ADR 19)."""

from collections.abc import Collection
from dataclasses import dataclass

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.feature_planner import check_may_change_controllers
from kafkaesque.broker.metadata.features import LEVEL_WITH_CONTROLLERS, METADATA
from kafkaesque.broker.metadata.records import ControllersChanged, FeatureLevelChanged
from kafkaesque.broker.requests.commands import ChangeControllers
from kafkaesque.model.errors import (
    BrokerNotRegistered,
    DuplicateVoter,
    InvalidRequest,
    OverBound,
    VoterNotFound,
)
from kafkaesque.model.ids import NodeId

#: More controllers only make every change wait longer.
CONTROLLERS_MAX = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFacts:
    """What is known of the controllers' group besides the state."""

    #: Those that the cluster was founded with, as this broker's file says.
    founders: tuple[NodeId, ...] = ()
    #: Those that vote now.
    voters: tuple[NodeId, ...] = ()
    #: Members that live and have all that is committed.
    ready: Collection[NodeId] = ()


def wanted_controllers(state: ClusterState, founders: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    """Return who is to vote."""
    return state.controllers or founders


def plan_founders(
    state: ClusterState, levels: list[FeatureLevelChanged], facts: ControllerFacts
) -> list[ControllersChanged]:
    """Return the record of who votes, when it first may be written: files do not count any more."""
    level = next((each.level for each in levels if each.name == METADATA), state.level(METADATA))
    if level < LEVEL_WITH_CONTROLLERS or state.controllers:
        return []
    return [ControllersChanged(voters=facts.founders)]


def plan_controllers(
    state: ClusterState, command: ChangeControllers, facts: ControllerFacts, alive: Collection[int]
) -> list[ControllersChanged]:
    """Return the record of who is to vote; none if that is so.

    Raises:
        FeatureUpdateFailed: an older release could not read it.
        BrokerNotRegistered: there is no such broker.
        DuplicateVoter, VoterNotFound: there is nothing to be changed.
        InvalidRequest: the broker, or the others, cannot do it.
        OverBound: there would be too many.
    """
    check_may_change_controllers(state)
    node = NodeId(command.node)
    wanted = wanted_controllers(state, facts.founders)
    broker = state.brokers.get(node)
    if command.directory_id and broker is not None:
        _check_directory(node, broker.directory_id, command.directory_id)
    if command.is_added:
        if node in wanted and node not in facts.voters:
            return []
        _check_settled(node, wanted, facts)
        _check_added(state, node, wanted, alive)
        return [ControllersChanged(voters=(*wanted, node))]
    if node in facts.voters and node not in wanted:
        return []
    _check_settled(node, wanted, facts)
    remaining = tuple(each for each in wanted if each != node)
    _check_removed(node, wanted, remaining, facts)
    return [ControllersChanged(voters=remaining)]


def _check_directory(node: NodeId, is_there: str, wanted: str) -> None:
    if is_there != wanted:
        raise InvalidRequest(
            f"broker {node} has the data directory {is_there}, not {wanted}: it was replaced"
        )


def _check_settled(node: NodeId, wanted: tuple[NodeId, ...], facts: ControllerFacts) -> None:
    """Refuse a second change, but for one that takes the first back."""
    pending = set(wanted) ^ set(facts.voters)
    if not pending or node in pending:
        return
    other = min(pending)
    if other in wanted:
        raise InvalidRequest(
            f"broker {other} is being added to the controllers and has no vote yet: wait until it "
            f"has the log, or cancel that (kafkaesque cluster controllers remove {other})"
        )
    raise InvalidRequest(
        f"broker {other} is being removed from the controllers: wait until that is done"
    )


def _check_added(
    state: ClusterState, node: NodeId, wanted: tuple[NodeId, ...], alive: Collection[int]
) -> None:
    if node in wanted:
        raise DuplicateVoter(f"broker {node} is a controller already")
    if node not in state.brokers:
        raise BrokerNotRegistered(f"there is no broker {node}")
    if node not in alive:
        raise InvalidRequest(f"broker {node} is down: start it first")
    if len(wanted) >= CONTROLLERS_MAX:
        raise OverBound(f"there are {len(wanted)} controllers; {CONTROLLERS_MAX} is the maximum")


def _check_removed(
    node: NodeId, wanted: tuple[NodeId, ...], remaining: tuple[NodeId, ...], facts: ControllerFacts
) -> None:
    if node not in wanted:
        raise VoterNotFound(
            f"broker {node} is not a controller; the controllers are {_names(wanted)}"
        )
    if not remaining:
        raise InvalidRequest(
            f"broker {node} is the only controller: add another one first (kafkaesque cluster "
            "controllers add BROKER)"
        )
    ready = [each for each in remaining if each in facts.ready]
    if len(ready) <= len(remaining) // 2:
        raise InvalidRequest(
            f"without broker {node} a majority of the controllers {_names(remaining)} would have "
            f"to be up with the whole log, and {_names(ready)} is: start the others, or add one "
            "first"
        )


def _names(nodes: tuple[NodeId, ...] | list[NodeId]) -> str:
    return ", ".join(map(str, sorted(nodes))) or "none"
