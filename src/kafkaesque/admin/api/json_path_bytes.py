"""Finds the records in whose bytes a name of JSON is followed by what may be a wanted value.

A text can be written in one way, if nothing in it is escaped. A number can be written in many: all
with a point or an exponent, and those of many digits, may be the wanted one.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

#: Looked through in one call, which lets no other thread run: a quarter of a millisecond.
WINDOW_BYTES: Final = 256 * 1024
_SPACE: Final = rb"[ \t\n\r]*"
#: Numbers that may be equal to others that look different.
_NUMBERS: Final = (rb"-?[0-9]*[.eE]", rb"-?[0-9]{16}", rb"-0")


class PathBytes:
    """A name and a value, ready to be looked for; see the module."""

    __slots__ = ("_pattern",)

    def __init__(self, name: str, value: str) -> None:
        ways = [b'"' + re.escape(value.encode()) + b'"', *_ways(value)]
        after = b"(?:" + b"|".join(ways) + b")"
        named = b'"' + re.escape(name.encode()) + b'"'
        self._pattern: Final = re.compile(named + _SPACE + b":" + _SPACE + after)

    def rows(self, ends: Sequence[int], data: bytes, rows: range) -> Iterator[int]:
        """Return the rows, in order, that may fit unless something in them is escaped.

        The value of each row lies before its own position in `ends`, and after the one before it.
        """
        row = rows.start
        while row < rows.stop:
            begin = ends[row - 1] if row else 0
            last = max(row + 1, min(rows.stop, bisect_right(ends, begin + WINDOW_BYTES)))
            found = self._pattern.search(data, begin, ends[last - 1])
            if found is None:
                row = last
                continue
            row = bisect_right(ends, found.start())
            yield row
            row += 1


def _ways(value: str) -> list[bytes]:
    """Return how the value can begin that is written so in JSON, if it is no text."""
    try:
        msgspec.json.decode(value)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return []
    if value[0] in "{[":
        return [re.escape(value[0].encode())]
    if value[0] in "tfn":
        return [value.encode()]
    return [re.escape(value.encode()) + rb"(?![0-9])", *_NUMBERS]
