"""Which transactions of a partition are open, and where readers of committed ones have to stop.

Theory of operation. A transaction is known by the offset of its first batch. It is open until its
marker stands in the log, and it is decided when that marker is committed: until then the marker may
be cut off again, and the transaction is open once more. Readers stop before the first transaction
that is not decided. Were all before the marker committed and the marker not, that would be the
first one that was open just before the marker; so each marker that is not committed remembers it,
and the first such marker tells where to stop. Without one it is the first open transaction.

Markers wait in the order of the log. First offsets lie in a heap, from which those of ended
transactions are taken only when they come to its top.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from kafkaesque.model.errors import InvariantBroken

#: In place of an offset where no transaction is open: after every offset.
NEVER = 2**63 - 1
#: The heap is made anew when more than so many, and more than half, of its offsets are of ended
#: transactions: one that hangs would keep all behind it.
STALE_MAX = 1_000


class _Ended(NamedTuple):
    """A transaction whose marker is not committed."""

    marker_offset: int
    first_offset: int
    #: The first offset that was open just before the marker.
    first_open_before: int


class OpenTransactions:
    """First offsets of a partition's transactions, from the first batch to the committed marker."""

    __slots__ = ("_ended", "_heap", "_open", "first_unstable")

    def __init__(self) -> None:
        self._open: set[int] = set()
        #: Every offset of `_open`, and some that are no longer in it.
        self._heap: list[int] = []
        self._ended: deque[_Ended] = deque()
        #: Where the first transaction begins that is not decided; `NEVER` if all are.
        self.first_unstable = NEVER

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    @property
    def first_open(self) -> int:
        """Where the first open transaction begins; `NEVER` if none is open."""
        heap, alive = self._heap, self._open
        while heap and heap[0] not in alive:
            heappop(heap)
        return heap[0] if heap else NEVER

    def open(self, first_offset: int) -> None:
        """A batch opens a transaction."""
        self._open.add(first_offset)
        heappush(self._heap, first_offset)
        if len(self._heap) > 2 * len(self._open) + STALE_MAX:
            self._heap = list(self._open)
            heapify(self._heap)
        self._refresh()

    def end(self, first_offset: int, marker_offset: int) -> None:
        """A marker ends a transaction; it may be cut off again.

        Raises:
            InvariantBroken: no such transaction is open.
        """
        if first_offset not in self._open:
            raise InvariantBroken(f"no transaction is open that begins at {first_offset}")
        self._ended.append(_Ended(marker_offset, first_offset, self.first_open))
        self._open.remove(first_offset)
        self._refresh()

    def on_committed(self, offset: int) -> None:
        """Markers before an offset will never be cut off."""
        ended = self._ended
        if ended and ended[0].marker_offset < offset:
            while ended and ended[0].marker_offset < offset:
                ended.popleft()
            self._refresh()

    def truncate(self, end_offset: int) -> None:
        """Batches and markers from an offset on are cut off."""
        while self._ended and self._ended[-1].marker_offset >= end_offset:
            self._open.add(self._ended.pop().first_offset)
        self._open = {offset for offset in self._open if offset < end_offset}
        self._heap = list(self._open)
        heapify(self._heap)
        self._refresh()

    def _refresh(self) -> None:
        self.first_unstable = self._ended[0].first_open_before if self._ended else self.first_open
