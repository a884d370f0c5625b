"""What compaction keeps and what it leaves out."""

import dataclasses
import pickle
from typing import cast

import pytest

from kafkaesque.env.disk import FileRange
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, MarkerType
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import DiskFull
from kafkaesque.model.records import decode_batch
from kafkaesque.storage.compaction_plan import CleanState
from kafkaesque.storage.compactor import CleanedGroup, compact
from kafkaesque.storage.errors import StorageCorrupt
from tests.unit.storage.compacting import (
    CONFIG,
    EAGER,
    AbortedTransaction,
    batches_of,
    checkpoint,
    close_segment,
    plan_for,
    put,
    put_marker,
    records_of,
    run,
    table_of,
)
from tests.unit.storage.helpers import TIME_MS, World, mark


def shown(world: World) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offsets, keys and values, without the record that only closes a segment."""
    return [(r.offset, r.key, r.value) for r in records_of(world.log()) if r.key != b"last"]


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_the_table_of_the_lectures(is_one_batch: bool) -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"K1", b"gone"), (b"K1", b"gone")])
    log.advance_start(2)
    keys = [b"K3", b"K5", b"K3", b"K3", b"K4", b"K4", b"K5", b"K6"]
    values = [b"V1", b"V2", b"V3", b"V4", b"V5", None, b"V7", b"V8"]
    pairs = list(zip(keys, values, strict=True))
    for part in [pairs] if is_one_batch else [[pair] for pair in pairs]:
        put(log, part)
    close_segment(world, log)
    assert run(world, log, plan_for(log)) is not None
    left = [(5, b"K3", b"V4"), (7, b"K4", None), (8, b"K5", b"V7"), (9, b"K6", b"V8")]
    assert shown(world) == left
    assert log.clean_state == CleanState(10, TIME_MS + 1000)
    later = plan_for(log, now_ms=TIME_MS + 1000)
    assert run(world, log, later) is not None
    del left[1]
    assert shown(world) == left
    world.restart()
    assert shown(world) == left
    assert table_of(world.log()) == {b"K3": b"V4", b"K5": b"V7", b"K6": b"V8", b"last": b"10"}


def test_a_horizon_is_given_once_and_waited_for() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", None), (b"b", b"1")], options=BatchOptions(codec=Codec.ZSTD))
    close_segment(world, log)
    run(world, log, plan_for(log))
    assert read_batch_header(batches_of(log)[0]).delete_horizon_ms == TIME_MS + 1000
    assert plan_for(log, now_ms=TIME_MS + 999, options=dataclasses.replace(
        EAGER, dirty_ratio_min=0.5)) is None  # fmt: skip
    close_segment(world, log)
    run(world, log, plan_for(log, now_ms=TIME_MS + 999))
    header = read_batch_header(batches_of(log)[0])
    assert header.delete_horizon_ms == TIME_MS + 1000
    assert header.codec is Codec.ZSTD
    records = decode_batch(batches_of(log)[0], 1000)
    assert [(r.offset, r.timestamp_ms) for r in records] == [(0, TIME_MS), (1, TIME_MS + 1)]
    run(world, log, plan_for(log, now_ms=TIME_MS + 1000))
    assert shown(world) == [(1, b"b", b"1")]
    assert read_batch_header(batches_of(log)[0]).delete_horizon_ms == TIME_MS + 1000


def test_tombstones_and_markers_stay_until_all_replicas_have_them() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1")])
    put(log, [(b"a", None)])
    put_marker(log, 7, MarkerType.COMMIT)
    put(log, [(b"b", None)])
    close_segment(world, log)
    later_ms = TIME_MS + 1000
    run(world, log, plan_for(log))
    kept = [record.offset for record in records_of(log)]
    assert kept == [1, 2, 3, 4], "the tombstones, the marker, and what closes the segment"
    run(world, log, plan_for(log, now_ms=later_ms, everywhere_offset=2))
    assert [record.offset for record in records_of(log)] == [2, 3, 4]
    quiet = dataclasses.replace(EAGER, dirty_ratio_min=0.5)
    for everywhere in (2, 3):
        plan = plan_for(log, now_ms=later_ms, everywhere_offset=everywhere, options=quiet)
        assert plan is None, "it would leave the last one once more"
    run(world, log, plan_for(log, now_ms=later_ms, everywhere_offset=4, options=quiet))
    assert [record.offset for record in records_of(log)] == [4]


def test_a_tombstone_that_comes_back_to_life_does_not_stay() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1")])
    put(log, [(b"a", None)])
    close_segment(world, log)
    run(world, log, plan_for(log))
    put(log, [(b"a", b"2")])
    close_segment(world, log)
    run(world, log, plan_for(log))
    assert shown(world) == [(3, b"a", b"2")]


def test_batches_that_stay_are_the_same_bytes() -> None:
    world = World(CONFIG)
    log = world.log()
    options = BatchOptions(codec=Codec.GZIP, producer_id=5, producer_epoch=1, base_sequence=3)
    put(log, [(b"a", b"1"), (b"b", b"2")], options=options)
    put(log, [(b"c", b"1"), (b"b", b"3")], options=options)
    put(log, [(None, b"without a key")])
    before = batches_of(log)
    close_segment(world, log)
    run(world, log, plan_for(log))
    first, second, last = batches_of(log)
    assert second == before[1]
    old, new = read_batch_header(before[0]), read_batch_header(first)
    assert new == old._replace(
        batch_length=new.batch_length, crc=new.crc, record_count=1, max_timestamp_ms=TIME_MS,
        latest_timestamp_ms=TIME_MS,
    )  # fmt: skip
    assert [r.key for r in decode_batch(last, 1000)] == [b"last"]


def test_nothing_at_or_behind_the_limit_is_touched() -> None:
    world = World(CONFIG)
    log = world.log()
    for _ in range(3):
        put(log, [(b"a", b"1"), (b"a", b"2")])
        close_segment(world, log)
    bases = [segment.base_offset for segment in log.segments.segments]
    assert bases == [0, 2, 5, 8]
    assert plan_for(log, limit_offset=1) is None
    plan = plan_for(log, limit_offset=7)
    assert plan is not None
    assert plan.end_offset == 5
    run(world, log, plan)
    assert [offset for offset, _, _ in shown(world)] == [4, 6, 7]


def test_what_no_checkpoint_covers_is_not_touched() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1"), (b"a", b"2")])
    log.segments.roll_next = True
    put(log, [(b"a", b"3")])
    world.commit()
    assert plan_for(log) is None
    checkpoint(world)
    assert plan_for(log) is not None


def test_too_young_segments_wait_and_late_ones_do_not() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1")], timestamp_ms=TIME_MS)
    close_segment(world, log)
    put(log, [(b"a", b"2")], timestamp_ms=TIME_MS + 500)
    close_segment(world, log)
    lag = dataclasses.replace(EAGER, lag_ms_min=100)
    assert plan_for(log, options=lag, now_ms=TIME_MS + 99) is None
    plan = plan_for(log, options=lag, now_ms=TIME_MS + 599)
    assert plan is not None
    assert plan.end_offset == 1
    plan = plan_for(log, options=lag, now_ms=TIME_MS + 600)
    assert plan is not None
    assert plan.end_offset == 3
    late = dataclasses.replace(EAGER, dirty_ratio_min=2.0, lag_ms_max=100)
    created_ms = log.segments.segments[0].created_ms
    assert plan_for(log, options=late, now_ms=created_ms + 100) is None
    assert plan_for(log, options=late, now_ms=created_ms + 101) is not None


def test_the_dirty_ratio_counts_bytes() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1" * 300)])
    close_segment(world, log)
    run(world, log, plan_for(log))
    assert plan_for(log, options=dataclasses.replace(EAGER, dirty_ratio_min=0.01)) is None
    put(log, [(b"b", b"1" * 100)])
    close_segment(world, log)
    plan = plan_for(log)
    assert plan is not None
    sizes = [segment.size for segment in log.segments.segments]
    assert plan.dirty_bytes == sizes[1]
    assert plan.dirty_ratio == sizes[1] / (sizes[0] + sizes[1])
    exact = dataclasses.replace(EAGER, dirty_ratio_min=plan.dirty_ratio)
    assert plan_for(log, options=exact) is not None
    more = dataclasses.replace(EAGER, dirty_ratio_min=plan.dirty_ratio + 0.001)
    assert plan_for(log, options=more) is None


def test_a_full_table_ends_the_run_at_a_batch() -> None:
    world = World(CONFIG)
    log = world.log()
    for at in range(6):
        put(log, [(b"%d" % (at % 3), b"%d" % at), (b"%d" % (at % 3), b"x")])
    close_segment(world, log)
    small = dataclasses.replace(EAGER, key_bytes_max=2 * 201)
    result = run(world, log, plan_for(log, options=small))
    assert result is not None
    assert result.end_offset == 4
    assert [offset for offset, _, _ in shown(world)] == [1, 3, *range(4, 12)]
    seen = [4]
    while (result := run(world, log, plan_for(log, options=small))) and result.end_offset < 12:
        seen.append(result.end_offset)
        assert len(seen) < 10
    assert [offset for offset, _, _ in shown(world)] == [7, 9, 11]


def test_the_first_batch_is_always_taken() -> None:
    world = World(CONFIG)
    log = world.log()
    for _ in range(3):
        put(log, [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")])
    close_segment(world, log)
    tiny = dataclasses.replace(EAGER, key_bytes_max=1)
    result = run(world, log, plan_for(log, options=tiny))
    assert result is not None
    # The keys of the other batches are all known: they take nothing.
    assert result.end_offset == 9
    assert [offset for offset, _, _ in shown(world)] == [7, 8]


# -- transactions


TRANSACTION = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)


def test_aborted_records_go_and_do_not_hide_others() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1")])
    first = put(log, [(b"a", b"aborted"), (b"b", b"aborted")], options=TRANSACTION)
    last = put_marker(log, 7, MarkerType.ABORT)
    put(log, [(b"c", b"committed")], options=TRANSACTION)
    commit = put_marker(log, 7, MarkerType.COMMIT)
    close_segment(world, log)
    aborted = [AbortedTransaction(7, first, last)]
    result = run(world, log, plan_for(log, aborted=aborted))
    assert result is not None
    assert result.horizon_ms == TIME_MS + 1000
    assert [offset for offset, _, _ in shown(world)] == [0, last, 4, commit]
    assert plan_for(log, aborted=aborted, now_ms=TIME_MS + 999) is None
    run(world, log, plan_for(log, aborted=aborted, now_ms=TIME_MS + 1000))
    assert [offset for offset, _, _ in shown(world)] == [0, 4, commit]
    put(log, [(b"c", b"later")])
    close_segment(world, log)
    run(world, log, plan_for(log, now_ms=TIME_MS + 2000))
    assert [offset for offset, _, _ in shown(world)] == [0, commit, 7]
    # Its last batch is the marker, which has the producer's epoch.
    run(world, log, plan_for(log, now_ms=TIME_MS + 3000, producers={7: commit}))
    assert [offset for offset, _, _ in shown(world)] == [0, commit, 7]
    close_segment(world, log)
    run(world, log, plan_for(log, now_ms=TIME_MS + 3000))
    assert [offset for offset, _, _ in shown(world)] == [0, 7]


def test_the_last_batch_of_a_producer_stays_empty() -> None:
    world = World(CONFIG)
    log = world.log()
    options = BatchOptions(producer_id=9, producer_epoch=2, base_sequence=40, leader_epoch=1)
    put(log, [(b"a", b"1")], options=options)
    put(log, [(b"a", b"2"), (b"b", b"2")], options=dataclasses.replace(options, base_sequence=41))
    put(log, [(b"a", b"3"), (b"b", b"3")])
    close_segment(world, log)
    for _ in range(2):
        run(world, log, plan_for(log, producers={9: 2}))
        close_segment(world, log)
        header = read_batch_header(batches_of(log)[0])
        assert (header.base_offset, header.last_offset, header.record_count) == (1, 2, 0)
        assert (header.producer_id, header.producer_epoch, header.last_sequence) == (9, 2, 42)
        assert header.partition_leader_epoch == 1
    assert [offset for offset, _, _ in shown(world)] == [3, 4]
    run(world, log, plan_for(log))
    assert read_batch_header(batches_of(log)[0]).base_offset == 3


# -- the log around it


def test_segments_are_joined_while_they_fit() -> None:
    world = World(CONFIG)
    log = world.log()
    for at in range(40):
        put(log, [(b"%d" % at, b"v" * 100)])
    put(log, [(b"%d" % at, b"w" * 10) for at in range(38)])
    close_segment(world, log)
    before = len(log.segments.segments)
    for _ in range(3):
        run(world, log, plan_for(log))
        close_segment(world, log)
    assert before > 6
    assert len(log.segments.segments) == 3
    names = [name for name in world.disk.list_dir("topic1-0") if name.endswith(".log")]
    assert len(names) == 3
    assert log.segments.segments[0].base_offset == 0


def test_offsets_indexes_terms_and_times_through_holes() -> None:
    world = World(CONFIG)
    log = world.log()
    mark(log, 1)
    for at in range(30):
        put(log, [(b"%d" % at, b"old" * 10)], timestamp_ms=TIME_MS + at)
    mark(log, 2)
    mark(log, 2, b"configuration")
    for at in range(30):
        if at % 5:
            put(log, [(b"%d" % at, b"new" * 10)], term=2, timestamp_ms=TIME_MS + 100 + at)
    close_segment_with = log.end_offset
    log.segments.roll_next = True
    put(log, [(b"last", b"")], term=2, timestamp_ms=TIME_MS + 200)
    checkpoint(world)
    terms = [log.positions.term_at(index) for index in range(1, log.last_index + 1)]
    run(world, log, plan_for(log))
    for _ in range(2):
        kept = [r.offset for r in records_of(log)]
        assert kept == [0, 5, 10, 15, 20, 25, *range(30, close_segment_with + 1)]
        assert [log.positions.term_at(i) for i in range(1, log.last_index + 1)] == terms
        for offset in range(log.end_offset):
            (found,) = log.locate_blocking(offset, 1, log.end_offset)
            header = read_batch_header(found.file.read_blocking(found.position, found.length))
            assert header.base_offset == min(o for o in kept if o >= offset)
        for index in range(1, log.last_index + 1):
            pieces: list[object] = []
            log.entries_async(index, 1, pieces.append)
            (entries,) = pieces
            assert isinstance(entries, list)
            wanted = [int(log.index_of_offset(o)) for o in kept]
            wanted += [m.index for m in log.positions.marks]
            assert entries[0].first_index == min(i for i in wanted if i >= index)
            assert entries[0].term == terms[entries[0].first_index - 1]
        times: list[object] = []
        log.offset_for_timestamp(TIME_MS + 11, times.append)
        log.offset_for_timestamp(TIME_MS + 26, times.append)
        log.max_timestamp(times.append)
        assert times == [(TIME_MS + 15, 15), (TIME_MS + 101, 30), (TIME_MS + 200, 54)]
        world.power_cut()
        log = world.log()


def test_a_follower_takes_a_log_with_holes() -> None:
    world = World(CONFIG)
    leader, follower = world.log(1), world.log(2)
    mark(leader, 1)
    for at in range(60):
        put(leader, [(b"%d" % (at % 7), b"v" * (at % 50))], term=1 + at // 20)
        if at in (19, 39):
            mark(leader, 2 + at // 20)
    close_segment_term = 3
    leader.segments.roll_next = True
    put(leader, [(b"last", b"")], term=close_segment_term)
    checkpoint(world)
    run(world, leader, plan_for(leader))
    index = 1
    while index <= leader.last_index:
        pieces: list[object] = []
        leader.entries_async(index, 300, pieces.append)
        (entries,) = pieces
        assert isinstance(entries, list)
        follower.append(entries)
        index = entries[-1].last_index + 1
    for _ in range(2):
        assert batches_of(follower) == batches_of(leader)
        assert follower.term_spans == leader.term_spans
        assert follower.last_index == leader.last_index
        assert follower.end_offset == leader.end_offset
        world.commit()
        world.power_cut()
        leader, follower = world.log(1), world.log(2)
    follower.truncate_to(int(follower.index_of_offset(55)))
    assert follower.end_offset == 56
    put(follower, [(b"new", b"")], term=9)
    world.commit()
    assert records_of(follower)[-1].offset == 56


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_hole_at_the_end_of_the_log_is_passed_over(is_cold: bool) -> None:
    world = World(dataclasses.replace(CONFIG, cache_bytes_max=0))
    log = world.log()
    put(log, [(b"a", b"1")])
    put(log, [(b"b", None)])
    close_segment(world, log)
    for now_ms in (TIME_MS, TIME_MS + 1000):
        run(world, log, plan_for(log, now_ms=now_ms))
    assert [offset for offset, _, _ in shown(world)] == [0]
    log.truncate_to(2)
    world.commit()
    assert (log.end_offset, [r.offset for r in records_of(log)]) == (2, [0])
    put(log, [(b"c", b"1")], term=2)
    world.commit()
    assert [r.offset for r in records_of(log)] == [0, 2]
    log.truncate_to(2)
    noop = mark(log, 3)
    put(log, [(b"d", b"1")], term=3)
    world.disk.is_cold = is_cold
    for _ in range(2):
        for index in (2, 3):
            pieces: list[object] = []
            log.entries_async(index, 1, pieces.append)
            world.disk.complete()
            (entries,) = pieces
            assert isinstance(entries, list)
            assert entries[0].first_index == noop.first_index
        world.disk.settle()
        world.commit()
        log.truncate_to(3)
    world.power_cut()
    assert world.log().end_offset in (2, 3)


def test_retention_and_reset_after_a_run() -> None:
    world = World(CONFIG)
    log = world.log()
    for at in range(60):
        put(log, [(b"%d" % (at % 20), b"v" * 100)], timestamp_ms=TIME_MS + at)
    close_segment(world, log)
    options = dataclasses.replace(EAGER, segment_bytes_max=1024)
    for _ in range(3):
        run(world, log, plan_for(log, options=options))
        close_segment(world, log)
    bases = [segment.base_offset for segment in log.segments.segments]
    assert len(bases) >= 3
    size = log.segments.segments[0].size
    start = log.retention_candidate(TIME_MS, -1, log.size_bytes - size, log.end_offset)
    assert start == bases[1]
    log.advance_start(start)
    world.commit()
    world.power_cut()
    log = world.log()
    assert [segment.base_offset for segment in log.segments.segments] == bases[1:]
    assert log.retention_candidate(TIME_MS + 5000, 100, -1, log.end_offset) == log.end_offset
    log.reset_to(start_offset=1000, index=1000, term=log.term_spans[-1].term)
    assert log.clean_state.end_offset == 0
    assert plan_for(log) is None
    put(log, [(b"a", b"1")], term=5)
    world.commit()
    world.power_cut()
    assert [r.offset for r in records_of(world.log())] == [1000]


def test_ranges_of_old_segments_can_still_be_read() -> None:
    world = World(CONFIG)
    log = world.log()
    for at in range(30):
        put(log, [(b"%d" % (at % 3), b"v" * 50)])
    close_segment(world, log)
    (held,) = log.locate_blocking(0, 500, log.end_offset)
    before = held.file.read_blocking(held.position, held.length)
    run(world, log, plan_for(log))
    assert held.file.read_blocking(held.position, held.length) == before


def test_a_search_that_was_under_way_is_made_again() -> None:
    world = World(dataclasses.replace(CONFIG, cache_bytes_max=0))
    log = world.log()
    for at in range(40):
        put(log, [(b"%d" % (at % 3), b"v" * 50)], timestamp_ms=TIME_MS + at)
    close_segment(world, log)
    plan = plan_for(log)
    world.disk.is_cold = True
    times: list[object] = []
    log.offset_for_timestamp(TIME_MS + 20, times.append)
    ranges: list[object] = []
    log.locate_async(20, 10, log.end_offset, ranges.append)
    held, world.disk.pending = world.disk.pending, type(world.disk.pending)()
    assert len(held) == 2
    run(world, log, plan)
    for step in held:
        step()
    world.disk.settle()
    assert times == [(TIME_MS + 37, 37)]
    (found,) = cast(list[list[FileRange]], ranges)[0]
    header = read_batch_header(found.file.read_blocking(found.position, found.length))
    assert header.base_offset == 37


@pytest.mark.parametrize("ends_by", ["stop", "damage", "full disk"])
def test_a_run_that_does_not_end_leaves_nothing(ends_by: str) -> None:
    world = World(CONFIG)
    log = world.log()
    for at in range(40):
        put(log, [(b"%d" % at, b"v" * 100)])
    close_segment(world, log)
    names = world.disk.list_dir("topic1-0")
    plan = plan_for(log)
    assert plan is not None
    steps = compact(world.disk, plan)
    for _ in plan.sources:
        next(steps)
    next(steps)
    assert world.disk.list_dir("topic1-0") != names
    if ends_by == "stop":
        steps.close()
    elif ends_by == "damage":
        world.disk.inode(log.segments.segments[1].path).data[70] ^= 1
        with pytest.raises(StorageCorrupt):
            list(steps)
    else:
        world.disk.capacity = 1
        with pytest.raises(DiskFull):
            list(steps)
    assert world.disk.list_dir("topic1-0") == names


def test_what_passes_between_processes_can() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1"), (b"a", b"2")])
    close_segment(world, log)
    plan = plan_for(log, aborted=[AbortedTransaction(1, 2, 3)], producers={4: 5})
    assert plan is not None
    assert pickle.loads(pickle.dumps(plan)) == plan
    groups = [step for step in compact(world.disk, plan) if isinstance(step, CleanedGroup)]
    assert len(groups) == 1
    assert pickle.loads(pickle.dumps(groups)) == groups


def test_a_run_removes_what_another_process_has_left() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1"), (b"a", b"2")])
    close_segment(world, log)
    world.disk.open("topic1-0/00000000000000000007.log.cleaned", create=True)
    run(world, log, plan_for(log))
    assert not [name for name in world.disk.list_dir("topic1-0") if name.endswith(".cleaned")]


def test_damage_is_told_and_not_copied() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"1"), (b"b", b"2")])
    close_segment(world, log)
    world.disk.inode("topic1-0/00000000000000000000.log").data[70] ^= 1
    with pytest.raises(StorageCorrupt, match="no good record batch at byte 0"):
        run(world, log, plan_for(log))
