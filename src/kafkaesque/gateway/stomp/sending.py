"""SEND: finds out where a message goes, and brings it there; and transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kafkaesque.access.operations import Operation
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.chassis.amqp.outgoing import Outgoing, read_outgoing
from kafkaesque.gateway.queueing.own_queues import REPLY_PREFIX
from kafkaesque.gateway.queueing.publisher import OnOutcome, OnRunOutcome, Publisher
from kafkaesque.gateway.stomp.destinations import Destination, Kind, read_destination
from kafkaesque.gateway.stomp.messages import REPLY_TO, name_of_reply, read_sent
from kafkaesque.gateway.stomp.ports import StompLink, to_exchange, to_queue
from kafkaesque.gateway.stomp.queues import Queues
from kafkaesque.gateway.stomp.subscribing import Subscribing
from kafkaesque.protocols.amqp.events import Published
from kafkaesque.protocols.stomp.events import Sent, SentRun


class Ready(NamedTuple):
    """A message that can be published."""

    event: Published
    outgoing: Outgoing
    #: What the client has to be allowed to write to; a queue by the name that it has.
    destination: Destination


class Sending:
    """One connection's."""

    __slots__ = ("_link", "_publisher", "_queues", "_subscribing")

    def __init__(
        self, link: StompLink, publisher: Publisher, queues: Queues, subscribing: Subscribing
    ) -> None:
        self._link: Final = link
        self._subscribing: Final = subscribing
        self._publisher: Final = publisher
        self._queues: Final = queues

    def prepare(self, event: Sent, then: Callable[[Ready], None]) -> None:
        """Go on with a message whose queues exist, now or later.

        Raises:
            StompError: the destination or a header is wrong, or no rule allows it.
        """
        destination = read_destination(event.destination)
        self._check(destination)
        if destination.kind is Kind.EXCHANGE:
            self._answer_to(event, destination, then)
            return

        def on_found(queue: QueueState) -> None:
            named = Destination(destination.kind, queue.queue.name)
            self._answer_to(event, named, then)

        self._queues.find(destination, event.headers, on_found)

    def publish_run(self, run: SentRun, on_sent: Callable[[], OnRunOutcome]) -> bool:
        """Publish messages that say the same; `on_sent` says who hears of what becomes of them.

        False: nothing is done, and they are to be sent one by one. That is so wherever a queue has
        to be found or made first, and wherever anything is to be said of one of them.

        Raises:
            StompError, AmqpError: what is wrong with each of them; nothing is done.
        """
        event = run.first
        destination = read_destination(event.destination)
        self._check(destination)
        if destination.kind is Kind.TEMPORARY or any(name == REPLY_TO for name, _ in event.headers):
            return False
        if destination.is_queue and not self._queues.exists(destination):
            return False
        published, outgoing, _ = self._read(event, destination, None)
        return self._publisher.publish_run(published.exchange, outgoing, run.bodies, on_sent)

    def _check(self, destination: Destination) -> None:
        link, name = self._link, destination.name
        if destination.kind is Kind.EXCHANGE:
            link.check(to_exchange(Operation.WRITE, destination.exchange))
            link.check_key(Operation.WRITE, destination.exchange, name)
        elif destination.is_queue and not name.startswith(REPLY_PREFIX):
            link.check(to_queue(Operation.WRITE, name))

    def check(self, ready: Ready) -> None:
        """Check that a message may still be sent, which has waited for its transaction's commit.

        Raises:
            StompError: no rule allows it any more.
        """
        self._check(ready.destination)

    def _answer_to(
        self, event: Sent, destination: Destination, then: Callable[[Ready], None]
    ) -> None:
        """Name the queue to which the answer goes, if the message says one."""
        text = next((value for name, value in event.headers if name == REPLY_TO), None)
        if text is None or not text.startswith("/"):
            then(self._read(event, destination, None))
            return
        wanted = read_destination(text)
        if wanted.kind is not Kind.TEMPORARY:
            then(self._read(event, destination, name_of_reply(text, wanted)))
            return

        def on_found(queue: QueueState) -> None:
            name = queue.queue.name
            self._subscribing.subscribe_to_answers(
                text, queue, lambda: then(self._read(event, destination, name))
            )

        self._queues.find(wanted, (), on_found)

    def _read(self, event: Sent, destination: Destination, reply_to: str | None) -> Ready:
        now_ms = self._link.shared.clock.wall_ms()
        published = read_sent(event, destination, reply_to, now_ms)
        outgoing = read_outgoing(published, self._link.user, now_ms)
        return Ready(published, outgoing, destination)

    def publish(self, ready: Ready, on_outcome: OnOutcome) -> None:
        """Publish a message.

        Raises:
            RequestRefused: the exchange does not exist, or takes no messages.
        """
        self._publisher.publish(ready.event, ready.outgoing, lambda _: on_outcome)
