"""What a checkpoint keeps of a log, and its JSON: one line per log, for people to read, too."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkaesque.env.disk import Buffer
from kafkaesque.model.ids import Index, NodeId, Offset, Term
from kafkaesque.storage.compaction_plan import CleanState
from kafkaesque.storage.entries import (
    EntryKind,
    HardState,
    LogIdentity,
    LogStart,
    Mark,
    TermSpan,
)
from kafkaesque.storage.positions import FrozenPositions


class FrozenLog(NamedTuple):
    """What `GroupLog.freeze` returns: the raw material, taken on the loop at little cost."""

    identity: LogIdentity
    hard_state: HardState
    positions: FrozenPositions
    commit_hint: int
    write_caching: bool
    absorb: bool
    segments: tuple[tuple[int, int, int, int], ...]
    cleaned: CleanState = CleanState()
    amnesia: int = 0
    was_cached: bool = False


class SegmentSummary(NamedTuple):
    """A segment as far as a checkpoint covers it."""

    base_offset: int
    size_bytes: int
    max_timestamp: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSnapshot:
    """Everything about a log that is not in its segments."""

    identity: LogIdentity
    hard_state: HardState
    start: LogStart
    marks: tuple[Mark, ...]
    spans: tuple[TermSpan, ...]
    last_index: int
    commit_hint: int
    write_caching: bool
    #: Recovery takes what it finds behind the last segment's end.
    absorb: bool
    segments: tuple[SegmentSummary, ...]
    #: How far compaction has come.
    cleaned: CleanState = CleanState()
    #: See `GroupLog.save_amnesia`.
    amnesia: int = 0
    #: See `GroupLog.was_cached`.
    was_cached: bool = False


_Json = Any


def thaw(frozen: FrozenLog) -> LogSnapshot:
    """Return a snapshot from its raw material."""
    positions = frozen.positions
    return LogSnapshot(
        identity=frozen.identity,
        hard_state=frozen.hard_state,
        start=positions.start,
        marks=positions.marks,
        spans=positions.spans,
        last_index=positions.last_index,
        commit_hint=min(frozen.commit_hint, positions.last_index),
        write_caching=frozen.write_caching,
        absorb=frozen.absorb,
        segments=tuple(SegmentSummary(*segment) for segment in frozen.segments),
        cleaned=frozen.cleaned,
        amnesia=frozen.amnesia,
        was_cached=frozen.was_cached,
    )


def write_identity(identity: LogIdentity) -> bytes:
    """Return the JSON of a `partition.metadata` file and of a CREATE record."""
    return json.dumps(_identity(identity), separators=(",", ":")).encode()


def read_identity(data: Buffer) -> LogIdentity:
    """Return what `write_identity` wrote; raises ValueError for anything else."""
    return _read_identity(_loads(data))


def write_start(start: LogStart) -> bytes:
    """Return the payload of a RESET record."""
    return json.dumps(_start(start), separators=(",", ":")).encode()


def read_start(data: Buffer) -> LogStart:
    """Return what `write_start` wrote; raises ValueError for anything else."""
    return _read_start(_loads(data))


def write_snapshot(snapshot: LogSnapshot) -> bytes:
    """Return one line."""
    line = {
        "identity": _identity(snapshot.identity),
        "term": snapshot.hard_state.term,
        "vote": snapshot.hard_state.vote,
        "start": _start(snapshot.start),
        "marks": [_mark(mark) for mark in snapshot.marks],
        "spans": [list(span) for span in snapshot.spans],
        "last_index": snapshot.last_index,
        "commit_hint": snapshot.commit_hint,
        "write_caching": snapshot.write_caching,
        "absorb": snapshot.absorb,
        "segments": [list(segment) for segment in snapshot.segments],
        "cleaned": list(snapshot.cleaned),
        "amnesia": snapshot.amnesia,
        "was_cached": snapshot.was_cached,
    }
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def read_snapshot(line: Buffer) -> LogSnapshot:
    """Return what `write_snapshot` wrote; raises ValueError for anything else."""
    found = _loads(line)
    try:
        return LogSnapshot(
            identity=_read_identity(found["identity"]),
            hard_state=HardState(Term(found["term"]), _read_vote(found["vote"])),
            start=_read_start(found["start"]),
            marks=tuple(_read_mark(mark) for mark in found["marks"]),
            spans=tuple(TermSpan(Term(t), Index(i)) for t, i in found["spans"]),
            last_index=int(found["last_index"]),
            commit_hint=int(found["commit_hint"]),
            write_caching=bool(found["write_caching"]),
            absorb=bool(found["absorb"]),
            segments=tuple(SegmentSummary(*map(int, item)) for item in found["segments"]),
            cleaned=CleanState(*map(int, found.get("cleaned", CleanState()))),
            amnesia=int(found.get("amnesia", 0)),
            was_cached=bool(found.get("was_cached", found["write_caching"])),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a log's snapshot: {error!r}") from error


def _loads(data: Buffer) -> _Json:
    return json.loads(bytes(data))


def _read_vote(vote: int | None) -> NodeId | None:
    return None if vote is None else NodeId(vote)


def _identity(identity: LogIdentity) -> _Json:
    return {
        "group": identity.group,
        "topic": identity.topic,
        "partition": identity.partition,
        "topic_id": identity.topic_id.hex(),
    }


def _read_identity(found: _Json) -> LogIdentity:
    try:
        return LogIdentity(
            int(found["group"]),
            str(found["topic"]),
            int(found["partition"]),
            bytes.fromhex(found["topic_id"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a log's identity: {error!r}") from error


def _mark(mark: Mark) -> _Json:
    return [mark.index, mark.term, int(mark.kind), mark.payload.hex()]


def _read_mark(found: _Json) -> Mark:
    index, term, kind, payload = found
    return Mark(Index(index), Term(term), EntryKind(kind), bytes.fromhex(payload))


def _start(start: LogStart) -> _Json:
    return {
        "start_offset": start.start_offset,
        "prev_index": start.prev_index,
        "prev_term": start.prev_term,
        "marks_before": start.marks_before,
        "configuration": None if start.configuration is None else _mark(start.configuration),
        "spans": [list(span) for span in start.spans],
    }


def _read_start(found: _Json) -> LogStart:
    try:
        configuration = found["configuration"]
        return LogStart(
            start_offset=Offset(found["start_offset"]),
            prev_index=Index(found["prev_index"]),
            prev_term=Term(found["prev_term"]),
            marks_before=int(found["marks_before"]),
            configuration=None if configuration is None else _read_mark(configuration),
            spans=tuple(TermSpan(Term(t), Index(i)) for t, i in found["spans"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a log's start: {error!r}") from error
