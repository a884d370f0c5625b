"""A message on its way to live subscribers, and what it is as a record of a queue or a topic.

What a message says of itself has one meaning for all protocols (the table is in
`model/message_properties.py`). The fields here are those that MQTT, NATS and STOMP have fields for;
as a record, they are headers with the names of that table. Everything else is a header in both.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from kafkaesque.model import message_properties
from kafkaesque.model.kernel_types import Headers
from kafkaesque.routing.names import AMQP, NameKey, key_of_routing_key, levels_of_key

CONTENT_TYPE: Final = message_properties.CONTENT_TYPE.header
CORRELATION: Final = message_properties.CORRELATION.header
REPLY: Final = message_properties.REPLY.header
EXPIRES_AT: Final = message_properties.EXPIRES_AT.header
_FIELDS: Final = frozenset((CONTENT_TYPE, CORRELATION, REPLY, EXPIRES_AT))
#: Unix time in milliseconds has no more digits for 280,000 years.
_TIME_DIGITS_MAX: Final = 16


class Origin(NamedTuple):
    """Who has published a message, so that it need not be given back to its publisher."""

    #: As listeners call it: `mqtt`, `nats`, `stomp`, `amqp`; empty: not known.
    protocol: str
    #: The broker that the publisher is connected with.
    node: int
    #: That broker's number for the connection; see `Live.new_origin`. 0: none.
    connection: int


NO_ORIGIN: Final = Origin("", -1, 0)


class LiveMessage(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """A message that is passed on, and never changed: all receivers of a broker get this object.

    What encodes it for a connection may keep the bytes by the object's identity. The garbage
    collector need not look at it, because nothing that it has leads back to it.
    """

    #: Its name; `levels_of_key` splits it.
    key: NameKey
    body: bytes
    origin: Origin = NO_ORIGIN
    content_type: str | None = None
    correlation: bytes | None = None
    #: The name that answers are published to.
    reply: NameKey | None = None
    #: Unix time in milliseconds at which its life ends; 0: it has no end.
    expires_ms: int = 0
    #: In the publisher's order; a name may come more than once.
    headers: Headers = ()
    #: MQTT's quality of service that its publisher asked for: 0, 1 or 2. Others have 0, or 1 where
    #: the message is persistent.
    qos: int = 0
    #: Whether its publisher wanted it to be retained, too (MQTT's flag).
    is_retained: bool = False
    #: Whether its publisher says that the body is UTF-8 (MQTT's payload format indicator).
    is_text: bool = False

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        size = len(self.key) + len(self.body) + len(self.content_type or "")
        size += len(self.correlation or b"") + len(self.reply or "")
        for name, value in self.headers:
            size += len(name) + len(value or b"")
        return size


def record_headers(message: LiveMessage) -> Headers:
    """Return the headers that a message has as a record."""
    return (*_said(message), *message.headers)


def _said(message: LiveMessage) -> Iterator[tuple[str, bytes]]:
    if message.content_type is not None:
        yield CONTENT_TYPE, message.content_type.encode("utf-8", "surrogateescape")
    if message.correlation is not None:
        yield CORRELATION, message.correlation
    if message.reply is not None:
        yield REPLY, routing_key_of(message.reply).encode("utf-8", "surrogateescape")
    if message.expires_ms:
        yield EXPIRES_AT, b"%d" % message.expires_ms


def live_message(
    key: NameKey,
    body: bytes,
    headers: Headers,
    *,
    qos: int = 0,
    is_text: bool = False,
    is_retained: bool = False,
) -> LiveMessage:
    """Return the message that a record's headers describe; of two of one name the first counts."""
    said: dict[str, bytes] = {}
    others: list[tuple[str, bytes | None]] = []
    for each in headers:
        name, value = each
        if name in _FIELDS and value is not None and name not in said:
            said[name] = value
        else:
            others.append(each)
    content_type, reply = said.get(CONTENT_TYPE), said.get(REPLY)
    return LiveMessage(
        key=key,
        body=body,
        content_type=None if content_type is None else _text(content_type),
        correlation=said.get(CORRELATION),
        reply=None if reply is None else key_of_routing_key(_text(reply)),
        expires_ms=_time(said.get(EXPIRES_AT)),
        headers=tuple(others),
        qos=qos,
        is_text=is_text,
        is_retained=is_retained,
    )


def routing_key_of(key: NameKey) -> str:
    """Return a name as AMQP and STOMP write it; it may be longer than AMQP allows."""
    return AMQP.write_name(levels_of_key(key))


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _time(value: bytes | None) -> int:
    if value is None or not value.isdigit() or len(value) > _TIME_DIGITS_MAX:
        return 0
    return int(value)
