"""RECEIPTs, in the order of the frames that ask for them: each when all before it is done, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final


class Entry:
    """One frame that is being carried out."""

    __slots__ = ("_receipts", "is_done", "receipt", "then")

    def __init__(self, receipts: Receipts, receipt: str | None) -> None:
        self._receipts = receipts
        self.receipt: Final = receipt
        self.then: Callable[[], None] | None = None
        self.is_done = False

    def done(self) -> None:
        """It is carried out: what was sent is committed, what was acknowledged is settled."""
        self.is_done = True
        self._receipts.flush()


class Receipts:
    """Of one connection."""

    __slots__ = ("_entries", "_send")

    def __init__(self, send: Callable[[str], None]) -> None:
        """`send` sends a RECEIPT with an id."""
        self._send: Final = send
        self._entries: Final[deque[Entry]] = deque()

    @property
    def is_pending(self) -> bool:
        """Whether a frame is being carried out."""
        return bool(self._entries)

    def add(self, receipt: str | None) -> Entry:
        """Begin with a frame."""
        entry = Entry(self, receipt)
        self._entries.append(entry)
        return entry

    def when_done(self, then: Callable[[], None]) -> None:
        """Call when all frames so far are carried out."""
        entry = self.add(None)
        entry.then = then
        entry.done()

    def flush(self) -> None:
        """Send what is due."""
        entries = self._entries
        while entries and entries[0].is_done:
            entry = entries.popleft()
            if entry.receipt is not None:
                self._send(entry.receipt)
            if entry.then is not None:
                entry.then()
