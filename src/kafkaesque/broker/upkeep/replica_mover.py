"""Carries out moves of replicas of the partitions that this broker leads (ADR 17).

Theory of operation. What is to be stands in the metadata; how far it is stands in the group's own
configuration. So there is nothing here to be lost: any leader goes on from what it finds.

    take up   the controller writes down this leader's term; leaders before it are refused from then
    learn     whoever is to get a copy becomes a learner, and gets the log like one that was lost
    join      when all have caught up: one change to the wanted voters, by joint consensus
    finish    when that is committed the controller is told, and those left out delete their copies

A move that is stopped, or aimed elsewhere, is another move: it is taken up anew, and learners that
nobody wants any more go with the change of voters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafkaesque.broker.controller.client import ControllerClient, OnOutcome
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.dynamic_options import resolve_options
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.options.replication import FOLLOWER_RATE, LEADER_RATE, UNLIMITED
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.commands import ControllerResult, Done, FinishMove, TakeUpMove
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import GroupId, NodeId
from kafkaesque.model.options import OptionValue
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.errors import ConfigurationChangeRefused
from kafkaesque.raft.progress import ProgressState

#: Partitions led here whose copies are being made at the same time; the others wait. As many more
#: may wait for one broker that is away or refuses them: when it takes them, all are made at once.
COPIES_AT_ONCE_MAX = 20
#: The controller is asked again after this long.
ASK_TIMEOUT_MS = 5_000


class ReplicaMover:
    """The moves of the partitions that this broker leads."""

    def __init__(
        self,
        *,
        metadata: MetadataView,
        driver: RaftDriver,
        node: NodeId,
        reports: Reports,
        controller: ControllerClient,
        options: LiveOptions,
        given: dict[str, OptionValue],
        leaders: LeadersTable,
    ) -> None:
        self._metadata = metadata
        self._driver = driver
        self._node = node
        self._reports = reports
        self._controller = controller
        self._options = options
        #: Options as they were when this broker started.
        self._given = given
        self._leaders = leaders
        #: Moves that were taken up by this broker, each in which term.
        self._taken: dict[GroupId, tuple[int, int]] = {}
        #: Groups for which the controller was asked something.
        self._asking: dict[GroupId, None] = {}
        #: What was committed at the last sweep: whoever has it now has caught up.
        self._committed: dict[GroupId, int] = {}
        self._copies = 0
        #: Copies that wait for a broker that is away, or has said that it cannot take them.
        self._kept_waiting: Counter[NodeId] = Counter()

    def on_sweep(self) -> None:
        """Take the next step of every move, as far as it is possible now."""
        self._set_rates()
        moving = self._metadata.state.moving
        for known in (self._taken, self._committed):
            for group in [group for group in known if group not in moving]:
                del known[group]
        led = [
            (state, replica)
            for group, state in moving.items()
            if (replica := self._driver.get(group)) is not None
            and replica.is_leader
            and replica.term_committed
        ]
        self._count_copies([replica for _, replica in led])
        for state, replica in led:
            self._advance(state, replica)
            self._committed[state.group] = replica.core.commit_index

    def _count_copies(self, replicas: list[Replica]) -> None:
        """See which copies are being made, and which wait for somebody else than this broker."""
        self._copies = 0
        self._kept_waiting.clear()
        for replica in replicas:
            learners = replica.core.configuration.learners
            is_copying = False
            for peer in replica.core.peers:
                if peer.node not in learners:
                    continue
                if not peer.is_alive or peer.is_absent:
                    self._kept_waiting[peer.node] += 1
                elif not self._has_caught_up(replica, peer.node):
                    is_copying = True
            self._copies += is_copying

    def _may_copy(self, nodes: list[NodeId]) -> bool:
        return self._copies < COPIES_AT_ONCE_MAX and all(
            self._kept_waiting[node] < COPIES_AT_ONCE_MAX for node in nodes
        )

    def _advance(self, state: PartitionState, replica: Replica) -> None:
        group, core = state.group, replica.core
        if group in self._asking or not core.is_settled:
            return
        if self._taken.get(group) != (state.move, replica.term):
            self._take_up(state, replica)
            return
        current = core.configuration
        if sorted(current.voters) == sorted(state.target) and not current.learners:
            self._finish(state, replica)
            return
        missing = [node for node in state.target if node not in current.members]
        if missing:
            if self._may_copy(missing):
                self._copies += 1
                learners = (*current.learners, *missing)
                self._change(replica, Configuration(voters=current.voters, learners=learners))
        elif self._may_join(state, replica):
            self._change(replica, Configuration(voters=state.target))

    @staticmethod
    def _change(replica: Replica, target: Configuration) -> None:
        try:
            replica.change_configuration(target)
        except ConfigurationChangeRefused:
            return  # another change has come between: the next sweep looks again

    def _may_join(self, state: PartitionState, replica: Replica) -> bool:
        """Tell whether the wanted voters can commit without the others, at once."""
        ready = [node for node in state.target if self._has_caught_up(replica, node)]
        voters = replica.core.configuration.voters
        if any(node not in ready and node not in voters for node in state.target):
            return False
        count = len(state.target)
        return len(ready) >= max(count // 2 + 1, min(count, replica.min_insync))

    def _has_caught_up(self, replica: Replica, node: NodeId) -> bool:
        if node == self._node:
            return True
        committed = self._committed.get(replica.group)
        peer = next((each for each in replica.core.peers if each.node == node), None)
        return (
            committed is not None
            and peer is not None
            and peer.is_alive
            and not peer.is_absent
            and not peer.amnesia
            and peer.state is ProgressState.REPLICATE
            and peer.synced_index >= committed
        )

    # -- the controller's word

    def _take_up(self, state: PartitionState, replica: Replica) -> None:
        group, term, move = state.group, replica.term, state.move

        def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
            if isinstance(outcome, Done):
                self._taken[group] = (move, term)
                names = ", ".join(map(str, state.target))
                self._reports.info(
                    f"{state.topic_partition}: replicas move to broker(s) {names} (move {move})"
                )

        command = TakeUpMove(group=group, move=move, term=term)
        self._ask(group, command, on_outcome)

    def _finish(self, state: PartitionState, replica: Replica) -> None:
        name, target = state.topic_partition, state.target

        def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
            if isinstance(outcome, Done):
                names = ", ".join(map(str, target))
                self._reports.info(f"{name}: its replicas are on broker(s) {names} now")

        command = FinishMove(group=state.group, move=state.move, term=replica.term)
        self._ask(state.group, command, on_outcome)

    def _ask(self, group: GroupId, command: TakeUpMove | FinishMove, on_outcome: OnOutcome) -> None:
        self._asking[group] = None

        def on_done(outcome: ControllerResult | RequestRefused) -> None:
            self._asking.pop(group, None)
            on_outcome(outcome)

        self._controller.submit(command, ASK_TIMEOUT_MS, on_done)

    # -- how fast

    def _set_rates(self) -> None:
        leader = int(self._options.get(LEADER_RATE))
        rates = self._follower_rates()
        senders = self._senders(rates) if rates else {}
        followers = {
            node: max(1, rate // max(1, len(senders[node]))) for node, rate in rates.items()
        }
        self._driver.throttle.set_rates(leader if leader < UNLIMITED else None, followers)

    def _follower_rates(self) -> dict[NodeId, int]:
        """Return what brokers are to be sent at most, also those that no replica moves to."""
        configs = self._metadata.state.broker_configs
        is_set = int(self._given[FOLLOWER_RATE]) < UNLIMITED
        if not is_set and not any(FOLLOWER_RATE in each for each in configs.values()):
            return {}
        static = self._given
        rates = {
            node: int(resolve_options(static, configs, node).values[FOLLOWER_RATE])
            for node in self._metadata.state.brokers
        }
        return {node: rate for node, rate in rates.items() if rate < UNLIMITED}

    def _senders(self, nodes: Iterable[NodeId]) -> dict[NodeId, dict[NodeId, None]]:
        """Return which brokers lead partitions of which each of these gets copies, or lags behind.

        Who has lost its disk is known to the leaders of its partitions only, so all count of which
        it is not in sync.
        """
        state, table = self._metadata.state, self._leaders
        senders: dict[NodeId, dict[NodeId, None]] = {node: {} for node in nodes}
        for report in table.reports():
            placed = state.partitions_by_group.get(GroupId(report.group))
            leader = None if placed is None else table.leader(placed.group)
            if placed is None or leader is None:
                continue
            for node in placed.replicas:
                if node in senders and node not in report.in_sync:
                    senders[node][leader] = None
        return senders
