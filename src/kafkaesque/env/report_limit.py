"""Lines for the log that a stranger can cause: so many in a while, and no more."""

from collections.abc import Callable
from typing import Final

#: Lines that are passed on in one window.
LINES_MAX: Final = 10
#: How long a window lasts; it begins with the first line.
WINDOW_MS: Final = 10_000


class ReportLimit:
    """Passes on the first lines of a window, and at its end says how many it has kept back.

    It needs a timer only while there is something to say.
    """

    __slots__ = ("_call_later", "_count", "_lines_max", "_report")

    def __init__(
        self,
        report: Callable[[str], object],
        call_later: Callable[[int, Callable[[], None]], object],
        lines_max: int = LINES_MAX,
    ) -> None:
        """`call_later` calls after so many milliseconds, as `Clock.call_later` does."""
        self._report: Final = report
        self._call_later: Final = call_later
        self._lines_max: Final = lines_max
        self._count = 0

    def say(self, line: str) -> None:
        """Report a line, or count it."""
        if self._count == 0:
            self._call_later(WINDOW_MS, self._on_window_over)
        self._count += 1
        if self._count <= self._lines_max:
            self._report(line)

    def _on_window_over(self) -> None:
        kept_back, self._count = self._count - self._lines_max, 0
        if kept_back > 0:
            self._report(f"and {kept_back} more of this kind within {WINDOW_MS // 1000} s")
