"""Blocks of the write-ahead log, torn and damaged at every byte."""

import pytest

from kafkaesque.env.disk import Buffer
from kafkaesque.model.checksum import crc32c
from kafkaesque.storage import wal_format
from kafkaesque.storage.wal_format import (
    ALIGNMENT,
    BLOCK,
    MAGIC,
    READ_BYTES,
    RECORD,
    RecordKind,
    WalReader,
    write_block,
)
from tests.unit.storage.memory_disk import ManualClock, MemoryDisk, MemoryFile


def record(group: int, payload: bytes) -> list[bytes]:
    return [RECORD.pack(group, RecordKind.DATA, 1, 2, 3, 1, len(payload)), payload]


def wal_file(disk: MemoryDisk, number: int, payloads: list[bytes]) -> tuple[MemoryFile, list[int]]:
    """Return a file of one block per payload, and where each block begins."""
    file = disk.open("wal", create=True)
    assert isinstance(file, MemoryFile)
    position, starts = 0, []
    for at, payload in enumerate(payloads):
        buffers, size = write_block(number, position, at, 1, record(7, payload))
        file.write_at(position, buffers)
        starts.append(position)
        position += size
        assert position % ALIGNMENT == 0
    return file, starts


def read(file: MemoryFile, number: int = 5) -> list[bytes]:
    return [bytes(block.records[0].payload) for block in WalReader(file, number).blocks(None)]


def test_round_trip_of_small_and_large_blocks() -> None:
    payloads = [b"", b"a" * 10, b"b" * 300_000, b"c" * 2_000_000, b"d"]
    file, _ = wal_file(MemoryDisk(ManualClock()), 5, payloads)
    assert read(file) == payloads


def test_torn_at_every_byte() -> None:
    disk = MemoryDisk(ManualClock())
    file, starts = wal_file(disk, 5, [b"first", b"second" * 100])
    whole = bytes(file.inode.data)
    end = starts[1] + 24 + RECORD.size + 600
    for cut in range(starts[1], end):
        for rest in (b"", bytes(len(whole) - cut), b"\xff" * (len(whole) - cut)):
            file.inode.data[:] = whole[:cut] + rest
            assert read(file) == [b"first"], cut
            assert WalReader(file, 5).newer_block_after(starts[1], 1) is None
    file.inode.data[:] = whole[:end]
    assert len(read(file)) == 2, "padding is nothing that can be missed"


def test_every_byte_counts() -> None:
    file, starts = wal_file(MemoryDisk(ManualClock()), 5, [b"first", b"second", b"third"])
    whole = bytes(file.inode.data)
    for at in range(starts[1], starts[1] + 24 + RECORD.size + 6):
        file.inode.data[:] = whole
        file.inode.data[at] ^= 0x10
        assert read(file) == [b"first"], at
        newer = WalReader(file, 5).newer_block_after(starts[1], 1)
        assert newer is not None, "damage in the middle is no torn end"
        assert newer.position == starts[2]


def test_blocks_of_an_earlier_life_of_the_file_are_not_believed() -> None:
    disk = MemoryDisk(ManualClock())
    file, starts = wal_file(disk, 4, [b"one", b"two", b"three"])
    wal_file(disk, 5, [b"new"])
    assert read(file, 5) == [b"new"]
    assert WalReader(file, 5).newer_block_after(starts[1], 0) is None


def test_a_block_at_another_position_is_not_believed() -> None:
    file, starts = wal_file(MemoryDisk(ManualClock()), 5, [b"one", b"two", b"three"])
    data = file.inode.data
    data[starts[1] : starts[2]] = data[starts[2] : starts[2] + ALIGNMENT]
    assert read(file) == [b"one"]


@pytest.mark.parametrize("is_torn", [False, True], ids=["damaged", "torn"])
@pytest.mark.parametrize("candidates_max", [7, 1 << 16])
def test_what_looks_like_blocks_takes_no_longer_than_the_file_is_long(
    is_torn: bool, candidates_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer may send as many headers as it likes, each of a block up to the file's end."""
    monkeypatch.setattr(wal_format, "CANDIDATES_MAX", candidates_max)
    size = 3 << 20
    evil = b"".join(
        BLOCK.pack(MAGIC, at, 2**60, size - at - BLOCK.size - 3, 1).ljust(ALIGNMENT, b"p")
        for at in range(0, size, ALIGNMENT)
    )
    file, (_, broken) = wal_file(MemoryDisk(ManualClock()), 5, [b"first", b"second"])
    file.write_at(broken, [evil[broken:]])
    if not is_torn:
        buffers, _ = write_block(5, size, 2, 1, record(7, b"n" * 400_000))
        file.write_at(size, buffers)
    checked = 0

    def count(data: Buffer, value: int = 0) -> int:
        nonlocal checked
        checked += len(data)
        return crc32c(data, value)

    monkeypatch.setattr(wal_format, "crc32c", count)
    found = WalReader(file, 5).newer_block_after(broken, 1)
    assert (found and found.position) == (None if is_torn else size)
    passes = 2 + size // READ_BYTES if candidates_max == 7 else 2
    assert checked <= passes * file.size()


def test_numbers_must_go_up_by_one() -> None:
    disk = MemoryDisk(ManualClock())
    file, _ = wal_file(disk, 5, [b"one"])
    buffers, _ = write_block(5, ALIGNMENT, 2, 1, record(7, b"three"))
    file.write_at(ALIGNMENT, buffers)
    assert read(file) == [b"one"]


def test_lengths_that_lie() -> None:
    file, starts = wal_file(MemoryDisk(ManualClock()), 5, [b"one", b"two"])
    whole = bytes(file.inode.data)
    for size in (0, 1, 2**31 - 1, 2**32 - 1):
        file.inode.data[:] = whole
        file.inode.data[starts[1] + 16 : starts[1] + 20] = size.to_bytes(4, "little")
        assert read(file) == [b"one"]
