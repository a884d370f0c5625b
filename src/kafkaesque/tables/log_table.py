"""What a table that lives in a log and whoever drives it say to one another.

A coordinator's table is a core: it takes events, and says which records it wants appended to its
partition and what is to be answered. These are the words for that which all coordinators share.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, NamedTuple, NewType, TypeVar

from kafkaesque.model.errors import KafkaesqueError

#: Names one request; its answer comes with it, exactly once. Chosen by whoever asks.
RequestToken = NewType("RequestToken", int)

#: Names one append that the table asked for. Rises by one with each.
WriteToken = NewType("WriteToken", int)

ResultT_co = TypeVar("ResultT_co", covariant=True)


class BadTableRecord(KafkaesqueError):
    """A record of a table's log does not have the form that its version promises."""


class Instant(NamedTuple):
    """A moment on both clocks: the one that never goes back, and the calendar's."""

    #: For deadlines.
    now_ms: int
    #: Unix time, for what is written down and outlives this process.
    wall_ms: int


class WriteFailure(Enum):
    """Why records are certain not to be in the log, nor ever to come into it."""

    NOT_LEADER = auto()
    NOT_ENOUGH_REPLICAS = auto()
    TOO_LARGE = auto()
    STORAGE_FAILED = auto()


class LogRecord(NamedTuple):
    """A record of the table's log; without a value it deletes its key."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Respond(Generic[ResultT_co]):
    """Answer a request."""

    token: RequestToken
    result: ResultT_co


@dataclass(frozen=True, slots=True)
class Append:
    """Append all these records or none, after those of earlier `Append`s.

    Then say `on_appended` once they are committed, or `on_append_failed` once it is certain that
    they are not and will not be in the log. When neither can be known any more, because the
    partition's leadership is lost, `unload` the table.

    What `follows` another one, asked for just before, fails with it: so of a write that is cut into
    several the log only ever has the first ones.
    """

    token: WriteToken
    records: tuple[LogRecord, ...]
    follows: WriteToken | None = None
