"""When something is due for an offset: locks, delays, the end of a message's life.

Theory of operation. A column has each offset's time, which is the truth; beside it lie entries to
find what is due, and an entry that the column does not confirm is passed over. So a time is
changed and taken away without looking for its entry; when most entries are out of date, they are
made anew from the column.

Entries lie in buckets of 65.5 seconds, 8 bytes each: 16 bits of the time and 48 of the offset.
Those of times more than two hours ahead lie in buckets of 70 minutes, 12 bytes each, and are dealt
out when time comes near; else months ahead would have a bucket for every message. Only the first
bucket is sorted. How entries lie depends on when time was asked for, and is no part of the state.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator

from kafkaesque.queues.column import Column
from kafkaesque.queues.runs import Reader, Writer

_NEAR_SHIFT = 16
_NEAR_MASK = (1 << _NEAR_SHIFT) - 1
_FAR_SHIFT = 22
_FAR_MASK = (1 << _FAR_SHIFT) - 1
_OFFSET_SHIFT = 48
_OFFSET_MASK = (1 << _OFFSET_SHIFT) - 1
#: Entries that may be out of date, beside as many as are in force.
_STALE_MAX = 1_024


class Timetable:
    """Times by offset, and what is due."""

    __slots__ = ("_entries", "_far", "_near", "_near_until", "_sorted", "_times", "count")

    def __init__(self) -> None:
        self._times = Column("Q")
        #: How many offsets have a time.
        self.count = 0
        #: Times before this bucket of `_far` have their entries in `_near`.
        self._near_until = 0
        self._forget_entries()

    def __getitem__(self, offset: int) -> int:
        """Return when it is due, 0 for never."""
        return self._times[offset]

    def set(self, first: int, end: int, due_ms: int) -> None:
        """Let all of a run be due then; it has no time so far."""
        self._times.fill(first, end, due_ms)
        self.count += end - first
        self._enter(first, end, due_ms)

    def clear(self, first: int, end: int) -> list[int]:
        """Let nothing of a run be due; return when it was."""
        before = self._times.values(first, end)
        self._times.clear(first, end)
        self.count -= len(before) - before.count(0)
        if self._entries > 2 * self.count + _STALE_MAX:
            self.enter_anew()
        return before

    def restore(self, first: int, times: list[int]) -> None:
        """Take back a `clear`."""
        for offset, due_ms in enumerate(times, first):
            if due_ms:
                self.set(offset, offset + 1, due_ms)

    def change(self, offset: int, due_ms: int) -> None:
        """Let an offset be due then, in place of when it is; 0 for never."""
        self.count += bool(due_ms) - bool(self._times[offset])
        self._times[offset] = due_ms
        if due_ms:
            self._enter(offset, offset + 1, due_ms)
        elif self._entries > 2 * self.count + _STALE_MAX:
            self.enter_anew()

    def pop_due(self, now_ms: int, count_max: int) -> list[tuple[int, int]]:
        """Return what is due, as (time, offset) in that order, at most so many.

        Each comes once, though its time stays what it is; after `enter_anew` all come again.
        """
        if not self._entries:
            return []
        self._come_near(now_ms)
        due: list[tuple[int, int]] = []
        for number in sorted(number for number in self._near if number <= now_ms >> _NEAR_SHIFT):
            if len(due) >= count_max:
                break
            base = number << _NEAR_SHIFT
            stop = min(now_ms - base, _NEAR_MASK) + 1 << _OFFSET_SHIFT
            due += (
                (base + (entry >> _OFFSET_SHIFT), entry & _OFFSET_MASK)
                for entry in self._pop_confirmed(number, stop, count_max - len(due))
            )
        return due

    def next_due_ms(self) -> int | None:
        """Return when the first is due, or None."""
        while True:
            number = self._first_bucket()
            if number is None:
                if not self._far:
                    return None
                self._come_near(min(self._far) << _FAR_SHIFT)
                continue
            first = self._near[number][0]
            due_ms = (number << _NEAR_SHIFT) + (first >> _OFFSET_SHIFT)
            if self._times[first & _OFFSET_MASK] == due_ms:
                return due_ms
            del self._near[number][0]
            self._dropped(number, 1)

    def items(self) -> Iterator[tuple[int, int]]:
        """Return offsets and their times, rising by offset."""
        return self._times.items()

    def write(self, writer: Writer) -> None:
        self._times.write(writer)

    def read(self, reader: Reader) -> None:
        self._times.read(reader)
        self.count = sum(1 for _ in self._times.items())
        self.enter_anew()

    def enter_anew(self) -> None:
        """Make the entries from the times that are in force."""
        self._forget_entries()
        near, far, near_until = self._near, self._far, self._near_until
        for offset, due_ms in self._times.items():
            if due_ms >> _FAR_SHIFT >= near_until:
                times, offsets = far.setdefault(due_ms >> _FAR_SHIFT, (array("I"), array("Q")))
                times.append(due_ms & _FAR_MASK)
                offsets.append(offset)
            else:
                bucket = near.setdefault(due_ms >> _NEAR_SHIFT, array("Q"))
                bucket.append(((due_ms & _NEAR_MASK) << _OFFSET_SHIFT) + offset)
        self._entries = self.count

    # -- inside

    def _forget_entries(self) -> None:
        self._entries = 0
        self._near: dict[int, array[int]] = {}
        self._far: dict[int, tuple[array[int], array[int]]] = {}
        self._sorted: int | None = None

    def _enter(self, first: int, end: int, due_ms: int) -> None:
        self._entries += end - first
        far = due_ms >> _FAR_SHIFT
        if far >= self._near_until:
            times, offsets = self._far.setdefault(far, (array("I"), array("Q")))
            times.extend([due_ms & _FAR_MASK] * (end - first))
            offsets.extend(range(first, end))
            return
        number = due_ms >> _NEAR_SHIFT
        base = (due_ms & _NEAR_MASK) << _OFFSET_SHIFT
        bucket = self._near.setdefault(number, array("Q"))
        if number != self._sorted or not bucket or bucket[-1] <= base + first:
            bucket.extend(range(base + first, base + end))
        else:
            for offset in range(first, end):
                insort(bucket, base + offset)

    def _come_near(self, now_ms: int) -> None:
        """Deal out the entries of times that are not far any more."""
        until = (now_ms >> _FAR_SHIFT) + 2
        if until <= self._near_until:
            return
        self._near_until = until
        for far in [far for far in self._far if far < until]:
            for low, offset in zip(*self._far.pop(far), strict=True):
                self._entries -= 1
                self._enter(offset, offset + 1, (far << _FAR_SHIFT) + low)

    def _pop_confirmed(self, number: int, stop: int, count_max: int) -> "array[int]":
        """Take a bucket's first entries before `stop`; those out of date are passed over."""
        self._sort(number)
        bucket, times, base = self._near[number], self._times, number << _NEAR_SHIFT
        until = bisect_left(bucket, stop)
        confirmed, at = array("Q"), 0
        while at < until and len(confirmed) < count_max:
            entry = bucket[at]
            at += 1
            is_new = not confirmed or confirmed[-1] != entry
            if is_new and times[entry & _OFFSET_MASK] == base + (entry >> _OFFSET_SHIFT):
                confirmed.append(entry)
        del bucket[:at]
        self._dropped(number, at)
        return confirmed

    def _first_bucket(self) -> int | None:
        if not self._near:
            return None
        number = min(self._near)
        self._sort(number)
        return number

    def _sort(self, number: int) -> None:
        if number != self._sorted:
            self._near[number] = array("Q", sorted(self._near[number]))
            self._sorted = number

    def _dropped(self, number: int, count: int) -> None:
        self._entries -= count
        if not self._near[number]:
            del self._near[number]
            self._sorted = None
