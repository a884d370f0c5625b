"""One answer for many parts: a request whose pieces finish at different times."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kafkaesque.env.clock import Clock
from kafkaesque.gateway.kafka.turns import Turn

T = TypeVar("T")

#: Pieces of one request that are under way at the same time; the others wait their turn.
UNDER_WAY_MAX = 64


class Gathering:
    """Counts pieces that are under way and calls once, when the last of them is done.

    It begins with one piece of its own, so that pieces which finish at once do not end it before
    all were begun: `done` is called once more after the last `begin`.
    """

    __slots__ = ("_left", "_on_all_done")

    def __init__(self, on_all_done: Callable[[], None]) -> None:
        self._left = 1
        self._on_all_done = on_all_done

    def begin(self) -> None:
        """One more piece is under way."""
        self._left += 1

    def done(self) -> None:
        """A piece has finished."""
        self._left -= 1
        if self._left == 0:
            self._on_all_done()


class Queue:
    """Runs a bounded number of pieces at a time, each reporting by the callback it was given.

    Pieces that take long together, though they finish at once, are spread over turns of the loop.
    """

    __slots__ = ("_clock", "_gathering", "_is_running", "_pieces", "_room")

    def __init__(
        self,
        clock: Clock,
        pieces: Sequence[Callable[[Callable[[], None]], None]],
        on_all_done: Callable[[], None],
        under_way_max: int = UNDER_WAY_MAX,
    ) -> None:
        self._clock = clock
        self._gathering = Gathering(on_all_done)
        self._pieces = list(reversed(pieces))
        self._room = under_way_max
        self._is_running = False

    def start(self) -> None:
        """Begin the first pieces; the callback may come at once if all of them finish at once."""
        for _ in self._pieces:
            self._gathering.begin()
        self._run()
        self._gathering.done()

    def _run(self) -> None:
        # Not by recursion: pieces that finish at once would nest as deep as there are pieces.
        if self._is_running:
            return
        self._is_running = True
        turn = Turn(self._clock)
        while self._pieces and self._room:
            self._room -= 1
            self._pieces.pop()(self._on_done)
            if self._pieces and turn.is_over():
                self._clock.call_soon(self._go_on)
                return
        self._is_running = False

    def _go_on(self) -> None:
        self._is_running = False
        self._run()

    def _on_done(self) -> None:
        self._room += 1
        self._run()
        self._gathering.done()
