"""The last message of each name, found by filters with wildcards, a page at a time.

Theory of operation. Names are kept sorted by their keys, in blocks of at most `BLOCK_MAX`, so that
all names below a given beginning stand together. A filter is walked level by level: where it has a
text, the walk goes to that beginning; where it has ONE, it goes from one level's text to the next
one's, and skips what is below those that cannot match. So a look-up costs about as much as what it
finds, and not as much as there are names. A page ends at a bound and says where the next one
begins; names that come or go in between are seen or not, those that stay are seen once.

Some characters come before the separator. So between `a` and `a/b` there may be `a-c`, and a name
is not next to what is below it. Levels are written in keys so that they have no NUL, which is why
a key with it behind comes right behind that key.

Keys are not copied, and there is no dict of them, because ten million names are to fit.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from kafkaesque.routing.names import (
    MANY,
    MQTT,
    ONE,
    FilterLevels,
    NameFilter,
    NameKey,
    levels_of_key,
)

#: Names of one block, before it is split.
BLOCK_MAX: Final = 1024
#: Steps of one page, found or not; the page ends then, even if it is empty. Among ten million names
#: a step from one block to another takes up to 10 µs, and a broker does other things after 6 ms.
STEPS_MAX: Final = 600
#: Blocks behind the last one where the next name is sought, before it is sought in all.
_NEAR_BLOCKS: Final = 3

_SEPARATOR: Final = "/"
#: With this behind it, a text comes right behind itself.
_NEXT: Final = "\0"
#: With this behind it, a text comes right behind all that is below it.
_BEHIND: Final = chr(ord(_SEPARATOR) + 1)
#: Comes behind all that begins with `$`.
_BEHIND_DOLLAR: Final = chr(ord("$") + 1)

ValueT = TypeVar("ValueT")


class Page(NamedTuple, Generic[ValueT]):
    """Some of the names that a filter matches, in the order in which they are kept."""

    found: list[tuple[NameKey, ValueT]]
    #: What to give as `after` for the next page; None: that was all.
    after: NameKey | None


class RetainedNames(Generic[ValueT]):
    """See the module."""

    __slots__ = ("_blocks", "_count", "_lasts", "_values")

    def __init__(self) -> None:
        #: Texts in order, in blocks none of which is empty.
        self._blocks: list[list[str]] = []
        #: The values of each block's texts.
        self._values: list[list[ValueT]] = []
        #: The last text of each block.
        self._lasts: list[str] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def set(self, key: NameKey, value: ValueT) -> None:
        """Keep a name's value in place of the one before."""
        text = _sorted_text(key)
        if not self._blocks:
            self._blocks.append([])
            self._values.append([])
            self._lasts.append(text)
        number = min(bisect_left(self._lasts, text), len(self._blocks) - 1)
        block, values = self._blocks[number], self._values[number]
        at = bisect_left(block, text)
        if at < len(block) and block[at] == text:
            values[at] = value
            return
        block.insert(at, text)
        values.insert(at, value)
        self._lasts[number] = block[-1]
        self._count += 1
        if len(block) > BLOCK_MAX:
            half = len(block) // 2
            self._blocks[number : number + 1] = [block[:half], block[half:]]
            self._values[number : number + 1] = [values[:half], values[half:]]
            self._lasts.insert(number, block[half - 1])

    def discard(self, key: NameKey) -> None:
        """Forget a name; harmless if it is not known."""
        number, at = self._place(_sorted_text(key))
        if at < 0:
            return
        self._count -= 1
        block, values = self._blocks[number], self._values[number]
        del block[at], values[at]
        if block:
            self._lasts[number] = block[-1]
        else:
            del self._blocks[number], self._values[number], self._lasts[number]

    def has(self, key: NameKey) -> bool:
        """Tell whether a name is known."""
        return self._place(_sorted_text(key))[1] >= 0

    def get(self, key: NameKey) -> ValueT | None:
        """Return a name's value."""
        number, at = self._place(_sorted_text(key))
        return self._values[number][at] if at >= 0 else None

    def page(self, name_filter: NameFilter, after: NameKey | None, count_max: int) -> Page[ValueT]:
        """Return the next names that a filter matches; see the module."""
        found: list[tuple[NameKey, ValueT]] = []
        beginning = "" if after is None else _sorted_text(after) + _NEXT
        last = ""
        for steps, (text, value, matches) in enumerate(self._walk(name_filter, beginning)):
            if len(found) >= count_max or steps >= STEPS_MAX:
                return Page(found, _key_of(last))
            last = text
            if matches:
                found.append((_key_of(text), value))
        return Page(found, None)

    def items(self) -> Iterator[tuple[NameKey, ValueT]]:
        """Yield all names with their values, in no order that means anything."""
        for block, values in zip(self._blocks, self._values, strict=True):
            for text, value in zip(block, values, strict=True):
                yield _key_of(text), value

    def _walk(self, name_filter: NameFilter, beginning: str) -> Iterator[tuple[str, ValueT, bool]]:
        """Yield the names at which the walk stops, with their values and whether each matches."""
        levels = _words(name_filter)
        following: str | None = beginning
        number = 0
        while following is not None:
            number, at = self._first_from(following, number)
            if number == len(self._blocks):
                return
            text = self._blocks[number][at]
            if name_filter.skips_dollar and text.startswith("$"):
                following = _BEHIND_DOLLAR
                continue
            matches, following = _next_text(levels, text.split(_SEPARATOR), text)
            yield text, self._values[number][at], matches

    def _first_from(self, text: str, beginning: int = 0) -> tuple[int, int]:
        """Return the block and the place of the first text that is not before this one.

        It is sought from a block on, because the next one of a walk is mostly near.
        """
        near = self._lasts[beginning : beginning + _NEAR_BLOCKS]
        number = beginning + bisect_left(near, text)
        if number == beginning + len(near):
            number = bisect_left(self._lasts, text, number)
        at = bisect_left(self._blocks[number], text) if number < len(self._blocks) else 0
        return number, at

    def _place(self, text: str) -> tuple[int, int]:
        """Return the block of a text and its place there; a place of -1: it is not there."""
        number, at = self._first_from(text)
        is_there = number < len(self._blocks) and self._blocks[number][at] == text
        return number, at if is_there else -1


def _next_text(levels: FilterLevels, words: list[str], text: str) -> tuple[bool, str | None]:
    """Return whether a name matches, and before what no other name does; None: none follows."""
    for number, level in enumerate(levels):
        if level is MANY:
            # In the middle it is AMQP's: whatever has this beginning may match.
            matches = number + 1 == len(levels) or _matches_from(levels[number:], words[number:])
            return matches, text + _NEXT
        if number >= len(words):
            # It is a beginning of the filter: what may match is below it, or below a name between.
            return False, text + (_NEXT if levels[number - 1] is ONE else _SEPARATOR)
        if level is ONE or level == words[number]:
            continue
        wanted = _SEPARATOR.join((*words[:number], str(level)))
        if text < wanted:
            return False, wanted
        below = wanted + _SEPARATOR
        if text < below and number + 1 < len(levels):
            return False, below
        return False, _behind(levels, words, number)
    return len(words) == len(levels), _behind(levels, words, len(levels))


def _behind(levels: FilterLevels, words: list[str], number: int) -> str | None:
    """Return what is behind all names that have the first levels in common with one.

    The last ONE before this level is where another name may match.
    """
    for at in range(number - 1, -1, -1):
        if levels[at] is ONE:
            is_below = at + 1 < len(words)
            return _SEPARATOR.join(words[: at + 1]) + (_BEHIND if is_below else _NEXT)
    return None


def _matches_from(levels: FilterLevels, words: list[str]) -> bool:
    return NameFilter(levels=levels).matches(tuple(words))


def _words(name_filter: NameFilter) -> FilterLevels:
    """Return the levels with each text as it is where names are sorted."""
    write = MQTT.write_level
    return tuple(
        write(level, 2) if isinstance(level, str) else level for level in name_filter.levels
    )


def _sorted_text(key: NameKey) -> str:
    """Return what a name is sorted by: its key, in which a level is written as among others."""
    if key[:1] == "%" and _SEPARATOR not in key:
        return MQTT.write_level(levels_of_key(key)[0], 2)
    return key


def _key_of(text: str) -> NameKey:
    if text[:1] in ("", "%") and _SEPARATOR not in text:
        return NameKey(MQTT.write_level(MQTT.read_level(text, 2), 1))
    return NameKey(text)
