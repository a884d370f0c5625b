"""The sparse index of a segment: where to start looking for an offset, a place or a time.

An entry names a batch: its base offset, its position, and the greatest timestamp of all batches
before it in the segment. So the first batch with a timestamp of at least `t` lies at or after the
last entry whose timestamp is below `t`, and before the next one.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from kafkaesque.env.disk import Buffer
from kafkaesque.model.checksum import crc32c

#: Magic, format, number of entries, checksum, bytes of the segment that are covered.
INDEX_HEADER = Struct("<4sHxxIIQ")
FORMAT = 1
OFFSET_MAGIC = b"KQOI"
TIME_MAGIC = b"KQTI"
#: Two 64-bit numbers in either file.
ENTRY_BYTES = 16
#: Bytes in memory: three 64-bit numbers.
MEMORY_BYTES = 24


class SegmentIndex:
    """Entries in order of position; `covered_from` and what lies behind it is indexed."""

    __slots__ = ("covered_from", "offsets", "positions", "times")

    def __init__(self, covered_from: int = 0) -> None:
        #: Positions before this one are not known yet: load or rebuild, then `prepend`.
        self.covered_from = covered_from
        self.offsets = array("q")
        self.positions = array("q")
        self.times = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return MEMORY_BYTES * len(self.offsets)

    def add(self, offset: int, position: int, time_before: int) -> None:
        """Add an entry at the end."""
        self.offsets.append(offset)
        self.positions.append(position)
        self.times.append(time_before)

    def before_offset(self, offset: int) -> tuple[int, int, int] | None:
        """Return (offset, position, time) of the last entry at or before an offset."""
        return self._entry(bisect_right(self.offsets, offset) - 1)

    def before_position(self, position: int) -> tuple[int, int, int] | None:
        """Return the last entry at or before a position."""
        return self._entry(bisect_right(self.positions, position) - 1)

    def before_time(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return the last entry that has only earlier timestamps before it."""
        return self._entry(bisect_left(self.times, timestamp) - 1)

    def _entry(self, at: int) -> tuple[int, int, int] | None:
        return None if at < 0 else (self.offsets[at], self.positions[at], self.times[at])

    def truncate(self, position: int) -> None:
        """Forget entries at or after a position."""
        keep = bisect_left(self.positions, position)
        del self.offsets[keep:], self.positions[keep:], self.times[keep:]
        self.covered_from = min(self.covered_from, position)

    def prepend(self, older: "SegmentIndex") -> None:
        """Take the entries before `covered_from` from an index that covers them."""
        keep = bisect_left(older.positions, self.covered_from)
        self.offsets = older.offsets[:keep] + self.offsets
        self.positions = older.positions[:keep] + self.positions
        self.times = older.times[:keep] + self.times
        self.covered_from = 0

    # -- bytes

    def write(self, covered_bytes: int) -> tuple[bytes, bytes]:
        """Return the contents of the `.index` and the `.timeindex` file."""
        return (
            _write(OFFSET_MAGIC, self.offsets, self.positions, covered_bytes),
            _write(TIME_MAGIC, self.times, self.offsets, covered_bytes),
        )


def _write(magic: bytes, left: "array[int]", right: "array[int]", covered: int) -> bytes:
    pairs = array("q", bytes(ENTRY_BYTES * len(left)))
    pairs[0::2] = left
    pairs[1::2] = right
    if sys.byteorder == "big":
        pairs.byteswap()
    body = pairs.tobytes()
    head = INDEX_HEADER.pack(magic, FORMAT, len(left), 0, covered)
    checksum = crc32c(body, crc32c(head))
    return INDEX_HEADER.pack(magic, FORMAT, len(left), checksum, covered) + body


def read_index_size(header: Buffer, magic: bytes) -> int | None:
    """Return how long the file has to be, or None if this is no header."""
    if len(header) < INDEX_HEADER.size:
        return None
    found, version, entries, _, _ = INDEX_HEADER.unpack_from(header)
    if found != magic or version != FORMAT:
        return None
    count: int = entries
    return INDEX_HEADER.size + count * ENTRY_BYTES


def _read(data: Buffer, magic: bytes) -> "tuple[array[int], array[int], int] | None":
    size = read_index_size(data, magic)
    if size is None or size != len(data):
        return None
    found, version, count, stated, covered = INDEX_HEADER.unpack_from(data)
    head = INDEX_HEADER.pack(found, version, count, 0, covered)
    body = memoryview(data)[INDEX_HEADER.size :]
    if crc32c(body, crc32c(head)) != stated:
        return None
    pairs = array("q")
    pairs.frombytes(body)
    if sys.byteorder == "big":
        pairs.byteswap()
    return pairs[0::2], pairs[1::2], covered


def read_index(offset_file: Buffer, time_file: Buffer) -> tuple[SegmentIndex, int] | None:
    """Return an index and how many bytes of the segment it covers; None if a file is broken."""
    by_offset, by_time = _read(offset_file, OFFSET_MAGIC), _read(time_file, TIME_MAGIC)
    if by_offset is None or by_time is None:
        return None
    index = SegmentIndex()
    index.offsets, index.positions, covered = by_offset
    index.times, offsets, covered_too = by_time
    if offsets != index.offsets or covered != covered_too:
        return None
    return index, covered
