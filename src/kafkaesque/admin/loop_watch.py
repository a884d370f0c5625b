"""How late the loop is: the time that whoever is next has to wait because somebody is busy."""

from typing import Final

from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.histogram import NS_PER_S, Histogram

INTERVAL_MS: Final = 250


class LoopWatch:
    """Measures every now and then by how much a timer is late."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self.lag: Final = Histogram()
        self._timer: Timer | None = None
        self._due_ns = 0

    def start(self) -> None:
        """Begin."""
        self._due_ns = self._clock.now_ns() + INTERVAL_MS * (NS_PER_S // 1000)
        self._timer = self._clock.call_later(INTERVAL_MS, self._on_timer)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self.lag.observe_ns(max(0, self._clock.now_ns() - self._due_ns))
        self.start()
