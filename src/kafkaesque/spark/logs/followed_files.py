"""Files that grow and are rotated: which there are, and how far they can be read.

A file is known by its inode and how it begins, so that it goes on under another name where it was,
and begins anew where something else stands under its name. Only whole lines are read: a line's last
byte is its line feed. Names that end in .gz and the like are passed over, since what was compressed
was read before.
"""

from __future__ import annotations

import glob
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from kafkaesque.spark.errors import ConnectorError

#: A line that is longer comes in pieces.
PIECE_BYTES = 1 << 20
FILES_MAX = 10_000
_HEAD_BYTES = 1024
_BLOCK_BYTES = 64 << 10
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file as it is now."""

    path: str
    size: int
    modified_ms: int


def find_files(patterns: tuple[str, ...]) -> dict[str, FoundFile]:
    """Return the files that match, by their identities; without those that have no line yet.

    Raises:
        ConnectorError: there are more than FILES_MAX.
    """
    paths = sorted({path for pattern in patterns for path in glob.iglob(pattern, recursive=True)})
    found: dict[str, FoundFile] = {}
    for path in paths:
        if path.endswith(_COMPRESSED):
            continue
        known = _look_at(path)
        if known is not None:
            found.setdefault(*known)
    if len(found) > FILES_MAX:
        raise ConnectorError(
            f"{', '.join(patterns)} match {len(found)} files, more than {FILES_MAX}"
        )
    return found


def open_file(identity: str, path: str, patterns: tuple[str, ...]) -> BinaryIO | None:
    """Open a file, under whatever name it has by now; None if it is gone."""
    for place in (path, None):
        if place is None:
            found = find_files(patterns).get(identity)
            if found is None:
                return None
            place = found.path
        try:
            file = Path(place).open("rb")  # noqa: SIM115 - the caller closes it
        except OSError:
            continue
        if _identity(file) == identity:
            return file
        file.close()
    return None


def readable_end(path: str, begin: int, end: int) -> int:
    """Return where the last line that lies wholly between them ends; `begin` where none does.

    Of a line of PIECE_BYTES and more that does not end there, a piece does.
    """
    try:
        with Path(path).open("rb") as file:
            stop = end
            while stop > begin:
                start = max(begin, stop - _BLOCK_BYTES)
                file.seek(start)
                at = file.read(stop - start).rfind(b"\n")
                if at >= 0:
                    return start + at + 1
                stop = start
    except OSError:
        return begin
    return end if end - begin >= PIECE_BYTES else begin


def read_lines(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yield lines without their line feeds, and where they begin, some thousands at a time.

    Raises:
        EOFError: the file is shorter.
    """
    file.seek(begin)
    rest, at = b"", begin
    while begin < end:
        block = file.read(min(PIECE_BYTES, end - begin))
        if not block:
            raise EOFError
        begin += len(block)
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        if rest and (begin == end or len(rest) >= PIECE_BYTES):
            lines.append(rest)
            rest = b""
        starts = list(accumulate((len(line) + 1 for line in lines), initial=at))
        at = begin - len(rest)
        yield lines, starts[:-1]


def _look_at(path: str) -> tuple[str, FoundFile] | None:
    try:
        with Path(path).open("rb") as file:
            identity, state = _identity(file), os.fstat(file.fileno())
    except OSError:
        # Gone since, a directory, or not for us to read.
        return None
    if identity is None:
        return None
    modified_ms = state.st_mtime_ns // 1_000_000
    return identity, FoundFile(path=path, size=state.st_size, modified_ms=modified_ms)


def _identity(file: BinaryIO) -> str | None:
    head = os.pread(file.fileno(), _HEAD_BYTES, 0)
    line, feed, _ = head.partition(b"\n")
    if not feed and len(head) < _HEAD_BYTES:
        return None
    return f"{os.fstat(file.fileno()).st_ino}-{zlib.crc32(line):08x}"
