"""Those who have connected to the peer port and have not said who they are.

Whoever connects has to greet soon and in few bytes. Until then it is a stranger, and strangers are
few: one more than there may be costs the one that came first, because a broker greets with its
first packet and whoever has waited longest is the least likely to be one.
"""

from collections.abc import Callable
from typing import Protocol

from kafkaesque.env.clock import Clock
from kafkaesque.env.report_limit import ReportLimit

#: A connection on which nobody has greeted for so long is closed, whatever trickles in on it.
GREETING_MS_MAX = 5_000
#: The longest frame before a greeting, and the longest greeting.
GREETING_BYTES_MAX = 4 * 1024
#: Connections on which nobody has greeted yet.
STRANGERS_MAX = 256


class Stranger(Protocol):
    """A connection on which nobody has greeted."""

    def turn_away(self, reason: str) -> None:
        """Close it at once."""


class PeerDoor:
    """Watches over strangers, and tells of those that were turned away."""

    def __init__(self, clock: Clock, report: Callable[[str], None]) -> None:
        self._clock = clock
        self._reports = ReportLimit(report, clock.call_later)
        #: When each is to be turned away, the one that came first at the front.
        self._strangers: dict[Stranger, int] = {}

    def admit(self, stranger: Stranger) -> None:
        """Somebody has connected."""
        if len(self._strangers) >= STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            self._turn_away(
                oldest,
                f"{STRANGERS_MAX} connections have sent no greeting, this one for the longest time",
            )
        self._strangers[stranger] = self._clock.now_ms() + GREETING_MS_MAX

    def release(self, stranger: Stranger) -> None:
        """It has greeted, or is gone; harmless if it was released."""
        self._strangers.pop(stranger, None)

    def sweep(self, now_ms: int) -> None:
        """Turn away those whose time is up; called every now and then."""
        while self._strangers:
            oldest, deadline_ms = next(iter(self._strangers.items()))
            if deadline_ms > now_ms:
                return
            self._turn_away(oldest, f"it sent no greeting within {GREETING_MS_MAX} ms")

    def forgive(self, late_ms: int) -> None:
        """This broker was held up: a greeting may have come that it has not read."""
        for stranger in self._strangers:
            self._strangers[stranger] += late_ms

    def tell_of(self, peer: str, reason: str) -> None:
        """Report why somebody's connection is closed, unless there were many of these just now."""
        self._reports.say(f"closing a peer connection from {peer}: {reason}")

    def _turn_away(self, stranger: Stranger, reason: str) -> None:
        self.release(stranger)
        stranger.turn_away(reason)
