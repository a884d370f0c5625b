"""What a log consists of, without its bytes."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.model.ids import NodeId, Term

#: Bytes of an entry, or where they lie; the core only passes them on.
Payload = Buffer | FileRange


class EntryKind(IntEnum):
    """What an entry is for; everything but DATA is a mark and one position wide.

    Compaction may take DATA and NOOP entries that are committed. A CONFIG entry after the log's
    start stays: a member that does not get it would decide with voters that are no more.
    """

    DATA = 0
    NOOP = 1
    CONFIG = 2


@dataclass(slots=True)
class EntryMeta:
    """An entry on its way to the disk or to a peer; treat as immutable.

    It covers the positions `first_index` to `last_index` and is named by the last one. Not frozen,
    because a frozen dataclass takes three times as long to make and every produce makes one.
    """

    first_index: int
    last_index: int
    term: Term
    kind: EntryKind
    size_bytes: int
    data: Payload


@dataclass(slots=True)
class Proposal:
    """A DATA entry that has no place in the log yet: `width` positions, `size_bytes` of `data`."""

    width: int
    size_bytes: int
    data: Payload


class TermStart(NamedTuple):
    """From this index on, entries have this term (until the next `TermStart`)."""

    term: Term
    first_index: int


class HardState(NamedTuple):
    """What a voter must never forget: its term, and for whom it voted in it."""

    term: Term
    vote: NodeId | None
