"""When a log is cleaned of which a table says what lives, and what is left."""

import pickle

import pytest

from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.queues.offset_set import OffsetSet
from kafkaesque.storage.compaction_plan import (
    CleanState,
    CompactionOptions,
    CompactionPlan,
    SourceSegment,
)
from kafkaesque.storage.config import MIB
from kafkaesque.storage.live_plan import plan_live_cleaning
from kafkaesque.tables.logged import CONTROL_KEY

#: Ten segments of a thousand records in 10 MiB each.
SEGMENTS = [SourceSegment(base, base + 1_000, 10 * MIB, 0, 0) for base in range(0, 10_000, 1_000)]

LOOKED_AT_NEVER = CleanState()


def live(*runs: tuple[int, int], end_offset: int = 10_000) -> LiveRecords:
    offsets = OffsetSet()
    for first, end in runs:
        offsets.add(first, end)
    return LiveRecords(end_offset=end_offset, offsets=offsets, control_key=CONTROL_KEY)


def plan(
    said: LiveRecords,
    *,
    segments: list[SourceSegment] = SEGMENTS,
    state: CleanState = LOOKED_AT_NEVER,
    limit_offset: int = 10_000,
) -> CompactionPlan | None:
    return plan_live_cleaning(
        directory="log",
        segments=segments,
        live=said,
        state=state,
        limit_offset=limit_offset,
        everywhere_offset=0,
        now_ms=0,
        options=CompactionOptions(),
    )


@pytest.mark.parametrize(("living", "is_due"), [(0, True), (4_900, True), (5_100, False)])
def test_a_run_is_due_when_half_of_it_is_dead(living: int, is_due: bool) -> None:
    found = plan(live(*([(0, living)] if living else [])))
    assert (found is not None) == is_due
    if found is not None:
        assert found.sources == tuple(SEGMENTS)
        assert found.dirty_bytes == pytest.approx(100 * MIB * (1 - living / 10_000), rel=0.01)
        assert pickle.loads(pickle.dumps(found)).live.offsets.count == living


def test_little_is_not_worth_a_run() -> None:
    small = [SourceSegment(0, 1_000, 3 * MIB, 0, 0)]
    assert plan(live(), segments=small) is None
    assert plan(live(), segments=[*small, SourceSegment(1_000, 2_000, 2 * MIB, 0, 0)])


def test_nothing_is_touched_behind_the_snapshot_or_the_last_stable_offset() -> None:
    for found in (plan(live(end_offset=3_500)), plan(live(), limit_offset=3_999)):
        assert found is not None
        assert found.end_offset == 3_000
    assert plan(live(end_offset=999)) is None


def test_what_a_run_has_left_is_not_dead_because_it_has_holes() -> None:
    # One in ten is left of the first nine segments, in a tenth of their bytes.
    left = [SourceSegment(0, 9_000, 9 * MIB, 0, 0), SEGMENTS[9]]
    living = live(*((base, base + 1) for base in range(0, 9_000, 10)), (9_000, 9_500))
    state = CleanState(9_000, live_count=900, live_bytes=9 * MIB)
    assert plan(living, segments=left, state=state) is None
    assert plan(living, segments=left) is not None, "who does not know has to look"
    # Half of them have been settled since, and half of the last segment was dead before.
    fewer = live(*((base, base + 1) for base in range(0, 4_400, 10)), (9_000, 9_500))
    assert plan(fewer, segments=left, state=state) is not None


def test_what_was_given_up_from_the_start_on_is_not_counted() -> None:
    left = [SourceSegment(8_000, 9_000, 1 * MIB, 0, 0), SEGMENTS[9]]
    living = live(*((base, base + 1) for base in range(8_000, 9_000, 10)), (9_000, 9_600))
    state = CleanState(9_000, live_count=900, live_bytes=9 * MIB)
    assert plan(living, segments=left, state=state) is None
