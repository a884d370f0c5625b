"""Reads what a partition has located, one range after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.broker.partitions.partition_sealing import Located, OpenedBatches
from kafkaesque.env.disk import Buffer, Disk
from kafkaesque.model.errors import DiskFailed

#: A longer range is read off the loop even if it is cached: to copy 1 MiB takes the loop 3 ms.
CACHED_BYTES_MAX: Final = 256 * 1024


def read_ranges(
    disk: Disk, ranges: Sequence[Located], on_read: Callable[[bytes | Exception], None]
) -> None:
    """Call with all bytes, or with why they cannot be read: within this call if that is quick.

    It is where all is cached, and none of it is longer than `CACHED_BYTES_MAX`.
    """
    _Reading(disk, ranges, on_read).go_on()


class _Reading:
    """One request; functions that name one another would leave it to the garbage collector."""

    __slots__ = ("_disk", "_left", "_on_read", "_pieces")

    def __init__(
        self, disk: Disk, ranges: Sequence[Located], on_read: Callable[[bytes | Exception], None]
    ) -> None:
        self._disk = disk
        self._left = list(ranges)
        self._on_read = on_read
        self._pieces: list[Buffer] = []

    def go_on(self) -> None:
        """Take what is cached, up to what has to be read."""
        left = self._left
        while left:
            piece = left[0]
            if isinstance(piece, OpenedBatches):
                self._pieces.append(piece)
                left.pop(0)
                continue
            is_short = piece.length <= CACHED_BYTES_MAX
            try:
                cached = piece.file.read_cached(piece.position, piece.length) if is_short else None
            except DiskFailed:
                cached = None  # `Disk.read` tells why, and nobody's callback is broken off
            if cached is None:
                self._disk.read(piece.file, piece.position, piece.length, self._on_piece)
                return
            self._pieces.append(cached)
            left.pop(0)
        self._on_read(b"".join(self._pieces))

    def _on_piece(self, data: bytes | Exception) -> None:
        if isinstance(data, Exception):
            self._on_read(data)
            return
        self._pieces.append(data)
        self._left.pop(0)
        self.go_on()
