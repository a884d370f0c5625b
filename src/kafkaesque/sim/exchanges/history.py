"""What clients sent, were told and were given, in the order in which they saw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from kafkaesque.sim.exchanges.topology import Way


class Outcome(Enum):
    """What a publisher knows of its message."""

    #: Nobody has said what has become of it.
    UNKNOWN = auto()
    CONFIRMED = auto()
    #: By basic.nack: some of its queues may have it.
    REFUSED = auto()


@dataclass(slots=True, kw_only=True)
class Sent:
    """A message; it is sent once."""

    #: Of one channel: messages of two channels have no order.
    session: str
    number: int
    way: Way
    is_mandatory: bool
    outcome: Outcome = Outcome.UNKNOWN
    is_returned: bool = False


@dataclass(slots=True, kw_only=True)
class Given:
    """A delivery."""

    queue: str
    #: Consumer and its connection.
    session: str
    body: bytes
    exchange: str
    key: str
    is_redelivered: bool
    #: Its place among all that was seen.
    at: int
    #: When the broker has answered that it is acknowledged; 0: it has not.
    settled_at: int = 0


@dataclass(slots=True)
class ExchangeHistory:
    """See the module."""

    #: Told of what is wrong.
    note: Callable[[str], None]
    sent: dict[bytes, Sent] = field(default_factory=dict)
    given: list[Given] = field(default_factory=list)
    _now: int = 0

    def now(self) -> int:
        """Return the next place in the order of all that was seen."""
        self._now += 1
        return self._now

    # -- publishers

    def note_sent(self, body: bytes, sent: Sent) -> None:
        """A message is on its way."""
        self.sent[body] = sent

    def note_returned(self, body: bytes) -> None:
        """A message has come back for want of a queue."""
        sent = self.sent.get(body)
        if sent is None:
            self.note(f"made-up return: {body!r}")
            return
        if sent.is_returned or not sent.is_mandatory:
            self.note(f"return unasked: {body!r}")
        if sent.way.queues:
            self.note(f"return of a routed message: {body!r} by {sent.way}")
        if sent.outcome is not Outcome.UNKNOWN:
            self.note(f"return after its confirm: {body!r}")
        sent.is_returned = True

    def note_outcome(self, body: bytes, outcome: Outcome) -> None:
        """A publisher is told what has become of its message."""
        sent = self.sent[body]
        if sent.outcome is not Outcome.UNKNOWN:
            self.note(f"second answer: {body!r} is {sent.outcome.name}, and {outcome.name}")
        sent.outcome = outcome

    # -- consumers

    def note_given(self, given: Given) -> None:
        """A message has come to a consumer."""
        self.given.append(given)

    def tally(self) -> dict[str, int]:
        """Return what went on, by name."""
        outcomes = [each.outcome for each in self.sent.values()]
        return {
            "published": len(outcomes),
            "confirmed": outcomes.count(Outcome.CONFIRMED),
            "refused": outcomes.count(Outcome.REFUSED),
            "returned": sum(each.is_returned for each in self.sent.values()),
            "delivered": len(self.given),
            "delivered again": sum(each.is_redelivered for each in self.given),
            "acknowledged": sum(each.settled_at > 0 for each in self.given),
        }
