"""Those who wait to hear whether this broker leads a group still."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kafkaesque.env.clock import Clock, Timer

#: How many may wait, and how long.
CONFIRMING_MAX = 20_000
CONFIRM_MS_MAX = 5_000


class _Confirming(NamedTuple):
    """One of them; in the order of the rounds."""

    round: int
    deadline_ms: int
    on_done: Callable[[bool], None]


class Confirmations:
    """Each is told in a later turn, exactly once; not within the group's: it may append."""

    __slots__ = ("_clock", "_timer", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[_Confirming] = []
        self._timer: Timer | None = None

    @property
    def is_full(self) -> bool:
        """Whether nobody else may wait."""
        return len(self._waiting) >= CONFIRMING_MAX

    def add(self, number: int, on_done: Callable[[bool], None]) -> None:
        """Wait for a round of the core; False if that takes long."""
        deadline_ms = self._clock.now_ms() + CONFIRM_MS_MAX
        self._waiting.append(_Confirming(number, deadline_ms, on_done))
        if self._timer is None:
            self._timer = self._clock.call_later(CONFIRM_MS_MAX, self._on_time)

    def refuse(self, on_done: Callable[[bool], None]) -> None:
        """Tell somebody who need not wait that it is not known."""
        self._clock.call_soon(partial(on_done, False))

    def on_confirmed(self, number: int) -> None:
        """A majority has answered in a round: this broker led when it began."""
        confirmed = [each for each in self._waiting if each.round <= number]
        self._waiting = self._waiting[len(confirmed) :]
        self._tell(confirmed, is_leader=True)

    def drop(self) -> None:
        """Nobody will be confirmed: it leads no more, or is closed."""
        dropped, self._waiting = self._waiting, []
        self._tell(dropped, is_leader=False)

    def _on_time(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        expired = [each for each in self._waiting if each.deadline_ms <= now_ms]
        self._waiting = self._waiting[len(expired) :]
        if self._waiting:
            delay_ms = self._waiting[0].deadline_ms - now_ms
            self._timer = self._clock.call_later(delay_ms, self._on_time)
        self._tell(expired, is_leader=False)

    def _tell(self, told: list[_Confirming], *, is_leader: bool) -> None:
        for each in told:
            self._clock.call_soon(partial(each.on_done, is_leader))
