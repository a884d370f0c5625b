"""Sets of whole numbers of 64 bits, as the intervals that they consist of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Intervals:
    """Ascending intervals, first and last included, with a gap between neighbours."""

    parts: tuple[tuple[int, int], ...]

    def __contains__(self, number: int) -> bool:
        return self.meets(number, number)

    def meets(self, first: int, last: int) -> bool:
        """Whether a number from `first` to `last` is in the set."""
        at = bisect_right(self.parts, last, key=lambda part: part[0])
        return at > 0 and self.parts[at - 1][1] >= first

    def __and__(self, other: Intervals) -> Intervals:
        """Return the numbers that are in both."""
        found: list[tuple[int, int]] = []
        mine, others = 0, 0
        while mine < len(self.parts) and others < len(other.parts):
            (first, last), (first_other, last_other) = self.parts[mine], other.parts[others]
            if max(first, first_other) <= min(last, last_other):
                found.append((max(first, first_other), min(last, last_other)))
            if last <= last_other:
                mine += 1
            else:
                others += 1
        return Intervals(tuple(found))

    def __invert__(self) -> Intervals:
        """Return the numbers that are not in it."""
        firsts = [_LEAST, *(last + 1 for _, last in self.parts)]
        lasts = [*(first - 1 for first, _ in self.parts), _MOST]
        return Intervals(
            tuple((first, last) for first, last in zip(firsts, lasts, strict=True) if first <= last)
        )


def between(first: int, last: int) -> Intervals:
    """Return the numbers from `first` to `last`, which may be beyond 64 bits."""
    first, last = max(first, _LEAST), min(last, _MOST)
    return Intervals(((first, last),) if first <= last else ())


def at_least(number: int) -> Intervals:
    """Return the numbers from this one on."""
    return between(number, _MOST)


def at_most(number: int) -> Intervals:
    """Return the numbers up to this one."""
    return between(_LEAST, number)


def among(numbers: Iterable[int]) -> Intervals:
    """Return just these numbers; those beyond 64 bits are in no set."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if not _LEAST <= number <= _MOST:
            continue
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return Intervals(tuple(found))


EVERY = Intervals(((_LEAST, _MOST),))
