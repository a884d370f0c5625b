"""Who leads which group, as the leaders themselves have said.

Where no leader has said so, what gossip has heard is asked (ADR 15).

Soft state: it is spread between brokers directly, is lost with the process and learnt again from
the leaders. A report counts if its term is not older than what is known. One that names no leader
says that its term has ended: then only a later one counts, whoever tells of it.

A broker that is not heard of is *silent*: what it leads is led by nobody as long as that lasts. Its
reports are kept, because it need not have noticed anything, and then does not send them again.
"""

from collections.abc import Callable, Container, Iterable

from kafkaesque.broker.peers.messages import LeaderReport
from kafkaesque.membership.view import LeaderHint
from kafkaesque.model.ids import NO_NODE, GroupId, NodeId, home_of


class LeadersTable:
    """The newest report of each group, on the broker of that id."""

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self._reports: dict[GroupId, LeaderReport] = {}
        #: Brokers that are not heard of, each with what it led then.
        self._silent: dict[NodeId, list[LeaderReport]] = {}
        #: The last terms in which this broker led groups that it leads no more, and did not tell.
        self._ended: dict[GroupId, int] = {}
        #: Grows with every change; for caches of what is derived from the table.
        self.version = 0
        #: Who is said to lead a group in this term or a later one, if anybody.
        self.hint: Callable[[GroupId, int], LeaderHint | None] = lambda group, term_min: None

    def get(self, group: GroupId) -> LeaderReport | None:
        """Return the newest report of a group."""
        return self._reports.get(group)

    def leader(self, group: GroupId) -> NodeId | None:
        """Return who leads a group, as far as is known; nobody that is silent."""
        found = self.leader_and_term(group)
        return None if found is None else found.node

    def leader_and_term(self, group: GroupId) -> LeaderHint | None:
        """Return who leads a group, as far as is known, and in which term."""
        home = home_of(group)
        if home is not None:
            return None if home in self._silent else LeaderHint(home, 0)
        report = self._reports.get(group)
        if report is None or report.leader < 0:
            found = self.hint(group, 0 if report is None else report.term + 1)
        else:
            found = LeaderHint(NodeId(report.leader), report.term)
        return None if found is None or found.node in self._silent else found

    def on_hint(self, group: GroupId) -> None:
        """What `hint` says of a group may have changed."""
        report = self._reports.get(group)
        if report is None or report.leader < 0:
            self.version += 1

    def learn(self, report: LeaderReport) -> bool:
        """Take a leader's report; tell whether it was news."""
        group = GroupId(report.group)
        known = self._reports.get(group)
        if known is not None:
            is_over = known.leader < 0 and known.term == report.term
            if known.term > report.term or is_over or known == report:
                return False
            self._note_ended(known, report.leader)
        self._reports[group] = report
        self.version += 1
        return True

    def retire(self, group: GroupId, term: int) -> None:
        """That term and all before have ended, and who leads now is not known yet."""
        known = self._reports.get(group)
        if known is None or known.term > term or (known.term == term and known.leader < 0):
            return
        self._note_ended(known, NO_NODE)
        self._reports[group] = LeaderReport(
            group, term, NO_NODE, known.in_sync, offline=known.offline
        )
        self.version += 1

    def retire_all_but(self, node: NodeId, groups: Container[int]) -> None:
        """A broker leads none of the groups that it was known to lead, but for these."""
        for report in self.led_by(node):
            if report.group not in groups:
                self.retire(GroupId(report.group), report.term)

    def _note_ended(self, known: LeaderReport, leader: int) -> None:
        if known.leader == self._node != leader:
            self._ended[GroupId(known.group)] = known.term

    def take_ended(self) -> list[LeaderReport]:
        """Return what others are to be told: the ends of terms in which this broker led."""
        ended, self._ended = self._ended, {}
        return [
            LeaderReport(group, term, NO_NODE, ())
            for group, term in ended.items()
            if (known := self._reports.get(group)) is not None and known.leader != self._node
        ]

    def silence(self, node: NodeId) -> None:
        """A broker is not heard of any more."""
        self._silent[node] = self.led_by(node)
        self.version += 1

    def hear(self, node: NodeId, *, restarted: bool) -> None:
        """A broker is heard of; a new incarnation leads nothing that the last one led."""
        led = self._silent.pop(node, [])
        if restarted:
            for report in led:
                self.retire(GroupId(report.group), report.term)
        self.version += 1

    def forget(self, group: GroupId) -> None:
        """The group is gone."""
        self._ended.pop(group, None)
        if self._reports.pop(group, None) is not None:
            self.version += 1

    def led_by(self, node: NodeId) -> list[LeaderReport]:
        """Return the reports of all groups that a broker leads."""
        return [report for report in self._reports.values() if report.leader == node]

    def reports(self) -> Iterable[LeaderReport]:
        """Return all reports."""
        return self._reports.values()
