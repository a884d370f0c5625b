"""The leading controller's watch over groups without a leader, and how it recovers them (ADR 16).

A group that has had no leader for `broker.session.timeout.ms`, as far as this broker knows, is
recovered if it has lost its majority and enough of its replicas are alive (any of them, where an
unclean election is allowed). A group whose majority is alive elects a leader by itself. If it has
none after several times that long, its replicas have lost their votes with their disks, or cannot
reach one another.

A group that has a leader may still be stuck: if replicas are offline on live brokers (damaged
copies), it can be read but commits nothing. Its leader reports that. The group is recovered after
the longer time if the replicas that take part are enough without the others. Otherwise it stays as
it is, because it can be read. It may get stuck again, where the others report their logs but accept
no records (a full disk): then each wait is twice as long as the one before.

Nothing of this has to be right for safety: to begin too soon costs a change of leader.
"""

from collections.abc import Sequence

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY, RecoveryState
from kafkaesque.broker.options.topic_config import make_topic_config
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.commands import BeginRecovery, DecideRecovery
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import FeatureUpdateFailed, RequestRefused
from kafkaesque.model.ids import GroupId, NodeId
from kafkaesque.raft.recovery import survivors_needed

#: So long it is waited for replicas that live and have not told yet what they have.
GATHER_MS = 2_000
#: Where a majority lives it is given so many times as long to elect a leader.
PATIENCE = 4
#: It is waited so many times twice as long at most, and begun with the first wait after so long.
DOUBLINGS_MAX = 6
FORGET_STUCK_MS = 3_600_000
#: Groups that begin in one sweep.
BEGUN_MAX = 1_000


class RecoveryWatch:
    """Looks on every sweep, and does nothing while another broker's controller leads."""

    def __init__(
        self,
        *,
        controller: ControllerClient,
        metadata: MetadataView,
        leaders: LeadersTable,
        clock: Clock,
        options: LiveOptions,
        reports: Reports,
        peers: PeerNetwork,
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._leaders = leaders
        self._clock = clock
        self._options = options
        self._reports = reports
        self._peers = peers
        #: Groups without a leader, and since when.
        self._since_ms: dict[GroupId, int] = {}
        #: How often each of them had been recovered then.
        self._formed: dict[GroupId, int] = {}
        self._looked_at: tuple[int, int] | None = None
        #: Groups that were recovered in spite of a leader: how often, and when the last time.
        self._unstuck: dict[GroupId, tuple[int, int]] = {}
        #: Formations that wait for a decision: which, since when, and what was looked at last.
        self._open: dict[GroupId, tuple[int, int]] = {}
        self._tried: dict[GroupId, tuple[int, int, bool]] = {}

    def on_sweep(self, now_ms: int) -> None:
        """See who leads, begin what is due, and decide what can be."""
        if not self._controller.is_here:
            self._looked_at = None
            for table in (self._since_ms, self._formed, self._unstuck, self._open, self._tried):
                table.clear()
            return
        self._look(now_ms)
        self._begin(now_ms)
        for group, recovery in list(self._metadata.state.recoveries.items()):
            if recovery.is_open:
                self._maybe_decide(group, recovery, now_ms)
            else:
                self._open.pop(group, None)
                self._tried.pop(group, None)

    def _look(self, now_ms: int) -> None:
        versions = (self._leaders.version, self._metadata.state.version)
        if versions == self._looked_at:
            return
        self._looked_at = versions
        leaderless = {
            group
            for group in self._metadata.state.partitions_by_group
            if self._leaders.leader(group) is None or self._is_stuck(group)
        }
        formed = {
            group: _count_formed(self._metadata.state.recoveries.get(group)) for group in leaderless
        }
        # One that has just been recovered is given the time to elect.
        self._since_ms = {
            group: self._since_ms[group] if self._formed.get(group) == count else now_ms
            for group, count in formed.items()
        }
        self._formed = formed
        placed = self._metadata.state.partitions_by_group
        for group in [each for each in self._unstuck if each not in placed]:
            del self._unstuck[group]

    def _is_stuck(self, group: GroupId) -> bool:
        report = self._leaders.get(group)
        return report is not None and report.leader >= 0 and report.is_stuck

    def _begin(self, now_ms: int) -> None:
        delay_ms = int(self._options.get("broker.session.timeout.ms"))
        due: list[int] = []
        for group, since_ms in self._since_ms.items():
            if len(due) >= BEGUN_MAX:
                break
            waited_ms = now_ms - since_ms
            if waited_ms >= delay_ms and self._is_due(group, waited_ms, delay_ms, now_ms):
                due.append(group)
                self._since_ms[group] = now_ms  # the next one has to wait as long
        if due:
            wall_ms = self._clock.wall_ms()
            command = BeginRecovery(groups=due, at_ms=wall_ms)
            self._controller.submit_here(command, self._on_begun)

    def _on_begun(self, outcome: object) -> None:
        """What came of it is seen in the metadata; a later sweep tries again."""
        if isinstance(outcome, FeatureUpdateFailed):
            self._reports.error(f"partitions without a leader cannot be recovered: {outcome}")

    def _is_due(self, group: GroupId, waited_ms: int, delay_ms: int, now_ms: int) -> bool:
        state = self._metadata.state.partitions_by_group.get(group)
        recovery = self._metadata.state.recoveries.get(group)
        if state is None or (recovery is not None and recovery.is_open):
            return False
        alive = self._alive(state)
        if self._leaders.leader(group) is not None:
            return self._is_stuck_for_long(state, alive, waited_ms, delay_ms, now_ms)
        is_quorate = all(
            2 * sum(node in alive for node in nodes) > len(nodes) for nodes in _voters(state)
        )
        if is_quorate and waited_ms < PATIENCE * delay_ms:
            return False
        return self._may_be_covered(state, alive) or (bool(alive) and self._may_be_unclean(state))

    def _is_stuck_for_long(
        self,
        state: PartitionState,
        alive: list[NodeId],
        waited_ms: int,
        delay_ms: int,
        now_ms: int,
    ) -> bool:
        count, last_ms = self._unstuck.get(state.group, (0, 0))
        if now_ms - last_ms >= FORGET_STUCK_MS:
            count = 0
        report = self._leaders.get(state.group)
        if report is None or waited_ms < PATIENCE * delay_ms << min(count, DOUBLINGS_MAX):
            return False
        able = [node for node in alive if node not in report.offline]
        if not self._may_be_covered(state, able):
            return False
        self._unstuck[state.group] = (count + 1, now_ms)
        return True

    def _alive(self, state: PartitionState) -> list[NodeId]:
        return [node for node in state.replicas if self._peers.is_alive(node)]

    def _may_be_covered(self, state: PartitionState, alive: list[NodeId]) -> bool:
        """Tell whether enough may live; they themselves know better who has a vote."""
        plan = self._metadata.state.recoveries.get(state.group, NO_RECOVERY).plan
        sets: list[Sequence[int]] = [*_voters(state)]
        if plan is not None:
            sets.append(plan.voters)
        return any(
            sum(node in alive for node in nodes) >= survivors_needed(len(nodes)) for nodes in sets
        )

    def _may_be_unclean(self, state: PartitionState) -> bool:
        configs = self._metadata.state.configs_of(state)
        return make_topic_config(configs, self._options.values).unclean_leader_election

    def _maybe_decide(self, group: GroupId, recovery: RecoveryState, now_ms: int) -> None:
        formation, since_ms = self._open.get(group, (0, 0))
        if formation != recovery.formation:
            self._open[group] = (recovery.formation, now_ms)
            since_ms = now_ms
        state = self._metadata.state.partitions_by_group[group]
        told = {report.node for report in recovery.reports}
        is_gathered = now_ms - since_ms >= GATHER_MS
        if not told or not (is_gathered or told.issuperset(self._alive(state))):
            return
        may_be_unclean = is_gathered and self._may_be_unclean(state)
        tried = (recovery.formation, len(told), may_be_unclean)
        if self._tried.get(group) == tried:
            return  # nothing is new
        self._tried[group] = tried
        command = DecideRecovery(
            group=group,
            formation=recovery.formation,
            may_be_unclean=may_be_unclean,
            at_ms=self._clock.wall_ms(),
        )

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                self._tried.pop(group, None)  # the next sweep tries again

        self._controller.submit_here(command, on_outcome)


def _count_formed(recovery: RecoveryState | None) -> int:
    return 0 if recovery is None else recovery.formation - recovery.is_open


def _voters(state: PartitionState) -> list[tuple[NodeId, ...]]:
    """Return who may have a vote: while replicas move, those before, those after, or both."""
    return [state.settled, state.target] if state.is_moving else [state.replicas]
