"""What the controller decides of groups that have lost their quorum (ADR 16).

Each step is a committed record before anybody acts on it. Planned against the applied state, one
after the other, so that of two controllers that want the same only one can have it.
"""

from kafkaesque.broker.cluster_state import ClusterState
from kafkaesque.broker.commands import BeginRecovery, DecideRecovery, TellGivenUp, TellSurvivors
from kafkaesque.broker.metadata_records import (
    AnyMetadataRecord,
    GroupReformed,
    RecordsGivenUp,
    RecoveryBegun,
    SurvivorTold,
)
from kafkaesque.broker.recovery_state import NO_RECOVERY
from kafkaesque.model.ids import GroupId
from kafkaesque.raft.formation import FORMATION_MAX


def plan_begin(state: ClusterState, command: BeginRecovery) -> list[AnyMetadataRecord]:
    """Return a record for each group that is there, and in no recovery that waits for replicas.

    One that cannot be told from an earlier one any more stays as it is.
    """
    records: list[AnyMetadataRecord] = []
    for group in dict.fromkeys(command.groups):
        recovery = state.recoveries.get(GroupId(group), NO_RECOVERY)
        is_free = recovery is NO_RECOVERY or not recovery.is_open
        # While replicas move, more than one set of voters may be in force.
        is_known = GroupId(group) in state.partitions_by_group
        is_known = is_known and GroupId(group) not in state.moving
        if is_known and is_free and recovery.formation < FORMATION_MAX:
            records.append(RecoveryBegun(group=group, formation=recovery.formation + 1))
    return records


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
