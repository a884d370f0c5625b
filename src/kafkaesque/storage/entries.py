"""Entries of a log, as they come in and go out."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from kafkaesque.env.disk import Buffer
from kafkaesque.model.ids import Index, NodeId, Offset, Term


class EntryKind(IntEnum):
    """What an entry is for; everything but DATA is a mark and one position wide."""

    DATA = 0
    NOOP = 1
    CONFIG = 2


class EntryLike(Protocol):
    """What `GroupLog.append` takes: the same shape as the consensus core's own entries.

    `data` of a DATA entry is one record batch that already has its base offset and leader epoch and
    was checked; it must not change any more. It covers `first_index` to `last_index`.
    """

    @property
    def first_index(self) -> int: ...

    @property
    def last_index(self) -> int: ...

    @property
    def term(self) -> Term: ...

    @property
    def kind(self) -> int: ...

    @property
    def data(self) -> object: ...


@dataclass(slots=True)
class LogEntry:
    """An entry that was read; treat as immutable."""

    kind: int
    first_index: int
    last_index: int
    term: Term
    data: Buffer


@dataclass(frozen=True, slots=True)
class Mark:
    """A position of the log that has no record: a leader's no-op or a configuration."""

    index: Index
    term: Term
    kind: EntryKind
    payload: bytes


class TermSpan(NamedTuple):
    """From this index on, entries have this term, until the next span."""

    term: Term
    first_index: Index


class HardState(NamedTuple):
    """What a voter must never forget."""

    term: Term
    vote: NodeId | None


class LogIdentity(NamedTuple):
    """Whose log it is."""

    group: int
    topic: str
    partition: int
    topic_id: bytes

    @property
    def directory(self) -> str:
        """Where it lies in the data directory."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStart:
    """Where a log begins that does not begin at the beginning.

    `prev_index` and `prev_term` name the last position before the first entry. The first entry
    that is there may be before `start_offset`, which is the first that clients are to see.
    """

    start_offset: Offset
    prev_index: Index
    prev_term: Term
    #: How many marks lie at or before `prev_index`.
    marks_before: int
    #: The last configuration at or before `prev_index`.
    configuration: Mark | None = None
    #: Term spans that begin at or before `prev_index`; may be empty.
    spans: Sequence[TermSpan] = ()
