"""What happened in a simulated world, as lines and as one running hash.

Two runs are the same if their hashes are: every event of the loop is in it, with its time, its
place and what is essential about it. Lines are kept for people, the last ones only.
"""

import hashlib
from collections import deque
from typing import Final

#: Lines that are kept for people.
LINES_MAX: Final = 20_000
_BATCH: Final = 512


class History:
    """A growing list of events."""

    __slots__ = ("_batch", "_hash", "_lines", "count")

    def __init__(self, lines_max: int = LINES_MAX) -> None:
        self._hash: Final = hashlib.sha256()
        self._batch: Final[list[str]] = []
        self._lines: Final[deque[str]] = deque(maxlen=lines_max)
        self.count = 0

    def note(self, time_ns: int, place: str, what: str) -> None:
        """Add an event to the hash."""
        self.count += 1
        self._batch.append(f"{time_ns} {place} {what}\n")
        if len(self._batch) >= _BATCH:
            self._flush()

    def tell(self, time_ns: int, place: str, what: str) -> None:
        """Add an event to the hash, and keep it as a line for people."""
        self.note(time_ns, place, what)
        self._lines.append(f"{time_ns / 1e6:12.3f} ms  {place:<8} {what}")

    def digest(self) -> str:
        """Return the hash of everything so far, in hexadecimal."""
        self._flush()
        return self._hash.hexdigest()

    def lines(self) -> list[str]:
        """Return the last lines that were told."""
        return list(self._lines)

    def _flush(self) -> None:
        if self._batch:
            self._hash.update("".join(self._batch).encode())
            self._batch.clear()
