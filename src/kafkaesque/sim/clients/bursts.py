"""When clients work: around faults, in bursts; between them they rest, and time passes fast.

What can go wrong goes wrong where a fault meets work on its way. A cluster that nobody uses has few
events, so hours of it cost little, and what takes long by the clock happens in them.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.env import Env
from kafkaesque.sim.faults import AROUND_CONTROLLER, Fault

#: A burst begins so long before a fault begins or ends, and goes on for so long after it, at most.
BEFORE_MS_MAX: Final = 400
AFTER_MS_MAX: Final = 500
#: A rest is no longer than this, whatever is to come.
REST_MS_MAX: Final = 5_000


class Bursts:
    """When clients may begin something new."""

    def __init__(
        self,
        plan: Sequence[Fault],
        percent: int,
        chance: random.Random,
        now_ms: Callable[[], float],
    ) -> None:
        """Around so many of a hundred faults; `now_ms` is their time, negative before them."""
        self._now_ms: Final = now_ms
        #: When bursts end, and when they begin: overlapping ones are one.
        self._ends: Final[list[int]] = []
        self._begins: Final[list[int]] = []
        self._is_over = False
        windows = []
        for fault in plan:
            at = chance.choice((fault.begin_ms, fault.end_ms))
            if fault.kind in AROUND_CONTROLLER:
                # What a broker has missed does harm while the fault lasts.
                at = chance.randint(fault.begin_ms, fault.end_ms)
            window = at - chance.randrange(BEFORE_MS_MAX), at + chance.randrange(AFTER_MS_MAX)
            if chance.randrange(100) < percent:
                windows.append(window)
        for begin, end in sorted(windows):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def end(self) -> None:
        """Nobody rests any more."""
        self._is_over = True

    def rest_ms(self) -> int:
        """Return how long to rest from now, 0 within a burst."""
        now = self._now_ms()
        following = bisect_right(self._ends, now)
        if self._is_over or now < 0:
            return 0
        if following == len(self._ends):
            return REST_MS_MAX
        return min(max(0, int(self._begins[following] - now)), REST_MS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEnv(Env):
    """The doors of a machine whose clients work in bursts."""

    bursts: Bursts


def rest_ms(env: Env) -> int:
    """Return how long clients with these doors are to rest from now; 0 if they never rest."""
    return env.bursts.rest_ms() if isinstance(env, ClientEnv) else 0
