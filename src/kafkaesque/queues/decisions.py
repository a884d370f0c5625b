"""What a leader decides about a queue, and how that is written into the log.

A decision is a version, what it is, and its fields; numbers are varints, offsets are runs. Replay
does what a decision says and asks nothing: neither the time nor the policy. So how a leader comes
to a decision may change from release to release, and what stands in logs keeps its meaning.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import msgspec

from kafkaesque.queues.arrival import Arrival, read_arrival, write_arrival
from kafkaesque.queues.policy import Policy, read_policy, write_policy
from kafkaesque.queues.runs import BadDecision, Reader, Run, Writer

VERSION = 1
#: Locks without an end.
NEVER = 0
#: Who takes messages without a session.
NOBODY = 0

Runs = tuple[Run, ...]


class Reason(IntEnum):
    """Why a message is not to be had any more, or has become a dead letter."""

    SETTLED = 0
    EXPIRED = 1
    TOO_LONG = 2
    PURGED = 3
    REJECTED = 4
    #: Its attempts are used up.
    ATTEMPTS = 5
    #: It was moved to another queue on request.
    REDRIVEN = 6


class Arrive(msgspec.Struct, frozen=True):
    """Messages have come into another log, which the queue is a cursor over."""

    arrival: Arrival


class Assign(msgspec.Struct, frozen=True):
    """Ready messages are given to a session until a lock time; each has one attempt more."""

    session: int
    until_ms: int
    runs: Runs


class Extend(msgspec.Struct, frozen=True):
    """Locks end then."""

    until_ms: int
    runs: Runs


class Release(msgspec.Struct, frozen=True):
    """Messages in flight are given back."""

    #: Whether their attempts have failed.
    is_failed: bool
    to_tail: bool
    #: They wait until then, by the wall's time; 0: they are ready.
    due_ms: int
    runs: Runs


class Due(msgspec.Struct, frozen=True):
    """What was delayed to then, by the wall's time, is ready: the earliest, at most so many."""

    until_ms: int
    count_max: int


class Remove(msgspec.Struct, frozen=True):
    """Messages are gone for good, wherever they were."""

    reason: Reason
    runs: Runs


class Kill(msgspec.Struct, frozen=True):
    """Messages are to be moved to another place, with numbers that rise by one there."""

    reason: Reason
    target: str
    runs: Runs


class Bury(msgspec.Struct, frozen=True):
    """The other place has them: they are gone here."""

    runs: Runs


class Park(msgspec.Struct, frozen=True):
    """Messages are set aside until somebody decides."""

    reason: Reason
    runs: Runs


class Unpark(msgspec.Struct, frozen=True):
    """They are ready again, as if nobody had had them; their attempts go on counting."""

    runs: Runs


class Purge(msgspec.Struct, frozen=True):
    """All is gone that is before an offset and not in flight, nor on its way elsewhere."""

    end: int


class Configure(msgspec.Struct, frozen=True):
    """This is the policy now."""

    policy: Policy


class OpenSession(msgspec.Struct, frozen=True):
    """A session has a number in this queue, by which messages in flight are its own."""

    session: int
    identity: bytes


class CloseSession(msgspec.Struct, frozen=True):
    """It has nothing in flight and will not be back."""

    session: int


class Stage(msgspec.Struct, frozen=True):
    """Messages in flight are settled if a transaction is committed; nothing ends them before."""

    transaction: int
    runs: Runs


class Finish(msgspec.Struct, frozen=True):
    """A transaction has ended: what was staged in it is settled, or ready as it was before."""

    transaction: int
    is_committed: bool


class Redrive(msgspec.Struct, frozen=True):
    """What is ready or set aside and before an offset is to be moved; an empty target ends that."""

    target: str
    end: int


class Seek(msgspec.Struct, frozen=True):
    """A cursor goes on at an offset of its source; nothing lives before."""

    offset: int


class NoteDisuse(msgspec.Struct, frozen=True):
    """Nobody had used the queue for so long by then; the next note follows after a step more."""

    unused_ms: int
    #: The clock of the leader as it was, also if the log was ahead of it.
    wall_ms: int
    step_ms: int


class NoteUse(msgspec.Struct, frozen=True):
    """Somebody uses the queue again: what was noted of its disuse is void."""


Decision = (
    Arrive
    | Assign
    | Extend
    | Release
    | Due
    | Remove
    | Kill
    | Bury
    | Park
    | Unpark
    | Purge
    | Configure
    | OpenSession
    | CloseSession
    | Stage
    | Finish
    | Redrive
    | Seek
    | NoteDisuse
    | NoteUse
)

#: In the order of their numbers, which never change; later ones are added at the end.
_KINDS: tuple[type[Decision], ...] = (
    Arrive,
    Assign,
    Extend,
    Release,
    Due,
    Remove,
    Kill,
    Bury,
    Park,
    Unpark,
    Purge,
    Configure,
    OpenSession,
    CloseSession,
    Stage,
    Finish,
    Redrive,
    Seek,
    NoteDisuse,
    NoteUse,
)
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}


def _read_bool(reader: Reader) -> bool:
    number = reader.number()
    if number > 1:
        raise BadDecision(f"{number} is neither yes nor no")
    return bool(number)


def _read_reason(reader: Reader) -> Reason:
    number = reader.number()
    try:
        return Reason(number)
    except ValueError as error:
        raise BadDecision(f"reason {number} is unknown") from error


#: How the fields of decisions are written and read, by their types.
_CODECS: dict[Any, tuple[Callable[[Any, Writer], None], Callable[[Reader], Any]]] = {
    int: (lambda value, writer: writer.number(value), Reader.number),
    bool: (lambda value, writer: writer.number(value), _read_bool),
    str: (lambda value, writer: writer.text(value), Reader.text),
    bytes: (lambda value, writer: writer.bytes(value), Reader.bytes),
    Runs: (lambda value, writer: writer.runs(value), Reader.runs),
    Reason: (lambda value, writer: writer.number(value), _read_reason),
    Policy: (write_policy, read_policy),
    Arrival: (write_arrival, read_arrival),
}
_FIELDS = {
    kind: tuple((name, *_CODECS[each]) for name, each in kind.__annotations__.items())
    for kind in _KINDS
}


def write_decision(decision: Decision) -> bytes:
    """Return a decision as bytes."""
    writer = Writer()
    writer.number(VERSION)
    writer.number(_NUMBERS[type(decision)])
    for name, write, _ in _FIELDS[type(decision)]:
        write(getattr(decision, name), writer)
    return bytes(writer.data)


def read_decision(data: bytes) -> Decision:
    """Return what `write_decision` was given.

    Raises:
        BadDecision: a version or a kind that is not known, or not what they promise.
    """
    reader = Reader(data)
    version, number = reader.number(), reader.number()
    if version != VERSION or number >= len(_KINDS):
        raise BadDecision(f"decision {number} of version {version} is unknown")
    kind = _KINDS[number]
    fields = [read(reader) for _, _, read in _FIELDS[kind]]
    reader.end()
    return kind(*fields)
