"""Which transactions of a partition were aborted, for readers that are to skip them.

Theory of operation. Entries stand in the order of their markers. A reader gets all batches of a
range and the aborted transactions that overlap it. Those whose marker lies in or after the range
are found by the marker's offset; where to stop looking is said by each entry: every transaction
that ended after it began at its `last_stable_offset` or later.

In memory an entry takes 32 bytes, and stands for at least two batches of the log. On the disk it is
an entry of its own with a checksum, so that a file that is torn is good up to there.

Source: KIP-98; Apache Kafka's TransactionIndex for what an entry says.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import InvariantBroken

_ENTRY = Struct(">qqqq")
_CRC = Struct(">I")
#: What a file begins with: a magic word and its version, 1.
FILE_HEADER = b"KQAT\x00\x01\x00\x00"
#: What an entry takes in a file.
ENTRY_BYTES = _ENTRY.size + _CRC.size


class AbortedTransaction(NamedTuple):
    """Where an aborted transaction lies in the log."""

    producer_id: int
    first_offset: int
    #: The offset of its marker.
    last_offset: int
    #: Where the first transaction began that was still open after the marker; after the marker if
    #: none was.
    last_stable_offset: int


class AbortedIndex:
    """The aborted transactions of one partition."""

    __slots__ = ("_first_offsets", "_last_offsets", "_producer_ids", "_stable_offsets")

    def __init__(self) -> None:
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._stable_offsets = array("q")

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(AbortedTransaction, *self._columns)

    @property
    def _columns(self) -> "tuple[array[int], array[int], array[int], array[int]]":
        return self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets

    @property
    def last_offset(self) -> int:
        """The offset of the last marker; -1 if there is none."""
        return self._last_offsets[-1] if self._last_offsets else -1

    def last_offset_before(self, offset: int) -> int:
        """Return the offset of the last marker before an offset; -1 if there is none."""
        at = bisect_left(self._last_offsets, offset)
        return self._last_offsets[at - 1] if at else -1

    def append(self, entry: AbortedTransaction) -> None:
        """Take note of a marker at the log's end.

        Raises:
            InvariantBroken: it does not lie after the last one.
        """
        if entry.last_offset <= self.last_offset:
            raise InvariantBroken(f"{entry} does not follow the marker at {self.last_offset}")
        for column, value in zip(self._columns, entry, strict=True):
            column.append(value)

    def load(self, entries: Iterable[AbortedTransaction]) -> None:
        """Begin with what a file holds.

        Raises:
            InvariantBroken: there are entries already, or they are out of order.
        """
        if self._last_offsets:
            raise InvariantBroken("aborted transactions are loaded into an empty index only")
        for entry in entries:
            self.append(entry)

    def truncate(self, end_offset: int) -> None:
        """Forget the markers from an offset on: the log's end was cut off."""
        at = bisect_left(self._last_offsets, end_offset)
        for column in self._columns:
            del column[at:]

    def forget_before(self, start_offset: int) -> int:
        """Forget the markers before an offset, where the log begins now; return how many."""
        at = bisect_left(self._last_offsets, start_offset)
        if at:
            for column in self._columns:
                del column[:at]
        return at

    def entries(self, after_offset: int, before_offset: int) -> list[AbortedTransaction]:
        """Return those whose markers lie strictly between two offsets, in the order of the log."""
        begin = bisect_left(self._last_offsets, after_offset + 1)
        end = bisect_left(self._last_offsets, before_offset)
        return [self._entry(at) for at in range(begin, end)]

    def overlapping(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """Return those that have a batch or their marker in a range, in the order of the markers.

        `to_offset` is not in the range.
        """
        found = []
        firsts, stables = self._first_offsets, self._stable_offsets
        for at in range(bisect_left(self._last_offsets, from_offset), len(firsts)):
            if firsts[at] < to_offset:
                found.append(self._entry(at))
            if stables[at] >= to_offset:
                break
        return found

    def columns_before(self, to_offset: int) -> "tuple[array[int], array[int], array[int]]":
        """Return those that have a batch before an offset, in the order of the markers.

        As columns, copied whole: producer ids, first offsets, and the offsets of the markers. There
        may be some that begin later.
        """
        end = bisect_left(self._stable_offsets, to_offset) + 1
        return self._producer_ids[:end], self._first_offsets[:end], self._last_offsets[:end]

    def range_end(self, from_offset: int, to_offset: int, markers_max: int) -> int:
        """Return where a range is to end that holds at most so many markers of aborted ones.

        That is `to_offset`, or after one of the markers.
        """
        at = bisect_left(self._last_offsets, from_offset) + markers_max
        if at >= len(self._last_offsets):
            return to_offset
        return min(to_offset, self._last_offsets[at - 1] + 1)

    def _entry(self, at: int) -> AbortedTransaction:
        return AbortedTransaction(
            self._producer_ids[at],
            self._first_offsets[at],
            self._last_offsets[at],
            self._stable_offsets[at],
        )


def pack_entry(entry: AbortedTransaction) -> bytes:
    """Return an entry as it stands in a file: four big-endian numbers, and their CRC-32C."""
    body = _ENTRY.pack(*entry)
    return body + _CRC.pack(crc32c(body))


def read_entries(data: bytes) -> list[AbortedTransaction]:
    """Return the entries of a file, up to the first that is torn, flipped or out of order."""
    found: list[AbortedTransaction] = []
    if not data.startswith(FILE_HEADER):
        return found
    previous = -1
    for at in range(len(FILE_HEADER), len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
        body = data[at : at + _ENTRY.size]
        entry = AbortedTransaction(*_ENTRY.unpack(body))
        if crc32c(body) != _CRC.unpack_from(data, at + _ENTRY.size)[0]:
            break
        if not entry.first_offset <= entry.last_offset or entry.last_offset <= previous:
            break
        previous = entry.last_offset
        found.append(entry)
    return found
