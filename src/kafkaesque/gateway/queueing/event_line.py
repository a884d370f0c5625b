"""Carries out what has come, in order.

Theory of operation. Events wait in a line. Most are done at once; one that has to ask somebody
(`begin`) lets those behind it wait until it has its answer (`done`, `go_on_with`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from kafkaesque.gateway.queueing.link import QueueingLink
from kafkaesque.model.errors import ConfigError, KafkaesqueError, RequestRefused
from kafkaesque.protocols.amqp.errors import AmqpError

EventT = TypeVar("EventT")
#: What is raised by what a client asks for.
MISTAKES: Final = (AmqpError, RequestRefused, ConfigError)


class EventLine(Generic[EventT]):
    """Of one connection, or of one channel."""

    __slots__ = (
        "_carry_out",
        "_is_busy",
        "_is_running",
        "_link",
        "_on_mistake",
        "_on_turn",
        "_waiting",
        "arrived",
        "carried",
        "mistakes",
    )

    def __init__(
        self,
        link: QueueingLink,
        carry_out: Callable[[EventT], None],
        on_mistake: Callable[[Exception], None],
        on_turn: Callable[[], None],
        *mistakes: type[KafkaesqueError],
    ) -> None:
        """`on_mistake` gets what carrying out raises of `MISTAKES` and of `mistakes`.

        `on_turn` is called when nothing more can be carried out at the moment.
        """
        self._link: Final = link
        self._carry_out: Final = carry_out
        self._on_mistake: Final = on_mistake
        self._on_turn: Final = on_turn
        self.mistakes: Final[tuple[type[Exception], ...]] = (*MISTAKES, *mistakes)
        self._waiting: Final[deque[tuple[EventT, int]]] = deque()
        self._is_busy = False
        self._is_running = False
        #: Events that have come, and that were begun.
        self.arrived = self.carried = 0

    @property
    def is_free(self) -> bool:
        """Whether nothing is before what comes now."""
        return not (self._waiting or self._is_busy or self._is_running)

    def following(self) -> Iterator[EventT]:
        """Return what waits, in order, while something before it waits for an answer."""
        return (event for event, _ in self._waiting)

    def push(self, event: EventT, size: int = 0) -> None:
        """Carry out an event after those before it; its message has `size` bytes."""
        self.arrived += 1
        if not self.is_free:
            self._waiting.append((event, size))
            self._link.add_waiting(1, size)
            return
        # Nearly always nothing is before it: it does not go through the line.
        self._is_running = True
        self._begin(event)
        self._is_running = False
        self._run()

    def _begin(self, event: EventT) -> None:
        self.carried += 1
        try:
            self._carry_out(event)
        except self.mistakes as mistake:
            self._on_mistake(mistake)

    def begin(self) -> None:
        """What is carried out has to wait for an answer."""
        self._is_busy = True

    def done(self) -> None:
        """It has its answer."""
        self._is_busy = False
        self._run()

    def go_on_with(
        self, act: Callable[[], None], on_mistake: Callable[[Exception], None] | None = None
    ) -> None:
        """Go on with what had to wait, which may have to wait again; then with what is behind it.

        What is raised then is the client's mistake, too.
        """
        self._is_busy = False
        try:
            act()
        except self.mistakes as mistake:
            (on_mistake or self._on_mistake)(mistake)
        self._run()

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        while self._waiting and not self._is_busy:
            event, size = self._waiting.popleft()
            self._link.add_waiting(-1, -size)
            self._begin(event)
        self._is_running = False
        self._on_turn()
