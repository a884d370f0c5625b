"""The cluster as one broker sees it: metadata, living brokers, leaders, and the controller."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.client import ControllerClient, OnOutcome, ViewOutcome
from kafkaesque.broker.controller.metadata_everywhere import MetadataEverywhere
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.controller.voters import ControllerVoters
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.records import BrokerRegistered
from kafkaesque.broker.options.queues import is_transient
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.requests.commands import ControllerCommand, ControllerResult
from kafkaesque.broker.requests.exchange_commands import BindDestination, PutTransformation
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import CONTROLLER_GROUP, GroupId, NodeId

_HOLDING_EVERYWHERE = (BindDestination, ChangeQueue, PutTransformation)


class Cluster:
    """Answers at once, from what this broker has heard, unless a callback is taken."""

    __slots__ = (
        "_controller",
        "_driver",
        "_everywhere",
        "_metadata",
        "_peers",
        "_voters",
        "cluster_id",
        "is_alive",
        "is_gone",
        "is_refused",
        "leaders",
        "lost_ms",
        "node",
        "rack",
        "was_alive",
        "when_current",
    )

    def __init__(
        self,
        *,
        config: BrokerConfig,
        metadata: MetadataView,
        controller: ControllerClient,
        voters: ControllerVoters,
        everywhere: MetadataEverywhere,
        peers: PeerNetwork,
        leaders: LeadersTable,
        driver: RaftDriver,
    ) -> None:
        #: This broker.
        self.node = config.node
        self.rack = config.rack
        self.cluster_id = config.cluster_id
        #: Who leads which group, as leaders have said and as far as they are heard of.
        self.leaders = leaders
        #: Whether a broker is heard of; whether it was, within so many ms; since when it is not;
        #: whether its machine refuses connections, so that it does not run; whether it is not heard
        #: of, and does not run or was not heard of within so many ms.
        self.is_alive = peers.is_alive
        self.was_alive = peers.was_alive
        self.lost_ms = peers.lost_ms
        self.is_refused = peers.is_refused
        self.is_gone = peers.is_gone
        #: Calls in a later turn, with True once `state` has all that was decided before the call,
        #: with False if that was not found out in time.
        self.when_current = metadata.when_current
        self._metadata = metadata
        self._controller = controller
        self._voters = voters
        self._everywhere = everywhere
        self._peers = peers
        self._driver = driver

    @property
    def state(self) -> ClusterState:
        """The committed metadata that this broker has applied; it may be behind the controller."""
        return self._metadata.state

    def alive_brokers(self) -> list[BrokerRegistered]:
        """Return the registered brokers that are heard of, this one included."""
        is_alive = self._peers.is_alive
        return [broker for node, broker in self.state.brokers.items() if is_alive(node)]

    def is_cut_off(self) -> bool:
        """Tell whether no living controller is known, and no majority of brokers is heard of."""
        known, controller, is_alive = self.state.brokers, self.controller(), self._peers.is_alive
        if controller is not None and controller in known and is_alive(controller):
            return False
        return len(known) > 1 and 2 * sum(map(is_alive, known)) <= len(known)

    # -- the controller

    def controller(self) -> NodeId | None:
        """Return which broker's controller leads, as far as is known."""
        return self._controller.leader()

    def controllers(self) -> tuple[NodeId, ...]:
        """Return the brokers that vote on metadata, as far as is known."""
        return self._voters.current()

    def is_controller_settled(self, node: NodeId, *, is_voter: bool) -> bool:
        """Tell whether this broker has seen a broker become a voter, or cease to be one."""
        replica = self._driver.get(CONTROLLER_GROUP)
        if replica is None:
            return False
        configuration = replica.core.configuration
        return not configuration.is_joint and (node in configuration.voters) == is_voter

    def describe_controllers(self, timeout_ms: int, on_done: Callable[[ViewOutcome], None]) -> None:
        """Ask the leading controller how its group is; `RequestTimedOut` if none has answered."""
        self._controller.describe(self.state, timeout_ms, on_done)

    def submit(self, command: ControllerCommand, timeout_ms: int, on_done: OnOutcome) -> None:
        """Have the controller carry out a command, wherever it is; see `ControllerClient`.

        A transient queue is made in this broker's memory.

        A binding, a transformation, and a change of a queue's options are answered when all living
        brokers go by them, this one included: what is published anywhere after that takes the new
        way. That wait has a bound, and ends without a refusal.
        """
        if isinstance(command, CreateQueue) and is_transient(command.options):
            # Where its client is connected: that one reads it, and it goes with that one's broker.
            command = msgspec.structs.replace(command, home=self.node)
        if not isinstance(command, _HOLDING_EVERYWHERE):
            self._controller.submit(command, timeout_ms, on_done)
            return

        def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
            else:
                self._everywhere.wait(lambda _: on_done(outcome))

        self._controller.submit(command, timeout_ms, on_outcome)

    # -- partitions

    def newest_epoch_here(self, group: GroupId) -> int:
        """Return the newest leader epoch that is in this broker's log of a group; 0 for none."""
        replica = self._driver.get(group)
        return 0 if replica is None else int(replica.core.log.last_term)
