"""A simulated machine's clocks."""

import math
from collections.abc import Callable
from typing import Final

from kafkaesque.sim.loop import NS_PER_MS, Event, Life, SimLoop

#: Where wall clocks begin: some day in 2026.
EPOCH_MS: Final = 1_790_000_000_000


class Oscillator:
    """What a machine's clocks run on: a rate, and a wall clock that may be set."""

    __slots__ = ("_base_local_ns", "_base_true_ns", "_loop", "_rate", "wall_offset_ms")

    def __init__(self, loop: SimLoop) -> None:
        self._loop: Final = loop
        self._rate = 1.0
        self._base_true_ns = loop.now_ns
        self._base_local_ns = loop.now_ns
        self.wall_offset_ms = 0

    def now_ns(self) -> int:
        """Return the local monotonic time."""
        passed = self._loop.now_ns - self._base_true_ns
        if self._rate == 1.0:
            return self._base_local_ns + passed
        return self._base_local_ns + math.floor(passed * self._rate)

    def set_rate(self, rate: float) -> None:
        """From now on run `rate` times as fast as true time; never goes back."""
        self._base_local_ns, self._base_true_ns = self.now_ns(), self._loop.now_ns
        self._rate = rate

    def jump_wall(self, ms: int) -> None:
        """Set the wall clock forward or back."""
        self.wall_offset_ms += ms

    def wall_ms(self) -> int:
        """Return the local Unix time."""
        return EPOCH_MS + self.now_ns() // NS_PER_MS + self.wall_offset_ms

    def true_delay_ns(self, delay_ms: float) -> int:
        """Return how long it really takes until this clock has advanced by whole milliseconds."""
        return math.ceil(math.ceil(delay_ms) * NS_PER_MS / self._rate)


class SimClock:
    """The clock door of one process. It is also the loop that a connection runs on."""

    __slots__ = ("_life", "_loop", "_oscillator")

    def __init__(self, loop: SimLoop, oscillator: Oscillator, life: Life) -> None:
        self._loop: Final = loop
        self._oscillator: Final = oscillator
        self._life: Final = life

    def now_ms(self) -> int:
        return self._oscillator.now_ns() // NS_PER_MS

    def now_ns(self) -> int:
        return self._oscillator.now_ns()

    def wall_ms(self) -> int:
        return self._oscillator.wall_ms()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.after(0, "soon", callback, self._life)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Event:
        delay_ns = self._oscillator.true_delay_ns(delay_ms)
        return self._loop.after(delay_ns, "timer", callback, self._life)


class SimProcessLoop:
    """The same clock as a connection sees it: with seconds, as event loops have them."""

    __slots__ = ("_clock",)

    def __init__(self, clock: SimClock) -> None:
        self._clock: Final = clock

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self._clock.call_soon(callback)

    def call_last(self, callback: Callable[[], None], /) -> None:
        # Every event is a turn of its own.
        self._clock.call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Event:
        return self._clock.call_later(delay * 1000, callback)
