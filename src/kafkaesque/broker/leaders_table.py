"""Who leads which group, as the leaders themselves have said.

Soft state: it is spread between brokers directly, is lost with the process and learnt again from
the leaders. A report counts if its term is not older than what is known.
"""

from collections.abc import Iterable

from kafkaesque.broker.peer_messages import LeaderReport
from kafkaesque.model.ids import GroupId, NodeId


class LeadersTable:
    """The newest report of each group."""

    def __init__(self) -> None:
        self._reports: dict[GroupId, LeaderReport] = {}
        #: Grows with every change; for caches of what is derived from the table.
        self.version = 0

    def get(self, group: GroupId) -> LeaderReport | None:
        """Return the newest report of a group."""
        return self._reports.get(group)

    def leader(self, group: GroupId) -> NodeId | None:
        """Return who leads a group, as far as is known."""
        report = self._reports.get(group)
        return None if report is None or report.leader < 0 else NodeId(report.leader)

    def learn(self, report: LeaderReport) -> bool:
        """Take a report; tell whether it was news."""
        group = GroupId(report.group)
        known = self._reports.get(group)
        if known is not None and (known.term > report.term or known == report):
            return False
        self._reports[group] = report
        self.version += 1
        return True

    def retire(self, group: GroupId, term: int) -> None:
        """The leader of that term leads no more, and who does is not known yet."""
        known = self._reports.get(group)
        if known is not None and known.term <= term and known.leader >= 0:
            self._reports[group] = LeaderReport(group, term, -1, known.in_sync)
            self.version += 1

    def forget(self, group: GroupId) -> None:
        """The group is gone."""
        if self._reports.pop(group, None) is not None:
            self.version += 1

    def led_by(self, node: NodeId) -> list[LeaderReport]:
        """Return the reports of all groups that a broker leads."""
        return [report for report in self._reports.values() if report.leader == node]

    def reports(self) -> Iterable[LeaderReport]:
        """Return all reports."""
        return self._reports.values()
