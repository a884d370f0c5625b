"""One log: what is appended is found again, by offset, by index and by time, warm and cold."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kafkaesque.env.disk import FileRange
from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import InvariantBroken, OffsetOutOfRange
from kafkaesque.model.ids import Term
from kafkaesque.storage.config import SegmentOptions
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.errors import EntriesGone
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.helpers import (
    SMALL,
    TIME_MS,
    World,
    add,
    batch,
    mark,
    read_all,
    read_ranges,
)

NO_CACHE = dataclasses.replace(SMALL, cache_bytes_max=0, index_cache_bytes_max=0)


def filled(world: World, count: int = 60) -> tuple[GroupLog, list[bytes]]:
    """Return a log of batches of one to three records, with a mark now and then."""
    log = world.log()
    data = []
    for at in range(count):
        if at % 20 == 0:
            mark(log, at // 20 + 1)
        entry = add(log, log.last_term, at % 3 + 1, value=b"v" * (at * 7 % 200))
        data.append(bytes(entry.data))
    world.commit()
    return log, data


def wait(world: World, ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """Return what a callback gets."""
    got: list[Any] = []
    ask(got.append)
    world.disk.settle()
    (result,) = got
    return result


def parse(data: bytes) -> list[tuple[int, int]]:
    """Return base and last offsets."""
    found, at = [], 0
    while at < len(data):
        base = int.from_bytes(data[at : at + 8], "big")
        found.append((base, base + int.from_bytes(data[at + 23 : at + 27], "big")))
        at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
    return found


# -- by offset


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("config", [SMALL, NO_CACHE], ids=["cache", "no cache"])
def test_every_offset_is_found(config: Any, is_cold: bool) -> None:
    world = World(config)
    log, data = filled(world)
    world.disk.is_cold = is_cold
    for limit in (log.end_offset, 77):
        for offset in range(limit):
            ranges = wait(world, partial(log.locate_async, offset, 600, limit))
            found = read_ranges(ranges)
            spans = parse(found)
            if not spans:
                assert limit - offset < 3, "only a batch across the limit is left out"
                continue
            assert spans[0][0] <= offset <= spans[0][1]
            assert all(last < limit for _, last in spans)
            assert len(found) <= 600 or len(spans) == 1
            assert found in b"".join(data)
            assert [a[1] + 1 for a in spans[:-1]] == [b[0] for b in spans[1:]]


def test_at_least_one_batch_however_small_the_limit() -> None:
    world = World()
    log, data = filled(world)
    (piece,) = log.locate(0, 1, log.end_offset) or []
    assert read_ranges([piece]) == data[0]


def test_limit_within_a_batch_leaves_it_out() -> None:
    world = World()
    log = world.log()
    add(log, 1, 3)
    add(log, 1, 3)
    assert parse(read_ranges(log.locate(0, 10_000, 5) or [])) == [(0, 2)]
    assert log.locate(3, 10_000, 5) == []


def test_fills_up_to_the_limit_of_bytes() -> None:
    world = World()
    log = world.log(options=SegmentOptions(segment_bytes_max=1_000_000))
    sizes = [len(add(log, 1, value=b"v" * 100).data) for _ in range(1000)]
    for offset in (0, 500, 990):
        for bytes_max in (sizes[0] * 7 + 3, 1_000_000):
            found = read_ranges(log.locate(offset, bytes_max, 995) or [])
            assert len(parse(found)) == min(bytes_max // sizes[0], 995 - offset)


def test_outside_is_refused() -> None:
    world = World()
    log, _ = filled(world, 10)
    log.advance_start(3)
    for offset in (2, log.end_offset + 1, -1):
        with pytest.raises(OffsetOutOfRange):
            log.locate(offset, 100, log.end_offset)
        assert isinstance(
            wait(world, partial(log.locate_async, offset, 100, 99)),
            OffsetOutOfRange,
        )
    assert log.locate(log.end_offset, 100, log.end_offset) == []


def test_the_tail_is_found_without_a_file() -> None:
    world = World()
    log, data = filled(world)
    world.disk.is_cold = True
    world.disk.cached_reads = 0
    found = log.locate(log.end_offset - 1, 1000, log.end_offset)
    assert found is not None
    assert world.disk.cached_reads == 0
    assert read_ranges(found) == data[-1]
    assert log.locate(0, 1000, log.end_offset) is None


def test_a_walk_is_no_longer_than_the_index_interval() -> None:
    world = World(NO_CACHE)
    log = world.log(options=SegmentOptions(segment_bytes_max=1_000_000, index_interval_bytes=500))
    for _ in range(2000):
        add(log, 1)
    world.commit()
    for offset in (0, 1000, 1999):
        world.disk.cached_reads = 0
        assert log.locate(offset, 100, log.end_offset)
        assert world.disk.cached_reads <= 4


def test_cold_says_so_and_reads_off_the_loop() -> None:
    world = World(NO_CACHE)
    log, data = filled(world)
    world.disk.is_cold = True
    assert log.locate(0, 100, log.end_offset) is None
    got: list[Any] = []
    log.locate_async(0, 100, log.end_offset, got.append)
    assert got == []
    world.disk.settle()
    assert read_ranges(got[0]) == data[0]


def test_segments_and_handles_are_bounded() -> None:
    world = World()
    logs = [world.log(group) for group in range(1, 40)]
    for _ in range(3):
        for log in logs:
            add(log, 1, value=b"v" * 3000)
    world.commit()
    is_open = [f for f in world.disk.open_files.values() if not f.is_closed]
    assert len(is_open) <= SMALL.open_files_max + 3
    assert all(len(log.segments.segments) == 3 for log in logs)


def test_an_empty_log_has_no_segment() -> None:
    world = World()
    world.log()
    world.commit()
    assert world.disk.list_dir("topic1-0") == ["partition.metadata"]


def test_segments_roll_by_age() -> None:
    world = World()
    log = world.log(options=SegmentOptions(segment_ms_max=1000))
    add(log, 1)
    world.clock.unix_ms += 1000
    add(log, 1)
    world.clock.unix_ms += 1
    add(log, 1)
    assert [s.base_offset for s in log.segments.segments] == [0, 2]


# -- by index


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("config", [SMALL, NO_CACHE], ids=["cache", "no cache"])
@pytest.mark.parametrize("bytes_max", [1, 500, 100_000])
def test_entries_from_every_index(config: Any, is_cold: bool, bytes_max: int) -> None:
    world = World(config)
    log, _ = filled(world)
    everything: list[LogEntry] = []
    world.disk.is_cold = is_cold
    index = 1
    while index <= log.last_index:
        piece = wait(world, partial(log.entries_async, index, bytes_max))
        assert piece
        assert piece[0].last_index >= index
        size = sum(len(entry.data) for entry in piece)
        assert size <= bytes_max or sum(1 for e in piece if e.data) == 1
        everything += piece
        index = piece[-1].last_index + 1
    assert [e.first_index for e in everything[1:]] == [e.last_index + 1 for e in everything[:-1]]
    assert [e.first_index for e in everything if e.kind] == [1, 41, 82]
    assert b"".join(bytes(e.data) for e in everything) == read_all(log)
    for index in range(1, log.last_index + 1):
        piece = wait(world, partial(log.entries_async, index, bytes_max))
        assert piece[0].first_index <= index <= piece[0].last_index


def test_entries_before_the_start_are_gone() -> None:
    world = World()
    log, _ = filled(world)
    log.advance_start(log.end_offset)
    assert log.start_index == log.last_index
    with pytest.raises(EntriesGone):
        log.entries_from(log.start_index, 100)
    assert log.entries_from(log.last_index + 1, 100) == []


def test_marks_after_the_last_batch_outlast_the_batches() -> None:
    world = World()
    log = world.log()
    add(log, 1, 2)
    mark(log, 1, b"configuration")
    log.advance_start(2)
    assert log.start_index == 2
    found = log.entries_from(3, 100)
    assert found is not None
    assert [bytes(e.data) for e in found] == [b"configuration"]  # type: ignore[call-overload]
    assert log.configurations == [(3, b"configuration")]


def test_a_follower_takes_holes() -> None:
    world = World(NO_CACHE)
    log = world.log()
    entries = [
        LogEntry(EntryKind.DATA, 1, 2, Term(1), batch(0, 1, 2)),
        LogEntry(EntryKind.DATA, 8, 8, Term(1), batch(7, 1, 1)),
        LogEntry(EntryKind.NOOP, 20, 20, Term(2), b""),
        LogEntry(EntryKind.DATA, 30, 31, Term(2), batch(28, 2, 2)),
    ]
    log.append(entries)
    world.commit()

    def check(log: GroupLog) -> None:
        assert log.entries_from(3, 1) == entries[1:2]
        assert log.end_offset == 30
        assert parse(read_ranges(log.locate(3, 10, 30) or [])) == [(7, 7)]
        assert parse(read_ranges(log.locate(8, 10, 30) or [])) == [(28, 29)]

    check(log)
    world.kill()
    check(world.log())


@pytest.mark.parametrize(
    "change",
    [
        {"first_index": 5},
        {"last_index": 9},
        {"term": 3},
        {"data": batch(1, 1, 2)},
        {"data": batch(0, 1, 2)[:-1]},
        {"data": batch(0, 1, 3)},
    ],
    ids=["index", "width", "term", "offset", "length", "count"],
)
def test_batches_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    log = World().log()
    entry = LogEntry(EntryKind.DATA, 1, 2, Term(1), batch(0, 1, 2))
    with pytest.raises(InvariantBroken):
        log.append([dataclasses.replace(entry, **change)])


def test_hard_state_goes_forward_only() -> None:
    world = World()
    log = world.log()
    log.save_hard_state(Term(2), None)
    log.save_hard_state(Term(2), 7)  # type: ignore[arg-type]
    with pytest.raises(InvariantBroken):
        log.save_hard_state(Term(2), 8)  # type: ignore[arg-type]
    with pytest.raises(InvariantBroken):
        log.save_hard_state(Term(1), None)
    world.commit()
    world.power_cut()
    assert world.log().hard_state == (2, 7)


# -- by time


def timed(world: World, codec: Codec) -> GroupLog:
    log = world.log()
    for at in range(40):
        add(log, 1, 3, timestamp_ms=TIME_MS + at * 10, options=BatchOptions(codec=codec))
    world.commit()
    return log


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.LZ4])
@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
def test_offsets_by_time(codec: Codec, is_cold: bool) -> None:
    world = World(NO_CACHE)
    log = timed(world, codec)
    world.disk.is_cold = is_cold
    for at in range(0, 40, 3):
        for extra, record in ((0, 0), (1, 1), (2, 2), (3, 3), (9, 3)):
            found = wait(world, partial(log.offset_for_timestamp, TIME_MS + at * 10 + extra))
            if at == 39 and record == 3:
                assert found is None
            else:
                stamp = at * 10 + record if record < 3 else (at + 1) * 10
                assert found == (TIME_MS + stamp, at * 3 + record)
    assert wait(world, partial(log.offset_for_timestamp, 0)) == (TIME_MS, 0)
    assert wait(world, log.max_timestamp) == (TIME_MS + 392, 119)


def test_time_respects_the_start() -> None:
    world = World()
    log = timed(world, Codec.NONE)
    log.advance_start(31)
    found = wait(world, partial(log.offset_for_timestamp, 0))
    assert found == (TIME_MS + 101, 31)


def test_the_newest_record_need_not_be_the_last() -> None:
    world = World()
    log = world.log()
    for stamp in (5, 90, 20, 90, 30):
        add(log, 1, timestamp_ms=stamp)
    assert wait(world, log.max_timestamp) == (90, 1)
    assert wait(world, partial(log.offset_for_timestamp, 21)) == (90, 1)
    log.advance_start(4)
    assert wait(world, log.max_timestamp) == (30, 4)
    assert wait(world, world.log(2).max_timestamp) is None


# -- truncation, start and reset


def test_what_was_cut_is_held_until_that_is_durable() -> None:
    world = World()
    log = world.log()
    kept = add(log, 1, 2)
    for _ in range(5):
        add(log, 1, 2, value=b"old" * 500)
    world.commit()
    before = read_all(log)
    log.truncate_to(2)
    new = [add(log, 2, 3, value=b"new") for _ in range(3)]
    assert log.end_offset == 11
    assert log.locate(2, 100, 11) == [], "not in a segment yet"
    assert [e.last_index for e in log.entries_from(3, 10_000) or []] == [5, 8, 11]
    files = b"".join(
        bytes(world.disk.inode(f"topic1-0/{name}").data)
        for name in world.disk.list_dir("topic1-0")
        if name.endswith(".log")
    )
    assert files == before, "nothing that is durable was touched"
    world.commit()
    wanted = b"".join(bytes(entry.data) for entry in [kept, *new])
    assert read_all(log) == wanted
    world.power_cut()
    assert read_all(world.log()) == wanted


def test_start_removes_whole_segments_when_that_is_durable() -> None:
    world = World()
    log, _ = filled(world, 200)
    names = world.disk.list_dir("topic1-0")
    bases = [segment.base_offset for segment in log.segments.segments]
    log.advance_start(bases[2] + 1)
    assert world.disk.list_dir("topic1-0") == names
    assert log.start_offset == bases[2] + 1
    world.commit()
    assert [n for n in world.disk.list_dir("topic1-0") if n.endswith(".log")] == [
        f"{base:020d}.log" for base in bases[2:]
    ]
    world.power_cut()
    log = world.log()
    assert log.start_offset == bases[2] + 1
    assert log.base_offset == bases[2]


def test_reset_begins_elsewhere() -> None:
    world = World()
    log, _ = filled(world, 30)
    log.reset_to(
        start_offset=1005, index=1010, term=Term(9), configuration=(990, b"c"), base_offset=1000
    )
    assert (log.start_index, log.start_term) == (1010, 9)
    assert (log.start_offset, log.end_offset, log.last_index) == (1005, 1000, 1010)
    data = [add(log, 9, 3).data for _ in range(4)]
    assert log.offset_of_index(1011) == 1000
    world.commit()
    world.restart()
    log = world.log()
    assert (log.start_offset, log.end_offset, log.last_index) == (1005, 1012, 1022)
    assert log.configurations == [(990, b"c")]
    assert log.term_spans == [(9, 1010)]
    found: list[FileRange] = log.locate(1005, 10_000, 1012) or []
    assert read_ranges(found) == b"".join(data[1:])


# -- retention


def test_retention_by_size_and_time() -> None:
    world = World()
    log = world.log()
    for at in range(5):
        add(log, 1, 2, value=b"v" * 3000, timestamp_ms=TIME_MS + at * 1000)
    end = log.end_offset
    size = log.segments.segments[0].size

    def candidate(now: int, ms: int, size_max: int, high_watermark: int = end) -> int | None:
        return log.retention_candidate(TIME_MS + now, ms, size_max, high_watermark)

    assert candidate(10**9, -1, -1) is None
    assert candidate(0, -1, 2 * size) == 6
    assert candidate(0, -1, 2 * size, 5) == 4, "nothing that is not committed"
    assert candidate(0, -1, 0) == 8, "never the active segment"
    assert candidate(2600, 1000, -1) == 4
    assert candidate(10**9, 1000, -1) == 10, "by time also the active one"
    assert candidate(999, 1000, -1) is None
    log.advance_start(10)
    add(log, 1)
    assert [s.base_offset for s in log.segments.segments] == [10]


# -- indexes


def test_indexes_of_closed_segments_are_used_and_rebuilt() -> None:
    world = World(NO_CACHE)
    log, _ = filled(world, 300)
    world.restart()
    log = world.log()
    for _ in range(2):
        assert log.locate(100, 100, log.end_offset)
    assert world.store.statistics.indexes_rebuilt == 0
    for name in world.disk.list_dir("topic1-0"):
        if name.endswith(".index"):
            data = world.disk.inode(f"topic1-0/{name}").data
            data[len(data) // 2] ^= 1
    assert read_all(log)
    assert world.store.statistics.indexes_rebuilt > 0


def test_an_index_of_something_else_is_not_believed() -> None:
    world = World(NO_CACHE)
    log, _ = filled(world, 300)
    world.restart()
    log = world.log()
    whole = read_all(log)
    first, second = (segment for segment in log.segments.segments[:2])
    second_files = [world.disk.inode(path).data for path in second.sparse_index_paths()]
    for path, data in zip(first.sparse_index_paths(), second_files, strict=True):
        world.disk.inode(path).data[:] = data
    first.index = second.index = None
    assert read_all(log) == whole
