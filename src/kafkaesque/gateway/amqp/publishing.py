"""Publishes of one channel: to their queues, and their returns and confirms.

Theory of operation. The door to exchanges keeps the order of messages that go to one queue. A
message is confirmed when all its queues have committed it. One that a queue has no room for, or of
which nobody knows what has become, is refused (basic.nack); some of its queues may have it. One
without a queue is confirmed at once, behind its return. Before a message is said to have no queue
or no exchange, this broker finds out whether it has heard of all that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.broker.doors.exchanges import Publication
from kafkaesque.broker.metadata.client_quotas import PRODUCER_BYTE_RATE
from kafkaesque.chassis.meanings import shown_headers
from kafkaesque.gateway.amqp.authorization import check_publish
from kafkaesque.gateway.amqp.outgoing import Outgoing, read_outgoing
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.amqp.replies import Replies
from kafkaesque.gateway.queueing.desk import CURRENT_MS_MAX
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.content_path import write_ack
from kafkaesque.protocols.amqp.errors import ReplyCode
from kafkaesque.protocols.amqp.events import Published
from kafkaesque.routing.exchanges.errors import NoSuchExchange
from kafkaesque.routing.message import RoutedMessage

PUT_TIMEOUT_MS: Final = 30_000


class Publishing:
    """See the module."""

    __slots__ = (
        "_confirmed",
        "_idle",
        "_is_flush_due",
        "_next_sequence",
        "_replies",
        "_under_way",
        "channel",
        "is_confirming",
        "known_until",
    )

    def __init__(self, channel: ChannelPort, replies: Replies) -> None:
        self.channel: Final = channel
        self._replies: Final = replies
        self.is_confirming = False
        self._next_sequence = 1
        #: By sequence number, rising: None: on its way; else whether it is in all its queues.
        self._confirmed: Final[dict[int, bool | None]] = {}
        self._is_flush_due = False
        #: Messages that are on their way, and who waits for there to be none.
        self._under_way = 0
        self._idle: list[Callable[[], None]] = []
        #: The last event of the channel at whose coming this broker knew of all that there was.
        self.known_until = 0

    def select(self, method: m.ConfirmSelect) -> None:
        """Confirm what is published from now on."""
        self.is_confirming = True
        if not method.nowait:
            self.channel.send(m.ConfirmSelectOk())

    # -- one message

    def publish(self, event: Published, on_done: Callable[[bool], None] | None) -> None:
        """Publish a message; `on_done` tells whether all its queues have it.

        Raises:
            AmqpError: the exchange does not exist, or a property is not what it has to be.
        """
        channel = self.channel
        connection = channel.connection
        outgoing = read_outgoing(event, connection.user, connection.shared.clock.wall_ms())
        outgoing = self._replies.name_reply(outgoing)
        check_publish(channel, event.exchange, outgoing.keys)
        exchanges = connection.desk.doors.exchanges
        routed = outgoing.routed(event)
        try:
            route = exchanges.route(connection.vhost, event.exchange, routed)
        except NoSuchExchange:
            if channel.carried > self.known_until:
                self.find_out(lambda: self.publish(event, on_done))
                return
            raise
        if route.is_unroutable and channel.carried > self.known_until:
            self.find_out(lambda: self.publish(event, on_done))
            return
        connection.charge(PRODUCER_BYTE_RATE, len(event.body))
        if route.is_unroutable:
            if event.mandatory:
                self._return(event)
            self._note(self._number(), on_done, is_in=True)
            return
        self._send(event, outgoing, routed, on_done, has_topics=bool(route.topics))

    def find_out(self, then: Callable[[], None]) -> None:
        """Go on once this broker has heard of all that there was when the last event came."""
        channel = self.channel
        channel.begin()
        until = channel.arrived

        def on_current(_: bool) -> None:
            self.known_until = max(self.known_until, until)
            channel.go_on_with(then)

        channel.connection.desk.doors.cluster.when_current(CURRENT_MS_MAX, on_current)

    def _send(
        self,
        event: Published,
        outgoing: Outgoing,
        routed: RoutedMessage,
        on_done: Callable[[bool], None] | None,
        *,
        has_topics: bool,
    ) -> None:
        connection = self.channel.connection
        sequence, size = self._number(), len(event.body)
        message = outgoing.message(event)
        headers = shown_headers(message.headers) if has_topics else None
        publication = Publication(routed, message, headers)
        self._under_way += 1
        connection.add_waiting(1, size)

        def on_published(outcomes: Sequence[int | RequestRefused]) -> None:
            self._under_way -= 1
            connection.add_waiting(-1, -size)
            self._note(sequence, on_done, is_in=not isinstance(outcomes[0], RequestRefused))
            if not self._under_way:
                waiting, self._idle = self._idle, []
                for each in waiting:
                    each()

        connection.desk.doors.exchanges.publish(
            connection.vhost, event.exchange, [publication], PUT_TIMEOUT_MS, on_published
        )

    def when_idle(self, on_done: Callable[[], None]) -> None:
        """Call when nothing is on its way."""
        if self._under_way:
            self._idle.append(on_done)
        else:
            on_done()

    # -- returns and confirms

    def _return(self, event: Published) -> None:
        channel = self.channel
        codec = channel.connection.codec
        if channel.is_over or not codec.can_deliver(channel.number):
            return
        method = m.BasicReturn(
            reply_code=ReplyCode.NO_ROUTE,
            reply_text="NO_ROUTE",
            exchange=event.exchange,
            routing_key=event.routing_key,
        )
        channel.connection.write(
            codec.send_content(channel.number, method, event.properties, event.body)
        )

    def _number(self) -> int:
        """Return the number of a publish; 0: nobody wants to know."""
        if not self.is_confirming:
            return 0
        sequence = self._next_sequence
        self._next_sequence += 1
        self._confirmed[sequence] = None
        return sequence

    def _note(self, sequence: int, on_done: Callable[[bool], None] | None, *, is_in: bool) -> None:
        if on_done is not None:
            on_done(is_in)
        if not sequence:
            return
        self._confirmed[sequence] = is_in
        if not self._is_flush_due:
            # More of the same turn may follow.
            self._is_flush_due = True
            self.channel.connection.shared.clock.call_soon(self._confirm)

    def _confirm(self) -> None:
        """Confirm what is done: as many as possible at once, from the first on."""
        self._is_flush_due = False
        first: list[int] = []
        others: list[int] = []
        is_contiguous = True
        for sequence, is_in in self._confirmed.items():
            if is_in is None:
                is_contiguous = False
            elif is_in and is_contiguous:
                first.append(sequence)
            else:
                others.append(sequence)
        channel = self.channel
        number, frames = channel.number, []
        for sequence in others:
            if self._confirmed[sequence]:
                frames.append(write_ack(number, sequence))
            elif not channel.is_over and channel.connection.codec.can_deliver(number):
                nack = m.BasicNack(delivery_tag=sequence, requeue=False)
                frames.append(channel.connection.codec.send(number, nack))
        if first:
            frames.insert(0, write_ack(number, first[-1], multiple=len(first) > 1))
        for sequence in (*first, *others):
            del self._confirmed[sequence]
        if not channel.is_over and channel.connection.codec.can_deliver(number):
            channel.connection.write(b"".join(frames))
