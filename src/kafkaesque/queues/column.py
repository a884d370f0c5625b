"""A number for some offsets, and 0 for all others.

Numbers lie in blocks of 256 offsets: as a dict while they are few, else as an array. So what is
scattered costs what a dict does, and what lies together a little more than the number itself.
"""

from array import array
from collections.abc import Iterator, Sequence
from sys import byteorder

from kafkaesque.queues.runs import BadDecision, Reader, Writer

_SHIFT = 8
_BLOCK = 1 << _SHIFT
_MASK = _BLOCK - 1
#: A block with more numbers than this is an array; one with half as many is a dict again.
_SPARSE_MAX = 24


def _little(block: "array[int]") -> "array[int]":
    """Return a block with the lowest byte first, or one that is so as it lies here."""
    if byteorder == "big":
        block.byteswap()
    return block


def _write_pairs(pairs: list[tuple[int, int]], writer: Writer) -> None:
    writer.number(len(pairs))
    for at, value in pairs:
        writer.number(at)
        writer.number(value)


class Column:
    """Numbers by offset."""

    __slots__ = ("_blocks", "_used", "_zeros")

    def __init__(self, typecode: str) -> None:
        """`typecode` is that of an array, without a sign: `B`, `I` or `Q`."""
        #: A block of nothing.
        self._zeros = array(typecode, bytes(_BLOCK * array(typecode).itemsize))
        self._blocks: dict[int, dict[int, int] | array[int]] = {}
        #: How many numbers each array has that are not 0.
        self._used: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._blocks)

    @property
    def count(self) -> int:
        """How many numbers are not 0."""
        blocks = self._blocks.items()
        return sum(self._used.get(number, len(block)) for number, block in blocks)

    def __getitem__(self, offset: int) -> int:
        block = self._blocks.get(offset >> _SHIFT)
        if block is None:
            return 0
        if isinstance(block, dict):
            return block.get(offset & _MASK, 0)
        return block[offset & _MASK]

    def __setitem__(self, offset: int, value: int) -> None:
        number, at = offset >> _SHIFT, offset & _MASK
        block = self._blocks.get(number)
        if block is None:
            if value:
                self._blocks[number] = {at: value}
        elif isinstance(block, dict):
            self._set_sparse(number, block, at, value)
        else:
            self._set_dense(number, block, at, value)

    def fill(self, first: int, end: int, value: int) -> None:
        """Set all of a run to one number that is not 0."""
        while first < end:
            number, at = first >> _SHIFT, first & _MASK
            high = min(end - (number << _SHIFT), _BLOCK)
            if high - at <= _SPARSE_MAX:
                for offset in range(first, first + high - at):
                    self[offset] = value
            else:
                block = self._dense(number)
                zeros = block[at:high].count(0)
                block[at:high] = array(block.typecode, [value]) * (high - at)
                self._used[number] += zeros
            first = (number + 1) << _SHIFT

    def clear(self, first: int, end: int) -> None:
        """Set all of a run to 0."""
        while first < end:
            number, at = first >> _SHIFT, first & _MASK
            high = min(end - (number << _SHIFT), _BLOCK)
            block = self._blocks.get(number)
            if isinstance(block, dict):
                for offset in range(first, first + high - at):
                    self[offset] = 0
            elif block is not None:
                self._used[number] -= high - at - block[at:high].count(0)
                block[at:high] = self._zeros[at:high]
                self._maybe_sparse(number, block)
            first = (number + 1) << _SHIFT

    def values(self, first: int, end: int) -> list[int]:
        """Return the numbers of a run."""
        found: list[int] = []
        while first < end:
            number, at = first >> _SHIFT, first & _MASK
            high = min(end - (number << _SHIFT), _BLOCK)
            block = self._blocks.get(number)
            if block is None:
                found += [0] * (high - at)
            elif isinstance(block, dict):
                found += [block.get(place, 0) for place in range(at, high)]
            else:
                found += block[at:high]
            first = (number + 1) << _SHIFT
        return found

    def put(self, first: int, values: Sequence[int]) -> None:
        """Set the numbers of a run."""
        value = values[0]
        if values.count(value) != len(values):
            for offset, each in enumerate(values, first):
                self[offset] = each
        elif value:
            self.fill(first, first + len(values), value)
        else:
            self.clear(first, first + len(values))

    def items(self) -> Iterator[tuple[int, int]]:
        """Return offsets and their numbers, rising."""
        for number in sorted(self._blocks):
            block, base = self._blocks[number], number << _SHIFT
            pairs = sorted(block.items()) if isinstance(block, dict) else enumerate(block)
            for at, value in pairs:
                if value:
                    yield base + at, value

    def write(self, writer: Writer) -> None:
        """Write all numbers: blocks that have many as they lie in memory, the lowest byte first."""
        writer.number(len(self._blocks))
        for number in sorted(self._blocks):
            block = self._blocks[number]
            writer.number(number)
            if isinstance(block, dict):
                _write_pairs(sorted(block.items()), writer)
            elif self._used[number] <= _SPARSE_MAX:
                _write_pairs([(at, value) for at, value in enumerate(block) if value], writer)
            else:
                writer.number(0)
                writer.bytes(_little(block[:]).tobytes())

    def read(self, reader: Reader) -> None:
        """Read what `write` wrote, into a column that is empty."""
        for _ in range(reader.count()):
            number, count = reader.number(), reader.number()
            if not count:
                self._read_dense(number, reader.bytes())
            for _ in range(count):
                at, value = reader.number(), reader.number()
                if at > _MASK or value >> 8 * self._zeros.itemsize:
                    raise BadDecision(f"number {value} at {at} of a block")
                self[(number << _SHIFT) + at] = value

    # -- inside

    def _read_dense(self, number: int, data: bytes) -> None:
        block = self._zeros[:0]
        if len(data) != _BLOCK * block.itemsize:
            raise BadDecision(f"a block of {len(data)} bytes")
        block.frombytes(data)
        self._blocks[number] = _little(block)
        self._used[number] = _BLOCK - block.count(0)

    def _set_sparse(self, number: int, block: dict[int, int], at: int, value: int) -> None:
        if value:
            block[at] = value
            if len(block) > _SPARSE_MAX:
                self._dense(number)
        elif block.pop(at, 0) and not block:
            del self._blocks[number]

    def _set_dense(self, number: int, block: "array[int]", at: int, value: int) -> None:
        self._used[number] += bool(value) - bool(block[at])
        block[at] = value
        self._maybe_sparse(number, block)

    def _maybe_sparse(self, number: int, block: "array[int]") -> None:
        used = self._used[number]
        if used > _SPARSE_MAX // 2:
            return
        del self._used[number]
        if used:
            self._blocks[number] = {at: value for at, value in enumerate(block) if value}
        else:
            del self._blocks[number]

    def _dense(self, number: int) -> "array[int]":
        """Return a block as an array, and make it one if it is not."""
        block = self._blocks.get(number, {})
        if not isinstance(block, dict):
            return block
        dense = self._zeros[:]
        for at, value in block.items():
            dense[at] = value
        self._blocks[number] = dense
        self._used[number] = len(block)
        return dense
