"""What brokers tell one another of who leads, and what a broker makes of what it is told (ADR 4).

Theory of operation. A leader reports itself to all brokers at once when its term begins, and when
its in-sync set changes. That a term has ended is told, too: where nobody follows, brokers without a
replica hear it from nobody else, and would believe for good in a leader that is none. It is not
urgent, because whoever follows reports itself; so the ends of a sweep are told together.

A link keeps the order, and what it loses it loses with its connection. So when it comes up, all is
told that this broker leads, and that it is all: whatever else the peer believes of it has ended.
"""

from typing import TYPE_CHECKING

from kafkaesque.broker.peers.messages import ALL_LED, LeaderReport
from kafkaesque.model.ids import CONTROLLER_GROUP, NO_NODE, GroupId, NodeId

if TYPE_CHECKING:
    from kafkaesque.broker.broker import Broker
    from kafkaesque.broker.replication.raft_replica import Replica


class LeaderReports:
    """Keeps the leaders' tables of all brokers in line with the replicas of this one."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._table = broker.leaders
        #: Groups that have something new to report.
        self._dirty: dict[GroupId, None] = {}
        self._is_asked = False

    # -- what is told

    def on_leadership(self, replica: "Replica") -> None:
        """A replica here began or ceased to lead, or its in-sync set changed."""
        if replica.group == CONTROLLER_GROUP:
            return
        if replica.is_leader:
            self._dirty[replica.group] = None
            if not self._is_asked:
                self._is_asked = True
                self._broker.env.clock.call_soon(self._send)
            return
        known = self._table.get(replica.group)
        # The leader's own report may have come before this replica followed it in the same term.
        if known is not None and (known.term < replica.term or known.leader == self._broker.node):
            self._table.retire(replica.group, max(known.term, replica.term - 1))

    def _send(self) -> None:
        self._is_asked = False
        broker = self._broker
        dirty, self._dirty = self._dirty, {}
        reports = []
        for group in dirty:
            report = broker.driver.leader_report(group)
            if report is not None and self._table.learn(report):
                reports.append(report)
                if broker.gossip is not None:
                    broker.gossip.leads(group, report.term)
        self._send_to_all(reports)
        broker.check_leader_waits()

    def on_sweep(self) -> None:
        """Tell what has ended."""
        self._send_to_all(self._table.take_ended())

    def _send_to_all(self, reports: list[LeaderReport]) -> None:
        peers = self._broker.peers
        if reports:
            for node in peers.peers():
                peers.send_leaders(node, reports)

    def on_link_up(self, node: NodeId) -> None:
        """A peer can be told: it may have missed anything."""
        led = self._table.led_by(self._broker.node)
        self._broker.peers.send_leaders(node, [ALL_LED, *led])

    # -- what is heard

    def on_reports(self, node: NodeId, reports: list[LeaderReport]) -> None:
        """A peer tells what it leads, and what it leads no more."""
        broker, table = self._broker, self._table
        for report in reports:
            if report.leader == node:
                if table.learn(report):
                    broker.driver.on_leader_report(report)
                    broker.log_starts.on_leader_report(report)
            elif report == ALL_LED:
                table.retire_all_but(node, {each.group for each in reports if each.leader == node})
            elif report.leader == NO_NODE:
                table.retire(GroupId(report.group), report.term)
        broker.check_leader_waits()
