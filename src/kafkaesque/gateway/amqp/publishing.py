"""Publishes of one channel: to their queues, and their returns and confirms.

Theory of operation. The door to exchanges keeps the order of messages that go to one queue. A
message is confirmed when all its queues have committed it. One that a queue has no room for, or of
which nobody knows what has become, is refused (basic.nack); some of its queues may have it. One
without a queue is confirmed at once, behind its return. Before a message is said to have no queue
or no exchange, this broker finds out whether it has heard of all that there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.chassis.amqp.outgoing import Outgoing, is_plain, read_outgoing
from kafkaesque.gateway.amqp.authorization import check_publish
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.amqp.replies import Replies
from kafkaesque.gateway.queueing.publisher import Line, OnOutcome, OnRunOutcome, Publisher
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.content_path import write_ack
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.events import Published, PublishedRun


class Publishing:
    """See the module."""

    __slots__ = (
        "_confirmed",
        "_is_flush_due",
        "_next_sequence",
        "_publisher",
        "_replies",
        "channel",
        "is_confirming",
    )

    def __init__(self, channel: ChannelPort, line: Line, replies: Replies) -> None:
        self.channel: Final = channel
        self._publisher: Final = Publisher(channel.connection, line)
        self._replies: Final = replies
        self.is_confirming = False
        self._next_sequence = 1
        #: By sequence number, rising: None: on its way; else whether it is in all its queues.
        self._confirmed: Final[dict[int, bool | None]] = {}
        self._is_flush_due = False

    @property
    def unconfirmed(self) -> int:
        """How many publishes wait for their confirm."""
        return len(self._confirmed)

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
        try:
            outgoing = read_outgoing(event, connection.user, connection.shared.clock.wall_ms())
        except AmqpError as mistake:
            self._publisher.refuse(event, mistake)
            return
        # What is returned tells nobody of blind copies.
        returned = outgoing.raw
        outgoing = self._replies.name_reply(outgoing)
        check_publish(channel, event.exchange, outgoing.keys)

        def on_routed(is_routable: bool) -> OnOutcome:
            if not is_routable and event.mandatory:
                self._return(event, returned)
            sequence = self._number()
            return lambda refusal: self._note(sequence, on_done, is_in=refusal is None)

        self._publisher.publish(event, outgoing, on_routed)

    def publish_run(self, run: PublishedRun) -> bool:
        """Publish messages that differ in their bodies alone; False: they go one by one.

        Then nothing is done. That is so wherever anything has to be said of one of them.

        Raises:
            AmqpError: the client may not publish there.
        """
        if not is_plain(run.properties):
            return False
        check_publish(self.channel, run.exchange, (run.routing_key,))
        outgoing = Outgoing(run.properties, (run.routing_key,))
        return self._publisher.publish_run(
            run.exchange, outgoing, run.bodies, lambda: self._number_all(len(run.bodies))
        )

    def _number_all(self, count: int) -> OnRunOutcome:
        if not self.is_confirming:
            return _not_told
        first = self._next_sequence
        self._next_sequence = end = first + count
        self._confirmed.update(dict.fromkeys(range(first, end)))

        def on_outcome(refused: dict[int, RequestRefused]) -> None:
            self._confirmed.update(dict.fromkeys(range(first, end), True))
            for number in refused:
                self._confirmed[first + number] = False
            self._confirm_soon()

        return on_outcome

    def check(self, event: Published) -> None:
        """Check a message that is published later.

        Raises:
            AmqpError, RequestRefused: as `publish`, where that can be known already.
        """
        connection = self.channel.connection
        mistake: AmqpError | None = None
        try:
            read_outgoing(event, connection.user, connection.shared.clock.wall_ms())
        except AmqpError as error:
            mistake = error
        self._publisher.refuse(event, mistake)

    def find_out(self, then: Callable[[], None]) -> None:
        """Go on once this broker has heard of all that there was when the last event came."""
        self._publisher.find_out(then)

    def when_idle(self, on_done: Callable[[], None]) -> None:
        """Call when nothing is on its way."""
        self._publisher.when_idle(on_done)

    # -- returns and confirms

    def _return(self, event: Published, properties: bytes) -> None:
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
        channel.connection.write(codec.send_content(channel.number, method, properties, event.body))

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
        self._confirm_soon()

    def _confirm_soon(self) -> None:
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
            # What follows one that is refused, or on its way, is not confirmed with those before.
            is_contiguous = is_contiguous and is_in is True
            if is_contiguous:
                first.append(sequence)
            elif is_in is not None:
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


def _not_told(_: dict[int, RequestRefused]) -> None:
    """The client has not asked for confirms."""
