"""Somebody who publishes to exchanges with confirms, and sends no message twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.methods import Method
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from kafkaesque.sim.exchanges.client import AmqpClient
from kafkaesque.sim.exchanges.history import ExchangeHistory, Outcome, Sent
from kafkaesque.sim.exchanges.topology import WAYS

PAUSE_MS: Final = 120
#: Messages that are sent without waiting, at most.
BATCH_MAX: Final = 5
#: Unconfirmed messages of one channel, at most: then it waits.
UNCONFIRMED_MAX: Final = 12
LEAVES_ONE_IN: Final = 40
LONG_ONE_IN: Final = 30
LONG_BYTES: Final = 3_000


class ExchangePublisher(AmqpClient):
    """See the module."""

    def __init__(
        self, env: Env, bootstrap: Sequence[Address], history: ExchangeHistory, name: str
    ) -> None:
        #: Bodies by their number on this channel.
        self._unconfirmed: dict[int, bytes] = {}
        self._number = 0
        super().__init__(env, bootstrap, history, name)

    @property
    def is_idle(self) -> bool:
        """Whether all is known that somebody could tell."""
        return not self._unconfirmed

    def on_ready(self) -> None:
        """See `User`."""
        self._number = 0
        self.send(m.ConfirmSelect())

    def on_method(self, method: Method) -> None:
        """See `User`."""
        match method:
            case m.ConfirmSelectOk():
                self._next(self.session)
            case m.BasicAck():
                self._answered(method.delivery_tag, method.multiple, Outcome.CONFIRMED)
            case m.BasicNack():
                self._answered(method.delivery_tag, method.multiple, Outcome.REFUSED)
            case _:
                self.history.note(f"bad answer: {method} to a publisher")

    def on_message(self, method: Method, properties: bytes, body: bytes) -> None:
        """See `User`."""
        if isinstance(method, m.BasicReturn):
            self.history.note_returned(body)
        else:
            self.history.note(f"bad answer: {method} to a publisher")

    def on_lost(self) -> None:
        """See `AmqpClient`: nobody will say what has become of these."""
        self._unconfirmed.clear()

    def _answered(self, tag: int, multiple: bool, outcome: Outcome) -> None:
        numbers = [each for each in self._unconfirmed if each <= tag] if multiple else [tag]
        for number in numbers:
            body = self._unconfirmed.pop(number, None)
            if body is None:
                self.history.note(f"bad answer: {outcome.name} for {number}, which is answered")
            else:
                self.history.note_outcome(body, outcome)

    def _next(self, session: int) -> None:
        """Publish some messages, and go on after a pause, as long as this connection is there."""
        link, dice = self.link, self.env.dice
        if self.is_stopped or link is None or session != self.session:
            return
        if len(self._unconfirmed) < UNCONFIRMED_MAX:
            for _ in range(1 + dice.below(BATCH_MAX)):
                self._publish()
        if dice.below(LEAVES_ONE_IN) == 0:
            link.leave() if dice.below(2) else link.hang_up()
            return
        self.later(lambda: self._next(session), PAUSE_MS)

    def _publish(self) -> None:
        link, dice = self.link, self.env.dice
        if link is None:
            return
        self._number += 1
        session = f"{self.name}/{self.session}"
        body = f"{session}/{self._number}/".encode()
        if dice.below(LONG_ONE_IN) == 0:
            body += b"x" * LONG_BYTES
        way = WAYS[dice.below(len(WAYS))]
        sent = Sent(session=session, number=self._number, way=way, is_mandatory=dice.below(2) == 0)
        self._unconfirmed[self._number] = body
        self.history.note_sent(body, sent)
        properties = Properties(
            delivery_mode=2, headers={"colour": way.colour} if way.colour else None
        )
        method = m.BasicPublish(
            exchange=way.exchange, routing_key=way.key, mandatory=sent.is_mandatory
        )
        link.publish(method, write_properties(properties), body)
