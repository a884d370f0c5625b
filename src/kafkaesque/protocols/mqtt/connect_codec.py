"""CONNECT (5.0, section 3.1): the packet that says which version the others are in."""

from __future__ import annotations

from typing import Final

from kafkaesque.protocols.mqtt import properties as props
from kafkaesque.protocols.mqtt.errors import MqttError, malformed, protocol_error
from kafkaesque.protocols.mqtt.filters import is_topic_name
from kafkaesque.protocols.mqtt.packets import Connect, Version, Will
from kafkaesque.protocols.mqtt.properties import (
    NO_PROPERTIES,
    Properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.protocols.mqtt.wire import (
    U16,
    read_binary,
    read_text,
    write_binary,
    write_text,
)

_NAME: Final = b"\x00\x04MQTT"
#: The name that 3.1 had, with its level.
_OLD_NAME: Final = b"\x00\x06MQIsdp"

_RESERVED: Final = 0x01
_CLEAN_START: Final = 0x02
_WILL: Final = 0x04
_WILL_RETAIN: Final = 0x20
_PASSWORD: Final = 0x40
_USER_NAME: Final = 0x80
#: What says something of a will.
_ABOUT_WILL: Final = 0x38


class UnknownVersion(MqttError):
    """The peer speaks MQTT in a version that is not spoken here; `answer_in` is nearest to it."""

    def __init__(self, what: str, answer_in: Version) -> None:
        super().__init__(ReasonCode.UNSUPPORTED_VERSION, what)
        self.answer_in = answer_in


class NotMqtt(MqttError):
    """What the peer speaks is something else, and would not understand an answer."""

    def __init__(self, what: str) -> None:
        super().__init__(ReasonCode.PROTOCOL_ERROR, what)


def read_version(body: bytes) -> tuple[Version, int]:
    """Return the version of a CONNECT, and the position behind it.

    Raises:
        UnknownVersion: it is another one.
        NotMqtt: it is another protocol.
        IndexError: it is cut short.
    """
    if body.startswith(_OLD_NAME):
        raise UnknownVersion("MQTT 3.1 is not spoken here", Version.V3_1_1)
    if not body.startswith(_NAME):
        raise NotMqtt("CONNECT does not name MQTT")
    level = body[len(_NAME)]
    if level not in (Version.V3_1_1, Version.V5):
        nearest = Version.V5 if level > Version.V5 else Version.V3_1_1
        raise UnknownVersion(f"MQTT of level {level} is not spoken here", nearest)
    return Version(level), len(_NAME) + 1


def read_connect(body: bytes) -> Connect:
    """Return a CONNECT.

    Raises:
        MqttError: it is malformed, or says what cannot be.
        IndexError, struct.error: it is cut short.
    """
    version, at = read_version(body)
    flags = body[at]
    _check_flags(flags, version)
    (keep_alive_s,) = U16.unpack_from(body, at + 1)
    at += 3
    properties = NO_PROPERTIES
    if version is Version.V5:
        properties, at = read_properties(body, at, props.IN_CONNECT)
        if properties.authentication_data is not None and properties.authentication_method is None:
            raise protocol_error("CONNECT has authentication data and no method")
    client_id, at = read_text(body, at)
    will = user_name = password = None
    if flags & _WILL:
        will, at = _read_will(flags, body, at, version)
    if flags & _USER_NAME:
        user_name, at = read_text(body, at)
    if flags & _PASSWORD:
        password, at = read_binary(body, at)
    if at != len(body):
        raise malformed(f"CONNECT has {len(body) - at} bytes too many")
    return Connect(
        version=version,
        client_id=client_id,
        clean_start=flags & _CLEAN_START != 0,
        keep_alive_s=keep_alive_s,
        will=will,
        user_name=user_name,
        password=password,
        properties=properties,
    )


def _check_flags(flags: int, version: Version) -> None:
    if flags & _RESERVED:
        raise malformed("CONNECT has its reserved flag set (3.1.2-3)")
    if flags & _WILL:
        if flags >> 3 & 3 == 3:
            raise malformed("a will's QoS is 3 (3.1.2-12)")
    elif flags & _ABOUT_WILL:
        raise malformed("CONNECT has flags of a will, and none (3.1.2-11, 3.1.2-13)")
    if version is Version.V3_1_1 and flags & _PASSWORD and not flags & _USER_NAME:
        raise protocol_error("a password without a user name (3.1.1: 3.1.2-22)")


def _read_will(flags: int, body: bytes, at: int, version: Version) -> tuple[Will, int]:
    properties = NO_PROPERTIES
    if version is Version.V5:
        properties, at = read_properties(body, at, props.IN_WILL)
        check_response_topic(properties)
    topic, at = read_text(body, at)
    if not is_topic_name(topic):
        raise MqttError(ReasonCode.TOPIC_NAME_INVALID, f"a will cannot be published to {topic!r}")
    payload, at = read_binary(body, at)
    qos, retain = flags >> 3 & 3, flags & _WILL_RETAIN != 0
    return Will(topic=topic, payload=payload, qos=qos, retain=retain, properties=properties), at


def check_response_topic(properties: Properties) -> None:
    """Refuse a response topic that is none (3.3.2-14).

    Raises:
        MqttError: it is none.
    """
    topic = properties.response_topic
    if topic is not None and not is_topic_name(topic):
        raise protocol_error(f"no response can be published to {topic!r}")


def write_connect(packet: Connect, version: Version) -> bytes:
    """Return a CONNECT without its header; the version is the packet's own.

    Raises:
        ValueError: a value does not fit into its field.
    """
    version, will = packet.version, packet.will
    flags = _CLEAN_START if packet.clean_start else 0
    if will is not None:
        flags |= _WILL | will.qos << 3 | (_WILL_RETAIN if will.retain else 0)
    if packet.user_name is not None:
        flags |= _USER_NAME
    if packet.password is not None:
        flags |= _PASSWORD
    is_v5 = version is Version.V5
    parts = [_NAME, bytes((version, flags)), U16.pack(packet.keep_alive_s)]
    if is_v5:
        parts.append(write_properties(packet.properties))
    parts.append(write_text(packet.client_id))
    if will is not None:
        if is_v5:
            parts.append(write_properties(will.properties))
        parts += (write_text(will.topic), write_binary(will.payload))
    if packet.user_name is not None:
        parts.append(write_text(packet.user_name))
    if packet.password is not None:
        parts.append(write_binary(packet.password))
    return b"".join(parts)
