"""One deadline per transactional id."""

from heapq import heapify, heappop, heappush

#: Entries of the heap that may be out of date before it is rebuilt, beside half of it.
_STALE_ENTRIES_MIN = 64


class Deadlines:
    """Deadlines by key; due ones come out in their order."""

    __slots__ = ("_deadlines", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[str, int] = {}
        #: May hold entries that are out of date: they differ from what is noted.
        self._heap: list[tuple[int, str]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._deadlines

    def schedule(self, key: str, deadline_ms: int) -> None:
        """Set the key's deadline, replacing the one it has."""
        if self._deadlines.get(key) == deadline_ms:
            return
        self._deadlines[key] = deadline_ms
        heappush(self._heap, (deadline_ms, key))
        self._maybe_rebuild()

    def cancel(self, key: str) -> None:
        """Forget the key; harmless if it is not there."""
        self._deadlines.pop(key, None)
        self._maybe_rebuild()

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, or None."""
        while self._heap and self._deadlines.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> str | None:
        """Forget and return the first key whose deadline is not after `now_ms`, or None."""
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        key = heappop(self._heap)[1]
        del self._deadlines[key]
        return key

    def _maybe_rebuild(self) -> None:
        if len(self._heap) > 2 * len(self._deadlines) + _STALE_ENTRIES_MIN:
            self._heap = [(deadline_ms, key) for key, deadline_ms in self._deadlines.items()]
            heapify(self._heap)
