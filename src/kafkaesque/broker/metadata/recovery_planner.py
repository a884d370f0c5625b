"""What the controller decides of groups that have lost their quorum (ADR 16).

Each step is a committed record before anybody acts on it. Planned against the applied state, one
after the other, so that of two controllers that want the same only one can have it.
"""

from collections.abc import Callable, Collection

import msgspec

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.feature_planner import check_may_recover
from kafkaesque.broker.metadata.records import (
    AnyMetadataRecord,
    GroupReformed,
    RecordsGivenUp,
    RecoveryBegun,
    SurvivorTold,
)
from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY
from kafkaesque.broker.requests.commands import (
    AskElection,
    BeginRecovery,
    DecideRecovery,
    TellGivenUp,
    TellSurvivors,
)
from kafkaesque.model.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import GroupId, NodeId
from kafkaesque.raft.formation import FORMATION_MAX


def plan_begin(state: ClusterState, command: BeginRecovery) -> list[AnyMetadataRecord]:
    """Return a record for each group that is there, and in no recovery that waits for replicas.

    One that cannot be told from an earlier one any more stays as it is.

    Raises:
        FeatureUpdateFailed: brokers of an earlier release could not read it.
    """
    check_may_recover(state)
    records: list[AnyMetadataRecord] = []
    for number in dict.fromkeys(command.groups):
        group = GroupId(number)
        if group in state.partitions_by_group:
            records += _begin(state, group, command.at_ms)
    return records


def _begin(state: ClusterState, group: GroupId, at_ms: int) -> list[AnyMetadataRecord]:
    recovery = state.recoveries.get(group, NO_RECOVERY)
    is_free = recovery is NO_RECOVERY or not recovery.is_open
    if not is_free or recovery.formation >= FORMATION_MAX:
        return []
    return [RecoveryBegun(group=group, formation=recovery.formation + 1, at_ms=at_ms)]


def plan_asked(
    state: ClusterState,
    command: AskElection,
    *,
    alive: Collection[NodeId],
    leader: Callable[[GroupId], NodeId | None],
) -> list[AnyMetadataRecord]:
    """Return the record by which the recovery begins that an administrator has asked for.

    None if there is a later formation than was known, or the newest waits for replicas.

    Raises:
        FeatureUpdateFailed: brokers of an earlier release could not read it.
        UnknownTopicOrPartition: the group is gone.
        ElectionNotNeeded: the group has a leader.
        EligibleLeadersNotAvailable: nobody lives who could lead it.
    """
    check_may_recover(state)
    group = GroupId(command.group)
    partition = state.partitions_by_group.get(group)
    if partition is None:
        raise UnknownTopicOrPartition(f"group {group} does not exist")
    name, leading = partition.topic_partition, leader(group)
    if leading is not None:
        raise ElectionNotNeeded(f"broker {leading} leads {name}")
    if not any(node in alive for node in partition.replicas):
        raise EligibleLeadersNotAvailable(
            f"none of the brokers that hold {name} is alive: start one of "
            f"{', '.join(map(str, partition.replicas))}"
        )
    if state.recoveries.get(group, NO_RECOVERY).formation != command.after:
        return []
    return _begin(state, group, command.at_ms)


def plan_told(state: ClusterState, command: TellSurvivors) -> list[AnyMetadataRecord]:
    """Return a record for each report that is waited for."""
    return [
        SurvivorTold(group=told.group, formation=told.formation, report=told.report)
        for told in command.told
        if _is_open(state, told.group, told.formation)
    ]


def plan_decision(state: ClusterState, command: DecideRecovery) -> list[AnyMetadataRecord]:
    """Return the decision, if those that have told can go on: cleanly, or as is allowed."""
    group = GroupId(command.group)
    if not _is_open(state, command.group, command.formation):
        return []
    replicas = state.partitions_by_group[group].replicas
    plan = state.recoveries[group].find_plan(replicas)
    if plan is None or not (plan.is_clean or command.may_be_unclean):
        return []
    plan = msgspec.structs.replace(plan, at_ms=command.at_ms)
    return [GroupReformed(group=command.group, plan=plan)]


def plan_given_up(state: ClusterState, command: TellGivenUp) -> list[AnyMetadataRecord]:
    """Return a record of what a replica had that was given up, if that is more than is known."""
    recovery = state.recoveries.get(GroupId(command.group), NO_RECOVERY)
    if recovery.unclean is None or recovery.given_up >= command.count:
        return []
    return [RecordsGivenUp(group=command.group, count=command.count)]


def _is_open(state: ClusterState, group: int, formation: int) -> bool:
    recovery = state.recoveries.get(GroupId(group))
    is_known = GroupId(group) in state.partitions_by_group
    return (
        is_known and recovery is not None and recovery.is_open and recovery.formation == formation
    )
