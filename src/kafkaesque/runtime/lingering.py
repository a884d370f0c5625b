"""Whether to wait for the next event without going to sleep.

Theory of operation. Waking a sleeping processor takes longer than a client takes to send its next
request, so whoever asks one thing at a time would mostly wait for processors. Where events follow
one another quickly, the loop looks again and again for a moment (`LINGER_NS`) before it sleeps;
that costs processor time, and so it is done only where it pays:

- it begins after a row of events that each came within that moment (`QUICK_MIN`);
- each time that was in vain doubles the row that is wanted next time, each success shortens it: so
  it ends, too, where others want the processor and what is waited for cannot come.

An idle broker never lingers. Source: the idle poll of Seastar, which databases run on; ADR 10.
"""

import os
from typing import Final

#: So long a client that has just been answered may take to ask again.
LINGER_NS: Final = 200_000
#: After so long in a row the event loop has its turn, with its timers and completions.
ROW_NS: Final = 1_000_000
#: Quick events in a row after which lingering begins.
QUICK_MIN: Final = 16
QUICK_MAX: Final = 2_048


def processor_count() -> int:
    """Return how many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class Lingering:
    """The judgement of one event loop."""

    __slots__ = ("_idle_since_ns", "_is_possible", "_quick", "_quick_wanted")

    def __init__(self, *, is_possible: bool) -> None:
        #: With one processor there would be nobody to send anything meanwhile.
        self._is_possible: Final = is_possible
        self._idle_since_ns = 0
        self._quick = 0
        self._quick_wanted = QUICK_MIN

    def on_events(self, now_ns: int) -> None:
        """Events have come, after the loop had gone to sleep."""
        if now_ns - self._idle_since_ns > LINGER_NS:
            self._quick = 0
        else:
            self._quick += 1

    def is_worth_it(self, now_ns: int) -> bool:
        """Tell whether to linger, now that there is nothing left to do."""
        self._idle_since_ns = now_ns
        return self._quick >= self._quick_wanted and self._is_possible

    def on_success(self) -> None:
        """Something came while the loop lingered."""
        wanted = self._quick_wanted
        self._quick_wanted = max(QUICK_MIN, wanted - wanted // 64)

    def on_failure(self) -> None:
        """Nothing came; the loop goes to sleep."""
        self._quick = 0
        self._quick_wanted = min(2 * self._quick_wanted, QUICK_MAX)
