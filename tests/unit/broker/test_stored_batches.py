"""What a broker believes of its own files: batches that are whole, at offsets that are possible."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafkaesque.broker.partitions.log_reader import LogReader
from kafkaesque.broker.replication.stored_batches import check_stored, replay
from kafkaesque.env.disk import FileRange
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record
from kafkaesque.storage.errors import StorageCorrupt
from tests.unit.storage.helpers import World, add, read_ranges

BATCHES, RECORDS = 8, 3


def written() -> tuple[World, int]:
    """Return a world with one log, and the size of its batches."""
    world = World()
    log = world.log()
    size = 0
    for _ in range(BATCHES):
        size = len(add(log, 1, RECORDS).data)
    world.commit()
    return world, size


def spoil(world: World, at: int) -> None:
    path = world.log().segments.segments[0].path
    world.disk.inode(path).data[at] ^= 2


def read_through(world: World) -> tuple[list[Offset], Exception | None]:
    """Read a log as coordinators do; return the offsets of records, and how it ended."""
    log, offsets = world.log(), list[Offset]()
    ends: list[Exception | None] = []

    def take(_: BatchHeader, records: list[Record]) -> None:
        offsets.extend(Offset(record.offset) for record in records)

    partition: Any = SimpleNamespace(log=log, log_start_offset=log.start_offset, sealing=None)
    LogReader(
        partition=partition,
        disk=world.disk,
        end=log.end_offset,
        on_batch=take,
        on_done=ends.append,
    ).start()
    world.disk.settle()
    assert len(ends) == 1
    return offsets, ends[0]


def test_good_batches_are_read() -> None:
    world, _ = written()
    assert read_through(world) == (list(range(BATCHES * RECORDS)), None)
    assert [each.base_offset for each, _ in replay(world.log(), 7)] == [6, 9, 12, 15, 18, 21]


@pytest.mark.parametrize(
    "at", [0, 7, 8, 11, 16, 17, 21, 23, 26, 43, 51, 53, 57, 60, 61, 66], ids="byte {}".format
)
@pytest.mark.parametrize("batch", [0, 3, BATCHES - 1])
def test_no_flipped_bit_is_believed(batch: int, at: int) -> None:
    world, size = written()
    spoil(world, batch * size + at)
    path = world.log().segments.segments[0].path
    offsets, error = read_through(world)
    assert isinstance(error, StorageCorrupt)
    assert path in str(error)
    assert offsets == list(range(len(offsets)))
    with pytest.raises(StorageCorrupt, match=path):
        list(replay(world.log(), 0))


def test_a_log_that_ends_within_a_batch_is_damaged() -> None:
    world, size = written()
    log = world.log()
    (piece,) = log.locate_blocking(Offset(0), 1 << 20, log.end_offset)
    data = read_ranges([piece])
    cut = FileRange(piece.file, piece.position, len(data) - 1)
    with pytest.raises(StorageCorrupt, match=f"byte {(BATCHES - 1) * size}: "):
        check_stored(cut, data[:-1], 0, log.end_offset)
    with pytest.raises(StorageCorrupt, match="offset 21 has no place"):
        check_stored(piece, data, 0, log.end_offset - 1)
    with pytest.raises(StorageCorrupt, match="offset 0 has no place"):
        check_stored(piece, data, RECORDS, log.end_offset)
