"""Properties of packets in MQTT 5.0 (section 2.2.2): which there are, where, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kafkaesque.protocols.mqtt.errors import malformed, protocol_error
from kafkaesque.protocols.mqtt.wire import (
    CUT_SHORT,
    U16,
    U32,
    read_binary,
    read_text,
    read_varint,
    write_binary,
    write_text,
    write_varint,
)

#: Properties of one packet; more are refused, as user properties may repeat without end.
PROPERTIES_MAX: Final = 1_000


class Properties(msgspec.Struct, frozen=True, kw_only=True):
    """What a packet says beside its fields; None: nothing."""

    payload_format_indicator: int | None = None
    message_expiry_interval_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    #: In a SUBSCRIBE one at most; in a PUBLISH those of all subscriptions that match.
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval_s: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_interval_s: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    #: Names may repeat, and the order counts (3.3.2-18).
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size_bytes: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifier_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES: Final = Properties()


def _read_flag(data: bytes, at: int) -> tuple[int, int]:
    if data[at] > 1:
        raise protocol_error(f"a property is {data[at]}, and can be 0 or 1")
    return data[at], at + 1


def _read_u16(data: bytes, at: int) -> tuple[int, int]:
    return U16.unpack_from(data, at)[0], at + 2


def _read_u32(data: bytes, at: int) -> tuple[int, int]:
    return U32.unpack_from(data, at)[0], at + 4


def _read_pair(data: bytes, at: int) -> tuple[tuple[str, str], int]:
    name, at = read_text(data, at)
    value, at = read_text(data, at)
    return (name, value), at


def _write_byte(value: int) -> bytes:
    return bytes((value,))


def _write_pair(pair: tuple[str, str]) -> bytes:
    return write_text(pair[0]) + write_text(pair[1])


_Reader = Callable[[bytes, int], tuple[Any, int]]
_Writer = Callable[[Any], bytes]
_FLAG: Final = (_read_flag, _write_byte)
_U16: Final = (_read_u16, U16.pack)
_U32: Final = (_read_u32, U32.pack)
_VARINT: Final = (read_varint, write_varint)
_TEXT: Final = (read_text, write_text)
_BINARY: Final = (read_binary, write_binary)
_PAIR: Final = (_read_pair, _write_pair)

#: By identifier: the field, how it is read and how written (table 2-4).
_FIELDS: Final[dict[int, tuple[str, _Reader, _Writer]]] = {
    0x01: ("payload_format_indicator", *_FLAG),
    0x02: ("message_expiry_interval_s", *_U32),
    0x03: ("content_type", *_TEXT),
    0x08: ("response_topic", *_TEXT),
    0x09: ("correlation_data", *_BINARY),
    0x0B: ("subscription_identifiers", *_VARINT),
    0x11: ("session_expiry_interval_s", *_U32),
    0x12: ("assigned_client_identifier", *_TEXT),
    0x13: ("server_keep_alive_s", *_U16),
    0x15: ("authentication_method", *_TEXT),
    0x16: ("authentication_data", *_BINARY),
    0x17: ("request_problem_information", *_FLAG),
    0x18: ("will_delay_interval_s", *_U32),
    0x19: ("request_response_information", *_FLAG),
    0x1A: ("response_information", *_TEXT),
    0x1C: ("server_reference", *_TEXT),
    0x1F: ("reason_string", *_TEXT),
    0x21: ("receive_maximum", *_U16),
    0x22: ("topic_alias_maximum", *_U16),
    0x23: ("topic_alias", *_U16),
    0x24: ("maximum_qos", *_FLAG),
    0x25: ("retain_available", *_FLAG),
    0x26: ("user_properties", *_PAIR),
    0x27: ("maximum_packet_size_bytes", *_U32),
    0x28: ("wildcard_subscription_available", *_FLAG),
    0x29: ("subscription_identifier_available", *_FLAG),
    0x2A: ("shared_subscription_available", *_FLAG),
}
_MANY: Final = frozenset((0x0B, 0x26))
#: Zero is a protocol error (3.8.2.1.2, 3.1.2.11.3, 3.1.2.11.4).
_NEVER_ZERO: Final = frozenset((0x0B, 0x21, 0x27))

_IN_MESSAGES: Final = frozenset((0x01, 0x02, 0x03, 0x08, 0x09, 0x26))
_IN_ACKS: Final = frozenset((0x1F, 0x26))

#: What each packet may have (table 2-4).
IN_CONNECT: Final = frozenset((0x11, 0x15, 0x16, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27))
IN_WILL: Final = _IN_MESSAGES | {0x18}
IN_CONNACK: Final = frozenset(
    (
        *(0x11, 0x12, 0x13, 0x15, 0x16, 0x1A, 0x1C, 0x1F),
        *(0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A),
    )
)
IN_PUBLISH: Final = _IN_MESSAGES | {0x0B, 0x23}
IN_ACK: Final = _IN_ACKS
IN_SUBSCRIBE: Final = frozenset((0x0B, 0x26))
IN_UNSUBSCRIBE: Final = frozenset((0x26,))
IN_DISCONNECT: Final = frozenset((0x11, 0x1C, 0x1F, 0x26))
IN_AUTH: Final = frozenset((0x15, 0x16, 0x1F, 0x26))


def read_properties(data: bytes, at: int, allowed: frozenset[int]) -> tuple[Properties, int]:
    """Return the properties that begin at a place, and the position behind them.

    Raises:
        MqttError: they are malformed, repeated, in the wrong packet, or have impossible values.
        IndexError: their length is cut short.
    """
    size, at = read_varint(data, at)
    if not size:
        return NO_PROPERTIES, at
    end = at + size
    if end > len(data):
        raise malformed("a packet ends within its properties")
    # Cut here, so that no property reaches into what follows.
    raw = data[at:end]
    try:
        return _read_all(raw, allowed), end
    except CUT_SHORT:
        raise malformed("a property is cut short") from None


def _read_all(raw: bytes, allowed: frozenset[int]) -> Properties:
    values: dict[str, Any] = {}
    at = count = 0
    while at < len(raw):
        count += 1
        if count > PROPERTIES_MAX:
            raise malformed(f"a packet has more than {PROPERTIES_MAX} properties")
        # An identifier is a variable byte integer, and all that there are have one byte.
        identifier = raw[at]
        if identifier not in allowed:
            raise malformed(f"property {identifier:#04x} cannot be in this packet")
        name, read, _ = _FIELDS[identifier]
        value, at = read(raw, at + 1)
        if value == 0 and identifier in _NEVER_ZERO:
            raise protocol_error(f"{name} cannot be 0")
        if identifier in _MANY:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise protocol_error(f"{name} stands twice")
        else:
            values[name] = value
    for name in ("user_properties", "subscription_identifiers"):
        if name in values:
            values[name] = tuple(values[name])
    return Properties(**values)


#: In the order of the identifiers.
_WRITERS: Final = tuple(
    (bytes((identifier,)), name, write, identifier in _MANY)
    for identifier, (name, _, write) in _FIELDS.items()
)


def write_properties(properties: Properties) -> bytes:
    """Return properties behind their length.

    Raises:
        ValueError: a value does not fit into its field.
    """
    if properties is NO_PROPERTIES:
        return b"\0"
    raw = write_bare_properties(properties)
    return write_varint(len(raw)) + raw


def write_bare_properties(properties: Properties) -> bytes:
    """Return properties without the length before them.

    Raises:
        ValueError: a value does not fit into its field.
    """
    parts = []
    try:
        for identifier, name, write, is_many in _WRITERS:
            value = getattr(properties, name)
            if is_many:
                parts += [identifier + write(each) for each in value]
            elif value is not None:
                parts.append(identifier + write(value))
    except CUT_SHORT as error:
        raise ValueError(f"a property cannot be written: {error}") from None
    return b"".join(parts)
