"""Tries something again until it has an outcome, or time is up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import LeaderNotAvailable, NotLeader, RequestRefused

#: From one attempt to the next.
RETRY_MS: Final = 50

#: What passes with time, when a partition has a leader again.
LEADERLESS: Final = (NotLeader, LeaderNotAvailable)

ResultT = TypeVar("ResultT")
OnOutcome = Callable[[ResultT | RequestRefused], None]


def retry(
    clock: Clock,
    timeout_ms: int,
    attempt: Callable[[int, OnOutcome[ResultT]], None],
    on_done: OnOutcome[ResultT],
    too_late: Callable[[RequestRefused | None], RequestRefused],
    passing: tuple[type[RequestRefused], ...] = LEADERLESS,
) -> None:
    """Call `attempt` with the time that is left, and again while its outcome is one of `passing`.

    A refusal that it raises is its outcome, too. `on_done` gets the first outcome that does not
    pass, or what `too_late` makes of the last one, None if there was no time for any. An attempt
    that tells no outcome is the last one.
    """
    _Trying(clock, timeout_ms, attempt, on_done, too_late, passing).go_on(None)


class _Trying(Generic[ResultT]):
    """One thing that is tried.

    Functions that name one another would be a ring: what they hold, such as the messages of a
    request, would be in memory until the garbage collector finds it, which takes milliseconds.
    """

    __slots__ = ("_attempt", "_clock", "_deadline_ms", "_on_done", "_passing", "_too_late")

    def __init__(
        self,
        clock: Clock,
        timeout_ms: int,
        attempt: Callable[[int, OnOutcome[ResultT]], None],
        on_done: OnOutcome[ResultT],
        too_late: Callable[[RequestRefused | None], RequestRefused],
        passing: tuple[type[RequestRefused], ...],
    ) -> None:
        self._clock = clock
        self._deadline_ms = clock.now_ms() + timeout_ms
        self._attempt = attempt
        self._on_done = on_done
        self._too_late = too_late
        self._passing = passing

    def go_on(self, last: RequestRefused | None) -> None:
        """Try, if there is time left."""
        left_ms = self._deadline_ms - self._clock.now_ms()
        if left_ms <= 0:
            self._on_done(self._too_late(last))
            return
        try:
            self._attempt(left_ms, self._on_outcome)
        except RequestRefused as refusal:
            self._on_outcome(refusal)

    def _on_outcome(self, outcome: ResultT | RequestRefused) -> None:
        if not isinstance(outcome, self._passing):
            self._on_done(outcome)
            return
        left_ms = max(0, self._deadline_ms - self._clock.now_ms())
        self._clock.call_later(min(RETRY_MS, left_ms), lambda: self.go_on(outcome))
