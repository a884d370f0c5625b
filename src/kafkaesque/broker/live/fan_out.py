"""Gives copies of messages to many receivers without holding up the loop.

Theory of operation. Messages are served one after the other, so that no receiver gets them in
another order than they came. Those that came together and have the same receivers are a run: each
receiver is called once for all of it. In one turn `COPIES_PER_TURN` copies are made; the others
wait for the next turns. A message that comes when nothing waits is served at once, within the call.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from kafkaesque.broker.live.subscribers import Copy
from kafkaesque.env.clock import Clock
from kafkaesque.routing.live_message import LiveMessage

#: At 8 µs for a copy to a connection of its own, 2 ms.
COPIES_PER_TURN: Final = 256
#: So many copies of a run take as long as one that comes alone.
RUN_COPIES_FOR_ONE: Final = 4
#: Copies that wait; from so many on, publishers should be read no further.
BUSY_COPIES: Final = 20_000
#: Copies that wait, and the bytes of their messages: further messages are dropped.
WAITING_COPIES_MAX: Final = 1_000_000
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024


class _Job:
    """Messages that have the same receivers, and those who have not got them yet."""

    __slots__ = ("copies", "left", "messages", "size")

    def __init__(self, messages: Sequence[LiveMessage], copies: list[Copy], size: int) -> None:
        self.messages = messages
        self.copies: Iterator[Copy] = iter(copies)
        #: Receivers.
        self.left = len(copies)
        self.size = size


class FanOut:
    """See the module."""

    __slots__ = (
        "_budget",
        "_bytes",
        "_clock",
        "_is_due",
        "_is_serving",
        "_jobs",
        "_waiting",
        "given",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: deque[_Job] = deque()
        self._waiting = 0
        self._bytes = 0
        #: Copies that may be made in this turn.
        self._budget = COPIES_PER_TURN
        self._is_due = False
        self._is_serving = False
        #: Copies that were given out since the start.
        self.given = 0

    @property
    def is_busy(self) -> bool:
        """Whether so many copies wait that publishers should be read no further."""
        return self._waiting >= BUSY_COPIES

    def add(self, messages: Sequence[LiveMessage], copies: list[Copy]) -> bool:
        """Have messages given out in their order to the same receivers.

        False: there is no room, and nobody gets any.
        """
        if not copies:
            return True
        if not self._jobs and not self._is_serving and len(copies) * len(messages) <= self._budget:
            # Most messages go to few.
            self._is_serving = True
            try:
                self._give(messages, iter(copies))
            finally:
                self._is_serving = False
            if self._jobs:
                # Receivers have published meanwhile.
                self._serve()
            self._see_to_next_turn()
            return True
        size = sum(each.size for each in messages)
        count = len(copies) * len(messages)
        is_full = (
            self._waiting + count > WAITING_COPIES_MAX or self._bytes + size > WAITING_BYTES_MAX
        )
        if is_full and self._jobs:
            return False
        self._jobs.append(_Job(messages, copies, size))
        self._waiting += count
        self._bytes += size
        if len(self._jobs) == 1 and not self._is_serving:
            self._serve()
        self._see_to_next_turn()
        return True

    def _see_to_next_turn(self) -> None:
        if not self._is_due and self._budget < COPIES_PER_TURN:
            self._is_due = True
            self._clock.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._is_due = False
        self._budget = COPIES_PER_TURN
        self._serve()
        self._see_to_next_turn()

    def _serve(self) -> None:
        """Give out as many copies as this turn has room for."""
        self._is_serving = True
        while self._jobs and self._budget > 0:
            job = self._jobs[0]
            passed = self._give(job.messages, job.copies)
            job.left -= passed
            self._waiting -= passed * len(job.messages)
            if not job.left:
                self._jobs.popleft()
                self._bytes -= job.size
        self._is_serving = False

    def _give(self, messages: Sequence[LiveMessage], copies: Iterator[Copy]) -> int:
        """Give messages to their next receivers; return how many receivers less are left."""
        count, only = len(messages), messages[0]
        room, given, passed = self._budget, 0, 0
        cost = 1 if count == 1 else 1 + count // RUN_COPIES_FOR_ONE
        for receiver, subscriptions in copies:
            passed += 1
            if len(subscriptions) == 1:
                live = () if subscriptions[0].is_over else subscriptions
            else:
                live = [each for each in subscriptions if not each.is_over]
            if live:
                given += 1
                if count == 1:
                    receiver.on_message(only, live)
                else:
                    receiver.on_run(messages, live)
                if given * cost >= room:
                    break
        self._budget -= given * cost
        self.given += given * count
        return passed
