"""Many subjects with wildcards, and which of them share a subject with another one.

Theory of operation. For each level and each token that filters have there, the bits of a number say
which filters these are. Whoever looks for those that meet a filter goes through its levels once,
however many the others are: a request may have a thousand filters, and all else waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final


class FilterSet:
    """See the module."""

    __slots__ = ("_all", "_by_count", "_by_token", "_having")

    def __init__(self, filters: Sequence[str]) -> None:
        self._all: Final = (1 << len(filters)) - 1
        #: For each level: the filters that have it, and those by their tokens there.
        self._having: Final[list[int]] = []
        self._by_token: Final[list[dict[str, int]]] = []
        #: Filters by how many levels they have.
        self._by_count: Final[dict[int, int]] = {}
        for number, each in enumerate(filters):
            tokens, bit = each.split("."), 1 << number
            self._by_count[len(tokens)] = self._by_count.get(len(tokens), 0) | bit
            for at, token in enumerate(tokens):
                if at == len(self._having):
                    self._having.append(0)
                    self._by_token.append({})
                self._having[at] |= bit
                self._by_token[at][token] = self._by_token[at].get(token, 0) | bit

    def count_meeting(self, wanted: str) -> int:
        """Return how many of these filters share some subject with another one."""
        tokens = wanted.split(".")
        found, left = 0, self._all
        for token, having, by_token in zip(tokens, self._having, self._by_token, strict=False):
            if token == ">":
                return (found | left & having).bit_count()
            found |= left & by_token.get(">", 0)
            left &= having if token == "*" else by_token.get(token, 0) | by_token.get("*", 0)
        return (found | left & self._by_count.get(len(tokens), 0)).bit_count()


def overlapping(filters: Sequence[str]) -> bool:
    """Tell whether some subject fits two of these filters."""
    found = FilterSet(filters)
    # Each meets itself.
    return any(found.count_meeting(each) > 1 for each in filters)
