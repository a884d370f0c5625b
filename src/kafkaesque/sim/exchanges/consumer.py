"""Somebody who consumes a queue: acknowledges, gives back, hangs up with what it has.

Acknowledgements are part of transactions, whose commit is answered: only then does a client know
that a message will not come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.methods import Method
from kafkaesque.sim.exchanges.client import AmqpClient
from kafkaesque.sim.exchanges.history import ExchangeHistory, Given

PAUSE_MS: Final = 80
PREFETCHES: Final = (1, 3, 20)
#: One turn in so many ends the connection, and one message in so many is given back, or kept.
LEAVES_ONE_IN: Final = 25
RETURNS_ONE_IN: Final = 10
KEEPS_ONE_IN: Final = 8


class ExchangeConsumer(AmqpClient):
    """See the module."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        history: ExchangeHistory,
        name: str,
        queue: str,
    ) -> None:
        self._queue: Final = queue
        #: By delivery tag: what was not acknowledged. Then what the next commit acknowledges.
        self._held: dict[int, Given] = {}
        self._committing: list[Given] = []
        self._is_committing = False
        #: Whether it is the end: all is taken and acknowledged.
        self.is_draining = False
        super().__init__(env, bootstrap, history, name)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing."""
        return not self._held and not self._is_committing

    def on_ready(self) -> None:
        """See `User`."""
        self.send(m.TxSelect())
        self.send(m.BasicQos(prefetch_count=PREFETCHES[self.env.dice.below(len(PREFETCHES))]))
        self.send(m.BasicConsume(queue=self._queue))

    def on_method(self, method: Method) -> None:
        """See `User`."""
        match method:
            case m.BasicConsumeOk():
                self._next(self.session)
            case m.TxCommitOk():
                at = self.history.now()
                for given in self._committing:
                    given.settled_at = at
                self._committing, self._is_committing = [], False
            case m.TxSelectOk() | m.BasicQosOk():
                pass
            case m.BasicCancel() if self.link is not None:
                self.link.hang_up()
            case _:
                self.history.note(f"bad answer: {method} to a consumer")

    def on_message(self, method: Method, properties: bytes, body: bytes) -> None:
        """See `User`."""
        if not isinstance(method, m.BasicDeliver):
            self.history.note(f"bad answer: {method} to a consumer")
            return
        given = Given(
            queue=self._queue,
            session=f"{self.name}/{self.session}",
            body=body,
            exchange=method.exchange,
            key=method.routing_key,
            is_redelivered=method.redelivered,
            at=self.history.now(),
        )
        self.history.note_given(given)
        self._held[method.delivery_tag] = given

    def on_lost(self) -> None:
        """See `AmqpClient`."""
        self._held.clear()
        self._committing, self._is_committing = [], False

    def _next(self, session: int) -> None:
        """Say something of what it has, and go on after a pause."""
        link, dice = self.link, self.env.dice
        if link is None or session != self.session or self.is_stopped:
            return
        if not self._is_committing and self._held:
            self._settle()
        if not self.is_draining and dice.below(LEAVES_ONE_IN) == 0:
            link.leave() if dice.below(2) else link.hang_up()
            return
        self.later(lambda: self._next(session), PAUSE_MS)

    def _settle(self) -> None:
        dice = self.env.dice
        for tag, given in list(self._held.items()):
            if not self.is_draining and dice.below(KEEPS_ONE_IN) == 0:
                continue
            del self._held[tag]
            if not self.is_draining and dice.below(RETURNS_ONE_IN) == 0:
                self.send(m.BasicNack(delivery_tag=tag, requeue=True))
            else:
                self.send(m.BasicAck(delivery_tag=tag))
                self._committing.append(given)
        self._is_committing = True
        self.send(m.TxCommit())
