"""A segment that is damaged after it was written: nothing wrong is given out, nothing left out.

Storage looks at headers only, and offsets and leader epochs lie outside the checksum. Whoever reads
is told of damage, gets what lies before it, and whatever the index still leads to behind it.
"""

from functools import partial
from typing import Any

import pytest

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.ids import Index, Term
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.helpers import World, add, batch, mark, read_ranges
from tests.unit.storage.test_group_log import NO_CACHE, parse, wait

#: The batch that is damaged, of `BATCHES` of two records each; the segment holds about 20.
HURT = 7
BATCHES = 60
#: Bytes of its header that storage believes: offset, length, epoch, magic, offset delta.
BELIEVED = (*range(17), *range(23, 27))


def written() -> tuple[World, GroupLog, list[bytes]]:
    """Return a log that is on the disk only, and its batches."""
    world = World(NO_CACHE)
    log = world.log()
    mark(log, 1)
    data = [bytes(add(log, 1 + at // 5, 2, value=b"v" * 60).data) for at in range(BATCHES)]
    world.commit()
    return world, log, data


def damage(world: World, log: GroupLog, data: list[bytes], at: int, bit: int = 0) -> None:
    """Flip a bit of the batch `HURT`."""
    path = log.segments.segments[0].path
    world.disk.inode(path).data[sum(map(len, data[:HURT])) + at] ^= 1 << bit


def read_entries(world: World, log: GroupLog, index: int, bytes_max: int) -> Any:
    return wait(world, partial(log.entries_async, index, bytes_max))


def locate(world: World, log: GroupLog, offset: int, bytes_max: int) -> Any:
    found = wait(world, partial(log.locate_async, offset, bytes_max, log.end_offset))
    return found if isinstance(found, Exception) else read_ranges(found)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
def test_whoever_reads_a_broken_header_is_told(is_cold: bool) -> None:
    world, log, data = written()
    damage(world, log, data, at=16)
    world.disk.is_cold = is_cold
    index, offset = 2 + 2 * HURT, 2 * HURT
    assert log.entries_from(index, 1000) is None, "said off the loop"
    assert log.locate(offset, 1000, log.end_offset) is None, "said off the loop"
    for _ in range(2):
        assert isinstance(read_entries(world, log, index, 1000), StorageCorrupt)
        assert isinstance(locate(world, log, offset, 1000), StorageCorrupt)


@pytest.mark.parametrize("at", BELIEVED)
def test_what_lies_before_the_damage_is_read(at: int) -> None:
    world, log, data = written()
    damage(world, log, data, at, bit=7 if at not in (16, 26) else 0)
    before = read_entries(world, log, 2, 100_000)
    assert [bytes(entry.data) for entry in before][:HURT] == data[:HURT]
    # Two batches that are good stand where a range of bytes would reach into the damage, too.
    assert locate(world, log, 2 * HURT - 4, 2 * len(data[0])) == b"".join(data[HURT - 2 : HURT])
    found = locate(world, log, 2 * HURT - 4, 3 * len(data[0]))
    assert found[: 2 * len(data[0])] == b"".join(data[HURT - 2 : HURT])


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("hurt_at", [8, 16])
def test_the_index_leads_to_what_lies_behind_the_damage(hurt_at: int, is_restarted: bool) -> None:
    world, log, data = written()
    if is_restarted:
        world.restart()
        log = world.log()
    damage(world, log, data, hurt_at, bit=0)
    for _ in range(2):
        for at in range(BATCHES):
            found = locate(world, log, 2 * at, 1)
            if at in (HURT, HURT + 1):
                continue  # no entry of the index lies between them
            assert found == data[at], at


def test_what_lies_before_the_damage_is_found_without_an_index() -> None:
    world, log, data = written()
    damage(world, log, data, at=16)
    log.segments.remove_files(log.segments.segments[0].paths()[1:])
    log.segments.segments[0].index = None
    for at in range(BATCHES):
        found = locate(world, log, 2 * at, 1)
        if at < HURT or 2 * at >= log.segments.segments[1].base_offset:
            assert found == data[at], at
        else:
            assert isinstance(found, StorageCorrupt), at


@pytest.mark.parametrize("at", BELIEVED)
def test_no_flipped_bit_moves_or_hides_a_batch(at: int) -> None:
    """Entries for a follower are right, or their checksum is wrong, or the reader is told."""
    for bit in range(8):
        world, log, data = written()
        damage(world, log, data, at, bit)
        for first in (HURT - 3, HURT, HURT + 1):
            index = 2 + 2 * first
            for bytes_max in (1, 1000):
                found = read_entries(world, log, index, bytes_max)
                if isinstance(found, StorageCorrupt):
                    assert first >= HURT
                    continue
                entries = [entry for entry in found if entry.kind == EntryKind.DATA]
                assert entries, (bit, first)
                for number, entry in enumerate(entries, first):
                    if scan_batches(entry.data).end == len(entry.data):
                        assert bytes(entry.data) == data[number], (bit, first, number)
                        assert entry.first_index == 2 + 2 * number


@pytest.mark.parametrize("at", BELIEVED)
def test_no_flipped_bit_leads_a_reader_astray(at: int) -> None:
    """Ranges begin with the batch that is asked for, or the checksum says that it is damaged."""
    for bit in range(8):
        world, log, data = written()
        damage(world, log, data, at, bit)
        for number in range(HURT - 1, HURT + 3):
            for bytes_max in (1, 1000):
                found = locate(world, log, 2 * number, bytes_max)
                if isinstance(found, StorageCorrupt):
                    assert number >= HURT
                    continue
                assert found, "there is more, and nobody would wait for it"
                if scan_batches(found, count_max=1).batches:
                    # Nobody looks at the epoch here, and the records are right without it.
                    first = found[: len(data[number])]
                    assert first[:12] + first[16:] == data[number][:12] + data[number][16:]


@pytest.mark.parametrize("is_over_a_hole", [False, True])
def test_a_cold_read_gives_out_nothing_that_came_after_the_question(is_over_a_hole: bool) -> None:
    """What is behind the high watermark may be cut off again: nobody is to see it."""
    world = World(NO_CACHE)
    log = world.log()
    add(log, 1)
    if is_over_a_hole:
        log.segments.roll_next = True
        log.append([LogEntry(EntryKind.DATA, Index(6), Index(6), Term(1), batch(5, 1))])
    world.commit()
    world.disk.is_cold = True
    got: list[Any] = []
    log.locate_async(3 if is_over_a_hole else 0, 100_000, log.end_offset, got.append)
    end = log.end_offset
    add(log, 1)
    world.disk.settle()
    assert parse(read_ranges(got[0])) == [(end - 1, end - 1)]


def test_a_cold_read_for_a_follower_forgets_what_was_cut_meanwhile() -> None:
    world, log, _ = written()
    world.disk.is_cold = True
    got: list[Any] = []
    log.entries_async(2, 1000, got.append)
    log.truncate_to(1)
    world.disk.settle()
    assert got == [[]]


def test_a_cold_read_survives_segments_that_go_meanwhile() -> None:
    world, log, data = written()
    world.disk.is_cold = True
    got: list[Any] = []
    last = 2 * BATCHES - 2
    log.locate_async(last, 1, log.end_offset, got.append)
    log.advance_start(log.segments.segments[-1].base_offset)
    world.commit()
    assert read_ranges(got[0]) == data[-1]
