"""Packets to bytes and back, in both versions and for both sides; PUBLISH is in `publish_path`.

What a reader raises is what the peer is to be told: a packet that cannot be parsed is malformed,
one that says what cannot be is a protocol error (5.0, sections 1.2 and 4.13).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt import properties as props
from kafkaesque.protocols.mqtt.connect_codec import read_connect, write_connect
from kafkaesque.protocols.mqtt.errors import malformed, protocol_error
from kafkaesque.protocols.mqtt.packets import Packet, PacketType, Version
from kafkaesque.protocols.mqtt.properties import (
    NO_PROPERTIES,
    Properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.mqtt.publish_path import read_publish, write_publish
from kafkaesque.protocols.mqtt.reasons import (
    AUTH_REASONS,
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    RECEIPT_REASONS,
    RELEASE_REASONS,
    SUBACK_FAILURE,
    SUBACK_REASONS,
    UNSUBACK_REASONS,
    ReasonCode,
    reason_of_return_code,
    return_code_of,
)
from kafkaesque.protocols.mqtt.wire import (
    CUT_SHORT,
    U16,
    read_text,
    write_text,
    write_varint,
)

_V5: Final = Version.V5

#: Flags of packets that have none of their own (table 2-2).
_FLAGS: Final[dict[PacketType, int]] = {
    each: 2 if each in (PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE) else 0
    for each in PacketType
    if each is not PacketType.PUBLISH
}

_ACKS: Final[dict[PacketType, tuple[type[p.Acknowledgement], frozenset[ReasonCode]]]] = {
    PacketType.PUBACK: (p.Puback, RECEIPT_REASONS),
    PacketType.PUBREC: (p.Pubrec, RECEIPT_REASONS),
    PacketType.PUBREL: (p.Pubrel, RELEASE_REASONS),
    PacketType.PUBCOMP: (p.Pubcomp, RELEASE_REASONS),
}


_PUBLISH: Final = int(PacketType.PUBLISH)
_PLAIN_PUBACK: Final = PacketType.PUBACK << 4
_NO_PACKET_ID: Final = b"\0\0"


def read_packet(first: int, body: bytes, version: Version) -> Packet:
    """Return the packet of a first byte and what stands behind its length.

    Raises:
        MqttError: it is malformed, or says what cannot be.
    """
    number, flags = first >> 4, first & 0x0F
    if number == _PUBLISH:
        return read_publish(flags, body, version)
    if first == _PLAIN_PUBACK and len(body) == 2 and body != _NO_PACKET_ID:
        # One comes for each message of QoS 1 that is sent.
        return p.Puback(packet_id=body[0] << 8 | body[1])
    read = _READERS.get(number)
    if read is None or (number == PacketType.AUTH and version is not _V5):
        raise malformed(f"there is no packet of type {number}")
    packet_type = PacketType(number)
    if flags != _FLAGS[packet_type]:
        raise malformed(f"{packet_type.name} has the flags {flags:#x}")
    try:
        return read(packet_type, body, version)
    except CUT_SHORT:
        raise malformed(f"{packet_type.name} is cut short") from None


def write_packet(packet: Packet, version: Version) -> bytes:
    """Return a packet with its header.

    Raises:
        ValueError: a value does not fit into its field, or the version has no such thing.
    """
    if isinstance(packet, p.Publish):
        return write_publish(packet, version)
    packet_type = packet.packet_type
    body = _WRITERS[packet_type](packet, version)
    return bytes((packet_type << 4 | _FLAGS[packet_type],)) + write_varint(len(body)) + body


# -- parts


def _read_packet_id(body: bytes) -> int:
    (packet_id,) = U16.unpack_from(body, 0)
    if not packet_id:
        raise protocol_error("a packet id cannot be 0")
    return int(packet_id)


def _read_reason(code: int, allowed: frozenset[ReasonCode]) -> ReasonCode:
    if code not in allowed:
        raise protocol_error(f"reason code {code:#04x} cannot be in this packet")
    return ReasonCode(code)


def _check_end(body: bytes, at: int, packet_type: PacketType) -> None:
    if at != len(body):
        raise malformed(f"{packet_type.name} has {len(body) - at} bytes too many")


def _read_tail(
    body: bytes, at: int, allowed: frozenset[int], version: Version
) -> tuple[Properties, int]:
    """Return the properties that 5.0 has behind a packet id."""
    if version is not _V5:
        return NO_PROPERTIES, at
    return read_properties(body, at, allowed)


def _write_tail(properties: Properties, version: Version) -> bytes:
    return write_properties(properties) if version is _V5 else b""


# -- CONNACK


def _read_connack(packet_type: PacketType, body: bytes, version: Version) -> p.Connack:
    flags, code = body[0], body[1]
    if flags > 1:
        raise malformed(f"CONNACK has the flags {flags:#x}")
    if version is _V5:
        reason = _read_reason(code, CONNACK_REASONS)
        properties, at = read_properties(body, 2, props.IN_CONNACK)
    else:
        found = reason_of_return_code(code)
        if found is None:
            raise protocol_error(f"return code {code} is reserved")
        reason, properties, at = found, NO_PROPERTIES, 2
    _check_end(body, at, packet_type)
    return p.Connack(reason=reason, session_present=flags == 1, properties=properties)


def _write_connack(packet: p.Connack, version: Version) -> bytes:
    if packet.session_present and packet.reason.is_error:
        raise ValueError("there is no session where a client is refused (3.2.2-6)")
    if version is _V5:
        head = bytes((packet.session_present, packet.reason))
        return head + write_properties(packet.properties)
    code = return_code_of(packet.reason)
    if code is None:
        raise ValueError(f"MQTT 3.1.1 has no return code for {packet.reason.name}")
    return bytes((packet.session_present, code))


# -- acknowledgements


def _read_ack(packet_type: PacketType, body: bytes, version: Version) -> p.Acknowledgement:
    kind, reasons = _ACKS[packet_type]
    packet_id = _read_packet_id(body)
    if len(body) == 2:
        return kind(packet_id=packet_id)
    if version is not _V5:
        raise malformed(f"{packet_type.name} is longer than 2 bytes")
    reason = _read_reason(body[2], reasons)
    if len(body) == 3:
        return kind(packet_id=packet_id, reason=reason)
    properties, at = read_properties(body, 3, props.IN_ACK)
    _check_end(body, at, packet_type)
    return kind(packet_id=packet_id, reason=reason, properties=properties)


def _write_ack(packet: p.Acknowledgement, version: Version) -> bytes:
    packet_id = U16.pack(packet.packet_id)
    if version is not _V5:
        return packet_id
    if packet.properties is not NO_PROPERTIES and packet.properties != NO_PROPERTIES:
        return packet_id + bytes((packet.reason,)) + write_properties(packet.properties)
    return packet_id + bytes((packet.reason,)) if packet.reason else packet_id


# -- subscriptions


def _read_subscribe(packet_type: PacketType, body: bytes, version: Version) -> p.Subscribe:
    packet_id = _read_packet_id(body)
    properties, at = _read_tail(body, 2, props.IN_SUBSCRIBE, version)
    if len(properties.subscription_identifiers) > 1:
        raise protocol_error("subscription_identifiers stands twice")
    subscriptions = []
    while at < len(body):
        topic_filter, at = read_text(body, at)
        subscriptions.append(_read_subscription(topic_filter, body[at], version))
        at += 1
    if not subscriptions:
        raise protocol_error("SUBSCRIBE without a filter")
    return p.Subscribe(
        packet_id=packet_id, subscriptions=tuple(subscriptions), properties=properties
    )


def _read_subscription(topic_filter: str, options: int, version: Version) -> p.Subscription:
    reserved = 0xC0 if version is _V5 else 0xFC
    if options & reserved:
        raise malformed(f"subscription options {options:#04x} have reserved bits")
    if options & 3 == 3:
        raise protocol_error("a subscription's QoS is 3")
    if options >> 4 == 3:
        raise protocol_error("retain handling is 3")
    no_local = options & 4 != 0
    if no_local and topic_filter.startswith("$share/"):
        raise protocol_error("no local on a shared subscription (3.8.3-4)")
    return p.Subscription(
        topic_filter=topic_filter,
        qos=options & 3,
        no_local=no_local,
        retain_as_published=options & 8 != 0,
        retain_handling=options >> 4,
    )


def _write_subscribe(packet: p.Subscribe, version: Version) -> bytes:
    parts = [U16.pack(packet.packet_id), _write_tail(packet.properties, version)]
    for each in packet.subscriptions:
        options = each.qos | each.no_local << 2 | each.retain_as_published << 3
        options |= each.retain_handling << 4
        if version is not _V5 and options > 2:
            raise ValueError("MQTT 3.1.1 has no subscription options")
        parts.append(write_text(each.topic_filter) + bytes((options,)))
    return b"".join(parts)


def _read_suback(packet_type: PacketType, body: bytes, version: Version) -> p.Suback:
    packet_id = _read_packet_id(body)
    properties, at = _read_tail(body, 2, props.IN_ACK, version)
    reasons = tuple(_read_reason(code, SUBACK_REASONS) for code in body[at:])
    return p.Suback(packet_id=packet_id, reasons=reasons, properties=properties)


def _write_suback(packet: p.Suback, version: Version) -> bytes:
    head = U16.pack(packet.packet_id)
    if version is _V5:
        return head + write_properties(packet.properties) + bytes(packet.reasons)
    return head + bytes(min(code, SUBACK_FAILURE) for code in packet.reasons)


def _read_unsubscribe(packet_type: PacketType, body: bytes, version: Version) -> p.Unsubscribe:
    packet_id = _read_packet_id(body)
    properties, at = _read_tail(body, 2, props.IN_UNSUBSCRIBE, version)
    filters = []
    while at < len(body):
        topic_filter, at = read_text(body, at)
        filters.append(topic_filter)
    if not filters:
        raise protocol_error("UNSUBSCRIBE without a filter")
    return p.Unsubscribe(packet_id=packet_id, topic_filters=tuple(filters), properties=properties)


def _write_unsubscribe(packet: p.Unsubscribe, version: Version) -> bytes:
    parts = [U16.pack(packet.packet_id), _write_tail(packet.properties, version)]
    return b"".join((*parts, *map(write_text, packet.topic_filters)))


def _read_unsuback(packet_type: PacketType, body: bytes, version: Version) -> p.Unsuback:
    packet_id = _read_packet_id(body)
    properties, at = _read_tail(body, 2, props.IN_ACK, version)
    if version is not _V5:
        _check_end(body, at, packet_type)
    reasons = tuple(_read_reason(code, UNSUBACK_REASONS) for code in body[at:])
    return p.Unsuback(packet_id=packet_id, reasons=reasons, properties=properties)


def _write_unsuback(packet: p.Unsuback, version: Version) -> bytes:
    head = U16.pack(packet.packet_id)
    if version is not _V5:
        return head
    return head + write_properties(packet.properties) + bytes(packet.reasons)


# -- those that stand alone


def _read_ping(packet_type: PacketType, body: bytes, version: Version) -> Packet:
    _check_end(body, 0, packet_type)
    return p.Pingreq() if packet_type is PacketType.PINGREQ else p.Pingresp()


def _write_nothing(packet: Packet, version: Version) -> bytes:
    return b""


_FAREWELLS: Final[
    dict[PacketType, tuple[type[p.Disconnect | p.Auth], frozenset[ReasonCode], frozenset[int]]]
] = {
    PacketType.DISCONNECT: (p.Disconnect, DISCONNECT_REASONS, props.IN_DISCONNECT),
    PacketType.AUTH: (p.Auth, AUTH_REASONS, props.IN_AUTH),
}


def _read_farewell(packet_type: PacketType, body: bytes, version: Version) -> Packet:
    """Read DISCONNECT or AUTH, which may leave out what is 0 or nothing."""
    kind, reasons, allowed = _FAREWELLS[packet_type]
    if not body:
        return kind()
    if version is not _V5:
        raise malformed(f"{packet_type.name} has {len(body)} bytes too many")
    reason = _read_reason(body[0], reasons)
    if len(body) == 1:
        return kind(reason=reason)
    properties, at = read_properties(body, 1, allowed)
    _check_end(body, at, packet_type)
    return kind(reason=reason, properties=properties)


def _write_farewell(packet: p.Disconnect | p.Auth, version: Version) -> bytes:
    if version is not _V5:
        if packet.packet_type is PacketType.AUTH:
            raise ValueError("MQTT 3.1.1 has no AUTH")
        return b""
    if packet.properties is not NO_PROPERTIES and packet.properties != NO_PROPERTIES:
        return bytes((packet.reason,)) + write_properties(packet.properties)
    return bytes((packet.reason,)) if packet.reason else b""


_Reader = Callable[[PacketType, bytes, Version], Packet]


def _read_connect(packet_type: PacketType, body: bytes, version: Version) -> Packet:
    return read_connect(body)


_READERS: Final[dict[int, _Reader]] = {
    PacketType.CONNECT: _read_connect,
    PacketType.CONNACK: _read_connack,
    PacketType.PUBACK: _read_ack,
    PacketType.PUBREC: _read_ack,
    PacketType.PUBREL: _read_ack,
    PacketType.PUBCOMP: _read_ack,
    PacketType.SUBSCRIBE: _read_subscribe,
    PacketType.SUBACK: _read_suback,
    PacketType.UNSUBSCRIBE: _read_unsubscribe,
    PacketType.UNSUBACK: _read_unsuback,
    PacketType.PINGREQ: _read_ping,
    PacketType.PINGRESP: _read_ping,
    PacketType.DISCONNECT: _read_farewell,
    PacketType.AUTH: _read_farewell,
}
_WRITERS: Final[dict[PacketType, Callable[[Any, Version], bytes]]] = {
    PacketType.CONNECT: write_connect,
    PacketType.CONNACK: _write_connack,
    PacketType.PUBACK: _write_ack,
    PacketType.PUBREC: _write_ack,
    PacketType.PUBREL: _write_ack,
    PacketType.PUBCOMP: _write_ack,
    PacketType.SUBSCRIBE: _write_subscribe,
    PacketType.SUBACK: _write_suback,
    PacketType.UNSUBSCRIBE: _write_unsubscribe,
    PacketType.UNSUBACK: _write_unsuback,
    PacketType.PINGREQ: _write_nothing,
    PacketType.PINGRESP: _write_nothing,
    PacketType.DISCONNECT: _write_farewell,
    PacketType.AUTH: _write_farewell,
}
