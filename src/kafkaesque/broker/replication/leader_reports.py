"""What brokers tell one another of who leads, and what a broker makes of what it is told (ADR 4).

Theory of operation. A leader reports itself to all brokers at once when its term begins, and when
its in-sync set changes. That a term has ended is told, too: where nobody follows, brokers without a
replica hear it from nobody else, and would believe for good in a leader that is none. It is not
urgent, because whoever follows reports itself; so the ends of a sweep are told together.

A link keeps the order, and what it loses it loses with its connection. So when it comes up, all is
told that this broker leads, and that it is all: whatever else the peer believes of it has ended.
"""

from collections.abc import Callable

from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.messages import ALL_LED, LeaderReport
from kafkaesque.broker.replication.leader_waits import LeaderWaits
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.env.clock import Clock
from kafkaesque.model.ids import CONTROLLER_GROUP, NO_NODE, GroupId, NodeId


class LeaderReports:
    """Keeps the leaders' tables of all brokers in line with the replicas of this one."""

    def __init__(
        self,
        *,
        leaders: LeadersTable,
        clock: Clock,
        node: NodeId,
        leader_waits: LeaderWaits,
        driver: RaftDriver,
        peers: PeerNetwork,
    ) -> None:
        self._table = leaders
        self._clock = clock
        self._node = node
        self._leader_waits = leader_waits
        self._driver = driver
        self._peers = peers
        #: Groups that have something new to report.
        self._dirty: dict[GroupId, None] = {}
        self._is_asked = False
        #: Told of each group that this broker has begun to lead, and in which term.
        self.on_led: Callable[[GroupId, int], None] = lambda group, term: None
        #: Told of each report of another leader that is news.
        self.on_learned: Callable[[LeaderReport], None] = lambda report: None

    # -- what is told

    def on_leadership(self, replica: Replica) -> None:
        """A replica here began or ceased to lead, or its in-sync set changed."""
        if replica.group == CONTROLLER_GROUP:
            return
        if replica.is_leader:
            self._dirty[replica.group] = None
            if not self._is_asked:
                self._is_asked = True
                self._clock.call_soon(self._send)
            return
        known = self._table.get(replica.group)
        # The leader's own report may have come before this replica followed it in the same term.
        if known is not None and (known.term < replica.term or known.leader == self._node):
            self._table.retire(replica.group, max(known.term, replica.term - 1))

    def _send(self) -> None:
        self._is_asked = False
        dirty, self._dirty = self._dirty, {}
        reports = []
        for group in dirty:
            report = self._driver.leader_report(group)
            if report is not None and self._table.learn(report):
                reports.append(report)
                self.on_led(group, report.term)
        self._send_to_all(reports)
        self._leader_waits.check()

    def on_sweep(self) -> None:
        """Tell what has ended."""
        self._send_to_all(self._table.take_ended())

    def _send_to_all(self, reports: list[LeaderReport]) -> None:
        peers = self._peers
        if reports:
            for node in peers.peers():
                peers.send_leaders(node, reports)

    def on_link_up(self, node: NodeId) -> None:
        """A peer can be told: it may have missed anything."""
        led = self._table.led_by(self._node)
        self._peers.send_leaders(node, [ALL_LED, *led])

    # -- what is heard

    def on_reports(self, node: NodeId, reports: list[LeaderReport]) -> None:
        """A peer tells what it leads, and what it leads no more."""
        table = self._table
        for report in reports:
            if report.leader == node:
                if table.learn(report):
                    self._driver.on_leader_report(report)
                    self.on_learned(report)
            elif report == ALL_LED:
                table.retire_all_but(node, {each.group for each in reports if each.leader == node})
            elif report.leader == NO_NODE:
                table.retire(GroupId(report.group), report.term)
        self._leader_waits.check()
