"""What a log keeps in memory of its newest entries."""

from __future__ import annotations

import dataclasses

import pytest

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.tail_cache import (
    BYTES_PER_PLACE,
    ENTRY_OVERHEAD_BYTES,
    GAP_MAX,
    LogTail,
    TailCache,
)
from tests.unit.storage.helpers import SMALL, World, add, mark

SIZE = 1000
COUNTED = SIZE + ENTRY_OVERHEAD_BYTES


def fill(tail: LogTail, count: int, first: int = 1) -> None:
    """Add entries of one record each; the offset is the index less one."""
    for index in range(first, first + count):
        entry = LogEntry(EntryKind.DATA, index, index, 1, b"%c" % (index % 256) * SIZE)  # type: ignore[arg-type]
        tail.add(entry, index - 1, index * SIZE, SIZE)


def kept(tail: LogTail, count: int) -> list[int]:
    """Return the offsets of which the bytes are there."""
    return [offset for offset in range(count) if tail.kept_from(offset, 0) is not None]


def test_bytes_that_every_replica_has_are_released_and_their_places_stay() -> None:
    cache = TailCache(100_000)
    tail = LogTail(cache)
    fill(tail, 10)
    tail.release_to(6)
    assert cache.size_bytes == 4 * COUNTED
    assert kept(tail, 10) == [6, 7, 8, 9]
    assert [tail.find(offset) for offset in range(11)] == [*range(10), None]
    assert tail.range_from(2, 3500, 10 * SIZE, 10) == (2000, 5000)
    tail.release_to(3)
    assert cache.size_bytes == 4 * COUNTED, "what is released stays so"
    tail.release_to(100)
    assert cache.size_bytes == 0
    fill(tail, 1, 11)
    assert kept(tail, 11) == [10]


def test_the_places_of_a_broker_have_a_bound_and_the_oldest_goes_first() -> None:
    cache = TailCache(8 * BYTES_PER_PLACE)
    first, second = LogTail(cache), LogTail(cache)
    for tail in (first, second, first):
        fill(tail, 4, len(tail) + 1)
        tail.release_to(100)
    assert [first.find(offset) for offset in (3, 4)] == [None, 0 + 4]
    assert len(first) == len(second) == 4
    assert first.range_from(4, 1, 8000, 8) == (4000, 5000)


def test_places_that_went_take_no_memory_for_long() -> None:
    tail = LogTail(TailCache(4 * BYTES_PER_PLACE))
    fill(tail, 5 * GAP_MAX)
    assert len(tail) == 4
    assert len(tail._ends) == len(tail._entries) == len(tail._last_offsets) < GAP_MAX + 4
    assert tail.find(5 * GAP_MAX - 1) is not None
    assert tail.range_from(tail.find(5 * GAP_MAX - 1) or 0, 1, 10**9, 10**9) == (
        (5 * GAP_MAX - 1) * SIZE,
        5 * GAP_MAX * SIZE,
    )


def test_the_bytes_go_first_that_were_lacked_for_longest() -> None:
    cache = TailCache(20 * COUNTED)
    lagging, busy = LogTail(cache), LogTail(cache)
    fill(lagging, 15)
    for round_ in range(4):
        busy.release_to(round_ * 6)
        fill(busy, 6, round_ * 6 + 1)
    assert kept(busy, 24) == [18, 19, 20, 21, 22, 23]
    assert kept(lagging, 15) == list(range(1, 15))
    assert cache.size_bytes == 20 * COUNTED


def test_a_log_whose_replicas_keep_up_keeps_what_is_on_its_way() -> None:
    cache = TailCache(20 * COUNTED)
    lagging, busy = LogTail(cache), LogTail(cache)
    fill(busy, 4)
    fill(lagging, 14)
    for last in range(4, 40, 4):
        # Two entries are always on their way: the log never has all bytes released.
        busy.release_to(last - 2)
        fill(busy, 4, last + 1)
        fill(lagging, 4, last + 11)
        assert kept(busy, 50) == list(range(last - 2, last + 4))
    assert kept(lagging, 60) == list(range(50 - 14, 50))


def test_to_release_what_is_not_there_is_no_loop_without_end() -> None:
    tail = LogTail(TailCache(100_000))
    fill(tail, 2)
    tail.release_to(1)
    tail.release_oldest()
    with pytest.raises(InvariantBroken):
        tail.release_oldest()


def test_what_is_cut_counts_no_longer() -> None:
    cache = TailCache(100_000)
    tail = LogTail(cache)
    fill(tail, 10)
    tail.release_to(4)
    tail.truncate(7)
    assert cache.size_bytes == 3 * COUNTED
    tail.truncate(2)
    assert cache.size_bytes == 0
    fill(tail, 1, 3)
    assert (kept(tail, 10), cache.size_bytes) == ([2], COUNTED)
    tail.clear()
    assert (len(tail), cache.size_bytes) == (0, 0)


def _written(world: World) -> GroupLog:
    log = world.log()
    mark(log, 1)
    for _ in range(10):
        add(log, 1, 2)
    world.commit()
    return log


def test_released_entries_are_read_from_the_files() -> None:
    world = World(dataclasses.replace(SMALL, cache_bytes_max=100_000))
    log = _written(world)
    found = log.entries_from(2, 10_000)
    assert found is not None
    before = [bytes(each.data) for each in found]  # type: ignore[call-overload]
    world.disk.cached_reads = 0
    assert log.entries_from(2, 10_000) is not None
    assert world.disk.cached_reads == 0
    log.release_to(log.last_index - 4)
    found = log.entries_from(2, 10_000)
    assert found is not None
    assert [bytes(each.data) for each in found] == before  # type: ignore[call-overload]
    assert world.disk.cached_reads > 0
    world.disk.cached_reads = 0
    found = log.entries_from(log.last_index - 3, 10_000)
    assert found is not None
    assert [bytes(each.data) for each in found] == before[-2:]  # type: ignore[call-overload]
    assert log.locate(0, 10_000, log.end_offset) is not None
    assert world.disk.cached_reads == 0
