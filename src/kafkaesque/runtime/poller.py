"""Tells which sockets are ready: one epoll of our own, below the event loop's.

The event loop watches a single descriptor, this epoll's, however many connections there are. That
costs one more system call per turn, and gives what uvloop's `add_reader` does not: it stops
watching a socket silently once that is in error, even though received data still waits before the
error; here errors are events like any other. It takes less memory per connection, too.
"""

import asyncio
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kafkaesque.runtime.lingering import LINGER_NS, ROW_NS, Lingering, processor_count
from kafkaesque.runtime.turns import Turns

#: Sockets that are served in one turn of the loop.
EVENTS_PER_TURN_MAX: Final = 256
#: After so long a turn ends, and those that were not served are the first of the next one: timers,
#: disks and other brokers do not wait until every client's request has been dealt with.
TURN_NS_MAX: Final = 20_000_000

READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT
#: Reported whether it was asked for or not.
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP

OnEvents = Callable[[int], None]


class Poller:
    """Calls back with the events of each watched descriptor, for as long as they last."""

    __slots__ = (
        "_callbacks",
        "_dispatching",
        "_epoll",
        "_events",
        "_fresh",
        "_lingering",
        "_loop",
        "_turns",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns) -> None:
        self._loop: Final = loop
        self._turns: Final = turns
        self._epoll: Final = select.epoll()
        self._callbacks: Final[dict[int, OnEvents]] = {}
        #: Descriptors that were added while events are dealt out: an event at hand may be meant for
        #: a closed one with the same number.
        self._fresh: Final[set[int]] = set()
        self._dispatching = False
        #: What was reported and not dealt with yet.
        self._events: Final[deque[tuple[int, int]]] = deque()
        self._lingering: Final = Lingering(is_possible=processor_count() > 1)
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
        lingering = self._lingering
        begun_ns = time.monotonic_ns()
        lingering.on_events(begun_ns)
        while True:
            self._turn()
            now_ns = time.monotonic_ns()
            if not lingering.is_worth_it(now_ns) or self._events or self._turns.is_coming:
                return
            if now_ns - begun_ns > ROW_NS:
                # Then this again: it does not sleep meanwhile.
                self._loop.call_soon(self._dispatch)
                return
            if not self._linger(now_ns + LINGER_NS):
                return

    def _linger(self, end_ns: int) -> bool:
        """Wait for events without sleeping; tell whether some have come."""
        poll = self._epoll.poll
        while True:
            events = poll(0, EVENTS_PER_TURN_MAX)
            if events:
                self._events.extend(events)
                self._lingering.on_success()
                return True
            if time.monotonic_ns() >= end_ns:
                self._lingering.on_failure()
                return False

    def _turn(self) -> None:
        self._turns.begin()
        try:
            self._deal_out()
        except BaseException:
            self._turns.ask()
            raise
        self._turns.run()

    def _deal_out(self) -> None:
        callbacks, fresh, waiting = self._callbacks, self._fresh, self._events
        self._dispatching = True
        end_ns = time.monotonic_ns() + TURN_NS_MAX
        try:
            if not waiting:
                waiting.extend(self._epoll.poll(0, EVENTS_PER_TURN_MAX))
            while waiting:
                fd, events = waiting.popleft()
                on_events = callbacks.get(fd)
                if on_events is not None and fd not in fresh:
                    on_events(events)
                    if waiting and time.monotonic_ns() > end_ns:
                        break
        finally:
            self._dispatching = bool(waiting)
            if not waiting:
                fresh.clear()
