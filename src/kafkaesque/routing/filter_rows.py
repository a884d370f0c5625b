"""Filters of any kind in rows of bits: each look-up looks at all of them, many at a time.

Theory of operation. A filter is a row. For each level from the beginning, and each from the end, it
is noted as bits which rows have ONE there, which have MANY, and which have a word of a hash. What a
name may match is found by a few operations on whole numbers for each of its levels, which take some
nanoseconds for a row; what is left is matched exactly. So whatever filters there are, their number
bounds the time. A tree would walk as many ways as there are, and with ONE or a word at each of 16
levels, these are 65,536.

A word has two slots, by two parts of its hash. Of rows with another word, one in 1,024 is left.
Hashes of texts are secret to each process, so a client cannot choose words of the same slots.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kafkaesque.routing.names import MANY, ONE, FilterLevels, NameFilter
from kafkaesque.routing.shapes import levels_of

#: Rows of a block: their bits take half a kibibyte.
BLOCK_ROWS: Final = 4096
_SLOT_BITS: Final = 5
_SLOTS: Final = 1 << _SLOT_BITS
_SLOT_MASK: Final = _SLOTS - 1

_Slots = tuple[int, int]


class _Level:
    """Which rows of a block have what at one level."""

    __slots__ = ("ends", "first", "manys", "ones", "second")

    def __init__(self) -> None:
        self.ones = 0
        self.manys = 0
        #: Rows that have no MANY, and end before this level.
        self.ends = 0
        self.first = [0] * _SLOTS
        self.second = [0] * _SLOTS


class _Block:
    """Some rows, by the number of their bit."""

    __slots__ = ("from_beginning", "from_end", "rows", "skip_dollar", "with_tail")

    def __init__(self) -> None:
        self.rows = 0
        self.skip_dollar = 0
        #: Rows with words or ONEs behind their last MANY.
        self.with_tail = 0
        self.from_beginning: list[_Level] = []
        self.from_end: list[_Level] = []

    def turn(self, bit: int, levels: FilterLevels, skips_dollar: bool) -> None:
        """Note a row that is not there, or remove it."""
        self.rows ^= bit
        if skips_dollar:
            self.skip_dollar ^= bit
        head = levels.index(MANY) if MANY in levels else len(levels)
        _turn(self.from_beginning, bit, levels[:head], has_many=head < len(levels))
        tail: FilterLevels = ()
        if head < len(levels):
            tail = levels[::-1][: levels[::-1].index(MANY)]
        if tail:
            self.with_tail ^= bit
        _turn(self.from_end, bit, tail, has_many=True)

    def may_match(self, slots: Sequence[_Slots], begins_with_dollar: bool) -> int:
        """Return the rows that may match a name whose words have these slots."""
        rows = self.rows & ~self.skip_dollar if begins_with_dollar else self.rows
        rows, with_many = _left(rows, self.from_beginning, slots)
        if rows and len(slots) < len(self.from_beginning):
            level = self.from_beginning[len(slots)]
            rows &= with_many | level.manys | level.ends
        if rows & self.with_tail:
            rows, _ = _left(rows, self.from_end, reversed(slots))
        return rows


def _turn(known: list[_Level], bit: int, levels: FilterLevels, *, has_many: bool) -> None:
    while len(known) <= len(levels):
        known.append(_Level())
    for level, at in zip(levels, known, strict=False):
        if level is ONE:
            at.ones ^= bit
        else:
            first, second = _slots(level)
            at.first[first] ^= bit
            at.second[second] ^= bit
    if has_many:
        known[len(levels)].manys ^= bit
    else:
        known[len(levels)].ends ^= bit


def _left(rows: int, known: list[_Level], slots: Iterable[_Slots]) -> tuple[int, int]:
    """Return those rows that may match the levels, and those that have had a MANY before."""
    with_many = 0
    for level, (first, second) in zip(known, slots, strict=False):
        with_many |= level.manys
        rows &= with_many | level.ones | level.first[first] & level.second[second]
        if not rows:
            break
    return rows, with_many


class FilterRows:
    """Filters by the texts that `shapes.text_of` gives them."""

    __slots__ = ("_blocks", "_free", "_numbers", "_texts")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._numbers: dict[str, int] = {}
        #: By number; empty: there is none.
        self._texts: list[str] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many filters there are."""
        return len(self._numbers)

    def __contains__(self, text: str) -> bool:
        return text in self._numbers

    def add(self, text: str, levels: FilterLevels, skips_dollar: bool) -> None:
        """Add a filter that is not there."""
        if self._free:
            number = self._free.pop()
        else:
            number = len(self._texts)
            self._texts.append("")
            if number == len(self._blocks) * BLOCK_ROWS:
                self._blocks.append(_Block())
        self._texts[number] = text
        self._numbers[text] = number
        self._turn(number, levels, skips_dollar)

    def remove(self, text: str, levels: FilterLevels, skips_dollar: bool) -> None:
        """Remove a filter that is there."""
        number = self._numbers.pop(text)
        self._turn(number, levels, skips_dollar)
        if not self._numbers:
            self._blocks.clear()
            self._texts.clear()
            self._free.clear()
            return
        self._texts[number] = ""
        self._free.append(number)

    def find(self, words: Sequence[str], begins_with_dollar: bool) -> Iterator[str]:
        """Yield the texts of filters that match a name of these words."""
        slots = [_slots(word) for word in words]
        name = tuple(words)
        for number, block in enumerate(self._blocks):
            rows = block.may_match(slots, begins_with_dollar)
            while rows:
                row = rows & -rows
                rows ^= row
                text = self._texts[number * BLOCK_ROWS + row.bit_length() - 1]
                if NameFilter(levels=levels_of(text)).matches(name):
                    yield text

    def _turn(self, number: int, levels: FilterLevels, skips_dollar: bool) -> None:
        block, row = divmod(number, BLOCK_ROWS)
        self._blocks[block].turn(1 << row, levels, skips_dollar and levels[0] in (ONE, MANY))


def _slots(word: object) -> _Slots:
    hashed = hash(word)
    return hashed & _SLOT_MASK, hashed >> _SLOT_BITS & _SLOT_MASK
