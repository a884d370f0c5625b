"""What the controller decides of feature levels: see `kafkaesque.broker.metadata.features`."""

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import (
    KNOWN,
    LEVEL_WITH_ACCESS,
    LEVEL_WITH_CONTROLLERS,
    LEVEL_WITH_EXCHANGES,
    LEVEL_WITH_GROUP_OPTIONS,
    LEVEL_WITH_MOVES,
    LEVEL_WITH_QUEUES,
    LEVEL_WITH_RECOVERY,
    METADATA,
    UNSAID,
)
from kafkaesque.broker.metadata.records import FeatureLevelChanged
from kafkaesque.broker.requests.commands import RaiseFeature, RegisterBroker
from kafkaesque.model.errors import FeatureUpdateFailed, InvalidFeatureLevel


def plan_first_levels(state: ClusterState, command: RegisterBroker) -> list[FeatureLevelChanged]:
    """Return the levels of a new cluster, by its first broker.

    Raises:
        FeatureUpdateFailed: the broker does not know a level that is in force.
    """
    for name, level in state.features.items():
        low, high = command.features.get(name, UNSAID)
        if not low <= level <= high:
            raise FeatureUpdateFailed(
                f"broker {command.node} supports levels {low} to {high} of {name}, and the cluster "
                f"uses {level}: install the release that the other brokers have"
            )
    is_new = not state.brokers and not state.topics and not state.features
    if not is_new:
        return []
    return [
        FeatureLevelChanged(name=name, level=high, epoch=number)
        for number, (name, (_, high)) in enumerate(sorted(command.features.items()), start=1)
        if high > UNSAID[0]
    ]


def plan_level(state: ClusterState, command: RaiseFeature) -> list[FeatureLevelChanged]:
    """Return the record that raises a level.

    Raises:
        InvalidFeatureLevel: there is no such feature, a broker does not know the level, or it is
            below the one in force.
    """
    name, level, now = command.name, command.level, state.level(command.name)
    if name not in KNOWN:
        raise InvalidFeatureLevel(f"there is no feature {name!r}; there is {', '.join(KNOWN)}")
    if level < now:
        raise InvalidFeatureLevel(f"{name} is at level {now}, and does not go back to {level}")
    for node, broker in sorted(state.brokers.items()):
        low, high = broker.features.get(name, UNSAID)
        if not low <= level <= high:
            raise InvalidFeatureLevel(
                f"broker {node} supports levels {low} to {high} of {name}, not {level}: upgrade it "
                "to this release first"
            )
    if level == now or command.validate_only:
        return []
    return [FeatureLevelChanged(name=name, level=level, epoch=state.features_epoch + 1)]


def check_may_move(state: ClusterState) -> None:
    """Refuse what brokers of an earlier release could not read.

    Raises:
        FeatureUpdateFailed: the level is too low.
    """
    _check_level(state, "replicas can be moved", LEVEL_WITH_MOVES)


def check_may_change_controllers(state: ClusterState) -> None:
    """Refuse what brokers of an earlier release could not read, or would do unsafely.

    Raises:
        FeatureUpdateFailed: the level is too low.
    """
    _check_level(state, "controllers can be changed", LEVEL_WITH_CONTROLLERS)


def check_may_recover(state: ClusterState) -> None:
    """Refuse what brokers of an earlier release could not read.

    Raises:
        FeatureUpdateFailed: the level is too low.
    """
    _check_level(state, "partitions can be recovered from surviving replicas", LEVEL_WITH_RECOVERY)


def check_may_change_access(state: ClusterState) -> None:
    """Refuse what brokers of an earlier release could not read.

    Raises:
        FeatureUpdateFailed: the level is too low.
    """
    _check_level(state, "users and rules can be stored", LEVEL_WITH_ACCESS)


def check_may_encrypt(state: ClusterState) -> None:
    """Refuse what brokers of an earlier release would send to clients as it lies on the disk.

    Raises:
        FeatureUpdateFailed: the level is too low.
    """
    _check_level(state, "topics can be encrypted", LEVEL_WITH_ACCESS)


def check_may_have_queues(state: ClusterState) -> None:
    """Refuse what brokers of an earlier release could not read.

    Raises:
        FeatureUpdateFailed: the level is too low.
    """
    _check_level(state, "there can be queues", LEVEL_WITH_QUEUES)


def check_may_have_exchanges(state: ClusterState) -> None:
    """Refuse what brokers of an earlier release could not read.

    Raises:
        FeatureUpdateFailed: the level is too low.
    """
    _check_level(state, "there can be exchanges", LEVEL_WITH_EXCHANGES)


def check_may_set_group_options(state: ClusterState) -> None:
    """Refuse what brokers of an earlier release could not read.

    Raises:
        FeatureUpdateFailed: the level is too low.
    """
    _check_level(state, "groups can have options", LEVEL_WITH_GROUP_OPTIONS)


def _check_level(state: ClusterState, what: str, wanted: int) -> None:
    level = state.level(METADATA)
    if level < wanted:
        raise FeatureUpdateFailed(
            f"{what} when {METADATA} is at level {wanted}; it is at {level}: kafkaesque cluster "
            "upgrade"
        )
