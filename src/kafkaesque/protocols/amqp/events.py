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


class Acknowledged(Event, frozen=True, kw_only=True):
    """A basic.ack."""

    channel: int
    delivery_tag: int
    multiple: bool


class HeartbeatReceived(Event, frozen=True, kw_only=True):
    """The peer lives."""


class ChannelFailed(Event, frozen=True, kw_only=True):
    """The peer was wrong about a channel: send channel.close; what comes until then is dropped."""

    channel: int
    error: AmqpError


class ConnectionFailed(Event, frozen=True, kw_only=True):
    """The peer was wrong about the connection: send connection.close; nothing else is read."""

    error: AmqpError
