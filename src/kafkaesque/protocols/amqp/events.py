"""What a connection tells of what has come."""

from __future__ import annotations

import msgspec

from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.methods import Method


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events."""


class HeaderAccepted(Event, frozen=True, kw_only=True):
    """The peer speaks AMQP 0-9-1: send start."""


class HeaderRefused(Event, frozen=True, kw_only=True):
    """The peer speaks something else: send it the header that we know, and close."""

    answer: bytes


class MethodReceived(Event, frozen=True, kw_only=True):
    """A method that stands alone, and is allowed where it came."""

    channel: int
    method: Method


class Published(Event, frozen=True, kw_only=True):
    """A message has come as a whole; its properties are raw, and well formed."""

    channel: int
    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    body: bytes


class PublishedRun(Event, frozen=True, kw_only=True):
    """Messages that have come together as wholes, and differ in their bodies alone."""

    channel: int
    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    bodies: list[bytes]

    def singles(self) -> list[Published]:
        """Return the same, one by one."""
        return [
            Published(
                channel=self.channel,
                exchange=self.exchange,
                routing_key=self.routing_key,
                mandatory=self.mandatory,
                properties=self.properties,
                body=body,
            )
            for body in self.bodies
        ]


class Acknowledged(Event, frozen=True, kw_only=True):
    """A basic.ack."""

    channel: int
    delivery_tag: int
    multiple: bool


class AcknowledgedRun(Event, frozen=True, kw_only=True):
    """Each message from the first tag to the last one was acknowledged by itself."""

    channel: int
    first: int
    last: int

    def singles(self) -> list[Acknowledged]:
        """Return the same, one by one."""
        return [
            Acknowledged(channel=self.channel, delivery_tag=tag, multiple=False)
            for tag in range(self.first, self.last + 1)
        ]


class HeartbeatReceived(Event, frozen=True, kw_only=True):
    """The peer lives."""


class ChannelFailed(Event, frozen=True, kw_only=True):
    """The peer was wrong about a channel: send channel.close; what comes until then is dropped."""

    channel: int
    error: AmqpError


class ConnectionFailed(Event, frozen=True, kw_only=True):
    """The peer was wrong about the connection: send connection.close; nothing else is read."""

    error: AmqpError
