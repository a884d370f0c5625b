"""When messages arrived, so that the oldest can be found whose time is up.

One entry stands for all that arrived within a grain of time, and counts them as arrived at its end.
The grain is a quarter of a second, or what makes 2,048 of the time that the queue spans. So a
message may live longer by a two-thousandth of that, and none shorter.
"""

from bisect import bisect_right
from typing import NamedTuple

from kafkaesque.queues.runs import Reader, Writer

_GRAIN_MS_MIN = 250
_GRAINS = 2_048
_ENTRIES_MIN = 64


class _Entries(NamedTuple):
    #: The first offset of each entry, rising.
    firsts: list[int]
    #: When the last message of each entry may have arrived, rising.
    walls_ms: list[int]
    #: With so many entries it is time to look for those that are not needed.
    full_at: int
    grain_ms: int


class Ages:
    """Arrival times by offset; they do not go back."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries = _Entries([], [], _ENTRIES_MIN, _GRAIN_MS_MIN)

    def note(self, first: int, wall_ms: int, floor: int) -> _Entries | None:
        """Messages from an offset on have arrived then; what is before the floor is past.

        Return what `take_back` needs; None: nothing has changed.
        """
        before = self._entries
        if before.walls_ms and wall_ms <= before.walls_ms[-1]:
            return None
        entries = before
        if len(before.firsts) >= before.full_at:
            entries = _thinned(before, floor)
        else:
            before = entries._replace(firsts=[], walls_ms=[], full_at=-1)
        entries.firsts.append(first)
        entries.walls_ms.append(wall_ms + entries.grain_ms)
        self._entries = entries
        return before

    def take_back(self, before: _Entries) -> None:
        """Take back the last `note`."""
        if before.full_at < 0:
            self._entries.firsts.pop()
            self._entries.walls_ms.pop()
        else:
            self._entries = before

    def arrived_by(self, wall_ms: int, end: int) -> int:
        """Return the offset before which everything has arrived by then."""
        firsts, walls_ms = self._entries[:2]
        position = bisect_right(walls_ms, wall_ms)
        return firsts[position] if position < len(firsts) else end

    def arrived_ms(self, offset: int) -> int:
        """Return when a message has arrived, or a little later."""
        firsts, walls_ms = self._entries[:2]
        return walls_ms[max(0, bisect_right(firsts, offset) - 1)] if firsts else 0

    def write(self, writer: Writer) -> None:
        firsts, walls_ms, full_at, grain_ms = self._entries
        writer.number(full_at)
        writer.number(grain_ms)
        writer.number(len(firsts))
        before = before_ms = 0
        for first, each_ms in zip(firsts, walls_ms, strict=True):
            writer.number(first - before)
            writer.number(each_ms - before_ms)
            before, before_ms = first, each_ms

    def read(self, reader: Reader) -> None:
        full_at, grain_ms = reader.number(), reader.number()
        firsts, walls_ms = [], []
        first = each_ms = 0
        for _ in range(reader.count()):
            first += reader.number()
            each_ms += reader.number()
            firsts.append(first)
            walls_ms.append(each_ms)
        self._entries = _Entries(firsts, walls_ms, full_at, grain_ms)


def _thinned(entries: _Entries, floor: int) -> _Entries:
    """Return copies without what is past, in grains that fit to the time that is left."""
    start = max(0, bisect_right(entries.firsts, floor) - 1)
    span_ms = entries.walls_ms[-1] - entries.walls_ms[start]
    grain_ms = max(_GRAIN_MS_MIN, span_ms // _GRAINS)
    firsts: list[int] = []
    walls_ms: list[int] = []
    begun_ms = 0
    for position in range(start, len(entries.firsts)):
        wall_ms = entries.walls_ms[position]
        if firsts and wall_ms < begun_ms + grain_ms:
            walls_ms[-1] = wall_ms
            continue
        begun_ms = wall_ms
        firsts.append(entries.firsts[position])
        walls_ms.append(wall_ms)
    return _Entries(firsts, walls_ms, max(_ENTRIES_MIN, 2 * len(firsts)), grain_ms)
