"""Which of many records some filters of NATS may want, told by their keys alone and quickly.

Whoever reads a topic with ten million names for a consumer of a few asks here. It says yes to all
that is wanted, and to keys that have to be looked at more closely.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: A subject without wildcards, escapes and odd characters: it is what its bytes say.
_PLAIN: Final = re.compile(rb"[!-$&-)+-\-/-=?-~]+(?:\.[!-$&-)+-\-/-=?-~]+)*")


class SubjectFilters:
    """See the module."""

    __slots__ = ("_named", "_odd", "_pattern")

    def __init__(self, filters: Sequence[str], stream: str) -> None:
        """`stream` is the subject of messages whose keys are none."""
        wild = [each for each in filters if "*" in each or ">" in each]
        pattern = b"|".join(map(_pattern_of, wild))
        self._pattern: Final = re.compile(pattern) if wild else None
        self._named: Final = frozenset(_encoded(each) for each in filters)
        #: Whether all keys that are not plain may be wanted.
        self._odd = any("%" in each for each in filters) or self._wants_plain(_encoded(stream))

    def may_want(self, key: bytes | None) -> bool:
        """Tell whether a record with a key may be wanted; False is certain."""
        if not key:
            return self._odd
        if self._wants_plain(key):
            return True
        return (self._odd or b"%" in key) and _PLAIN.fullmatch(key) is None

    def _wants_plain(self, key: bytes) -> bool:
        if key in self._named:
            return True
        return self._pattern is not None and self._pattern.fullmatch(key) is not None


def write_filters(filters: Sequence[str], stream: str) -> tuple[bytes, ...]:
    """Return filters, and the subject of messages whose keys are none, for another broker."""
    return tuple(map(_encoded, (stream, *filters)))


def read_filters(names: Sequence[bytes]) -> SubjectFilters:
    """Return what `write_filters` was given, as filters."""
    stream, *filters = (name.decode("utf-8", "surrogateescape") for name in names)
    return SubjectFilters(filters, stream)


def _pattern_of(name_filter: str) -> bytes:
    words = {"*": rb"[^.]+", ">": rb".+"}
    levels = (words.get(each) or re.escape(_encoded(each)) for each in name_filter.split("."))
    return rb"\.".join(levels)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
