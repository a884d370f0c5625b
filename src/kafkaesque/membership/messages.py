"""What members say to one another; `membership.wire` turns it into bytes.

Plain slotted classes of plain values. A packet is one message and the entries that ride along.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

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


class Ping(msgspec.Struct):
    """Asks for a sign of life."""

    sequence: int


class Ack(msgspec.Struct):
    """Gives one."""

    sequence: int


class ProbeRequest(msgspec.Struct):
    """Asks the receiver to probe somebody who does not answer the sender."""

    sequence: int
    node: NodeId
    address: Address


class ProbeResult(msgspec.Struct):
    """What came of a `ProbeRequest`; said in any case, so that its sender can judge itself."""

    sequence: int
    outcome: Outcome


class Gossip(msgspec.Struct):
    """Nothing but the entries that ride along; whoever wants an answer is told which were news."""

    sequence: int
    wants_answer: bool


class GossipAnswer(msgspec.Struct):
    """Which entries of a `Gossip` the sender knew already: bit n is the nth one."""

    sequence: int
    known: int


class Join(msgspec.Struct):
    """The sender, whose own entry rides along, wants to be told of the cluster."""


class Welcome(msgspec.Struct):
    """Answers `Join`; the sender's own entry and some others ride along."""


class Sync(msgspec.Struct):
    """Asks whether the receiver has the same entries; only who has not answers."""

    mode: SyncMode
    root: int


class SyncBuckets(msgspec.Struct):
    """The sender's checksum of each bucket; `mode` is repeated."""

    mode: SyncMode
    checksums: tuple[int, ...]


class Digest(NamedTuple):
    """An entry without what it says."""

    key: Key
    version: int


class SyncDigest(msgspec.Struct):
    """All that the sender has in some buckets that differ."""

    mode: SyncMode
    buckets: tuple[int, ...]
    digests: Sequence[Digest]


class SyncWant(msgspec.Struct):
    """Asks for entries."""

    keys: Sequence[Key]


class SyncDelta(msgspec.Struct):
    """The entries that ride along are newer than the receiver's."""


class Outdated(msgspec.Struct):
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
