"""Bounds how often an event is told in the log: a thousand partitions may all tell the same."""

from collections.abc import Callable
from typing import Final

from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.model.log_line import LogLine

#: Lines of one event in one window (see `report_limit`); the rest is counted.
LINES_PER_EVENT_MAX: Final = 50


class EventLimit:
    """Passes lines on, of each event only so many in a while; what is no event passes always."""

    __slots__ = ("_call_later", "_limits", "_report")

    def __init__(
        self,
        report: Callable[[str], object],
        call_later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        self._report: Final = report
        self._call_later: Final = call_later
        #: By event; their names stand in the code, so they are few.
        self._limits: Final[dict[str, ReportLimit]] = {}

    def say(self, line: str) -> None:
        """Report a line, or count it."""
        if not isinstance(line, LogLine):
            self._report(line)
            return
        event = line.event
        limit = self._limits.get(event)
        if limit is None:
            limit = self._limits[event] = ReportLimit(
                lambda told: self._tell(event, told), self._call_later, LINES_PER_EVENT_MAX
            )
        limit.say(line)

    def _tell(self, event: str, line: str) -> None:
        self._report(line if isinstance(line, LogLine) else LogLine(event, line))
