"""Long requests give way: how long one may keep the loop from everybody else at a time."""

from kafkaesque.chassis.relief import TURN_MS_MAX
from kafkaesque.env.clock import Clock


class Turn:
    """The time that one request has in one turn of the loop."""

    __slots__ = ("_clock", "_end_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end_ms = clock.now_ms() + TURN_MS_MAX

    def is_over(self) -> bool:
        """Whether it is time to give way."""
        return self._clock.now_ms() >= self._end_ms
