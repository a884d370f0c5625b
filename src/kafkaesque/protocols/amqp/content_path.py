"""The hot path, by hand: publishes in, deliveries out, acknowledgements in both directions."""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.frames import (
    BODY,
    FRAME_END,
    FRAME_END_BYTE,
    HEADER,
    METHOD,
    OVERHEAD_BYTES,
)
from kafkaesque.protocols.amqp.methods import BasicAck, BasicPublish
from kafkaesque.protocols.amqp.wire import U64, syntax_error, write_short_string

#: First bytes of a method frame's payload.
PUBLISH: Final = b"\x00\x3c\x00\x28"
ACK: Final = b"\x00\x3c\x00\x50"

_DELIVER: Final = b"\x00\x3c\x00\x3c"
_HEAD: Final = Struct(">BHI")
#: Class, weight, size of the body.
_CONTENT_HEAD: Final = Struct(">HHQ")
CONTENT_HEAD_BYTES: Final = 12
_ACK_PAYLOAD: Final = Struct(">IQB")
_ACK_FRAME: Final = Struct(">BHIIQBB")
_TAG: Final = Struct(">QB")
#: End of the frame before it, then the head of a body's frame.
_BODY_HEAD: Final = Struct(">BBHI")
_CLASS_AND_WEIGHT: Final = b"\x00\x3c\x00\x00"
_ACK_ID: Final = 0x003C0050
_BASIC: Final = 60


def read_publish(payload: bytes) -> tuple[str, str, int]:
    """Return exchange, routing key and flags (1: mandatory, 2: immediate) of a basic.publish.

    Raises:
        AmqpError: it is malformed.
    """
    try:
        at = 7 + payload[6]
        exchange = payload[7:at]
        end = at + 1 + payload[at]
        if end + 1 != len(payload):
            raise _malformed_publish()
        key = payload[at + 1 : end]
        flags = payload[end]
    except IndexError:
        raise _malformed_publish() from None
    return _text(exchange), _text(key), flags


def _text(raw: bytes) -> str:
    return str(raw, "utf-8", "surrogateescape")


def _malformed_publish() -> AmqpError:
    error = syntax_error("BasicPublish cannot be read")
    error.class_id, error.method_id = BasicPublish.class_id, BasicPublish.method_id
    return error


def read_ack(payload: bytes) -> tuple[int, bool]:
    """Return delivery tag and whether all before it are meant, too.

    Raises:
        AmqpError: it is malformed.
    """
    if len(payload) != _ACK_PAYLOAD.size:
        error = syntax_error("BasicAck cannot be read")
        error.class_id, error.method_id = BasicAck.class_id, BasicAck.method_id
        raise error
    _, tag, flags = _ACK_PAYLOAD.unpack(payload)
    return tag, bool(flags & 1)


def read_content_head(payload: bytes) -> tuple[int, int, bytes]:
    """Return class, size of the body and raw properties of a content header.

    Raises:
        AmqpError: it is malformed.
    """
    if len(payload) < CONTENT_HEAD_BYTES + 2:
        raise syntax_error("a content header has at least 14 bytes")
    class_id, _, size = _CONTENT_HEAD.unpack_from(payload, 0)
    return class_id, size, payload[CONTENT_HEAD_BYTES:]


def write_ack(channel: int, delivery_tag: int, *, multiple: bool = False) -> bytes:
    """Return the frame of a basic.ack."""
    return _ACK_FRAME.pack(METHOD, channel, 13, _ACK_ID, delivery_tag, multiple, 0xCE)


def write_content(
    channel: int, method: bytes, properties: bytes, body: bytes | memoryview, frame_bytes_max: int
) -> bytes:
    """Return the frames of a method with content: method, header and body.

    `method` is a method's payload, `properties` are raw; a body that does not fit into one frame is
    cut into several.
    """
    size = len(body)
    header_size = CONTENT_HEAD_BYTES + len(properties)
    parts: list[bytes | memoryview] = [
        _HEAD.pack(METHOD, channel, len(method)),
        method,
        FRAME_END_BYTE,
        _HEAD.pack(HEADER, channel, header_size),
        _CONTENT_HEAD.pack(_BASIC, 0, size),
        properties,
        FRAME_END_BYTE,
    ]
    piece = frame_bytes_max - OVERHEAD_BYTES
    if size <= piece:
        if size:
            parts += (_HEAD.pack(BODY, channel, size), body, FRAME_END_BYTE)
        return b"".join(parts)
    view = memoryview(body)
    for start in range(0, size, piece):
        chunk = view[start : start + piece]
        parts += (_HEAD.pack(BODY, channel, len(chunk)), chunk, FRAME_END_BYTE)
    return b"".join(parts)


class DeliverWriter:
    """Writes deliveries to one consumer.

    What consecutive deliveries have in common is written once: the method up to the delivery tag,
    and from behind it to the size of the body.
    """

    __slots__ = (
        "_channel",
        "_frame_bytes_max",
        "_method_head",
        "_middle",
        "_middle_of",
        "_tag",
    )

    def __init__(self, channel: int, consumer_tag: str, frame_bytes_max: int) -> None:
        self._channel = channel
        self._tag = _DELIVER + write_short_string(consumer_tag)
        self._frame_bytes_max = frame_bytes_max
        #: Exchange, key and length of the properties of the last delivery.
        self._middle_of: tuple[str, str, int] | None = None
        self._method_head = b""
        self._middle = b""

    def write(
        self,
        delivery_tag: int,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes | memoryview,
        *,
        redelivered: bool = False,
    ) -> bytes:
        """Return the frames of a basic.deliver."""
        middle_of = (exchange, routing_key, len(properties))
        if middle_of != self._middle_of:
            self._prepare(*middle_of)
            self._middle_of = middle_of
        size = len(body)
        if not 0 < size <= self._frame_bytes_max - OVERHEAD_BYTES:
            return self._write_long(delivery_tag, properties, body, redelivered)
        return b"".join(
            (
                self._method_head,
                _TAG.pack(delivery_tag, redelivered),
                self._middle,
                U64.pack(size),
                properties,
                _BODY_HEAD.pack(FRAME_END, BODY, self._channel, size),
                body,
                FRAME_END_BYTE,
            )
        )

    def _prepare(self, exchange: str, routing_key: str, properties_size: int) -> None:
        names = write_short_string(exchange) + write_short_string(routing_key)
        channel = self._channel
        size = len(self._tag) + _TAG.size + len(names)
        self._method_head = _HEAD.pack(METHOD, channel, size) + self._tag
        head = _HEAD.pack(HEADER, channel, CONTENT_HEAD_BYTES + properties_size)
        self._middle = names + FRAME_END_BYTE + head + _CLASS_AND_WEIGHT

    def _write_long(
        self, delivery_tag: int, properties: bytes, body: bytes | memoryview, redelivered: bool
    ) -> bytes:
        """Write a delivery without a body, or with one that takes several frames."""
        names = self._middle[: -(_HEAD.size + len(_CLASS_AND_WEIGHT) + 1)]
        method = self._tag + _TAG.pack(delivery_tag, redelivered) + names
        return write_content(self._channel, method, properties, body, self._frame_bytes_max)
