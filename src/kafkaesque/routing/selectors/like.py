"""LIKE's patterns, matched in time linear in the text, whatever the pattern.

A pattern is cut at each `%` into segments, which are searched one after the other, each as far to
the left as it goes. A segment without `_` is searched by `str.find`. For one with `_` all places
where it may have begun are followed at once, as the bits of a number (the Shift-And method of
Baeza-Yates and Gonnet).
"""

from collections.abc import Callable

#: Characters of a pattern: so many bits are followed at a time.
PATTERN_LENGTH_MAX = 256
#: Characters of a text that is compared with a pattern that has `_`; longer ones are unknown.
TEXT_LENGTH_MAX = 64 * 1024

#: Stands for `_` in a segment.
_ANY = None
_Segment = tuple[str | None, ...]
#: (text, position) -> where the first occurrence ends; -1: there is none.
_Search = Callable[[str, int], int]


class LikePattern:
    """A pattern, ready to be compared with texts."""

    __slots__ = ("_first", "_has_any", "_last", "_searches")

    def __init__(self, pattern: str, escape: str | None = None) -> None:
        """Read a pattern, in which `escape` makes a character of the next one.

        Raises:
            ValueError: it is too long, or escapes what is neither `%`, `_` nor the escape itself.
        """
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise ValueError(f"a pattern has at most {PATTERN_LENGTH_MAX} characters")
        segments = _read_segments(pattern, escape)
        self._has_any = any(_ANY in segment for segment in segments)
        self._first = segments[0]
        #: None: there is no `%`, and the text is to be the first segment.
        self._last = segments[-1] if len(segments) > 1 else None
        self._searches = [_search(segment) for segment in segments[1:-1] if segment]

    def matches(self, text: str) -> bool | None:
        """Tell whether a text is like this; None: it is too long to tell."""
        if self._has_any and len(text) > TEXT_LENGTH_MAX:
            return None
        first, last = self._first, self._last
        if last is None:
            return len(text) == len(first) and _is_at(first, text, 0)
        end = len(text) - len(last)
        position = len(first)
        if end < position or not _is_at(first, text, 0) or not _is_at(last, text, end):
            return False
        for search in self._searches:
            position = search(text, position)
            if position < 0 or position > end:
                return False
        return True


def _read_segments(pattern: str, escape: str | None) -> list[_Segment]:
    segments: list[list[str | None]] = [[]]
    signs = iter(pattern)
    for sign in signs:
        if sign == escape:
            sign = next(signs, "")
            if sign not in ("%", "_", escape):
                raise ValueError(f"{escape!r} escapes nothing that needs it")
            segments[-1].append(sign)
        elif sign == "%":
            segments.append([])
        else:
            segments[-1].append(_ANY if sign == "_" else sign)
    return [tuple(segment) for segment in segments]


def _is_at(segment: _Segment, text: str, position: int) -> bool:
    return all(sign is _ANY or sign == text[position + at] for at, sign in enumerate(segment))


def _search(segment: _Segment) -> _Search:
    """Return what searches a segment that is not empty."""
    if _ANY in segment:
        return _search_with_any(segment)
    wanted = "".join(sign for sign in segment if sign is not None)
    size = len(wanted)

    def find(text: str, position: int) -> int:
        found = text.find(wanted, position)
        return found + size if found >= 0 else -1

    return find


def _search_with_any(segment: _Segment) -> _Search:
    anything = sum(1 << at for at, sign in enumerate(segment) if sign is _ANY)
    masks = {
        sign: anything | sum(1 << at for at, each in enumerate(segment) if each == sign)
        for sign in set(segment)
        if sign is not None
    }
    whole = 1 << (len(segment) - 1)

    def find(text: str, position: int) -> int:
        begun = 0
        for at in range(position, len(text)):
            begun = (begun << 1 | 1) & masks.get(text[at], anything)
            if begun & whole:
                return at + 1
        return -1

    return find
