"""Tells which sockets are ready: one epoll of our own, below the event loop's.

The event loop watches a single descriptor, this epoll's, however many connections there are. That
costs one more system call per turn, and gives what uvloop's `add_reader` does not: it stops
watching a socket silently once that is in error, even though received data still waits before the
error; here errors are events like any other. It takes less memory per connection, too.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Final

#: Sockets that are served in one turn of the loop.
EVENTS_PER_TURN_MAX: Final = 256

READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT
#: Reported whether it was asked for or not.
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP

OnEvents = Callable[[int], None]


class Poller:
    """Calls back with the events of each watched descriptor, for as long as they last."""

    __slots__ = ("_callbacks", "_dispatching", "_epoll", "_fresh", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._epoll: Final = select.epoll()
        self._callbacks: Final[dict[int, OnEvents]] = {}
        #: Descriptors that were added while events are dealt out: an event at hand may be meant for
        #: a closed one with the same number.
        self._fresh: Final[set[int]] = set()
        self._dispatching = False
        loop.add_reader(self._epoll.fileno(), self._dispatch)

    def add(self, fd: int, mask: int, on_events: OnEvents) -> None:
        """Begin to watch."""
        self._epoll.register(fd, mask)
        self._callbacks[fd] = on_events
        if self._dispatching:
            self._fresh.add(fd)

    def change(self, fd: int, mask: int) -> None:
        """Watch for something else; with 0 for `BROKEN` only."""
        self._epoll.modify(fd, mask)

    def remove(self, fd: int) -> None:
        """Watch no more; harmless if it is not watched."""
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Watch nothing any more."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._callbacks.clear()
            self._epoll.close()

    def _dispatch(self) -> None:
        callbacks, fresh = self._callbacks, self._fresh
        self._dispatching = True
        try:
            for fd, events in self._epoll.poll(0, EVENTS_PER_TURN_MAX):
                on_events = callbacks.get(fd)
                if on_events is not None and fd not in fresh:
                    on_events(events)
        finally:
            self._dispatching = False
            fresh.clear()
