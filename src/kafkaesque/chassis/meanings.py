"""What a message's properties mean from one protocol to another, by `model/message_properties.py`.

A queue keeps what the publisher's protocol sent as it came, in one header of the record
(`amqp.message`). Whoever speaks another protocol reads it through here: properties become headers
with the names of that table, and headers become properties.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from kafkaesque.model import message_properties
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import (
    NOT_AFTER,
    NOTE_MQTT,
    OF_GATEWAYS,
    PREFIX,
    STORED_AMQP,
    STORED_MQTT,
    STORED_NATS,
)
from kafkaesque.model.message_properties import PROPERTIES, Form
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.properties import Properties, read_properties
from kafkaesque.protocols.amqp.stored_message import StoredMessage, read_stored
from kafkaesque.protocols.amqp.wire import SHORT_STRING_BYTES_MAX, Table, Timestamp

#: Property of AMQP -> header: texts that stay as they are.
TEXTS: Final[Mapping[str, str]] = {
    each.amqp: each.header for each in PROPERTIES if each.form in (Form.TEXT, Form.NAME)
}
PRIORITY: Final = message_properties.PRIORITY.header
EXPIRES_AT: Final = message_properties.EXPIRES_AT.header
TIMESTAMP: Final = message_properties.TIMESTAMP.header
_BY_HEADER: Final = {header: name for name, header in TEXTS.items()}
_OCTET_MAX: Final = 255
#: What only MQTT or NATS reads.
_HIDDEN: Final = frozenset((STORED_MQTT, NOTE_MQTT, STORED_NATS))


def stored_of(headers: Headers) -> StoredMessage | None:
    """Return what a publisher who speaks AMQP 0-9-1 has sent; None: somebody else published it."""
    for name, value in headers:
        if name == STORED_AMQP and value is not None:
            return read_stored(value)
    return None


def shown_headers(headers: Headers) -> Headers:
    """Return a record's headers as other protocols than the publisher's see them."""
    stored = stored_of(headers)
    if stored is None:
        return tuple(each for each in headers if each[0] not in _HIDDEN)
    try:
        properties = read_properties(stored.properties)
    except AmqpError:
        return headers
    own = tuple(each for each in headers if each[0] != STORED_AMQP)
    said = said_of(properties)
    for name, value in own:
        if name == NOT_AFTER and value is not None:
            said.append((EXPIRES_AT, value))
    return (*said, *own)


def shown_key(headers: Headers, key: bytes | None) -> bytes | None:
    """Return a record's key as other protocols see it: AMQP's routing key stands for it."""
    stored = None if key is not None else stored_of(headers)
    return key if stored is None else stored.routing_key.encode("utf-8", "surrogateescape")


def said_of(properties: Properties) -> list[tuple[str, bytes | None]]:
    """Return properties as headers."""
    said: list[tuple[str, bytes | None]] = []
    for name, header in TEXTS.items():
        value: str | None = getattr(properties, name)
        if value is not None:
            said.append((header, value.encode("utf-8", "surrogateescape")))
    if properties.priority is not None:
        said.append((PRIORITY, b"%d" % properties.priority))
    if properties.timestamp is not None:
        said.append((TIMESTAMP, b"%d" % (1000 * properties.timestamp)))
    for name, field in (properties.headers or {}).items():
        # A header of a name that brokers use would say something else to them.
        if not name.startswith(PREFIX) and name not in OF_GATEWAYS:
            said.append((name, _bytes_of(field)))
    return said


def _bytes_of(value: object) -> bytes | None:
    """Return a field of a table as a header's value: texts as they are, others as JSON."""
    match value:
        case None:
            return None
        case bytes():
            return value
        case str():
            return value.encode("utf-8", "surrogateescape")
        case bool():
            return b"true" if value else b"false"
        case int() | float():
            return str(value).encode()
        case _:
            return json.dumps(plain(value), ensure_ascii=True, separators=(",", ":")).encode()


def plain(value: object) -> object:
    """Return a value of a table as JSON can have it."""
    match value:
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Decimal():
            return str(value)
        case Timestamp():
            return int(value)
        case _:
            return value


def plain_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return arguments of a declaration as JSON can have them."""
    return {name: plain(value) for name, value in arguments.items()}


def properties_of(headers: Headers, now_ms: int) -> Properties:
    """Return the properties of AMQP that a record's headers stand for."""
    texts: dict[str, str] = {}
    table: Table = {}
    priority: int | None = None
    timestamp: Timestamp | None = None
    expiration: str | None = None
    for name, value in headers:
        number = _number(value)
        if name in OF_GATEWAYS or name.startswith(PREFIX):
            continue
        if name in _BY_HEADER and _is_short(value):
            texts.setdefault(_BY_HEADER[name], (value or b"").decode("utf-8", "surrogateescape"))
        elif name == PRIORITY and number is not None and number <= _OCTET_MAX:
            priority = number
        elif name == TIMESTAMP and number is not None:
            timestamp = Timestamp(number // 1000)
        elif name == EXPIRES_AT and number is not None:
            expiration = str(max(0, number - now_ms))
        elif len(name.encode()) <= SHORT_STRING_BYTES_MAX:
            # Of several with one name the first counts.
            table.setdefault(name, _text_or_bytes(value))
    return Properties(
        **texts,
        headers=table or None,
        # All that is in a queue is durable.
        delivery_mode=2,
        priority=priority,
        timestamp=timestamp,
        expiration=expiration,
    )


def _is_short(value: bytes | None) -> bool:
    return value is not None and len(value) <= SHORT_STRING_BYTES_MAX


def _number(value: bytes | None) -> int | None:
    if value is None or not value.isdigit() or len(value) > len(str(2**53)):
        return None
    return int(value)


def _text_or_bytes(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
