"""Runs of offsets, and the numbers that decisions and snapshots are written with.

A number is a varint of any length: seven bits to a byte, the lowest first. Runs are written as
their count, then the distance of each from the end of the one before it, and its length; so runs
must rise.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkaesque.model.errors import InvariantBroken, KafkaesqueError

#: Bytes of the longest number that is read.
_NUMBER_BYTES_MAX = 10


class BadDecision(KafkaesqueError):
    """A decision or a snapshot does not have the form that its version promises."""


class Run(NamedTuple):
    """Offsets without a gap: from the first to before the end."""

    first: int
    end: int


def runs_of(offsets: Iterable[int]) -> tuple[Run, ...]:
    """Return rising offsets as runs."""
    runs: list[Run] = []
    first = end = -1
    for offset in offsets:
        if offset == end:
            end += 1
            continue
        if first >= 0:
            runs.append(Run(first, end))
        first, end = offset, offset + 1
    if first >= 0:
        runs.append(Run(first, end))
    return tuple(runs)


def offsets_of(runs: Iterable[Run]) -> Iterator[int]:
    """Return each offset of runs."""
    for first, end in runs:
        yield from range(first, end)


def length_of(runs: Iterable[Run]) -> int:
    """Return how many offsets runs have."""
    return sum(end - first for first, end in runs)


class Writer:
    """Writes numbers, bytes and runs."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def number(self, value: int) -> None:
        """Write a number that is not negative."""
        if value < 0:
            raise InvariantBroken(f"{value} is not written as a number")
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def bytes(self, value: bytes) -> None:
        self.number(len(value))
        self.data += value

    def text(self, value: str) -> None:
        self.bytes(value.encode())

    def runs(self, runs: Sequence[Run]) -> None:
        """Write runs, which must rise."""
        self.number(len(runs))
        before = 0
        for first, end in runs:
            self.number(first - before)
            self.number(end - first)
            before = end


class Reader:
    """Reads what `Writer` has written, and believes nothing."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        at, value = self._at, 0
        if at < len(self._data) and self._data[at] < 0x80:
            self._at = at + 1
            return self._data[at]
        for shift in range(0, 7 * _NUMBER_BYTES_MAX, 7):
            if self._at >= len(self._data):
                raise BadDecision("a number is cut off")
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise BadDecision("a number is too long")

    def count(self) -> int:
        """Read how many of something follow, of which each takes a byte at least."""
        count = self.number()
        if count > len(self._data) - self._at:
            raise BadDecision(f"{count} are promised, {len(self._data) - self._at} bytes are left")
        return count

    def bytes(self) -> bytes:
        length = self.count()
        self._at += length
        return self._data[self._at - length : self._at]

    def text(self) -> str:
        try:
            return self.bytes().decode()
        except UnicodeDecodeError as error:
            raise BadDecision(f"a text that is not UTF-8: {error}") from error

    def runs(self) -> tuple[Run, ...]:
        runs, before = [], 0
        for _ in range(self.count()):
            first = before + self.number()
            before = first + self.number()
            if before == first:
                raise BadDecision("a run without offsets")
            runs.append(Run(first, before))
        return tuple(runs)

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def end(self) -> None:
        if self._at != len(self._data):
            raise BadDecision(f"{len(self._data) - self._at} bytes are left over")
