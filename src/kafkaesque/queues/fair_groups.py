"""Fairness among groups: who has fewest messages in flight is served first.

Theory of operation. A tenant that puts a million messages, or whose messages take long, must not
let the others wait behind it. So a group is given its next message in turn with the others, and one
that has fewer messages in flight comes before one that has more. Looking for what may be given out
goes over the ready messages in order, and sorts them into their groups: each is looked at once. A
message without a group is a group of its own.

A group holds nothing back: where nobody else has a message, it has all consumers. What is sorted is
still ready; where a message lies is found out by the leader, and is no part of the state.
"""

from collections.abc import Iterator
from itertools import groupby, islice, zip_longest

from kafkaesque.queues.column import Column
from kafkaesque.queues.group_order import LOOKED_AT_MAX
from kafkaesque.queues.offset_set import OffsetSet
from kafkaesque.queues.ready import Ready
from kafkaesque.queues.runs import Run, runs_of


class FairGroups:
    """What groups have in flight, and their ready messages so far as they are sorted."""

    __slots__ = (
        "_by_load",
        "_in_flight",
        "_ready",
        "_sorted",
        "groups",
        "looked_at",
        "sorted_count",
    )

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        #: Of messages that live and have a group.
        self.groups = Column("Q")
        self._in_flight: dict[int, int] = {}
        self._sorted: dict[int, OffsetSet] = {}
        #: The groups that have sorted messages, by what they have in flight, in turn.
        self._by_load: dict[int, dict[int, None]] = {}
        #: How many ready messages are sorted.
        self.sorted_count = 0
        #: Messages that the last search has looked at.
        self.looked_at = 0

    def count_flight(self, first: int, end: int, change: int) -> None:
        """Messages begin to be in flight (1), or are it no more (-1)."""
        if not self.groups:
            return
        for group, some in groupby(self.groups.values(first, end)):
            if group:
                self._count(group, change * sum(1 for _ in some))

    def is_sorted(self, offset: int) -> bool:
        """Whether a ready message is with its group, and not with all others."""
        found = self._sorted.get(self.groups[offset])
        return found is not None and offset in found

    def sorted_offsets(self) -> list[int]:
        """Return the messages that are sorted, in no order."""
        return [offset for found in self._sorted.values() for offset in found.offsets()]

    def take(self, offset: int) -> None:
        """A sorted message is not ready any more."""
        group = self.groups[offset]
        found = self._sorted[group]
        found.remove(offset, offset + 1)
        self.sorted_count -= 1
        self._leave_turn(group)
        if found:
            self._join_turn(group)
        else:
            del self._sorted[group]

    def unsort(self) -> None:
        """Let all be with the others again: the queue is not fair any more."""
        for found in self._sorted.values():
            for run in found.runs():
                self._ready.put(*run)
        self._sorted.clear()
        self._by_load.clear()
        self.sorted_count = 0

    def next_offsets(self, count_max: int) -> list[int]:
        """Return the next messages, in the order in which they are to be given out.

        At most `LOOKED_AT_MAX` messages are looked at; `looked_at` says how many were.
        """
        alone = self._look(count_max)
        picked: list[int] = []
        #: Groups that are given one more, by what they then have in flight.
        again: dict[int, list[Iterator[int]]] = {}
        loads = sorted(self._by_load, reverse=True)
        load = 0
        while len(picked) < count_max:
            turn = again.pop(load, [])
            if loads and loads[-1] == load:
                loads.pop()
                # There may be many: no more than have a turn are looked at.
                served = islice(self._by_load[load], count_max - len(picked))
                turn += [iter(self._sorted[group].offsets()) for group in served]
            for single, group in zip_longest(alone, turn):
                if single is not None:
                    picked.append(single)
                offset = None if group is None else next(group, None)
                if group is not None and offset is not None:
                    picked.append(offset)
                    again.setdefault(load + 1, []).append(group)
                if len(picked) >= count_max:
                    break
            alone = []
            if load + 1 in again:
                load += 1
            elif loads:
                load = loads[-1]
            else:
                break
        return picked[:count_max]

    # -- inside

    def _look(self, count_max: int) -> list[int]:
        """Sort ready messages until there are enough of groups that have nothing in flight.

        Return those that have no group; they stay where they are.
        """
        alone: list[int] = []
        some: list[int] = []
        quiet: set[int] = set()
        self.looked_at = 0
        for offset in self._ready.in_order():
            if len(alone) + len(quiet) >= count_max or self.looked_at >= LOOKED_AT_MAX:
                break
            self.looked_at += 1
            group = self.groups[offset]
            if not group:
                alone.append(offset)
                continue
            some.append(offset)
            if group not in self._in_flight:
                quiet.add(group)
        for run in runs_of(sorted(some)):
            self._sort(run)
        return alone

    def _sort(self, run: Run) -> None:
        self._ready.take(*run)
        self.sorted_count += run.end - run.first
        start = run.first
        for group, some in groupby(self.groups.values(*run)):
            end = start + sum(1 for _ in some)
            if group not in self._sorted:
                self._sorted[group] = OffsetSet()
                self._join_turn(group)
            self._sorted[group].add(start, end)
            start = end

    def _count(self, group: int, change: int) -> None:
        is_waiting = group in self._sorted
        if is_waiting:
            self._leave_turn(group)
        count = self._in_flight.get(group, 0) + change
        if count:
            self._in_flight[group] = count
        else:
            del self._in_flight[group]
        if is_waiting:
            self._join_turn(group)

    def _join_turn(self, group: int) -> None:
        self._by_load.setdefault(self._in_flight.get(group, 0), {})[group] = None

    def _leave_turn(self, group: int) -> None:
        load = self._in_flight.get(group, 0)
        del self._by_load[load][group]
        if not self._by_load[load]:
            del self._by_load[load]
