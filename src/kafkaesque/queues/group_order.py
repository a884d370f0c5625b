"""Order within groups: one taker at a time has messages of each, or they wait for a retry.

Theory of operation. A group is *held* while a message of it is in flight or waits after an attempt.
Looking for what may be given out goes over the ready messages in order. One of a held group is set
aside with its group, so it is met once and not each time; when the group is free, its first message
comes back to the ready ones, and when that is taken the next. So nothing has to be kept for groups
of which nothing is in flight, and a million messages of one group are no hindrance to the others.

What is set aside is still ready: where a message lies is found out by the leader, and is no part of
the state.
"""

from itertools import groupby, islice

from kafkaesque.queues.column import Column
from kafkaesque.queues.offset_set import OffsetSet
from kafkaesque.queues.ready import Ready
from kafkaesque.queues.runs import Run, runs_of

#: Ready messages that are looked at in search of a group that may be served, before the next turn.
LOOKED_AT_MAX = 8_192


class GroupOrder:
    """Which groups are held, and what is set aside for them."""

    __slots__ = ("_ready", "_waiting", "groups", "held", "looked_at")

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        #: Of messages that live and have a group.
        self.groups = Column("Q")
        #: How many messages hold a group.
        self.held: dict[int, int] = {}
        self._waiting: dict[int, OffsetSet] = {}
        #: Messages that the last search has looked at.
        self.looked_at = 0

    @property
    def waiting_count(self) -> int:
        """How many ready messages are set aside."""
        return sum(waiting.count for waiting in self._waiting.values())

    def waiting(self) -> list[int]:
        """Return the ready messages that are set aside."""
        return [offset for waiting in self._waiting.values() for offset in waiting.offsets()]

    def is_waiting(self, offset: int) -> bool:
        """Whether a message is set aside."""
        waiting = self._waiting.get(self.groups[offset])
        return waiting is not None and offset in waiting

    def hold(self, group: int) -> None:
        """A message holds its group."""
        self.held[group] = self.held.get(group, 0) + 1

    def unhold(self, group: int) -> None:
        """A message holds its group no more."""
        left = self.held[group] - 1
        if left:
            self.held[group] = left
            return
        del self.held[group]
        self._bring_back(group)

    def take_waiting(self, offset: int) -> None:
        """A message that is set aside is not ready any more."""
        group = self.groups[offset]
        self._waiting[group].remove(offset, offset + 1)
        if not self._waiting[group]:
            del self._waiting[group]

    def on_taken(self, offset: int) -> None:
        """A ready message was taken: the next of its group takes its place."""
        group = self.groups[offset]
        if group and group not in self.held:
            self._bring_back(group)

    def free_offsets(self, count_max: int) -> list[int]:
        """Return the next messages of groups that are not held, each of another one.

        At most `LOOKED_AT_MAX` messages are looked at; `looked_at` says how many were.
        """
        free: list[int] = []
        aside: list[int] = []
        met: set[int] = set()
        self.looked_at = 0
        for offset in self._ready.in_order():
            if len(free) >= count_max or self.looked_at >= LOOKED_AT_MAX:
                break
            self.looked_at += 1
            group = self.groups[offset]
            if not group:
                free.append(offset)
            elif group in self.held or group in met:
                if not self._ready.is_at_tail(offset):
                    aside.append(offset)
            else:
                met.add(group)
                free.append(offset)
        for run in runs_of(sorted(aside)):
            self._set_aside(run)
        return free

    def free_in_order(self, count_max: int) -> list[int]:
        """Return the next messages of groups that are not held, rising: many of one, for one taker.

        Those of a group are its first ones, without a gap. As many are taken of one group as there
        are before the next one's. Bounds are those of `free_offsets`.
        """
        found: dict[int, list[int]] = {}
        aside: list[int] = []
        count, last, is_whole = 0, -1, True
        self.looked_at = 0
        for offset in self._ready.in_order():
            if count >= count_max or self.looked_at >= LOOKED_AT_MAX:
                is_whole = False
                break
            self.looked_at, last = self.looked_at + 1, offset
            group = self.groups[offset]
            if group in self.held:
                aside.append(offset)
            else:
                # Those without a group are alone.
                found.setdefault(group or -1 - offset, []).append(offset)
                count += 1
        picked: list[int] = []
        for group, seen in found.items():
            left = count_max - len(picked)
            if left <= 0:
                break
            # What was not looked at may come before what is set aside.
            end = None if is_whole else last
            first = sorted([*seen, *self._first_waiting(group, left, end)])[:left]
            picked += first
            aside += set(seen).difference(first)
        for run in runs_of(sorted(aside)):
            self._set_aside(run)
        return sorted(picked)

    def _first_waiting(self, group: int, count: int, end: int | None) -> list[int]:
        waiting = self._waiting.get(group)
        if waiting is None:
            return []
        return [each for each in islice(waiting.offsets(), count) if end is None or each < end]

    def _set_aside(self, run: Run) -> None:
        self._ready.take(*run)
        start = run.first
        for group, some in groupby(self.groups.values(*run)):
            end = start + sum(1 for _ in some)
            self._waiting.setdefault(group, OffsetSet()).add(start, end)
            start = end

    def _bring_back(self, group: int) -> None:
        waiting = self._waiting.get(group)
        if waiting is None:
            return
        offset = waiting.first()
        if offset is not None:
            waiting.remove(offset, offset + 1)
            self._ready.put(offset, offset + 1)
        if not waiting:
            del self._waiting[group]
