"""What all clients share: one connection after the other, each to some broker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.protocols.amqp.methods import Method
from kafkaesque.sim.clients.bursts import rest_ms
from kafkaesque.sim.exchanges.history import ExchangeHistory
from kafkaesque.sim.exchanges.link import AmqpLink

RETRY_MS: Final = 200


class AmqpClient(ABC):
    """See the module."""

    def __init__(
        self, env: Env, bootstrap: Sequence[Address], history: ExchangeHistory, name: str
    ) -> None:
        self.is_stopped = False
        self.env: Final = env
        self.history: Final = history
        self.name: Final = name
        #: Which of its connections this is.
        self.session = 0
        self._bootstrap: Final = bootstrap
        self.link: AmqpLink | None = None
        env.clock.call_soon(self.connect)

    def connect(self) -> None:
        """Go to some broker, unless nothing is to be done any more."""
        if self.link is not None or self.is_done:
            return
        self.session += 1
        address = self._bootstrap[self.env.dice.below(len(self._bootstrap))]
        self.link = AmqpLink(self.env, address, self, self.history.note)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to connect for."""
        return self.is_stopped

    def on_gone(self) -> None:
        """See `User`."""
        self.link = None
        self.on_lost()
        self.later(self.connect)

    def send(self, method: Method) -> None:
        """Send a method, if there is a connection."""
        if self.link is not None:
            self.link.send(method)

    def later(self, act: Callable[[], None], ms: int = RETRY_MS) -> None:
        """Do something after a pause; where clients rest, when they go on."""
        pause_ms = rest_ms(self.env) + ms // 2 + self.env.dice.below(ms)
        self.env.clock.call_later(pause_ms, act)

    @abstractmethod
    def on_ready(self) -> None:
        """See `User`."""

    @abstractmethod
    def on_method(self, method: Method) -> None:
        """See `User`."""

    @abstractmethod
    def on_message(self, method: Method, properties: bytes, body: bytes) -> None:
        """See `User`."""

    @abstractmethod
    def on_lost(self) -> None:
        """What this connection was asked has no answer any more."""
