"""When messages arrived, so that the oldest can be found whose time is up.

One entry stands for all that arrived within a quarter of a second. There are at most 4,096: when
there are more, every second one is dropped, and the messages of both count as arrived with the
later one. So a message may live longer by a thousandth of the time that the queue spans, and none
shorter.
"""

from bisect import bisect_right
from typing import NamedTuple

from kafkaesque.queues.runs import Reader, Writer

_GRAIN_MS = 250
_ENTRIES_MAX = 4_096
_ENTRIES_MIN = 64


class _Entries(NamedTuple):
    #: The first offset of each entry, rising.
    firsts: list[int]
    #: When the last message of each entry may have arrived, rising.
    walls_ms: list[int]
    #: With so many entries it is time to look for those that are not needed.
    full_at: int


class Ages:
    """Arrival times by offset; they do not go back."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries = _Entries([], [], _ENTRIES_MIN)

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
        entries.walls_ms.append(wall_ms + _GRAIN_MS)
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
        firsts, walls_ms, _ = self._entries
        position = bisect_right(walls_ms, wall_ms)
        return firsts[position] if position < len(firsts) else end

    def arrived_ms(self, offset: int) -> int:
        """Return when a message has arrived, or a little later."""
        firsts, walls_ms, _ = self._entries
        return walls_ms[max(0, bisect_right(firsts, offset) - 1)] if firsts else 0

    def write(self, writer: Writer) -> None:
        firsts, walls_ms, full_at = self._entries
        writer.number(full_at)
        writer.number(len(firsts))
        before = before_ms = 0
        for first, each_ms in zip(firsts, walls_ms, strict=True):
            writer.number(first - before)
            writer.number(each_ms - before_ms)
            before, before_ms = first, each_ms

    def read(self, reader: Reader) -> None:
        full_at = reader.number()
        firsts, walls_ms = [], []
        first = each_ms = 0
        for _ in range(reader.count()):
            first += reader.number()
            each_ms += reader.number()
            firsts.append(first)
            walls_ms.append(each_ms)
        self._entries = _Entries(firsts, walls_ms, full_at)


def _thinned(entries: _Entries, floor: int) -> _Entries:
    """Return copies without what is past, and without every second one if there are too many."""
    start = max(0, bisect_right(entries.firsts, floor) - 1)
    firsts, walls_ms = entries.firsts[start:], entries.walls_ms[start:]
    if len(firsts) >= _ENTRIES_MAX:
        # An entry that stays begins with the one before it.
        firsts, walls_ms = firsts[::2], [*walls_ms[1::2], *walls_ms[-1:][: len(walls_ms) % 2]]
    return _Entries(firsts, walls_ms, max(_ENTRIES_MIN, min(2 * len(firsts), _ENTRIES_MAX)))
