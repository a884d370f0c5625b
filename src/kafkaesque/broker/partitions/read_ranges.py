"""Reads what a partition has located, one range after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkaesque.broker.partitions.partition_sealing import Located, OpenedBatches
from kafkaesque.env.disk import Buffer, Disk


def read_ranges(
    disk: Disk, ranges: Sequence[Located], on_read: Callable[[bytes | Exception], None]
) -> None:
    """Call with all bytes, or with why they cannot be read: within this call if all is cached."""
    pieces: list[Buffer] = []
    left = list(ranges)

    def step() -> None:
        while left:
            piece = left[0]
            if isinstance(piece, OpenedBatches):
                pieces.append(piece)
                left.pop(0)
                continue
            cached = piece.file.read_cached(piece.position, piece.length)
            if cached is None:
                disk.read(piece.file, piece.position, piece.length, on_piece)
                return
            pieces.append(cached)
            left.pop(0)
        on_read(b"".join(pieces))

    def on_piece(data: bytes | Exception) -> None:
        if isinstance(data, Exception):
            on_read(data)
            return
        pieces.append(data)
        left.pop(0)
        step()

    step()
