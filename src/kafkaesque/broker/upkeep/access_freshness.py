"""How old the rules are by which this broker decides.

Theory of operation. A broker that is cut off from the controller goes on with the users and rules
that it knows, and cannot hear that somebody is not to come in any more. So it asks the controller
again and again whether it has all metadata (`MetadataBarrier`), and remembers when it asked a
question that was answered by yes: what it has is at least as new as that. When that is longer ago
than `authorization.stale.ms.max`, nobody is let in any more, and those who have logged in are sent
away. With the next answer everything goes on.
"""

from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.env.clock import Clock, Timer

#: It is asked so often within the time that is allowed, and at least so often, at most so often.
QUESTIONS_PER_BOUND: Final = 10
PAUSE_MS_MIN: Final = 100
PAUSE_MS_MAX: Final = 5_000


class Barrier(Protocol):
    """Where the age of the metadata is asked for."""

    def when_current(self, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        """See `MetadataBarrier.wait`."""


class AccessFreshness:
    """One for each broker; it asks only where somebody has to log in."""

    def __init__(
        self, *, clock: Clock, barrier: Barrier, stale_ms_max: int, report: Callable[[str], None]
    ) -> None:
        self._clock: Final = clock
        self._barrier: Final = barrier
        self._stale_ms_max: Final = stale_ms_max
        self._pause_ms: Final = max(
            PAUSE_MS_MIN, min(PAUSE_MS_MAX, stale_ms_max // QUESTIONS_PER_BOUND)
        )
        self._report: Final = report
        #: What is known here is at least as new as this; None: nothing has been found out.
        self._as_of_ms: int | None = None
        self._is_watching = False
        self._on_fresh: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._expiry: Timer | None = None
        #: Told when the rules have become too old.
        self.on_stale: Callable[[], None] = lambda: None

    @property
    def is_stale(self) -> bool:
        """Whether the rules are older than they may be, as far as is known."""
        if not self._is_watching:
            return False
        return self.age_ms is None or self.age_ms > self._stale_ms_max

    @property
    def age_ms(self) -> int | None:
        """How old they may be at most; None where nobody asks, or nothing has been found out."""
        return None if self._as_of_ms is None else self._clock.now_ms() - self._as_of_ms

    def start(self, on_fresh: Callable[[], None]) -> None:
        """Ask from now on; `on_fresh` is called once, when the rules are known to be new enough."""
        self._is_watching = True
        self._on_fresh = on_fresh
        self._ask()

    def stop(self) -> None:
        """Ask no more; harmless if nobody has asked."""
        self._on_fresh = None
        self._is_watching = False
        for timer in (self._timer, self._expiry):
            if timer is not None:
                timer.cancel()

    def _ask(self) -> None:
        asked_ms = self._clock.now_ms()
        self._barrier.when_current(self._stale_ms_max, lambda ok: self._on_answer(asked_ms, ok))

    def _on_answer(self, asked_ms: int, is_current: bool) -> None:
        if not self._is_watching:
            return
        if is_current:
            self._note_fresh(asked_ms)
        self._timer = self._clock.call_later(self._pause_ms, self._ask)

    def _note_fresh(self, asked_ms: int) -> None:
        was_stale = self._as_of_ms is not None and self.is_stale
        self._as_of_ms = asked_ms
        if self._expiry is not None:
            self._expiry.cancel()
        left_ms = asked_ms + self._stale_ms_max - self._clock.now_ms()
        self._expiry = self._clock.call_later(max(0, left_ms) + 1, self._on_expired)
        if was_stale and not self.is_stale:
            self._report("the rules are known again: clients are let in")
        on_fresh, self._on_fresh = self._on_fresh, None
        if on_fresh is not None:
            on_fresh()

    def _on_expired(self) -> None:
        if self._is_watching and self.is_stale:
            self._report(
                f"no controller has been heard for {self._stale_ms_max} ms: users and rules may "
                "have changed, and nobody who has to log in is let in"
            )
            self.on_stale()
