"""Somebody who makes exchanges, queues and bindings before anybody uses them."""

from __future__ import annotations

from collections.abc import Sequence

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.protocols.amqp.methods import Method
from kafkaesque.sim.exchanges.client import AmqpClient
from kafkaesque.sim.exchanges.history import ExchangeHistory
from kafkaesque.sim.exchanges.topology import DECLARATIONS


class Maker(AmqpClient):
    """Begins from the first one if a connection ends: what is there may be declared again."""

    def __init__(self, env: Env, bootstrap: Sequence[Address], history: ExchangeHistory) -> None:
        self._answered = 0
        super().__init__(env, bootstrap, history, "maker")

    @property
    def is_done(self) -> bool:
        """Whether all are there."""
        return self._answered == len(DECLARATIONS)

    def on_ready(self) -> None:
        """See `User`."""
        self.send(DECLARATIONS[0])

    def on_method(self, method: Method) -> None:
        """See `User`."""
        self._answered += 1
        if not self.is_done:
            self.send(DECLARATIONS[self._answered])
        elif self.link is not None:
            self.link.leave()

    def on_message(self, method: Method, properties: bytes, body: bytes) -> None:
        """See `User`."""
        self.history.note(f"bad answer: {method} to a declaration")

    def on_lost(self) -> None:
        """See `AmqpClient`."""
        if not self.is_done:
            self._answered = 0
