"""What members say to one another; `membership.wire` turns it into bytes.

Plain slotted classes of plain values. A packet is one message and the entries that ride along.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kafkaesque.env.network import Address
from kafkaesque.membership.entries import Entry, Key
from kafkaesque.model.ids import NodeId

#: Parts into which all entries are divided for comparing them, by a hash of their keys.
BUCKETS = 256


class Outcome(IntEnum):
    """What came of probing somebody for another."""

    ANSWERED = 1
    SILENT = 2
    REFUSED = 3


class SyncMode(IntEnum):
    """Who of two that compare themselves learns from the other, as seen by the one that began."""

    PUSH = 1
    PULL = 2
    PUSH_PULL = 3


@dataclass(slots=True)
class Ping:
    """Asks for a sign of life."""

    sequence: int


@dataclass(slots=True)
class Ack:
    """Gives one."""

    sequence: int


@dataclass(slots=True)
class ProbeRequest:
    """Asks the receiver to probe somebody who does not answer the sender."""

    sequence: int
    node: NodeId
    address: Address


@dataclass(slots=True)
class ProbeResult:
    """What came of a `ProbeRequest`; said in any case, so that its sender can judge itself."""

    sequence: int
    outcome: Outcome


@dataclass(slots=True)
class Gossip:
    """Nothing but the entries that ride along; whoever wants an answer is told which were news."""

    sequence: int
    wants_answer: bool


@dataclass(slots=True)
class GossipAnswer:
    """Which entries of a `Gossip` the sender knew already: bit n is the nth one."""

    sequence: int
    known: int


@dataclass(slots=True)
class Join:
    """The sender, whose own entry rides along, wants to be told of the cluster."""


@dataclass(slots=True)
class Welcome:
    """Answers `Join`; the sender's own entry and some others ride along."""


@dataclass(slots=True)
class Sync:
    """Asks whether the receiver has the same entries; only who has not answers."""

    mode: SyncMode
    root: int


@dataclass(slots=True)
class SyncBuckets:
    """The sender's checksum of each bucket; `mode` is repeated."""

    mode: SyncMode
    checksums: tuple[int, ...]


class Digest(NamedTuple):
    """An entry without what it says."""

    key: Key
    version: int


@dataclass(slots=True)
class SyncDigest:
    """All that the sender has in some buckets that differ."""

    mode: SyncMode
    buckets: tuple[int, ...]
    digests: Sequence[Digest]


@dataclass(slots=True)
class SyncWant:
    """Asks for entries."""

    keys: Sequence[Key]


@dataclass(slots=True)
class SyncDelta:
    """The entries that ride along are newer than the receiver's."""


@dataclass(slots=True)
class Outdated:
    """The receiver's last frame came from a life before this one, as far as the sender knows."""

    life: int


Message = (
    Ping
    | Ack
    | ProbeRequest
    | ProbeResult
    | Gossip
    | GossipAnswer
    | Join
    | Welcome
    | Sync
    | SyncBuckets
    | SyncDigest
    | SyncWant
    | SyncDelta
    | Outdated
)


class Packet(NamedTuple):
    """What one frame carries."""

    message: Message
    entries: Sequence[Entry]
