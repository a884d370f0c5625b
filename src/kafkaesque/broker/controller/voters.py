"""Brings the controllers' group to the voters that there are to be (ADR 19).

Theory of operation. As with moves of partitions (ADR 17), what is to be stands in the metadata, and
how far it is stands in the group's own configuration; any leader goes on from what it finds. All
brokers are members. Whoever is to vote is made a voter by the core, by joint consensus, when it is
a learner that has what is committed and is not amnesiac (`raft.readmission`). Whoever is to vote no
more is made a learner here, when a majority of those that stay live and have the log; a leader that
is to go hands over to one of them first. No copy is deleted, so nobody has to be fenced.
"""

from contextlib import suppress

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.controller_planner import ControllerFacts, wanted_controllers
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.requests.commands import ControllerCopy, ControllersView
from kafkaesque.model.errors import NotController, NotLeader
from kafkaesque.model.ids import NodeId
from kafkaesque.model.log_line import LogLine
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.errors import ConfigurationChangeRefused, TransferRefused
from kafkaesque.raft.progress import ProgressState


class ControllerVoters:
    """Who votes in the controllers' group, as this broker knows and, where it leads, as it does."""

    def __init__(self, founders: tuple[NodeId, ...], node: NodeId) -> None:
        self._founders = founders
        self._node = node
        self._wanted = founders
        self.replica: Replica | None = None

    def current(self) -> tuple[NodeId, ...]:
        """Return who votes, in either half of a change; the founders while nothing is known."""
        if self.replica is None:
            return self._founders
        configuration = self.replica.core.configuration
        return tuple(each for each in configuration.members if configuration.is_voter(each))

    @property
    def has_lost_log(self) -> bool:
        """Whether this broker is a controller, and what it had of the log is gone with its disk.

        It has no vote until the others have taken it in, for which a majority has to have its log.
        """
        replica = self.replica
        return replica is not None and replica.core.amnesia > 0 and self._node in self.current()

    def known(self) -> list[NodeId]:
        """Return whom to ask for the controller: who votes now, and whom this broker's file names.

        The first may be out of date here.
        """
        return [*dict.fromkeys((*self.current(), *self._founders))]

    def facts(self) -> ControllerFacts:
        """Return what a plan of a change needs."""
        return ControllerFacts(
            founders=self._founders, voters=self.current(), ready=self._ready_members()
        )

    def _ready_members(self) -> list[NodeId]:
        """Return who lives and has what is committed, on the leader."""
        replica = self.replica
        if replica is None or not replica.is_leader:
            return []
        floor_index = replica.core.commit_index
        ready = [
            peer.node
            for peer in replica.core.peers
            if peer.is_alive
            and not peer.is_absent
            and not peer.amnesia
            and peer.state is ProgressState.REPLICATE
            and peer.synced_index >= floor_index
        ]
        return [self._node, *ready]

    def view(self, state: ClusterState) -> ControllersView | NotController:
        """Return how far everybody has the log, on the leader."""
        replica = self.replica
        if replica is None or not replica.is_leader or not replica.term_committed:
            return NotController("this broker's controller does not lead")
        core, ready = replica.core, self._ready_members()
        peers = {peer.node: peer for peer in core.peers}
        copies = []
        for node in core.configuration.members:
            peer, broker = peers.get(node), state.brokers.get(node)
            synced_index = core.log.synced_index if peer is None else peer.synced_index
            is_known = synced_index > 0 or core.log.last_index == 0
            offset = replica.log.offset_after(max(synced_index, core.log.start_index))
            copies.append(
                ControllerCopy(
                    node=node,
                    directory_id="" if broker is None else broker.directory_id,
                    end_offset=offset if is_known else -1,
                    is_voter=core.configuration.is_voter(node),
                    is_alive=peer is None or peer.is_alive,
                    has_all=node in ready,
                )
            )
        return ControllersView(
            leader=self._node,
            term=replica.term,
            high_watermark=replica.log.offset_after(core.commit_index),
            copies=copies,
        )

    def describe_leading(self) -> LogLine | str:
        """Return what people are told of this broker's beginning to lead."""
        if self.replica is None or self._node in self.current():
            sentence = f"broker {self._node} leads the controller group"
            return LogLine("controller.elected", sentence, leader=self._node)
        # It could not know whether the change that removes it was committed (dissertation 4.2.2).
        return (
            f"broker {self._node} is no longer a controller; it was elected to commit what it has"
            " of the controllers' log, and now hands over"
        )

    def on_sweep(self, state: ClusterState) -> None:
        """Take the next step, as far as this broker leads and it is possible now."""
        replica = self.replica
        if replica is None or replica.is_closed:
            return
        wanted = wanted_controllers(state, self._founders)
        if wanted != self._wanted:
            self._wanted = wanted
            replica.set_wanted_voters(wanted)
        if not replica.is_leader or not replica.term_committed or not replica.core.is_settled:
            return
        voters = replica.core.configuration.voters
        staying = tuple(each for each in voters if each in wanted)
        if len(staying) < len(voters):
            self._leave_out(replica, state, staying)
        else:
            self._enlist(replica, state, voters)

    def _leave_out(
        self, replica: Replica, state: ClusterState, staying: tuple[NodeId, ...]
    ) -> None:
        members = self._ready_members()
        ready = [each for each in staying if each in members]
        if len(ready) <= len(staying) // 2:
            return  # they could decide nothing: the next sweep looks again
        if self._node not in staying:
            with suppress(NotLeader, TransferRefused):
                replica.driver.transfer_leadership(replica.group, ready[0])
            return
        self._enlist(replica, state, staying)

    def _enlist(self, replica: Replica, state: ClusterState, voters: tuple[NodeId, ...]) -> None:
        """Have the log sent to all brokers, and to whoever is to vote, and to nobody else."""
        current = replica.core.configuration
        members = dict.fromkeys((*state.brokers, *self._wanted))
        learners = tuple(sorted(each for each in members if each not in voters))
        target = Configuration(voters=voters, learners=learners)
        if target == Configuration(voters=current.voters, learners=tuple(sorted(current.learners))):
            return
        with suppress(NotLeader, ConfigurationChangeRefused):
            replica.change_configuration(target)
