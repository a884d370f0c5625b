"""A log changes while the disk is waited for: who reads gets what is true now, or is told."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from kafkaesque.model.errors import OffsetNotAvailable
from kafkaesque.model.ids import Term
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_reads import SEARCHES_MAX
from tests.unit.storage.helpers import SMALL, TIME_MS, World, batch

NO_CACHE = dataclasses.replace(SMALL, cache_bytes_max=0, index_cache_bytes_max=0)
#: Reads that any search here is done with.
READS_MAX = 6


def time_of(offset: int) -> int:
    """Return the timestamp of a record: in each segment they are older than in the one before."""
    return TIME_MS - 1_000 * (offset // 10) + offset % 10


def put(log: GroupLog, first_offset: int, term: int = 1) -> None:
    """Append ten records at an offset, which may lie behind a hole as compaction leaves them."""
    data = batch(first_offset, term, 10, timestamp_ms=time_of(first_offset))
    index = log.index_of_offset(first_offset)
    log.append([LogEntry(EntryKind.DATA, index, index + 9, Term(term), data)])


def written(offsets: Sequence[int]) -> tuple[World, GroupLog]:
    """Return a log with ten records at each of these offsets, each in a segment of its own."""
    world = World(NO_CACHE)
    log = world.log()
    for offset in offsets:
        log.segments.roll_next = True
        put(log, offset)
    world.commit()
    world.disk.is_cold = True
    return world, log


def change_after(
    world: World,
    reads: int,
    ask: Callable[[Callable[[Any], None]], None],
    change: Callable[[], object],
) -> Any:
    """Return what a callback gets if something happens after so many reads."""
    got: list[Any] = []
    ask(got.append)
    for _ in range(reads):
        world.clock.turn()
        world.disk.complete(1)
    change()
    world.disk.settle()
    (result,) = got
    return result


def begins(entries: list[LogEntry]) -> list[int]:
    """Return the first offsets of batches, where there are no marks."""
    return [entry.first_index - 1 for entry in entries]


@pytest.mark.parametrize("reads", range(READS_MAX))
@pytest.mark.parametrize("offsets", [[0, 10, 30], [0, 10, 30, 40, 50]], ids=["last", "amid"])
def test_no_batch_is_passed_over_when_retention_takes_segments(
    offsets: list[int], reads: int
) -> None:
    world, log = written(offsets)
    # A follower that has everything up to offset 19, behind which compaction has left a hole.
    ask = partial(log.entries_async, 21, 100_000)
    assert begins(change_after(world, reads, ask, lambda: log.advance_start(10))) == [30]


@pytest.mark.parametrize("reads", range(READS_MAX))
def test_no_batch_is_passed_over_that_comes_behind_a_hole_at_the_end(reads: int) -> None:
    world, log = written([0])
    hole = LogEntry(EntryKind.NOOP, 20, 20, Term(1), b"")
    log.append([hole])
    world.commit()

    def change() -> None:
        put(log, 19)
        log.append([LogEntry(EntryKind.NOOP, 31, 31, Term(1), b"")])

    found = change_after(world, reads, partial(log.entries_async, 11, 100_000), change)
    numbers = [(entry.first_index, entry.last_index) for entry in found]
    assert numbers == [(20, 20), (21, 30), (31, 31)][: len(numbers)]
    assert numbers


@pytest.mark.parametrize("reads", range(READS_MAX))
@pytest.mark.parametrize("is_newest", [False, True], ids=["by time", "newest"])
@pytest.mark.parametrize("start", [10, 15])
def test_no_time_finds_what_retention_takes_or_misses_what_it_leaves(
    start: int, reads: int, *, is_newest: bool
) -> None:
    world, log = written([0, 10, 20, 30])
    seen_from: list[int] = []

    def ask(on_done: Callable[[Any], None]) -> None:
        def on_found(found: Any) -> None:
            seen_from.append(log.start_offset)
            on_done(found)

        if is_newest:
            log.max_timestamp(on_found)
        else:
            log.offset_for_timestamp(time_of(30), on_found)

    found = change_after(world, reads, ask, lambda: log.advance_start(start))
    (begin,) = seen_from
    newest = 9 if begin == 0 else 19
    offset = newest if is_newest else begin
    assert found == (time_of(offset), offset)


def test_a_time_is_looked_for_again_when_the_end_was_cut() -> None:
    world, log = written([0, 10, 20])
    ask = partial(log.offset_for_timestamp, time_of(0))
    assert change_after(world, 1, ask, lambda: log.truncate_to(20)) == (time_of(0), 0)


def test_a_log_that_changes_all_the_time_is_not_searched_for_ever() -> None:
    offsets = range(0, 1_000, 10)
    world, log = written(offsets)
    got: list[Any] = []
    log.offset_for_timestamp(time_of(990), got.append)
    moved = 0
    while not got:
        moved += 1
        log.advance_start(10 * moved)
        world.clock.turn()
        world.disk.complete(1)
    assert isinstance(got[0], OffsetNotAvailable)
    assert SEARCHES_MAX <= moved < len(offsets)
