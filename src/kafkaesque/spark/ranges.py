"""Cutting what is to be read into the pieces that tasks read.

The pieces depend on offsets and options only: a micro-batch that is repeated is cut as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from kafkaesque.spark.intervals import Intervals, between
from kafkaesque.spark.offsets import Offsets, Partition

#: What is rather read than left out between offsets that are wanted.
GAP_OFFSETS_MAX = 1000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets in it; there may be fewer records."""
        return self.end - self.start


def ranges_between(
    starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> list[OffsetRange]:
    """Return the ranges that are not empty, in the order of topics and partitions."""
    return [
        OffsetRange(topic, partition, starts[topic, partition], end)
        for (topic, partition), end in sorted(ends.items())
        if end > starts[topic, partition]
    ]


def ranges_within(ranges: Iterable[OffsetRange], offsets: Intervals) -> list[OffsetRange]:
    """Return ranges that have what these have of such offsets.

    Each begins and ends with one; within it there are gaps of at most `GAP_OFFSETS_MAX` others,
    which come along when what is around them is fetched.
    """
    found: list[OffsetRange] = []
    for each in ranges:
        parts: list[tuple[int, int]] = []
        for first, last in (between(each.start, each.end - 1) & offsets).parts:
            if parts and first - parts[-1][1] - 1 <= GAP_OFFSETS_MAX:
                parts[-1] = (parts[-1][0], last)
            else:
                parts.append((first, last))
        found += [replace(each, start=first, end=last + 1) for first, last in parts]
    return found


def cut(
    ranges: Iterable[OffsetRange], *, partitions_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """Return pieces of at most `records_max` offsets, about `partitions_min` of them at least."""
    pieces = [
        piece
        for each in ranges
        for piece in _in_parts(each, 1 if records_max is None else -(-each.size // records_max))
    ]
    if partitions_min is None or len(pieces) >= partitions_min:
        return pieces
    total = sum(each.size for each in pieces)
    return [
        piece
        for each in pieces
        for piece in _in_parts(each, max(1, round(each.size / total * partitions_min)))
    ]


def _in_parts(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Return `count` pieces whose sizes differ by at most one; none is empty."""
    count = max(1, min(count, whole.size))
    bounds = [whole.start + whole.size * part // count for part in range(count + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, start, end) for start, end in pairwise(bounds)
    ]


def gather(pieces: Iterable[OffsetRange], offsets_max: int) -> list[tuple[OffsetRange, ...]]:
    """Return the pieces in their order, neighbours of together few offsets in one group."""
    groups: list[tuple[OffsetRange, ...]] = []
    size = 0
    for piece in pieces:
        size += piece.size
        if groups and size <= offsets_max:
            groups[-1] += (piece,)
        else:
            groups.append((piece,))
            size = piece.size
    return groups


def limit_ends(starts: Offsets, ends: Offsets, offsets_max: int) -> Offsets:
    """Return ends such that at most `offsets_max` offsets are read, shared by how much waits.

    Something is read of each partition where the limit allows it, so that none starves.
    """
    sizes = {each: max(0, end - starts[each]) for each, end in ends.items()}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(ends)
    waiting = sorted(each for each, size in sizes.items() if size)
    shares = dict.fromkeys(sizes, 0)
    for each in waiting[:offsets_max]:
        shares[each] = 1
    rest = max(0, offsets_max - len(waiting))
    more = {each: rest * (sizes[each] - 1) // max(1, total - len(waiting)) for each in waiting}
    rest -= sum(more.values())
    for each in waiting:
        shares[each] += more[each]
        if rest and shares[each] < sizes[each]:
            shares[each] += 1
            rest -= 1
    return {each: starts[each] + shares[each] for each in ends}
