"""Headers of SEND as properties, and properties as headers of MESSAGE.

A queue keeps a message of STOMP as one of AMQP, as RabbitMQ does: so clients of both see the same.
Headers that are no properties, or too long for one, are headers there, too. What they mean to other
protocols is in `model/message_properties.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.chassis.amqp.incoming import read_incoming
from kafkaesque.chassis.meanings import EXPIRES_AT, PRIORITY, TEXTS, TIMESTAMP, said_of, stored_of
from kafkaesque.gateway.stomp.destinations import (
    Destination,
    Kind,
    write_destination,
    write_queue,
)
from kafkaesque.model import message_properties
from kafkaesque.model.message_headers import NOT_AFTER
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.events import Published
from kafkaesque.protocols.amqp.properties import Properties, read_properties, write_properties
from kafkaesque.protocols.amqp.wire import SHORT_STRING_BYTES_MAX, Table, Timestamp
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.events import Sent
from kafkaesque.protocols.stomp.frames import Headers
from kafkaesque.protocols.stomp.versions import Version
from kafkaesque.protocols.stomp.writing import MessageHead
from kafkaesque.routing.exchanges.topology import DEFAULT_EXCHANGE

#: The id that a publisher gives; `message-id` is the broker's.
PUBLISHED_ID: Final = message_properties.MESSAGE_ID.stomp
MESSAGE_ID: Final = message_properties.MESSAGE_ID.header
REPLY_TO: Final = message_properties.REPLY.header
PERSISTENT: Final = "persistent"
#: When a message's life ends, Unix time in milliseconds; 0: never.
EXPIRES: Final = message_properties.EXPIRES_AT.stomp
#: The same, as milliseconds from now.
EXPIRATION: Final = "expiration"
DELAY: Final = "x-delay"
_DURABLE: Final = 2
#: Different headers of messages that are not written again, and how many bytes of each.
HEADS_REMEMBERED_MAX: Final = 512
HEAD_BYTES_REMEMBERED_MAX: Final = 4 * 1024
#: What says something of a frame, and not of its message.
_OF_FRAMES: Final = frozenset(
    (
        *("destination", "content-length", "receipt", "transaction"),
        *("subscription", "ack", MESSAGE_ID, "redelivered"),
    )
)
_BY_NAME: Final = {
    PUBLISHED_ID if header == MESSAGE_ID else header: name for name, header in TEXTS.items()
}
_NUMBER_DIGITS_MAX: Final = 15


#: Characters of what a message says that is not written again, as most of a client's say the same.
_SAID_REMEMBERED_MAX: Final = 1024
_written: dict[tuple[Headers, str | None], bytes] = {}


def read_sent(
    event: Sent, destination: Destination, reply_to: str | None, now_ms: int
) -> Published:
    """Return a SEND as a publish of AMQP.

    Raises:
        StompError: a header is not what it has to be.
    """
    said = tuple([each for each in event.headers if each[0] not in _OF_FRAMES])
    raw = _written.get((said, reply_to))
    if raw is None:
        raw = _write_said(said, reply_to, now_ms)
        size = sum(len(name) + len(text) for name, text in said)
        if size <= _SAID_REMEMBERED_MAX and all(name != EXPIRES for name, _ in said):
            if len(_written) >= HEADS_REMEMBERED_MAX:
                _written.clear()
            _written[said, reply_to] = raw
    return Published(
        channel=0,
        exchange=destination.exchange,
        routing_key=destination.name,
        mandatory=False,
        properties=raw,
        body=event.body,
    )


def _write_said(said: Headers, reply_to: str | None, now_ms: int) -> bytes:
    """Return what a message says of itself as properties of AMQP."""
    values: dict[str, Any] = {}
    table: Table = {}
    first: dict[str, str] = {}
    for name, text in said:
        # Of several with one name the first counts, whatever it is kept as.
        first.setdefault(name, text)
    for name, text in first.items():
        read = _READERS.get(name)
        found = None if read is None else read(text, now_ms)
        if found is not None:
            values.setdefault(*found)
        elif read is None or name == TIMESTAMP:
            _check_name(name)
            table[name] = _delay(text) if name == DELAY else text
    if reply_to is not None:
        values["reply_to"] = reply_to
    return write_properties(Properties(headers=table or None, **_fitting(values, table)))


def _check_name(name: str) -> None:
    if len(name.encode()) > SHORT_STRING_BYTES_MAX:
        raise StompError(f"a header's name has at most {SHORT_STRING_BYTES_MAX} bytes")


def _fitting(values: dict[str, Any], table: Table) -> dict[str, Any]:
    """Return what can be a property; the rest becomes a header of its name."""
    fitting: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, str) and len(value.encode()) > SHORT_STRING_BYTES_MAX:
            table[TEXTS[name]] = value
        else:
            fitting[name] = value
    return fitting


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise StompError(f"{what} is no number: '{text[:40]}'")
    return int(text)


def _delay(text: str) -> int:
    return _number(text, DELAY)


_Found = tuple[str, object] | None
_Reader = Callable[[str, int], _Found]


def _text_of(name: str) -> _Reader:
    return lambda text, _: (name, text)


def _read_priority(text: str, _: int) -> _Found:
    number = _number(text, PRIORITY)
    if number > 255:
        raise StompError(f"priority is at most 255, not {number}")
    return "priority", number


def _read_persistent(text: str, _: int) -> _Found:
    return "delivery_mode", _DURABLE if text.lower() == "true" else 1


def _read_expires(text: str, now_ms: int) -> _Found:
    number = _number(text, EXPIRES)
    return ("expiration", str(max(0, number - now_ms))) if number else None


def _read_expiration(text: str, _: int) -> _Found:
    return "expiration", str(_number(text, EXPIRATION))


def _read_timestamp(text: str, _: int) -> _Found:
    """AMQP's has whole seconds: another number, or what is none, stays as it is."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX
    whole = is_number and not int(text) % 1000
    return ("timestamp", Timestamp(int(text) // 1000)) if whole else None


_READERS: Final[dict[str, _Reader]] = {
    **{header: _text_of(name) for header, name in _BY_NAME.items()},
    PRIORITY: _read_priority,
    PERSISTENT: _read_persistent,
    EXPIRES: _read_expires,
    EXPIRATION: _read_expiration,
    TIMESTAMP: _read_timestamp,
}


# -- messages as they are delivered


def write_headers_of(
    message: QueueMessage, queue: QueueState, message_id: str, now_ms: int, exchange: str
) -> Headers:
    """Return the headers of a MESSAGE, but those that are its subscription's.

    `exchange` is the one that its subscription is to; the default exchange: it is to a queue.
    """
    incoming = read_incoming(message, queue, now_ms)
    properties = _properties_of(incoming.properties)
    if stored_of(message.headers) is not None:
        destination = write_destination(incoming.exchange, incoming.routing_key)
    elif exchange != DEFAULT_EXCHANGE:
        # MQTT and NATS have published it, and its key is the name.
        destination = write_destination(exchange, incoming.routing_key)
    else:
        # Others put messages into a queue, and their key is no name of STOMP's.
        destination = write_queue(queue.queue.name)
    headers = [("destination", destination), (MESSAGE_ID, message_id)]
    if incoming.is_redelivered:
        headers.append(("redelivered", "true"))
    if properties.delivery_mode is not None:
        is_durable = properties.delivery_mode == _DURABLE
        headers.append((PERSISTENT, "true" if is_durable else "false"))
    expires = _expires_of(message)
    if expires is not None:
        headers.append((EXPIRES, expires))
    for name, value in said_of(properties):
        text = "" if value is None else value.decode("utf-8", "replace")
        if name == MESSAGE_ID:
            headers.append((PUBLISHED_ID, text))
        elif name == REPLY_TO:
            headers.append((REPLY_TO, text if text.startswith("/") else write_queue(text)))
        elif name and name not in _OF_FRAMES:
            # A header of STOMP has a name.
            headers.append((name, text))
    return tuple(headers)


#: What was written before: most messages of a destination say the same of themselves, and each
#: subscriber gets them. All connections share it: it depends on nothing else.
_heads: dict[tuple[object, ...], MessageHead] = {}


def is_lasting(message: QueueMessage) -> bool:
    """Tell whether other messages of the same headers and key say the same.

    How long one has left is not the same the next time, and whether it comes again is its own.
    """
    return message.attempt <= 1 and all(name != EXPIRES_AT for name, _ in message.headers)


def head_of(
    message: QueueMessage, queue: QueueState, now_ms: int, exchange: str, version: Version
) -> MessageHead:
    """Return what `write_headers_of` does, as it is written to clients of a version."""
    if not is_lasting(message):
        return _head_of(message, queue, now_ms, exchange, version)
    key = (message.headers, message.key, queue.queue, exchange, version)
    found = _heads.get(key)
    if found is None:
        found = _head_of(message, queue, now_ms, exchange, version)
        size = sum(len(name) + len(value or b"") for name, value in message.headers)
        size += len(message.key or b"")
        if size <= HEAD_BYTES_REMEMBERED_MAX:
            if len(_heads) >= HEADS_REMEMBERED_MAX:
                _heads.clear()
            _heads[key] = found
    return found


def _head_of(
    message: QueueMessage, queue: QueueState, now_ms: int, exchange: str, version: Version
) -> MessageHead:
    destination, _, *others = write_headers_of(message, queue, "", now_ms, exchange)
    return MessageHead(version, (destination,), tuple(others))


def _properties_of(raw: bytes) -> Properties:
    try:
        return read_properties(raw)
    except AmqpError:
        # Not what a publisher could have sent.
        return Properties()


def _expires_of(message: QueueMessage) -> str | None:
    for wanted in (NOT_AFTER, EXPIRES_AT):
        for name, value in message.headers:
            if name == wanted and value is not None:
                return value.decode("ascii", "replace")
    return None


def name_of_reply(text: str, destination: Destination) -> str:
    """Return where an answer goes, as clients of AMQP can use it: the name of a queue."""
    return destination.name if destination.kind in (Kind.QUEUE, Kind.KNOWN_QUEUE) else text
