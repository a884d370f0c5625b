"""The newest entries of each log: where they lie, and their bytes while a replica lacks them.

With the places, what is new is found without looking at a file. A place takes a few words, so
places of many entries are kept. The bytes are there to be sent to replicas. When every replica has
an entry they are released: whoever reads it later, reads it from the page cache.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from kafkaesque.env.disk import Buffer
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.storage.entries import EntryLike

#: What an entry takes besides its bytes.
ENTRY_OVERHEAD_BYTES = 200
#: For so many bytes that may be kept, one place is.
BYTES_PER_PLACE = 512
#: Evicted places that may wait at the front of a log's lists before these are made shorter.
GAP_MAX = 256


class Kept(NamedTuple):
    """Entries that have their bytes."""

    entries: Sequence[EntryLike]
    size_bytes: int
    #: Whether they go on to the end of the log.
    is_all: bool


class TailCache:
    """Bounds what the tails of all logs take.

    The oldest place of the broker goes first. Of the bytes those go first whose log has released
    none for longest: a log whose replicas keep up keeps what is on its way to them, whatever
    another log's dead replica lacks.
    """

    __slots__ = ("_bytes_max", "_lacked", "_places", "_places_max", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._places_max = bytes_max // BYTES_PER_PLACE
        #: The tail of each place, oldest first. Where a log was cut there are too many of it.
        self._places: deque[LogTail] = deque()
        #: The tails that keep bytes: first the one that has released none for longest.
        self._lacked: dict[LogTail, None] = {}
        self.size_bytes = 0

    def on_added(self, tail: "LogTail", size: int) -> None:
        """Note an entry that was added to a tail; evicts what is too much."""
        self._lacked[tail] = None
        self.size_bytes += size
        while self.size_bytes > self._bytes_max:
            next(iter(self._lacked)).release_oldest()
        places = self._places
        places.append(tail)
        if len(places) > self._places_max:
            places.popleft().evict_oldest()

    def on_released(self, tail: "LogTail", size: int, *, is_all: bool) -> None:
        """Note that a tail keeps fewer bytes, or none any more."""
        self.size_bytes -= size
        if is_all:
            self._lacked.pop(tail, None)

    def on_moved(self, tail: "LogTail") -> None:
        """Note that every replica has more of a log: others lose their bytes before it does."""
        if tail in self._lacked:
            del self._lacked[tail]
            self._lacked[tail] = None


class LogTail:
    """The newest DATA entries of one log, in order, up to its end."""

    __slots__ = ("_cache", "_ends", "_entries", "_gap", "_known_from", "_last_offsets", "_released")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._last_offsets = array("q")
        #: Positions after each entry, counted over all segments (`Segment.virtual_base`).
        self._ends = array("q")
        #: None: its bytes are released.
        self._entries: list[EntryLike | None] = []
        #: So many at the front are evicted.
        self._gap = 0
        #: So many at the front are evicted or released.
        self._released = 0
        #: Offset and position from which on every entry has a place.
        self._known_from = (0, 0)

    def __len__(self) -> int:
        return len(self._ends) - self._gap

    def add(self, entry: EntryLike, base_offset: int, end: int, size: int) -> None:
        """Add an entry of so many bytes at the end of the log, which ends at a position."""
        if self._gap == len(self._ends):
            self._known_from = (base_offset, end - size)
        self._last_offsets.append(base_offset + entry.last_index - entry.first_index)
        self._ends.append(end)
        self._entries.append(entry)
        self._cache.on_added(self, size + ENTRY_OVERHEAD_BYTES)

    def find(self, offset: int) -> int | None:
        """Return the place of the first entry that ends at or after an offset, if that is known.

        Known means: every entry from there to the log's end is here.
        """
        at = bisect_left(self._last_offsets, offset, self._gap)
        if at == len(self._last_offsets) or offset < self._known_from[0]:
            return None
        return at

    def last_offset(self, at: int) -> int:
        """Return the last offset of an entry that `find` has found, or one behind it."""
        return self._last_offsets[at]

    def range_from(self, at: int, bytes_max: int, position_max: int, limit: int) -> tuple[int, int]:
        """Return the positions where entries begin and end, from a place that `find` has found.

        The first is always one of them; others as far as they fit in `bytes_max`, lie before
        `position_max`, and end before the offset `limit`.
        """
        begin = self._ends[at - 1] if at > self._gap else self._known_from[1]
        too_far = bisect_right(self._ends, min(begin + bytes_max, position_max), at)
        too_far = min(too_far, bisect_right(self._last_offsets, limit - 1, at))
        return begin, self._ends[max(too_far - 1, at)]

    def kept_from(self, offset: int, bytes_max: int) -> Kept | None:
        """Return entries from the one with an offset on until beyond `bytes_max`.

        None: it is not known, or the bytes are released.
        """
        at = self.find(offset)
        if at is None or at < self._released:
            return None
        found: list[EntryLike] = []
        size = 0
        for place in range(at, len(self._entries)):
            if size > bytes_max:
                return Kept(found, size, is_all=False)
            entry = self._entries[place]
            if entry is not None:
                size += len(_data_of(entry))
                found.append(entry)
        return Kept(found, size, is_all=True)

    def release_to(self, index: int) -> None:
        """Every replica has the log up to an index: keep the bytes before it no longer."""
        entries, at = self._entries, self._released
        size = 0
        while at < len(entries):
            entry = entries[at]
            if entry is not None:
                if entry.last_index > index:
                    break
                size += _size_of(entry)
                entries[at] = None
            at += 1
        if at != self._released:
            self._released = at
            self._cache.on_released(self, size, is_all=at == len(entries))
            self._cache.on_moved(self)

    def release_oldest(self) -> None:
        """Forget the bytes of the oldest entry that has them; there has to be one.

        Raises:
            InvariantBroken: there is none: whoever frees bytes until there are few would go on
                for ever.
        """
        at = self._released
        entry = self._entries[at] if at < len(self._entries) else None
        if entry is None:
            raise InvariantBroken("a log is to release bytes, and keeps none")
        self._entries[at] = None
        self._released = at + 1
        is_all = self._released == len(self._entries)
        self._cache.on_released(self, _size_of(entry), is_all=is_all)

    def evict_oldest(self) -> None:
        """Forget the oldest place, if there is one."""
        gap = self._gap
        if gap == len(self._ends):
            return
        if self._released == gap:
            self.release_oldest()
        self._known_from = (self._last_offsets[gap] + 1, self._ends[gap])
        self._gap = gap + 1
        if self._gap >= GAP_MAX and self._gap * 2 >= len(self._ends):
            self._close_gap()

    def forget_before(self, offset: int) -> None:
        """Forget entries that end before an offset: their places in the files have changed."""
        while self._gap < len(self._ends) and self._last_offsets[self._gap] < offset:
            self.evict_oldest()

    def _close_gap(self) -> None:
        gap = self._gap
        del self._last_offsets[:gap], self._ends[:gap], self._entries[:gap]
        self._gap = 0
        self._released -= gap

    def truncate(self, end_offset: int) -> None:
        """Forget entries from an offset on."""
        self._cut(bisect_right(self._last_offsets, end_offset - 1))

    def clear(self) -> None:
        """Forget everything."""
        self._cut(0)

    def _cut(self, keep: int) -> None:
        size = sum(_size_of(each) for each in self._entries[keep:] if each is not None)
        del self._last_offsets[keep:], self._ends[keep:], self._entries[keep:]
        self._gap = min(self._gap, keep)
        self._released = min(self._released, keep)
        self._cache.on_released(self, size, is_all=self._released == keep)


def _data_of(entry: EntryLike) -> Buffer:
    return entry.data  # type: ignore[return-value]


def _size_of(entry: EntryLike) -> int:
    return len(_data_of(entry)) + ENTRY_OVERHEAD_BYTES
