"""What is read for somebody else: how much of it on the loop, and how long it is held."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from kafkaesque.broker.partitions.partition_sealing import Located, OpenedBatches
from kafkaesque.broker.partitions.read_ranges import CACHED_BYTES_MAX, read_ranges
from kafkaesque.env.disk import Disk, File, FileRange


class Cached:
    """A file of which everything is in memory."""

    def read_cached(self, position: int, length: int) -> bytes:
        return bytes(length)


class Threads:
    """A disk that notes what is read off the loop."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answers: list[Callable[[], None]] = []

    def read(self, file: Any, position: int, length: int, on_done: Callable[[Any], None]) -> None:
        self.asked.append(length)
        self.answers.append(lambda: on_done(file.read_cached(position, length)))


def located(length: int) -> FileRange:
    return FileRange(cast(File, Cached()), 0, length)


def read(threads: Threads, ranges: list[Located]) -> list[bytes | Exception]:
    """Begin to read; what comes of it is put into the list."""
    found: list[bytes | Exception] = []
    read_ranges(cast(Disk, threads), ranges, found.append)
    return found


@pytest.mark.parametrize(
    ("lengths", "off_the_loop"),
    [
        ([], []),
        ([100, CACHED_BYTES_MAX], []),
        ([CACHED_BYTES_MAX + 1], [CACHED_BYTES_MAX + 1]),
        ([100, 1 << 20, 100, 2 << 20], [1 << 20, 2 << 20]),
    ],
)
def test_the_loop_copies_little_even_of_what_is_cached(
    lengths: list[int], off_the_loop: list[int]
) -> None:
    threads = Threads()
    found = read(threads, [located(each) for each in lengths])
    for at in range(len(off_the_loop)):
        assert not found
        threads.answers[at]()
    assert threads.asked == off_the_loop
    assert found == [bytes(sum(lengths))]


def test_what_was_read_is_not_held_until_garbage_is_collected() -> None:
    piece = OpenedBatches(b"batches")
    held = weakref.ref(piece)
    gc.disable()
    try:
        assert read(Threads(), [piece]) == [b"batches"]
        del piece
        assert held() is None
    finally:
        gc.enable()
