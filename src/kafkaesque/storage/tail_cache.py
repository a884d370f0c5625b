"""Recent entries in memory: to replicate and to find what is new without looking at a file."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator

from kafkaesque.env.disk import Buffer
from kafkaesque.storage.entries import EntryLike

#: What an entry takes besides its bytes.
ENTRY_OVERHEAD_BYTES = 200
#: Evicted entries that may wait at the front of a log's lists before these are made shorter.
GAP_MAX = 256


class LogTail:
    """The newest DATA entries of one log, in order, up to its end."""

    __slots__ = ("_gap", "ends", "entries", "last_offsets")

    def __init__(self) -> None:
        self.entries: list[EntryLike | None] = []
        self.last_offsets: list[int] = []
        #: Positions after each entry, counted over all segments (`Segment.virtual_base`).
        self.ends: list[int] = []
        #: So many at the front are evicted.
        self._gap = 0

    def __len__(self) -> int:
        return len(self.entries) - self._gap

    def find(self, offset: int) -> int | None:
        """Return the place of the first entry that ends at or after an offset, if that is known.

        Known means: every entry from there to the log's end is here.
        """
        at = bisect_left(self.last_offsets, offset, self._gap)
        if at == len(self.entries):
            return None
        if at > self._gap:
            return at
        entry = self.entries[at]
        if entry is None:
            return None
        first = self.last_offsets[at] - (entry.last_index - entry.first_index)
        return at if first <= offset else None

    def data(self, at: int) -> Buffer:
        """Return the bytes of an entry that `find` has found, or one behind it."""
        return self.entries[at].data  # type: ignore[union-attr, return-value]

    def from_place(self, at: int) -> Iterator[tuple[EntryLike, Buffer]]:
        """Yield the entries from a place that `find` has found."""
        for place in range(at, len(self.entries)):
            entry = self.entries[place]
            if entry is not None:
                yield entry, self.data(place)

    def evict_oldest(self) -> None:
        """Forget the oldest entry, if there is one."""
        if self._gap == len(self.entries):
            return
        self.entries[self._gap] = None
        self._gap += 1
        if self._gap >= GAP_MAX and self._gap * 2 >= len(self.entries):
            self._close_gap()

    def forget_before(self, offset: int) -> None:
        """Forget entries that end before an offset: their places in the files have changed."""
        while self._gap < len(self.entries) and self.last_offsets[self._gap] < offset:
            self.evict_oldest()

    def _close_gap(self) -> None:
        gap = self._gap
        del self.entries[:gap], self.last_offsets[:gap], self.ends[:gap]
        self._gap = 0

    def truncate(self, end_offset: int) -> None:
        """Forget entries from an offset on."""
        keep = bisect_right(self.last_offsets, end_offset - 1)
        del self.entries[keep:], self.last_offsets[keep:], self.ends[keep:]
        self._gap = min(self._gap, keep)

    def clear(self) -> None:
        """Forget everything."""
        self._gap = len(self.entries)
        self._close_gap()


class TailCache:
    """Bounds what the tails of all logs take; the oldest entry of the broker goes first."""

    __slots__ = ("_bytes_max", "_queue", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._queue: deque[tuple[LogTail, int]] = deque()
        self.size_bytes = 0

    def add(self, tail: LogTail, size: int) -> None:
        """Note an entry that was added to a tail; evicts what is too much."""
        size += ENTRY_OVERHEAD_BYTES
        self._queue.append((tail, size))
        self.size_bytes += size
        while self.size_bytes > self._bytes_max:
            oldest, freed = self._queue.popleft()
            oldest.evict_oldest()
            self.size_bytes -= freed
