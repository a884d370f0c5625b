"""A queue's message as the exchange gets it that it is passed on to."""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.chassis.meanings import shown_headers, stored_of
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import (
    FORWARDED,
    NOT_AFTER,
    PREFIX,
    PRIORITY,
    STORED_AMQP,
    TIME_TO_LIVE,
)
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.properties import Properties, read_properties
from kafkaesque.protocols.amqp.stored_message import StoredMessage, write_stored
from kafkaesque.protocols.amqp.wire import SHORT_STRING_BYTES_MAX
from kafkaesque.queues.arrival import identity_of
from kafkaesque.routing.exchanges.router import BLIND_CARBON_COPY, CARBON_COPY
from kafkaesque.routing.message import RoutedMessage

_NUMBER_DIGITS_MAX: Final = 16


def hops_of(message: QueueMessage) -> int:
    """Return how often a message was passed on before."""
    return _number_of(message.headers, FORWARDED)


def publication_of(
    message: QueueMessage, queue: QueueState, partition: int, exchange: str, key: str
) -> Publication:
    """Return a message as the exchange gets it; an empty `key` stands for the message's own."""
    stored = stored_of(message.headers)
    properties = None if stored is None else _properties_of(stored)
    key = key or _own_key(message, stored) or queue.queue.name
    said = shown_headers(message.headers)
    hops = hops_of(message) + 1

    def shown(headers: Headers) -> Headers:
        own = (each for each in shown_headers(headers) if not each[0].startswith(PREFIX))
        return (*own, (FORWARDED, b"%d" % hops))

    return Publication(
        _routed(key, said, properties, message.value or b""),
        NewMessage(
            message.value,
            None if stored is not None else key.encode("utf-8", "surrogateescape"),
            _kept_headers(message.headers, stored, exchange, key),
            priority=_number_of(message.headers, PRIORITY),
            not_after_ms=_not_after(message),
            identity=_identity(queue, partition, message.offset),
            forwarded=hops,
        ),
        topic_headers=shown(message.headers),
        show=shown,
    )


def _own_key(message: QueueMessage, stored: StoredMessage | None) -> str:
    """Return the key that a message has; empty where it has none that can be a routing key."""
    if stored is not None:
        # The default exchange's keys are names of queues, and this message was in this one.
        return stored.routing_key if stored.exchange else ""
    key = message.key or b""
    return key.decode("utf-8", "surrogateescape") if len(key) <= SHORT_STRING_BYTES_MAX else ""


def _routed(key: str, said: Headers, properties: Properties | None, body: bytes) -> RoutedMessage:
    """Return what exchanges look at; copies were meant for where the message was first."""
    if properties is None:
        texts: dict[str, object] = {}
        for name, value in said:
            if not name.startswith(PREFIX):
                # Of several with one name the first counts.
                texts.setdefault(name, (value or b"").decode("utf-8", "surrogateescape"))
        values: dict[str, object] = {}
    else:
        texts = dict(properties.headers or {})
        named = {each: getattr(properties, each) for each in Properties.__struct_fields__}
        values = {name: value for name, value in named.items() if value is not None}
        values.pop("headers", None)
    for copies in (CARBON_COPY, BLIND_CARBON_COPY):
        texts.pop(copies, None)
    return RoutedMessage(key=key, headers=texts, properties=values, body=body)


def _properties_of(stored: StoredMessage) -> Properties | None:
    try:
        return read_properties(stored.properties)
    except AmqpError:
        return None


def _kept_headers(
    headers: Headers, stored: StoredMessage | None, exchange: str, key: str
) -> Headers:
    """Return the headers that queues keep: of AMQP's, exchange and key are those of now."""
    own = tuple(
        each for each in headers if each[0] != STORED_AMQP and not each[0].startswith(PREFIX)
    )
    if stored is None:
        return own
    return (*own, (STORED_AMQP, write_stored(exchange, key, stored.properties)))


def _not_after(message: QueueMessage) -> int:
    """Return when a message's life ends; 0: it has no end."""
    end_ms = _number_of(message.headers, NOT_AFTER)
    if end_ms:
        return end_ms
    life_ms = _number_of(message.headers, TIME_TO_LIVE)
    return message.timestamp_ms + life_ms if life_ms else 0


def _identity(queue: QueueState, partition: int, offset: int) -> bytes:
    return identity_of(b"forwarded %b %d %d" % (queue.topic_id, partition, offset))


def _number_of(headers: Headers, wanted: str) -> int:
    for name, value in headers:
        if name == wanted and value is not None:
            is_number = value.isdigit() and len(value) <= _NUMBER_DIGITS_MAX
            return int(value) if is_number else 0
    return 0
