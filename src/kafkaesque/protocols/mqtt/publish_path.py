"""The hot path, by hand: PUBLISH in, PUBLISH out to one subscriber or to ten thousand."""

from __future__ import annotations

from typing import Final

from kafkaesque.protocols.mqtt.connect_codec import check_response_topic
from kafkaesque.protocols.mqtt.errors import MqttError, malformed, protocol_error
from kafkaesque.protocols.mqtt.packets import Publish, Version
from kafkaesque.protocols.mqtt.properties import (
    IN_PUBLISH,
    NO_PROPERTIES,
    Properties,
    read_properties,
    write_bare_properties,
)
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.protocols.mqtt.wire import U16, VARINT_MAX, decode_text, write_text, write_varint

_V5: Final = Version.V5
_PUBLISH: Final = 0x30
_DUP: Final = 0x08
_RETAIN: Final = 0x01

#: Topics whose bytes are not decoded and checked again.
TOPICS_MAX: Final = 256
TOPIC_BYTES_REMEMBERED_MAX: Final = 256

#: What has been found to be a topic name. All connections share it: it depends on nothing else.
_topics: dict[bytes, str] = {}


def _read_topic(raw: bytes) -> str:
    topic = _topics.get(raw)
    if topic is not None:
        return topic
    topic = decode_text(raw)
    if "+" in topic or "#" in topic:
        raise MqttError(ReasonCode.TOPIC_NAME_INVALID, f"{topic!r} has a wildcard")
    if len(raw) <= TOPIC_BYTES_REMEMBERED_MAX:
        if len(_topics) >= TOPICS_MAX:
            _topics.clear()
        _topics[raw] = topic
    return topic


def read_publish(flags: int, body: bytes, version: Version) -> Publish:
    """Return a PUBLISH; its topic may be empty only where an alias stands for it.

    Raises:
        MqttError: it is malformed, or says what cannot be.
    """
    qos = flags >> 1 & 3
    if qos == 3:
        raise malformed("a message's QoS is 3 (3.3.1-4)")
    if flags & _DUP and not qos:
        raise malformed("a message of QoS 0 is marked as sent before (3.3.1-2)")
    if len(body) < 2:
        raise malformed("PUBLISH is cut short")
    at = 2 + (body[0] << 8 | body[1])
    if at + (2 if qos else 0) > len(body):
        raise malformed("PUBLISH is cut short")
    topic = _read_topic(body[2:at])
    packet_id = 0
    if qos:
        packet_id = body[at] << 8 | body[at + 1]
        if not packet_id:
            raise protocol_error("a packet id cannot be 0 (2.2.1-3)")
        at += 2
    properties = NO_PROPERTIES
    if version is _V5:
        if at >= len(body):
            raise malformed("PUBLISH is cut short")
        if body[at]:
            try:
                properties, at = read_properties(body, at, IN_PUBLISH)
            except IndexError:
                raise malformed("PUBLISH is cut short") from None
            check_response_topic(properties)
        else:
            at += 1
    if not topic and properties.topic_alias is None:
        raise protocol_error("a message without a topic (4.7.3-1)")
    return Publish(
        topic=topic,
        payload=body[at:],
        qos=qos,
        retain=flags & _RETAIN != 0,
        dup=flags & _DUP != 0,
        packet_id=packet_id,
        properties=properties,
    )


class PublishVariant:
    """A message in one version, of which each subscriber gets a copy of its own.

    What differs from copy to copy stands before the properties and the payload, which are written
    once. `properties` holds neither an alias nor subscription identifiers.
    """

    __slots__ = (
        "_copy",
        "_copy_of",
        "_head",
        "_head_flags",
        "_payload",
        "_properties",
        "_rest",
        "is_v5",
        "topic",
        "topic_raw",
    )

    def __init__(
        self,
        version: Version,
        topic: str,
        payload: bytes,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        """Take in a message; ValueError if a property does not fit into its field."""
        self.topic = topic
        self.topic_raw = write_text(topic)
        self.is_v5 = version is _V5
        self._payload = payload
        self._properties = b""
        #: What stands behind the packet id of a plain copy.
        self._rest = payload
        #: What stands before it in the last plain copies that had one, and their flags.
        self._head = b""
        self._head_flags = -1
        #: The last plain copy, and what it was made of: clients that began together have the same.
        self._copy = b""
        self._copy_of = -1
        if self.is_v5:
            if properties is not NO_PROPERTIES:
                self._properties = write_bare_properties(properties)
            self._rest = write_varint(len(self._properties)) + self._properties + payload

    def write(
        self,
        flags: int,
        packet_id: int = 0,
        *,
        topic_raw: bytes | None = None,
        more_properties: bytes = b"",
    ) -> bytes:
        """Return a copy.

        `flags` are those of the fixed header (`flags_of`), `topic_raw` is b"\\0\\0" where an alias
        stands for the topic, `more_properties` are the raw properties of this copy alone:
        only 5.0 has any.

        Raises:
            ValueError: the packet is longer than a packet can be.
        """
        if not self.is_v5:
            more_properties = b""
        if topic_raw is None and not more_properties:
            copy_of = packet_id << 4 | flags
            if copy_of != self._copy_of:
                if not packet_id:
                    self._copy = self._write(flags, 0, self.topic_raw, b"")
                else:
                    if flags != self._head_flags:
                        size = len(self.topic_raw) + U16.size + len(self._rest)
                        self._head = _first_bytes(flags, size) + self.topic_raw
                        self._head_flags = flags
                    self._copy = self._head + U16.pack(packet_id) + self._rest
                self._copy_of = copy_of
            return self._copy
        head = self.topic_raw if topic_raw is None else topic_raw
        return self._write(flags, packet_id, head, more_properties)

    def _write(self, flags: int, packet_id: int, head: bytes, more_properties: bytes) -> bytes:
        if packet_id:
            head += U16.pack(packet_id)
        rest = self._rest
        if more_properties:
            size = len(more_properties) + len(self._properties)
            head += write_varint(size) + more_properties
            rest = self._properties + self._payload
        return _first_bytes(flags, len(head) + len(rest)) + head + rest


def _first_bytes(flags: int, size: int) -> bytes:
    """Return the fixed header of a PUBLISH with so many bytes behind it."""
    if size < 0x80:
        return bytes((_PUBLISH | flags, size))
    if size > VARINT_MAX:
        raise ValueError(f"a packet has at most {VARINT_MAX} bytes, not {size}")
    return bytes((_PUBLISH | flags,)) + write_varint(size)


def flags_of(qos: int, *, retain: bool = False, dup: bool = False) -> int:
    """Return the flags of a PUBLISH's fixed header."""
    return qos << 1 | (_RETAIN if retain else 0) | (_DUP if dup else 0)


def write_publish(packet: Publish, version: Version) -> bytes:
    """Return a PUBLISH with its header.

    Raises:
        ValueError: a value does not fit into its field.
    """
    if bool(packet.packet_id) is not bool(packet.qos):
        raise ValueError("a message has a packet id if its QoS is 1 or 2, and only then (2.2.1-2)")
    variant = PublishVariant(version, packet.topic, packet.payload, packet.properties)
    flags = flags_of(packet.qos, retain=packet.retain, dup=packet.dup)
    return variant.write(flags, packet.packet_id)
