"""The packets (5.0, section 3); 3.1.1 has the same but for AUTH, with fewer fields."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

import msgspec

from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode

NO_ERROR: Final = ReasonCode.SUCCESS


class Version(IntEnum):
    """Versions, by the level in CONNECT."""

    V3_1_1 = 4
    V5 = 5


class PacketType(IntEnum):
    """Types, as in the fixed header (table 2-1)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Packet(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all packets."""

    packet_type: ClassVar[PacketType]


class Will(msgspec.Struct, frozen=True, kw_only=True):
    """What is published when a client is gone without having said so."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(Packet, frozen=True, kw_only=True):
    """The first packet of a client."""

    packet_type: ClassVar = PacketType.CONNECT

    version: Version = Version.V5
    client_id: str = ""
    #: In 3.1.1 called clean session, which ends with the connection, too.
    clean_start: bool = True
    #: 0: the client may be silent for ever.
    keep_alive_s: int = 0
    will: Will | None = None
    user_name: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Connack(Packet, frozen=True, kw_only=True):
    """The answer to CONNECT."""

    packet_type: ClassVar = PacketType.CONNACK

    reason: ReasonCode = NO_ERROR
    session_present: bool = False
    properties: Properties = NO_PROPERTIES


class Publish(Packet, frozen=True, kw_only=True):
    """A message; its topic is empty where an alias stands for it."""

    packet_type: ClassVar = PacketType.PUBLISH

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    #: 0 with QoS 0.
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class Acknowledgement(Packet, frozen=True, kw_only=True):
    """Base of the four answers within an exchange of QoS 1 or 2."""

    packet_id: int
    reason: ReasonCode = NO_ERROR
    properties: Properties = NO_PROPERTIES


class Puback(Acknowledgement, frozen=True, kw_only=True):
    """QoS 1: the message has come."""

    packet_type: ClassVar = PacketType.PUBACK


class Pubrec(Acknowledgement, frozen=True, kw_only=True):
    """QoS 2: the message has come."""

    packet_type: ClassVar = PacketType.PUBREC


class Pubrel(Acknowledgement, frozen=True, kw_only=True):
    """QoS 2: the sender knows that, and will not send it again."""

    packet_type: ClassVar = PacketType.PUBREL


class Pubcomp(Acknowledgement, frozen=True, kw_only=True):
    """QoS 2: the packet id is free."""

    packet_type: ClassVar = PacketType.PUBCOMP


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """One filter of a SUBSCRIBE, which may be none: see `filters`."""

    topic_filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    #: 0: send retained messages; 1: if the subscription is new; 2: do not.
    retain_handling: int = 0


class Subscribe(Packet, frozen=True, kw_only=True):
    """What a client wants to receive."""

    packet_type: ClassVar = PacketType.SUBSCRIBE

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES


class Suback(Packet, frozen=True, kw_only=True):
    """The answer: a reason for each filter, in their order."""

    packet_type: ClassVar = PacketType.SUBACK

    packet_id: int
    reasons: tuple[ReasonCode, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(Packet, frozen=True, kw_only=True):
    """What a client no longer wants."""

    packet_type: ClassVar = PacketType.UNSUBSCRIBE

    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(Packet, frozen=True, kw_only=True):
    """The answer; in 3.1.1 without reasons."""

    packet_type: ClassVar = PacketType.UNSUBACK

    packet_id: int
    reasons: tuple[ReasonCode, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(Packet, frozen=True, kw_only=True):
    """The client lives."""

    packet_type: ClassVar = PacketType.PINGREQ


class Pingresp(Packet, frozen=True, kw_only=True):
    """The broker does, too."""

    packet_type: ClassVar = PacketType.PINGRESP


class Disconnect(Packet, frozen=True, kw_only=True):
    """The sender closes, and says why; brokers have none in 3.1.1."""

    packet_type: ClassVar = PacketType.DISCONNECT

    reason: ReasonCode = NO_ERROR
    properties: Properties = NO_PROPERTIES


class Auth(Packet, frozen=True, kw_only=True):
    """A step of a log-in by a method that takes several; 5.0 only."""

    packet_type: ClassVar = PacketType.AUTH

    reason: ReasonCode = NO_ERROR
    properties: Properties = NO_PROPERTIES
