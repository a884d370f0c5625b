"""What filters have in common that are looked up alike.

Theory of operation. A filter's *pattern* has one character for each level: what is no wildcard is
`w`, whatever its text. All filters of one pattern are found in the same way: from the words of a
name their text is made, with wildcards in place of those words that the pattern has them for. For
`w+w#` and the name `a/b/c/d` that is `a/+/c/#`.

One wildcard for many levels may be anywhere: what stands behind it is counted from the name's end.
With two of them, the levels between them may match at several places, and there is a text for each.
With more there are too many places; these filters have no shape.
"""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Final

from kafkaesque.routing.names import MANY, ONE, FilterLevels, Wildcard

#: How wildcards are written in a filter's text: ONE, MANY, and the same as a first level that does
#: not pass over `$`. No level's own text has the characters `+` and `#`.
WILDCARDS: Final = ("+", "#", "+$+", "+$#")
_LEVELS: Final[dict[str, str | Wildcard]] = dict(zip(WILDCARDS, (ONE, MANY) * 2, strict=True))
_ONE_PART: Final = 0
_MANY_PART: Final = 1
_WITH_DOLLAR_PARTS: Final = 2
#: Words of a name stand behind the wildcards.
_FIRST_WORD: Final = len(WILDCARDS)

_WORD: Final = "w"
_WITH_DOLLAR: Final = "$"
#: Pieces of a pattern between its wildcards for many levels.
_PIECES_MAX: Final = 3

#: Picks the words of a filter's text from `WILDCARDS` with the words of a name behind them.
Mask = Callable[[tuple[str, ...]], tuple[str, ...]]


def text_of(levels: FilterLevels, skips_dollar: bool) -> str:
    """Return the text by which a filter is kept."""
    words = [level if isinstance(level, str) else WILDCARDS[level is MANY] for level in levels]
    if not skips_dollar and not isinstance(levels[0], str):
        words[0] = WILDCARDS[_WITH_DOLLAR_PARTS + (levels[0] is MANY)]
    return "/".join(words)


def levels_of(text: str) -> FilterLevels:
    """Return the levels of the filter that has this text."""
    return tuple(_LEVELS.get(word, word) for word in text.split("/"))


def pattern_of(levels: FilterLevels, skips_dollar: bool) -> str:
    """Return a filter's pattern."""
    written = [_WORD if isinstance(level, str) else WILDCARDS[level is MANY] for level in levels]
    if not skips_dollar and levels[0] in (ONE, MANY):
        written.append(_WITH_DOLLAR)
    return "".join(written)


def has_shape(pattern: str) -> bool:
    """Tell whether filters of a pattern have a shape."""
    return pattern.count(WILDCARDS[_MANY_PART]) < _PIECES_MAX


class Shape:
    """One pattern, and how many filters have it."""

    __slots__ = (
        "_after",
        "_before",
        "_between",
        "_between_length",
        "anchor",
        "has_many",
        "length",
        "mask",
        "number",
        "pattern",
        "skips_dollar",
        "uses",
        "words_at",
    )

    def __init__(self, pattern: str) -> None:
        """Make the shape of a pattern that has one."""
        self.pattern: Final = pattern
        #: How many filters there are of it.
        self.uses = 0
        #: By what it is hinted at, and its number there; see `shape_hints.py`. None: it is not.
        self.anchor: tuple[int, int, int] | None = None
        self.number = -1
        begins_with_wildcard = not pattern.startswith(_WORD)
        self.skips_dollar: Final = begins_with_wildcard and not pattern.endswith(_WITH_DOLLAR)
        pieces = pattern.removesuffix(_WITH_DOLLAR).split(WILDCARDS[_MANY_PART])
        self.has_many: Final = len(pieces) > 1
        #: Levels that a name has at least.
        self.length: Final = sum(map(len, pieces))
        picks = [_picks(pieces[0], _FIRST_WORD)]
        if len(pieces) > 1:
            picks[0].append(_MANY_PART)
            picks.append(_picks(pieces[-1], -len(pieces[-1])))
        #: Where words are that every name has at the same place, from its beginning or its end
        #: (negative), and which stand at the same place in a filter.
        self.words_at: Final = (
            *(at for at, each in enumerate(pieces[0]) if each == _WORD),
            *(each for each in picks[-1] if each < 0),
        )
        if begins_with_wildcard and not self.skips_dollar:
            picks[0][0] += _WITH_DOLLAR_PARTS
        #: None: there is a text for each place that the levels between two MANY may have.
        self.mask: Final = (
            None if len(pieces) == _PIECES_MAX else _mask([at for each in picks for at in each])
        )
        if self.mask is None:
            self._before = _mask(picks[0])
            self._between = _mask(_picks(pieces[1], _FIRST_WORD))
            self._between_length = len(pieces[1])
            self._after = _mask([_MANY_PART, *picks[1]])

    def may_match(self, count: int, begins_with_dollar: bool) -> bool:
        """Tell whether a name of so many levels may match."""
        if count != self.length and (count < self.length or not self.has_many):
            return False
        return not (begins_with_dollar and self.skips_dollar)

    def texts(self, parts: tuple[str, ...]) -> Iterator[str]:
        """Yield the texts of its filters that match a name that may match."""
        joined = "/".join
        if self.mask is not None:
            yield joined(self.mask(parts))
            return
        before, after = self._before(parts), self._after(parts)
        length = self._between_length
        # `before` and `after` each have a MANY.
        first = _FIRST_WORD + len(before) - 1
        last = len(parts) - (len(after) - 1) - length
        for at in range(first, last + 1):
            between = self._between((*WILDCARDS, *parts[at : at + length]))
            yield joined((*before, *between, *after))


def _picks(piece: str, first: int) -> list[int]:
    """Return where the parts of a piece of a pattern are, whose first word is at a place."""
    return [first + at if each == _WORD else _ONE_PART for at, each in enumerate(piece)]


def _mask(picks: list[int]) -> Mask:
    if len(picks) == 1:
        # `itemgetter` would give the word itself, and not a tuple of it.
        only = picks[0]
        return lambda parts: (parts[only],)
    return itemgetter(*picks)
