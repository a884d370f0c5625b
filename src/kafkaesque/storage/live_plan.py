"""What is to be cleaned in a log of which a table says which records live, and whether it is due.

A run is due when half of the bytes are not needed any more, so the log takes no more than twice
what lives, and a byte is written anew at most once for each that is freed. What is needed is
counted in records: in the part that a run has left, each has the size that they had on average; in
the rest, each has its share of its segment.
"""

from collections.abc import Sequence

from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.storage.compaction_plan import (
    CleanState,
    CompactionOptions,
    CompactionPlan,
    SourceSegment,
)
from kafkaesque.storage.config import MIB

#: Less is not worth a run.
FREED_BYTES_MIN = 4 * MIB
#: A run is due when so much of the bytes, from 0 to 1, is not needed.
DEAD_RATIO_MIN = 0.5


def plan_live_cleaning(
    *,
    directory: str,
    segments: Sequence[SourceSegment],
    live: LiveRecords,
    state: CleanState,
    limit_offset: int,
    everywhere_offset: int,
    now_ms: int,
    options: CompactionOptions,
) -> CompactionPlan | None:
    """Return what a run should clean, or None if none is due.

    `segments` are all that may be replaced, from the log's first on. What ends behind
    `limit_offset` (the last stable offset) or behind where `live` ends stays as it is. Markers from
    `everywhere_offset` on stay, too.
    """
    end_offset = min(limit_offset, live.end_offset)
    sources = [segment for segment in segments if segment.end_offset <= end_offset]
    if not sources:
        return None
    dead = sum(source.size_bytes for source in sources) - _live_bytes(sources, live, state)
    plan = CompactionPlan(
        directory=directory,
        sources=tuple(sources),
        clean_end=0,
        dirty_bytes=max(dead, 0),
        now_ms=now_ms,
        options=options,
        everywhere_offset=everywhere_offset,
        live=live,
    )
    is_worth_it = dead >= FREED_BYTES_MIN and plan.dirty_ratio >= DEAD_RATIO_MIN
    return plan if is_worth_it else None


def _live_bytes(sources: Sequence[SourceSegment], live: LiveRecords, state: CleanState) -> int:
    """Return about how many bytes live."""
    count_between, found, clean_count = live.offsets.count_between, 0, 0
    for base_offset, end_offset, size_bytes, _, _ in sources:
        count = count_between(base_offset, end_offset)
        if end_offset <= state.end_offset and state.live_count >= 0:
            clean_count += count
        else:
            found += size_bytes * count // (end_offset - base_offset)
    return found + clean_count * state.live_bytes // max(state.live_count, 1)
