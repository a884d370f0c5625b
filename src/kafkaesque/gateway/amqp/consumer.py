"""One consumer of a channel: what is consumed is sent as basic.deliver."""

from __future__ import annotations

from typing import Final, Protocol

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.amqp.incoming import Incoming, read_incoming
from kafkaesque.gateway.amqp.authorization import check_delivery
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.amqp.settling import Settling
from kafkaesque.gateway.queueing.consumer import Consumer
from kafkaesque.gateway.queueing.settlements import Delivery
from kafkaesque.model.message_headers import STORED_AMQP
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError


class Owner(Protocol):
    """Who has the consumer."""

    @property
    def credit(self) -> int:
        """How many more messages the channel may have."""

    def on_deleted(self, tag: str) -> None:
        """A consumer's queue is gone, or is another one's alone."""


class ChannelConsumer(Consumer):
    """See the module."""

    __slots__ = ("_channel", "_last", "_last_raw", "_owner", "_settling", "_writer", "tag")

    def __init__(
        self,
        owner: Owner,
        channel: ChannelPort,
        settling: Settling,
        queue: QueueState,
        method: m.BasicConsume,
        tag: str,
        *,
        prefetch: int,
        lock_ms: int,
        priority: int,
    ) -> None:
        super().__init__(
            channel.connection,
            settling,
            queue,
            prefetch=prefetch,
            lock_ms=lock_ms,
            is_settled_when_sent=method.no_ack,
            priority=priority,
            is_exclusive=method.exclusive,
        )
        self._owner = owner
        self._channel = channel
        self._settling = settling
        #: What the last message has said, and in which bytes.
        self._last: Incoming | None = None
        self._last_raw: bytes | None = None
        self.tag: Final = tag
        self._writer = channel.connection.codec.deliver_writer(channel.number, tag)

    @property
    def credit_of_client(self) -> int:
        """See `Consumer`."""
        return self._owner.credit

    @property
    def is_closed(self) -> bool:
        """See `Consumer`."""
        return self._channel.is_over

    def may_deliver(self) -> bool:
        """See `Consumer`."""
        try:
            check_delivery(self._channel, self.queue.queue.name)
        except AmqpError as error:
            self._channel.fail(error)
            return False
        return True

    def write(self, message: q.QueueMessage, delivery: Delivery, now_ms: int) -> bytes:
        """See `Consumer`."""
        incoming = self._incoming_of(message, now_ms)
        settling = self._settling
        if self.is_settled_when_sent:
            tag = settling.next_tag()
            settling.settle(delivery)
        else:
            tag = settling.add(delivery)
        return self._writer.write(
            tag,
            incoming.exchange,
            incoming.routing_key,
            incoming.properties,
            message.value or b"",
            redelivered=incoming.is_redelivered,
        )

    def _incoming_of(self, message: q.QueueMessage, now_ms: int) -> Incoming:
        """Read what a message says, unless the one before it has said just that."""
        headers = message.headers
        is_sole = len(headers) == 1 and headers[0][0] == STORED_AMQP
        # One with a key was not published by AMQP: what its header says may be unreadable, and then
        # the key counts.
        if message.attempt > 1 or not is_sole or message.key is not None:
            return read_incoming(message, self.queue, now_ms)
        raw = headers[0][1]
        if self._last is None or raw != self._last_raw:
            self._last, self._last_raw = read_incoming(message, self.queue, now_ms), raw
        return self._last

    def on_deleted(self) -> None:
        """See `Consumer`: the client is told, if it can be."""
        self._owner.on_deleted(self.tag)
