"""Sets of offsets: a bit for each, in blocks; what lies together costs next to nothing.

A block has 4,096 bits in one integer. Full blocks are all the same integer, so a million messages
that wait in one piece take some 250 entries of a dict. Nothing is kept of blocks that are empty.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.queues.runs import BadDecision, Reader, Run, Writer

_SHIFT = 12
BLOCK = 1 << _SHIFT
_MASK = BLOCK - 1
_FULL = (1 << BLOCK) - 1
#: A block with no more offsets is written offset by offset.
_FEW = 64
#: Entries of the heap that may be out of date before it is made anew, beside twice the blocks.
_STALE_MAX = 64


class OffsetSet:
    """A set of offsets whose lowest is found at once."""

    __slots__ = ("_blocks", "_order", "count")

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        #: A heap of the blocks' numbers; numbers of blocks that are gone are passed over.
        self._order: list[int] = []
        self.count = 0

    def __contains__(self, offset: int) -> bool:
        block = self._blocks.get(offset >> _SHIFT)
        return block is not None and bool(block >> (offset & _MASK) & 1)

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, first: int, end: int) -> None:
        """Add a run.

        Raises:
            InvariantBroken: some of it is there already.
        """
        blocks = self._blocks
        for number, mask in _pieces(first, end):
            block = blocks.get(number)
            if block is None:
                self._new_block(number)
                blocks[number] = _FULL if mask == _FULL else mask
            elif block & mask:
                raise InvariantBroken(f"some of {first} to {end} is there twice")
            else:
                block |= mask
                blocks[number] = _FULL if block == _FULL else block
        self.count += end - first

    def remove(self, first: int, end: int) -> None:
        """Remove a run.

        Raises:
            InvariantBroken: some of it is not there.
        """
        blocks = self._blocks
        for number, mask in _pieces(first, end):
            block = blocks.get(number, 0)
            if block & mask != mask:
                raise InvariantBroken(f"some of {first} to {end} is not there")
            block ^= mask
            if block:
                blocks[number] = block
            else:
                del blocks[number]
        self.count -= end - first

    def has_all(self, first: int, end: int) -> bool:
        """Whether all of a run is there."""
        blocks = self._blocks
        return all(blocks.get(number, 0) & mask == mask for number, mask in _pieces(first, end))

    def add_block(self, number: int, bits: int) -> None:
        """Add offsets of one block, by their bits.

        Raises:
            InvariantBroken: some of them are there already.
        """
        block = self._blocks.get(number, 0)
        if block & bits:
            raise InvariantBroken(f"some of block {number} are there twice")
        if not block:
            self._new_block(number)
        block |= bits
        self._blocks[number] = _FULL if block == _FULL else block
        self.count += bits.bit_count()

    def remove_block(self, number: int, bits: int) -> None:
        """Remove offsets of one block, by their bits.

        Raises:
            InvariantBroken: some of them are not there.
        """
        block = self._blocks.get(number, 0)
        if block & bits != bits:
            raise InvariantBroken(f"some of block {number} are not there")
        if block == bits:
            del self._blocks[number]
        else:
            self._blocks[number] = block ^ bits
        self.count -= bits.bit_count()

    def count_between(self, first: int, end: int) -> int:
        """Return how many offsets there are from one to before another."""
        blocks = self._blocks
        numbers: Iterable[int] = range(first >> _SHIFT, (end - 1 >> _SHIFT) + 1)
        if len(blocks) < end - first >> _SHIFT:
            numbers = [number for number in blocks if number in numbers]
        found = 0
        for number in numbers:
            block = blocks.get(number, 0)
            low, high = first - (number << _SHIFT), end - (number << _SHIFT)
            if low > 0:
                block = block >> low << low
            if high < BLOCK:
                block &= (1 << high) - 1
            found += block.bit_count()
        return found

    def first(self) -> int | None:
        """Return the lowest offset, or None."""
        number = self._first_block()
        if number is None:
            return None
        block = self._blocks[number]
        return (number << _SHIFT) + _lowest(block)

    def first_run(self, count_max: int) -> Run | None:
        """Return the lowest offsets that lie together, at most so many; None if there are none."""
        number = self._first_block()
        if number is None:
            return None
        low = _lowest(self._blocks[number])
        first = (number << _SHIFT) + low
        end = first
        while end - first < count_max:
            piece = self._blocks.get(end >> _SHIFT, 0) >> (end & _MASK)
            ones = _ones(piece)
            end += ones
            if not ones or end & _MASK:
                break
        return Run(first, min(end, first + count_max))

    def runs(self, start: int = 0) -> Iterator[Run]:
        """Return all from an offset on, rising, as the longest runs that there are."""
        first = end = -1
        for run in self._block_runs(start):
            if run.first == end:
                end = run.end
                continue
            if first >= 0:
                yield Run(first, end)
            first, end = run
        if first >= 0:
            yield Run(first, end)

    def offsets(self, start: int = 0) -> Iterator[int]:
        """Return each offset from one on, rising."""
        for run in self.runs(start):
            yield from range(run.first, run.end)

    def write(self, writer: Writer) -> None:
        """Write all: a block's offsets if they are few, else its bits; nothing if it is full."""
        writer.number(len(self._blocks))
        for number in sorted(self._blocks):
            block = self._blocks[number]
            count = block.bit_count()
            writer.number(number)
            writer.number(count)
            if count <= _FEW:
                while block:
                    low = _lowest(block)
                    writer.number(low)
                    block ^= 1 << low
            elif count < BLOCK:
                writer.bytes(block.to_bytes(BLOCK // 8, "little"))

    def read(self, reader: Reader) -> None:
        """Read what `write` wrote, into a set that is empty."""
        for _ in range(reader.count()):
            number, count = reader.number(), reader.number()
            if count <= _FEW:
                block = sum({1 << (reader.number() & _MASK) for _ in range(count)})
            else:
                block = _FULL if count == BLOCK else int.from_bytes(reader.bytes(), "little")
            if not 0 < block <= _FULL or block.bit_count() != count or number in self._blocks:
                raise BadDecision(f"a block of {count} offsets")
            self._new_block(number)
            self._blocks[number] = block
            self.count += count

    # -- inside

    def _block_runs(self, start: int) -> Iterator[Run]:
        for number in sorted(number for number in self._blocks if number >= start >> _SHIFT):
            block, base = self._blocks[number], number << _SHIFT
            if base < start:
                block = block >> (start - base) << (start - base)
            at = 0
            while block:
                low = _lowest(block)
                block >>= low
                ones = _ones(block)
                block >>= ones
                at += low + ones
                yield Run(base + at - ones, base + at)

    def _first_block(self) -> int | None:
        order, blocks = self._order, self._blocks
        while order and order[0] not in blocks:
            heappop(order)
        return order[0] if order else None

    def _new_block(self, number: int) -> None:
        order = self._order
        heappush(order, number)
        if len(order) > 2 * len(self._blocks) + _STALE_MAX:
            self._order = [*self._blocks, number]
            heapify(self._order)


def _pieces(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Return the numbers of blocks, and which bits of each a run has."""
    if not 0 <= first < end:
        raise InvariantBroken(f"from {first} to {end} is no run")
    while first < end:
        number, low = first >> _SHIFT, first & _MASK
        high = min(end - (number << _SHIFT), BLOCK)
        yield number, ((1 << (high - low)) - 1) << low
        first = (number + 1) << _SHIFT


def block_parts(first: int, end: int) -> Iterator[tuple[int, Run]]:
    """Return a run in parts that lie in one block each, with the block's number."""
    while first < end:
        number = first >> _SHIFT
        stop = min(end, (number + 1) << _SHIFT)
        yield number, Run(first, stop)
        first = stop


def bits_of(run: Run, marks: bytes) -> int:
    """Return the bits of a part of a block: those that are marked with `1` and not with `0`."""
    return int(marks[::-1], 2) << (run.first & _MASK)


def _lowest(block: int) -> int:
    return (block & -block).bit_length() - 1


def _ones(block: int) -> int:
    """Return how many of the lowest bits are set, without a gap."""
    return (~block & (block + 1)).bit_length() - 1
