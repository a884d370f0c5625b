"""The real event loop, clock and dice."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import Any, Final

from kafkaesque.runtime.turns import Turns

log = logging.getLogger("kafkaesque.runtime")

#: Told of what must never happen; has to stop the process, and does not raise.
OnFatal = Callable[[BaseException], None]


def new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop, or asyncio's own where uvloop is missing."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def report_to(loop: asyncio.AbstractEventLoop, on_fatal: OnFatal) -> None:
    """Make whatever a callback of the loop raises fatal.

    A timer or a completion that died half-way leaves the broker in a state that nobody knows:
    stopping is safe, going on is not. (What a connection's handler raises never gets here.)
    """

    def on_exception(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            on_fatal(error)
        else:
            log.error("event loop: %s", context.get("message"))

    loop.set_exception_handler(on_exception)


class RealClock:
    """The machine's clocks, and the turn of its event loop."""

    __slots__ = ("_turns", "call_soon")

    def __init__(self, turns: Turns) -> None:
        self._turns: Final = turns
        self.call_soon: Final = turns.call_soon

    def now_ms(self) -> int:
        return monotonic_ns() // 1_000_000

    def now_ns(self) -> int:
        return monotonic_ns()

    def wall_ms(self) -> int:
        return time_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        # Whole milliseconds, upwards: the loop would round 0.4 to "at once".
        return self._turns.call_later(math.ceil(delay_ms) / 1000, callback)


class RealDice:
    """Randomness from the system."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random: Final = random.SystemRandom()

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def unique_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)
