"""The work that the core hands to its driver, and what it tells it."""

from typing import NamedTuple

import msgspec

from kafkaesque.env.network import Address
from kafkaesque.membership.entries import Fact, Member
from kafkaesque.membership.errors import Refusal
from kafkaesque.model.ids import NodeId

#: Frames that were refused are told of one by one up to this; the rest is only counted.
REFUSALS_TOLD_MAX = 16


class Datagram(NamedTuple):
    """Bytes to be sent once, to an address; they may get lost."""

    address: Address
    data: bytes


class Knock(NamedTuple):
    """Try to connect to this address, and tell `Refused`, with the same, if nobody listens."""

    node: NodeId
    life: int
    address: Address


class MemberChanged(msgspec.Struct, frozen=True):
    """A member's standing; without an old one it is new, without a new one it is forgotten."""

    old: Member | None
    new: Member | None


class FactChanged(msgspec.Struct, frozen=True):
    """What a member makes known."""

    new: Fact


class Contested(msgspec.Struct, frozen=True):
    """Somebody else with the cluster's secret says that it is this node, and goes on saying so."""

    address: Address


class Turned(msgspec.Struct, frozen=True):
    """A frame was not believed."""

    source: Address
    refusal: Refusal


Change = MemberChanged | FactChanged | Contested | Turned


class Ready(msgspec.Struct):
    """What has come up since the last one; in any order."""

    datagrams: list[Datagram]
    knocks: list[Knock]
    changes: list[Change]


class Outbox:
    """Collects a `Ready` while events come in."""

    __slots__ = ("_turned", "changes", "datagrams", "knocks")

    def __init__(self) -> None:
        self.datagrams: list[Datagram] = []
        self.knocks: list[Knock] = []
        self.changes: list[Change] = []
        self._turned = 0

    def turn(self, source: Address, refusal: Refusal) -> None:
        """Tell of a frame that was not believed, unless there were many since the last Ready."""
        self._turned += 1
        if self._turned <= REFUSALS_TOLD_MAX:
            self.changes.append(Turned(source, refusal))

    def take(self) -> Ready | None:
        """Return what was collected, None if that is nothing, and start anew."""
        if not (self.datagrams or self.knocks or self.changes):
            return None
        ready = Ready(self.datagrams, self.knocks, self.changes)
        self.datagrams, self.knocks, self.changes = [], [], []
        self._turned = 0
        return ready
