"""What is to be cleaned in a compacted log: which segments, up to where, and whether it is due.

A compacted log has a clean part, in which every key stands once, and a dirty part behind it.
Whether a run is due is decided as Apache Kafka does it: by the part of the bytes that is dirty, or
because the oldest dirty record has waited too long (KIP-354). Beside that a run is due when
tombstones or markers have outlived their delete horizon (KIP-534) and all replicas have them, so
that they go even if nothing new comes.

Everything here is a plain value, so that it can be handed to another process.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.model.sealed_batch import BatchKeys
from kafkaesque.storage.config import DAY_MS, GIB, KIB, MIB

#: No tombstone or marker waits for anything.
NO_HORIZON = 2**63 - 1


class SourceSegment(NamedTuple):
    """A closed segment as a plan sees it; `end_offset` is where the next one begins."""

    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp: int
    created_ms: int


class AbortedColumns(NamedTuple):
    """A producer's records from one offset to another, the marker's, that were never to be seen.

    As columns, because there may be hundreds of thousands, which are handed over in no time so.
    """

    producer_ids: "array[int]"
    first_offsets: "array[int]"
    last_offsets: "array[int]"


def _nothing_aborted() -> AbortedColumns:
    return AbortedColumns(array("q"), array("q"), array("q"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """A topic's options, by Kafka's names, and the bounds of one run."""

    #: `min.cleanable.dirty.ratio`.
    dirty_ratio_min: float = 0.5
    #: `min.compaction.lag.ms`: nothing younger is touched.
    lag_ms_min: int = 0
    #: `max.compaction.lag.ms`: what has been dirty for longer is cleaned at any ratio.
    lag_ms_max: int = NO_HORIZON
    #: `delete.retention.ms`.
    delete_retention_ms: int = DAY_MS
    #: `segment.bytes`: adjacent segments are joined while they fit.
    segment_bytes_max: int = 1 * GIB
    #: `index.interval.bytes`.
    index_interval_bytes: int = 4 * KIB
    #: What the keys of one run may take in memory; Kafka: `log.cleaner.dedupe.buffer.size`.
    key_bytes_max: int = 128 * MIB


class CleanState(NamedTuple):
    """How far a log has been cleaned; kept in its checkpoint."""

    #: Before this offset every key stands once.
    end_offset: int = 0
    #: When the first tombstone or marker in there may go.
    horizon_ms: int = NO_HORIZON
    #: Where a table says which records live: how many were left, in how many bytes; -1: not known.
    live_count: int = -1
    live_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSealing:
    """What a run over a topic with keys needs; the keys are in the clear."""

    keys: BatchKeys
    #: Random, and for this run alone.
    salt: bytes
    #: Whether what is written anew is sealed although it was not.
    seals_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """One run over one log."""

    directory: str
    #: From the log's first segment on.
    sources: tuple[SourceSegment, ...]
    #: Where the dirty part begins. It may be inside of a segment.
    clean_end: int
    #: Bytes of the dirty part; where a table says what lives, about what is not needed.
    dirty_bytes: int
    now_ms: int
    options: CompactionOptions
    #: All replicas have the log before this offset: nobody waits for tombstones or markers there.
    everywhere_offset: int
    #: What was aborted in the part that is read; to be filled in by the driver.
    aborted: AbortedColumns = field(default_factory=_nothing_aborted)
    #: Per live producer the last offset of its last batch, whose sequence number must not be lost;
    #: to be filled in by the driver. A marker counts where there is no data.
    producers: Mapping[int, int] = field(default_factory=dict)
    #: To be filled in by the driver where the topic has keys.
    sealing: CompactionSealing | None = None
    #: What stays, whatever its key; None: keys say that.
    live: LiveRecords | None = None

    @property
    def end_offset(self) -> int:
        """Nothing from here on is looked at."""
        return self.sources[-1].end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments that are written anew."""
        return sum(source.size_bytes for source in self.sources)

    @property
    def dirty_ratio(self) -> float:
        """The part of these bytes that is dirty, from 0 to 1."""
        return self.dirty_bytes / (self.size_bytes or 1)

    def groups(self, end_offset: int) -> list[tuple[SourceSegment, ...]]:
        """Return which segments become one each, in order, as far as they begin before an offset.

        A segment that is larger than `segment_bytes_max` stays by itself.
        """
        groups: list[list[SourceSegment]] = []
        room = 0
        for source in self.sources:
            if source.base_offset >= end_offset:
                break
            if not groups or source.size_bytes > room:
                groups.append([])
                room = self.options.segment_bytes_max
            groups[-1].append(source)
            room -= source.size_bytes
        return [tuple(group) for group in groups]


def plan_compaction(
    *,
    directory: str,
    segments: Sequence[SourceSegment],
    state: CleanState,
    limit_offset: int,
    everywhere_offset: int,
    held_offset: int,
    now_ms: int,
    options: CompactionOptions,
) -> CompactionPlan | None:
    """Return what a run should clean, or None if none is due.

    `segments` are all that may be replaced, from the log's first on. What ends behind
    `limit_offset` (the last stable offset) stays as it is, and so does everything from the first
    segment on that has a record younger than `lag_ms_min`. Tombstones and markers from
    `everywhere_offset` on stay, too; the last run has left some for that reason up to
    `held_offset`, -1 if none.
    """
    sources: list[SourceSegment] = []
    for segment in segments:
        if segment.end_offset > limit_offset:
            break
        if segment.end_offset > state.end_offset and (
            options.lag_ms_min > 0 and segment.max_timestamp > now_ms - options.lag_ms_min
        ):
            break
        sources.append(segment)
    if not sources:
        return None
    dirty = [source for source in sources if source.end_offset > state.end_offset]
    plan = CompactionPlan(
        directory=directory,
        sources=tuple(sources),
        clean_end=min(state.end_offset, sources[-1].end_offset),
        dirty_bytes=sum(source.size_bytes for source in dirty),
        now_ms=now_ms,
        options=options,
        everywhere_offset=everywhere_offset,
    )
    is_worth_it = plan.dirty_bytes > 0 and plan.dirty_ratio >= options.dirty_ratio_min
    is_late = bool(dirty) and now_ms - dirty[0].created_ms > options.lag_ms_max
    is_over = state.horizon_ms <= now_ms and held_offset < everywhere_offset
    return plan if is_worth_it or is_late or is_over else None
