"""A broker's replicas in groups that are recovered: what each does when its controller says so.

Theory of operation (ADR 16). Everything here follows from committed metadata. A formation has
begun: the replica enters it, which its hard state makes durable, and from then on serves no earlier
one; then it tells the controller what it has. The formation is decided: the replica that was named
founds it; the others take what it sends. A replica that had no part in an unclean decision may hold
committed records that the group no longer has: it is copied again, and what it had is reported.

All of it may be done again at any time: after a restart, or when metadata come late.
"""

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.records import (
    AnyMetadataRecord,
    GroupReformed,
    RecordsGivenUp,
    RecoveryBegun,
    SurvivorTold,
)
from kafkaesque.broker.metadata.recovery_state import FormationPlan, RecoveryState
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.commands import TellGivenUp, TellSurvivors, ToldSurvivor
from kafkaesque.broker.requests.survivor_report import SurvivorReport
from kafkaesque.model.ids import GroupId, NodeId
from kafkaesque.model.log_line import LogLine
from kafkaesque.raft.configuration import Configuration, write_configuration
from kafkaesque.storage.group_log import GroupLog

#: What was told is told again after this long, until it is in the metadata.
TELL_AGAIN_MS = 1_000
#: Replicas that one request tells of.
TOLD_MAX = 1_000

RecoveryRecord = RecoveryBegun | SurvivorTold | GroupReformed | RecordsGivenUp


class GroupRecovery:
    """Lets the replicas of a broker follow what is decided."""

    def __init__(
        self,
        *,
        metadata: MetadataView,
        partitions: PartitionTable,
        driver: RaftDriver,
        node: NodeId,
        reports: Reports,
        controller: ControllerClient,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._driver = driver
        self._node = node
        self._reports = reports
        self._controller = controller
        #: When a replica's report may be sent again.
        self._told_ms: dict[GroupId, int] = {}

    def on_record(self, record: AnyMetadataRecord) -> None:
        """A committed record was applied."""
        if isinstance(record, RecoveryRecord):
            group = GroupId(record.group)
            self._tell_people(group, record)
            if isinstance(record, RecoveryBegun | GroupReformed):
                self.follow(group)

    def follow_all(self) -> None:
        """Other metadata have taken the place of what was known."""
        for group in list(self._metadata.state.recoveries):
            self.follow(group)

    def follow(self, group: GroupId) -> None:
        """Bring the replica here, if there is one, in line with what is decided."""
        recovery = self._metadata.state.recoveries.get(group)
        partition = self._partitions.get(group)
        if recovery is None or partition is None or partition.replica is None:
            return
        replica = partition.replica
        if replica.is_closed:
            return
        last_index, last_term = replica.core.end_to_be
        if recovery.is_given_up(self._node, last_index, last_term):
            self._partitions.make_anew(partition)
            return
        if recovery.unclean is not None and recovery.has_given_up_after(last_term):
            partition.producers.forget_ahead(recovery.unclean.formation)
        replica.core.enter_formation(recovery.formation, is_decided=not recovery.is_open)
        plan = recovery.plan
        if plan is not None and plan.formation == recovery.formation:
            if plan.leader == self._node:
                self._found(replica, recovery)
        self._driver.touch(replica)

    def _found(self, replica: Replica, recovery: RecoveryState) -> None:
        plan, log = recovery.plan, replica.core.log
        if plan is None or replica.core.is_founded:
            return
        if (log.last_index, log.last_term) != (plan.last_index, plan.last_term):
            self._reports.error(
                f"{replica.name}: this broker was to lead with its log up to index"
                f" {plan.last_index}, and does not have it any more"
            )
            return
        voters = tuple(NodeId(node) for node in plan.voters)
        replica.core.found(plan.formation, Configuration(voters=voters))

    # -- what replicas tell

    def on_sweep(self, now_ms: int) -> None:
        """Tell the controller of replicas that have entered a formation."""
        told: list[ToldSurvivor] = []
        for group, recovery in self._metadata.state.recoveries.items():
            if len(told) >= TOLD_MAX:
                break  # the next sweep goes on
            if not recovery.is_open:
                self._told_ms.pop(group, None)
            elif now_ms >= self._told_ms.get(group, 0) and not self._is_known(recovery):
                report = self._report(group, recovery)
                if report is not None:
                    self._told_ms[group] = now_ms + TELL_AGAIN_MS
                    formation = recovery.formation
                    told.append(ToldSurvivor(group=group, formation=formation, report=report))
        if told:
            self._controller.submit(TellSurvivors(told=told), TELL_AGAIN_MS, _nothing)

    def _is_known(self, recovery: RecoveryState) -> bool:
        return any(report.node == self._node for report in recovery.reports)

    def _report(self, group: GroupId, recovery: RecoveryState) -> SurvivorReport | None:
        partition = self._partitions.get(group)
        if partition is None or partition.replica is None or partition.replica.is_closed:
            return None
        core = partition.replica.core
        log = core.log
        is_ready = core.formation == recovery.formation and core.has_entered
        if not is_ready or log.synced_index < log.last_index or core.amnesia or core.is_installing:
            return None
        return SurvivorReport(
            node=self._node,
            last_index=log.last_index,
            last_term=log.last_term,
            end_offset=partition.log.offset_after(log.last_index),
            configuration=write_configuration(core.configuration),
            committed_index=core.commit_index,
        )

    # -- what is given up

    def is_given_up(self, group: GroupId, log: GroupLog) -> bool:
        """Tell whether a log on the disk is not to be used; asked before it is opened."""
        recovery = self._metadata.state.recoveries.get(group)
        if recovery is None:
            return False
        spans = log.term_spans
        last_term = spans[-1][0] if spans else log.start_term
        return recovery.is_given_up(self._node, log.last_index, last_term)

    def tell_given_up(self, state: PartitionState, log: GroupLog) -> None:
        """A log is about to be copied again: say how much of it the group does not have.

        Of that some was committed; how much is known only in part, and less after a restart.
        """
        recovery = self._metadata.state.recoveries[state.group]
        if recovery.unclean is None:
            return
        begin = recovery.unclean.end_offset
        count = log.offset_after(log.last_index) - begin
        if count <= 0:
            return
        committed = log.offset_after(min(log.commit_hint, log.last_index)) - begin
        known = "how many of them had been committed is not known"
        if committed > 0:
            known = f"at least {committed} of them had been committed"
        sentence = (
            f"{state.topic_partition}: the copy on broker {self._node} is copied again; its"
            f" {count} record(s) from offset {begin} on were given up by an unclean election while"
            f" it was away, and {known}"
        )
        name = str(state.topic_partition)
        self._reports.error(LogLine("records.given-up", sentence, partition=name, count=count))
        command = TellGivenUp(group=state.group, count=count)
        self._controller.submit(command, 10 * TELL_AGAIN_MS, _nothing)

    # -- for people

    def _tell_people(self, group: GroupId, record: RecoveryRecord) -> None:
        state = self._metadata.state.partitions_by_group[group]
        if not self._controller.is_here:
            return
        name = str(state.topic_partition)
        report = self._reports.info
        match record:
            case RecoveryBegun():
                sentence = (
                    f"{name}: it has had no leader for too long, and is being recovered from the"
                    " surviving replicas"
                )
                number = record.formation
                report(LogLine("recovery.begun", sentence, partition=name, formation=number))
            case GroupReformed():
                self._tell_formed(name, record.plan)
            case _:
                pass

    def _tell_formed(self, name: str, plan: FormationPlan) -> None:
        voters = ",".join(map(str, plan.voters))
        how = "nothing that was acknowledged is lost"
        if not plan.is_clean:
            how = (
                f"by an unclean election: acknowledged records from offset {plan.end_offset} on, if"
                " there were any, are given up"
            )
        line = LogLine(
            "group.reformed",
            f"{name}: recovered with replicas {voters}, led by broker {plan.leader}; {how}",
            partition=name,
            formation=plan.formation,
            leader=plan.leader,
            voters=voters,
            clean=plan.is_clean,
            offset=plan.end_offset,
        )
        if plan.is_clean:
            self._reports.info(line)
        else:
            self._reports.error(line)


def _nothing(outcome: object) -> None:
    """What is told is told again until it is in the metadata."""
