"""What a broker does when other brokers come, go, or say something."""

from collections.abc import Callable

import msgspec

from kafkaesque.broker.joining.gossip_driver import GossipDriver
from kafkaesque.broker.live.hub import LiveHub
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.messages import LeaderReport, PeerAnswer
from kafkaesque.broker.replication.leader_reports import LeaderReports
from kafkaesque.broker.replication.leader_waits import LeaderWaits
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.reports import Report
from kafkaesque.broker.requests.desk import RequestDesk
from kafkaesque.env.clock import Clock
from kafkaesque.membership.entries import MemberState
from kafkaesque.model.ids import GroupId, NodeId
from kafkaesque.model.log_line import LogLine


class PeerFollower:
    """Implements `PeerEvents`; see there."""

    def __init__(
        self,
        *,
        node: NodeId,
        clock: Clock,
        peers: PeerNetwork,
        gossip: GossipDriver | None,
        driver: RaftDriver,
        leaders: LeadersTable,
        leader_reports: LeaderReports,
        leader_waits: LeaderWaits,
        live: LiveHub,
        desk: RequestDesk,
        report: Report,
    ) -> None:
        self._node = node
        self._clock = clock
        self._peers = peers
        self._gossip = gossip
        self._driver = driver
        self._leaders = leaders
        self._leader_reports = leader_reports
        self._leader_waits = leader_waits
        self._live = live
        self._desk = desk
        self._report = report

    def on_raft(self, node: NodeId, group: int, message: memoryview) -> None:
        """See `PeerEvents`."""
        self._driver.on_raft(node, GroupId(group), message)

    def on_leaders(self, node: NodeId, reports: list[LeaderReport]) -> None:
        """See `PeerEvents`."""
        self._leader_reports.on_reports(node, reports)

    def on_request(
        self, node: NodeId, request: msgspec.Raw, answer: Callable[[PeerAnswer], None]
    ) -> None:
        """See `PeerEvents`."""
        self._desk.on_request(node, request, answer)

    def on_peer_seen(self, node: NodeId, *, restarted: bool) -> None:
        """See `PeerEvents`."""
        sentence = f"broker {self._node} is in contact with broker {node}"
        self._report(LogLine("broker.joined", sentence, peer=node, restarted=restarted))
        self._leaders.hear(node, restarted=restarted)
        self._leader_waits.check()
        self._driver.on_peer_seen(node, restarted=restarted)
        self._live.on_peer_changed()

    def on_peer_lost(self, node: NodeId) -> None:
        """See `PeerEvents`."""
        sentence = f"broker {self._node} has lost contact with broker {node}"
        self._report(LogLine("broker.left", sentence, peer=node))
        self._leaders.silence(node)
        self._driver.on_peer_lost(node)
        self._live.on_peer_changed()

    def on_peer_doubted(self, node: NodeId) -> None:
        """See `PeerEvents`."""
        # Clients that have just lost it, too, ask who leads now: better nobody than a dead broker,
        # because they ask again soon. Its groups wait for the proof.
        self._leaders.silence(node)
        if self._gossip is not None and self._gossip.state(node) is MemberState.DEAD:
            self._clock.call_soon(lambda: self._peers.give_up_doubted(node))

    def on_peer_trusted(self, node: NodeId) -> None:
        """See `PeerEvents`."""
        self._leaders.hear(node, restarted=False)
        self._leader_waits.check()

    def on_link_up(self, node: NodeId) -> None:
        """See `PeerEvents`."""
        self._leader_reports.on_link_up(node)
        self._live.on_link_up(node)
