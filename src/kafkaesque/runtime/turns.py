"""The turn of the event loop: what is asked for in it, and what is left for its end.

Theory of operation. A turn begins with events that the poller deals out, or with a callback that
the loop owed us. What they ask for with `call_soon` follows once all of them are dealt with, in
the order of asking, and what that leaves for the end with `call_last`, such as to send the answers,
follows then: in one callback of the loop, without a system call between them. What is asked for
meanwhile with `call_soon` is the next turn's, so that whoever goes on in turns lets others in.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

Callback = Callable[[], None]


class Turns:
    """The turns of one event loop; a connection's `Loop`."""

    __slots__ = ("_last", "_loop", "_soon", "is_coming")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._soon: Final[deque[Callback]] = deque()
        self._last: Final[deque[Callback]] = deque()
        #: Whether `run` will be called anyway.
        self.is_coming = False

    def call_soon(self, callback: Callback, /) -> None:
        """Call in the next turn, after what was asked for before."""
        self._soon.append(callback)
        if not self.is_coming:
            self.ask()

    def call_last(self, callback: Callback, /) -> None:
        """Call at the end of this turn, when what was asked for in it has been done."""
        self._last.append(callback)
        if not self.is_coming:
            self.ask()

    def call_later(self, delay: float, callback: Callback, /) -> asyncio.TimerHandle:
        """Call once after so many seconds."""
        return self._loop.call_later(delay, callback)

    def begin(self) -> None:
        """Promise that `run` is called when the events at hand are dealt with, or else `ask`."""
        self.is_coming = True

    def ask(self) -> None:
        """Have the loop call `run`."""
        self.is_coming = True
        self._loop.call_soon(self.run)

    def run(self) -> None:
        """Do what was asked for, then what was left for the end."""
        soon, last = self._soon, self._last
        self.is_coming = True
        try:
            for _ in range(len(soon)):
                soon.popleft()()
            for _ in range(len(last)):
                last.popleft()()
        finally:
            # What is there now was asked for meanwhile, or something before it has raised.
            self.is_coming = False
            if soon or last:
                self.ask()
