"""A log changes while the disk is waited for: who reads gets what is true now, or is told."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from kafkaesque.model.ids import Term
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.helpers import SMALL, TIME_MS, World, batch

NO_CACHE = dataclasses.replace(SMALL, cache_bytes_max=0, index_cache_bytes_max=0)
#: Reads that any search here is done with.
READS_MAX = 6


def put(log: GroupLog, first_offset: int, term: int = 1) -> None:
    """Append ten records at an offset, which may lie behind a hole as compaction leaves them."""
    data = batch(first_offset, term, 10, timestamp_ms=TIME_MS + 1_000 * first_offset)
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
