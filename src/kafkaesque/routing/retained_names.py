"""The last message of each name, found by filters with wildcards, a page at a time.

Theory of operation. Names are kept sorted level by level, in blocks of at most `BLOCK_MAX`, so that
all names with a given beginning stand together. A filter is walked level by level: where it has a
text, the walk goes to that beginning; where it has ONE, it goes from one level's text to the next
one's, and skips what is below those that cannot match. So a look-up costs about as much as what it
finds, and not as much as there are names. A page ends at a bound and says where the next one
begins; names that come or go in between are seen or not, those that stay are seen once.
"""

from bisect import bisect_left, insort
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
#: Steps of one page, found or not; the page ends then, even if it is empty. At 3 µs for a step a
#: broker does other things after 5 ms.
STEPS_MAX: Final = 1_500

#: Separates levels where names are sorted: below all characters that a key has.
_SEPARATOR: Final = "\0"
#: Comes behind all that begins with a text and the separator, and before all others.
_BEHIND: Final = "\1"
#: Comes behind all that begins with `$`.
_BEHIND_DOLLAR: Final = chr(ord("$") + 1)

ValueT = TypeVar("ValueT")


class Page(NamedTuple, Generic[ValueT]):
    """Some of the names that a filter matches, in the order in which they are kept."""

    found: list[tuple[NameKey, ValueT]]
    #: What to give as `after` for the next page; None: that was all.
    after: NameKey | None


class _SortedTexts:
    """Texts in order, each once."""

    __slots__ = ("_blocks", "_lasts")

    def __init__(self) -> None:
        #: None of them is empty.
        self._blocks: list[list[str]] = []
        #: The last text of each.
        self._lasts: list[str] = []

    def add(self, text: str) -> None:
        """Add a text that is not there."""
        blocks, lasts = self._blocks, self._lasts
        if not blocks:
            blocks.append([text])
            lasts.append(text)
            return
        number = min(bisect_left(lasts, text), len(blocks) - 1)
        block = blocks[number]
        insort(block, text)
        lasts[number] = block[-1]
        if len(block) > BLOCK_MAX:
            half = len(block) // 2
            blocks[number : number + 1] = [block[:half], block[half:]]
            lasts.insert(number, block[half - 1])

    def remove(self, text: str) -> None:
        """Remove a text that is there."""
        number = bisect_left(self._lasts, text)
        block = self._blocks[number]
        del block[bisect_left(block, text)]
        if block:
            self._lasts[number] = block[-1]
        else:
            del self._blocks[number], self._lasts[number]

    def first_from(self, text: str) -> str | None:
        """Return the first text that is not before this one."""
        number = bisect_left(self._lasts, text)
        if number == len(self._lasts):
            return None
        block = self._blocks[number]
        return block[bisect_left(block, text)]


class RetainedNames(Generic[ValueT]):
    """See the module."""

    __slots__ = ("_texts", "_values")

    def __init__(self) -> None:
        self._texts = _SortedTexts()
        self._values: dict[str, ValueT] = {}

    def __len__(self) -> int:
        return len(self._values)

    def set(self, key: NameKey, value: ValueT) -> None:
        """Keep a name's value in place of the one before."""
        text = _sorted_text(key)
        if text not in self._values:
            self._texts.add(text)
        self._values[text] = value

    def discard(self, key: NameKey) -> None:
        """Forget a name; harmless if it is not known."""
        text = _sorted_text(key)
        if self._values.pop(text, None) is not None:
            self._texts.remove(text)

    def has(self, key: NameKey) -> bool:
        """Tell whether a name is known."""
        return _sorted_text(key) in self._values

    def get(self, key: NameKey) -> ValueT | None:
        """Return a name's value."""
        return self._values.get(_sorted_text(key))

    def page(self, name_filter: NameFilter, after: NameKey | None, count_max: int) -> Page[ValueT]:
        """Return the next names that a filter matches; see the module."""
        found: list[tuple[NameKey, ValueT]] = []
        at = "" if after is None else _sorted_text(after) + _SEPARATOR
        last = ""
        for steps, (text, matches) in enumerate(self._walk(name_filter, at)):
            if len(found) >= count_max or steps >= STEPS_MAX:
                return Page(found, _key_of(last))
            last = text
            if matches:
                found.append((_key_of(text), self._values[text]))
        return Page(found, None)

    def items(self) -> Iterator[tuple[NameKey, ValueT]]:
        """Yield all names with their values, in no order that means anything."""
        for text, value in self._values.items():
            yield _key_of(text), value

    def _walk(self, name_filter: NameFilter, at: str) -> Iterator[tuple[str, bool]]:
        """Yield the names from one on at which the walk stops, and whether each matches."""
        levels = _words(name_filter)
        text = self._texts.first_from(at)
        while text is not None:
            words = text.split(_SEPARATOR)
            if name_filter.skips_dollar and words[0].startswith("$"):
                text = self._texts.first_from(_BEHIND_DOLLAR)
                continue
            matches, following = _next_text(levels, words, text)
            yield text, matches
            text = None if following is None else self._texts.first_from(following)


def _next_text(levels: FilterLevels, words: list[str], text: str) -> tuple[bool, str | None]:
    """Return whether a name matches, and before what no other name does; None: none follows."""
    for number, level in enumerate(levels):
        if level is MANY:
            if number + 1 < len(levels):
                # AMQP's, in the middle: whatever has this beginning may match.
                return _matches_from(levels[number:], words[number:]), text + _SEPARATOR
            return True, text + _SEPARATOR
        if number >= len(words):
            # It is a beginning of the filter: what may match is below it.
            return False, text + _SEPARATOR
        if level is ONE or level == words[number]:
            continue
        beginning = words[:number]
        if words[number] < str(level):
            return False, _SEPARATOR.join([*beginning, str(level)])
        return False, _behind(levels, words, number)
    if len(words) == len(levels):
        return True, _behind(levels, words, len(levels))
    return False, _behind(levels, words, len(levels))


def _behind(levels: FilterLevels, words: list[str], number: int) -> str | None:
    """Return what is behind all names that have the first levels in common with one.

    The last ONE before this level is where another name may match.
    """
    for at in range(number - 1, -1, -1):
        if levels[at] is ONE:
            return _SEPARATOR.join(words[: at + 1]) + _BEHIND
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
    if "/" not in key and key[:1] == "%":
        return MQTT.write_level(levels_of_key(key)[0], 2)
    return key.replace("/", _SEPARATOR)


def _key_of(text: str) -> NameKey:
    if _SEPARATOR not in text:
        return NameKey(MQTT.write_level(MQTT.read_level(text, 2), 1))
    return NameKey(text.replace(_SEPARATOR, "/"))
