"""Zeros that a new file of the write-ahead log gets ahead of its blocks: syncs are short then."""

import dataclasses
from collections.abc import Sequence

import pytest

from kafkaesque.env.disk import Buffer
from kafkaesque.model.errors import DiskFull
from kafkaesque.storage.wal import AHEAD_BYTES, list_wal_numbers, wal_path
from tests.unit.storage.helpers import SMALL, World, add, read_all
from tests.unit.storage.memory_disk import MemoryFile

LARGE = dataclasses.replace(SMALL, wal_bytes=2 * AHEAD_BYTES)
VALUE = b"v" * 3_000

Written = list[tuple[str, int]]


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Written:
    """Return what is written to files of zeros alone: path, and where that ends."""
    found: Written = []
    write_at = MemoryFile.write_at

    def noting(file: MemoryFile, position: int, buffers: Sequence[Buffer]) -> int:
        size = write_at(file, position, buffers)
        if not any(map(any, map(bytes, buffers))):
            found.append((file.path, position + size))
        return size

    monkeypatch.setattr(MemoryFile, "write_at", noting)
    return found


def test_zeros_go_ahead_once_for_many_commits(ahead: Written) -> None:
    world = World(LARGE)
    log = world.log()
    for _ in range(20):
        add(log, 1, value=VALUE)
        world.commit()
    (first,) = ahead
    assert first[0] == wal_path(1)
    while len(ahead) == 1:
        add(log, 1, value=VALUE)
        world.commit()
    assert ahead[1:] == [(wal_path(1), LARGE.wal_bytes)]


def test_a_file_that_is_used_again_gets_none(ahead: Written) -> None:
    world = World(LARGE)
    log = world.log()
    while world.store._bench.wal.number < 5:
        add(log, 1, value=VALUE)
        world.commit()
        world.disk.settle()
    assert {path for path, _ in ahead} < set(map(wal_path, range(1, 5)))
    assert max(list_wal_numbers(world.disk)) >= 5


def test_a_disk_without_room_for_them_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    write_at = MemoryFile.write_at
    refused: list[int] = []

    def full(file: MemoryFile, position: int, buffers: Sequence[Buffer]) -> int:
        if not any(map(any, map(bytes, buffers))):
            refused.append(position)
            raise DiskFull("no space left")
        return write_at(file, position, buffers)

    monkeypatch.setattr(MemoryFile, "write_at", full)
    world = World(LARGE)
    log = world.log()
    add(log, 1, value=VALUE)
    world.commit()
    data = read_all(log)
    assert refused
    world.kill()
    assert read_all(world.log()) == data
