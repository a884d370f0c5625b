"""Messages that are ready: by priority, then in the order of the log or of return to the tail.

A message that went to the tail has the place of the log's end at that time: it comes after all that
was there, and before what arrives later.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from kafkaesque.queues.column import Column
from kafkaesque.queues.offset_set import OffsetSet, bits_of, block_parts
from kafkaesque.queues.runs import Run, runs_of

#: A longer run of mixed priorities is looked at by blocks.
_ONE_BY_ONE_MAX = 64
#: For each priority what marks it among others.
_MARKS = [bytes(0x31 if each == mark else 0x30 for each in range(256)) for mark in range(256)]
#: Of so many picks one is from the lowest priority, where the policy is fair.
FAIR_EVERY = 8


class Placed(NamedTuple):
    """A message that went to the tail."""

    place: int
    offset: int


class Ready:
    """What may be given out, and which is first."""

    __slots__ = ("_places", "_sets", "_tails", "count", "priorities")

    def __init__(self) -> None:
        #: Of messages that live, whether they are ready or not.
        self.priorities = Column("B")
        self._sets: dict[int, OffsetSet] = {0: OffsetSet()}
        self._tails: dict[int, list[Placed]] = {}
        self._places: dict[int, int] = {}
        self.count = 0

    def __contains__(self, offset: int) -> bool:
        if offset in self._places:
            return True
        found = self._sets.get(self.priorities[offset])
        return found is not None and offset in found

    def put(self, first: int, end: int) -> None:
        """Let a run be ready, in its old place."""
        self.count += end - first
        if self.priorities and end - first > _ONE_BY_ONE_MAX:
            for priority, number, bits in self._blocks_by_priority(first, end):
                self._sets.setdefault(priority, OffsetSet()).add_block(number, bits)
            return
        for priority, run in self._by_priority(first, end):
            self._sets.setdefault(priority, OffsetSet()).add(*run)

    def put_at_tail(self, offset: int, place: int) -> None:
        """Let a message be ready behind all that is before a place."""
        tail = self._tails.setdefault(self.priorities[offset], [])
        insort(tail, Placed(place, offset))
        self._places[offset] = place
        self.count += 1

    def take(self, first: int, end: int) -> tuple[Placed, ...]:
        """Let a run not be ready any more; return those that were at the tail.

        Raises:
            InvariantBroken: some of it was not ready.
        """
        at_tail: list[Placed] = []
        if self._places:
            at_tail = [Placed(p, o) for o in range(first, end) if (p := self._places.pop(o, 0))]
        for placed in at_tail:
            tail = self._tails[self.priorities[placed.offset]]
            del tail[bisect_left(tail, placed)]
        self.count -= end - first
        for run in _without(first, end, at_tail):
            self._take_in_place(*run)
        return tuple(at_tail)

    def put_back(self, first: int, end: int, at_tail: tuple[Placed, ...]) -> None:
        """Take back a `take`."""
        for run in _without(first, end, at_tail):
            self.put(*run)
        for placed in at_tail:
            self.put_at_tail(placed.offset, placed.place)

    def peek(self, count_max: int, *, from_lowest: bool = False) -> list[Run]:
        """Return what is to be given out next, in that order, at most so many."""
        found: list[Run] = []
        left = min(count_max, self.count)
        for priority in sorted(self._sets.keys() | self._tails.keys(), reverse=not from_lowest):
            for run in self._in_order(priority, left):
                found.append(Run(run.first, min(run.end, run.first + left)))
                left -= found[-1].end - run.first
                if not left:
                    return found
        return found

    def in_order(self) -> Iterator[int]:
        """Return all in the order in which they are to be given out."""
        for priority in sorted(self._sets.keys() | self._tails.keys(), reverse=True):
            for run in self._in_order(priority, self.count):
                yield from range(*run)

    def is_at_tail(self, offset: int) -> bool:
        """Whether a message went to the tail."""
        return offset in self._places

    def all(self) -> list[int]:
        """Return all, rising."""
        found = [*self._places]
        for each in self._sets.values():
            found += each.offsets()
        return sorted(found)

    def places(self) -> list[Placed]:
        """Return those at the tail, in order."""
        return sorted(placed for tail in self._tails.values() for placed in tail)

    # -- inside

    def _in_order(self, priority: int, count_max: int) -> Iterator[Run]:
        """Return all of a priority: those at the tail between those that arrived before and after.

        `count_max` is how many are wanted; there may be more.
        """
        found = self._sets.get(priority, _NOTHING)
        tail = self._tails.get(priority, ())
        first = None if tail else found.first_run(count_max)
        if first is not None and first.end - first.first >= count_max:
            yield first
            return
        at = 0
        for run in found.runs():
            start = run.first
            while at < len(tail) and tail[at].place < run.end:
                if tail[at].place > start:
                    yield Run(start, tail[at].place)
                    start = tail[at].place
                yield Run(tail[at].offset, tail[at].offset + 1)
                at += 1
            yield Run(start, run.end)
        for placed in tail[at:]:
            yield Run(placed.offset, placed.offset + 1)

    def _take_in_place(self, first: int, end: int) -> None:
        if self.priorities and end - first > _ONE_BY_ONE_MAX:
            for priority, number, bits in self._blocks_by_priority(first, end):
                self._sets.setdefault(priority, OffsetSet()).remove_block(number, bits)
            return
        for priority, part in self._by_priority(first, end):
            self._sets.setdefault(priority, OffsetSet()).remove(*part)

    def _blocks_by_priority(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Return the bits that a run has in each priority's blocks."""
        for number, part in block_parts(first, end):
            values = bytes(self.priorities.values(*part))
            for priority in set(values):
                yield priority, number, bits_of(part, values.translate(_MARKS[priority]))

    def _by_priority(self, first: int, end: int) -> Iterator[tuple[int, Run]]:
        if not self.priorities:
            yield 0, Run(first, end)
            return
        values = self.priorities.values(first, end)
        start = first
        for offset in range(first + 1, end + 1):
            if offset == end or values[offset - first] != values[start - first]:
                yield values[start - first], Run(start, offset)
                start = offset


_NOTHING = OffsetSet()


def _without(first: int, end: int, at_tail: "list[Placed] | tuple[Placed, ...]") -> tuple[Run, ...]:
    if not at_tail:
        return (Run(first, end),)
    left = set(range(first, end)).difference(placed.offset for placed in at_tail)
    return runs_of(sorted(left))
