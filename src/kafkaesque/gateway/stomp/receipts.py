"""RECEIPTs, in the order of the frames that ask for them: each when all before it is done, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final


class Entry:
    """Frames that are being carried out: one, or several that came together and say the same."""

    __slots__ = ("_on_done", "is_done", "receipts", "then")

    def __init__(self, receipts: Sequence[str | None], on_done: Callable[[], None]) -> None:
        self._on_done: Final = on_done
        #: What each frame wants to be told with; None: nothing.
        self.receipts: Final = receipts
        self.then: Callable[[], None] | None = None
        self.is_done = False

    @property
    def first_wanted(self) -> int | None:
        """The number of the first frame that wants a receipt; None: none does."""
        return next((at for at, each in enumerate(self.receipts) if each is not None), None)

    def done(self) -> None:
        """It is carried out: what was sent is committed, what was acknowledged is settled."""
        self.is_done = True
        self._on_done()


class Receipts:
    """Of one connection."""

    __slots__ = ("_entries", "_send")

    def __init__(self, send: Callable[[Sequence[str]], None]) -> None:
        """`send` sends RECEIPTs with these ids."""
        self._send: Final = send
        self._entries: Final[deque[Entry]] = deque()

    @property
    def is_pending(self) -> bool:
        """Whether a frame is being carried out."""
        return bool(self._entries)

    def add(self, *receipts: str | None) -> Entry:
        """Begin with a frame, or with several that are done together."""
        entry = Entry(receipts, self.flush)
        self._entries.append(entry)
        return entry

    def when_done(self, then: Callable[[], None]) -> None:
        """Call when all frames so far are carried out."""
        entry = self.add(None)
        entry.then = then
        entry.done()

    def give_up(self, entry: Entry, number: int) -> None:
        """A frame of an entry is not carried out: only those before it may have their receipts."""
        if self._entries and self._entries[0] is entry:
            self._send_all(entry.receipts[:number])

    def flush(self) -> None:
        """Send what is due."""
        entries = self._entries
        due: list[str | None] = []
        while entries and entries[0].is_done:
            entry = entries.popleft()
            due += entry.receipts
            if entry.then is not None:
                self._send_all(due)
                due = []
                entry.then()
        self._send_all(due)

    def _send_all(self, receipts: Sequence[str | None]) -> None:
        wanted = [each for each in receipts if each is not None]
        if wanted:
            self._send(wanted)
