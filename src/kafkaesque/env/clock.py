"""The door to time."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that has been asked for."""

    def cancel(self) -> None:
        """Make sure that the callback is not called any more; harmless when it was."""


class Clock(Protocol):
    """Time, and the turn of the event loop.

    Every callback runs on the broker's one thread, never inside the call that asked for it.
    """

    def now_ms(self) -> int:
        """Return milliseconds of a clock that never goes back; its zero means nothing."""

    def now_ns(self) -> int:
        """Return nanoseconds of the same clock, for measuring."""

    def wall_ms(self) -> int:
        """Return Unix time in milliseconds; it may jump, back as well."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call once in the next turn of the loop, in the order of asking."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call once, not before `delay_ms` from now."""
