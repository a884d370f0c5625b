"""Connections that wait: for a broker that is overloaded, or for their turn."""

from collections import deque
from typing import Final, Protocol

from kafkaesque.env.clock import Clock

#: How often an overloaded broker is looked at.
RELIEF_MS: Final = 5
#: A connection that has kept the loop for so long gives way to others.
TURN_MS_MAX: Final = 10


class Load(Protocol):
    """How much a broker has to do."""

    @property
    def is_overloaded(self) -> bool:
        """Whether so much waits to be synced that nothing more should be taken from clients."""


class Unrelieved(Protocol):
    """Who waits for relief."""

    def go_on(self) -> None:
        """The broker can take more again."""


class TakesTurns(Protocol):
    """Who waits for its turn."""

    def release(self) -> None:
        """It is its turn."""


class Relief:
    """One timer for all connections that wait until the broker can take more."""

    __slots__ = ("_clock", "_load", "_waiting")

    def __init__(self, clock: Clock, load: Load) -> None:
        self._clock: Final = clock
        self._load: Final = load
        self._waiting: dict[int, Unrelieved] = {}

    def wait(self, connection: Unrelieved) -> None:
        """Call the connection when the broker can take more; once, however often it asks."""
        if not self._waiting:
            self._clock.call_later(RELIEF_MS, self._look)
        self._waiting[id(connection)] = connection

    def _look(self) -> None:
        if self._load.is_overloaded:
            self._clock.call_later(RELIEF_MS, self._look)
            return
        waiting, self._waiting = self._waiting, {}
        for connection in waiting.values():
            connection.go_on()


class Turns:
    """Connections that have kept the loop for long: one of them goes on in each turn of it."""

    __slots__ = ("_clock", "_is_called", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._waiting: Final[deque[TakesTurns]] = deque()
        #: Whether the next one's turn is asked for.
        self._is_called = False

    def wait(self, connection: TakesTurns) -> None:
        """Release the connection in a later turn, after those that have asked before."""
        self._waiting.append(connection)
        self._call()

    def _on_turn(self) -> None:
        self._is_called = False
        # It may ask for another turn at once.
        self._waiting.popleft().release()
        self._call()

    def _call(self) -> None:
        if self._waiting and not self._is_called:
            self._is_called = True
            self._clock.call_soon(self._on_turn)
