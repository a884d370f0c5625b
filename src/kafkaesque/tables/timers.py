"""Deadlines by key, cheap to push back.

Almost every deadline here is a session that a heartbeat pushes back long before it is due. So
pushing back only notes the new deadline; the heap keeps the old entry, and when that comes up it is
put back at the noted one. The heap therefore holds one entry per key in the usual case, and is
rebuilt when cancelled keys make up most of it.
"""

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")

#: Entries of the heap that may be out of date before it is rebuilt, beside half of it.
_STALE_ENTRIES_MIN = 64


class TimerQueue(Generic[K]):
    """Deadlines by key; due ones come out in order of deadline, then of scheduling."""

    __slots__ = ("_deadlines", "_heap", "_sequence")

    def __init__(self) -> None:
        #: key -> (deadline, position of its entry in the heap, in time)
        self._deadlines: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def schedule(self, key: K, deadline_ms: int) -> None:
        """Set the key's deadline, replacing the one it has."""
        known = self._deadlines.get(key)
        if known is not None and known[1] <= deadline_ms:
            self._deadlines[key] = (deadline_ms, known[1])
            return
        self._deadlines[key] = (deadline_ms, deadline_ms)
        self._push(deadline_ms, key)

    def cancel(self, key: K) -> None:
        """Forget the key; harmless if it is not there."""
        self._deadlines.pop(key, None)
        if len(self._heap) > 2 * len(self._deadlines) + _STALE_ENTRIES_MIN:
            self._rebuild()

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, or None."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> K | None:
        """Forget and return the first key whose deadline is not after `now_ms`, or None."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        key = heappop(self._heap)[2]
        del self._deadlines[key]
        return key

    def _settle(self) -> None:
        """Make the first entry of the heap a true one."""
        heap = self._heap
        while heap:
            entry_ms, _, key = heap[0]
            known = self._deadlines.get(key)
            if known is not None and known[1] == entry_ms:
                if known[0] == entry_ms:
                    return
                heappop(heap)
                self._deadlines[key] = (known[0], known[0])
                self._push(known[0], key)
            else:
                heappop(heap)

    def _push(self, deadline_ms: int, key: K) -> None:
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, key))

    def _rebuild(self) -> None:
        self._heap = []
        for key, (deadline_ms, _) in self._deadlines.items():
            self._deadlines[key] = (deadline_ms, deadline_ms)
            self._sequence += 1
            self._heap.append((deadline_ms, self._sequence, key))
        heapify(self._heap)
