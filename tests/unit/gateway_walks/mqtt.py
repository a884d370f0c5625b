"""Clients of MQTT, in both versions."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any, ClassVar, Final

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.frames import FrameReader
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.sim.cluster import MQTT_PORT
from tests.unit.gateway_walks.speaker import Speaker

CLIENTS: Final = ("c0", "c1", "c2", "c0", "")
TOPICS: Final = ("walk/a", "walk/b", "walk/a/b", "q0", "q1", "walk.a")
FILTERS: Final = (
    *TOPICS,
    "#",
    "+/a",
    "walk/#",
    "walk/+/b",
    "$share/g/walk/#",
    "$share/g/q0",
    "$share/h/#",
    "$share//a",
    "$share/g/",
    "$SYS/#",
    "$queue/q0",
    "+",
    "walk/+",
)


class MqttSpeaker(Speaker):
    port: ClassVar = MQTT_PORT

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.version = dice.choice((Version.V5, Version.V5, Version.V3_1_1))
        self.frames = FrameReader(2**28)
        self.acknowledged: list[p.Acknowledgement] = []
        self.packet_id = 0
        self.sent: list[int] = []

    def write(self, *packets: p.Packet) -> bytes:
        found = b""
        for each in packets:
            with suppress(Exception):
                found += write_packet(each, self.version)
        return found

    def connect(self) -> p.Connect:
        dice = self.dice
        properties = NO_PROPERTIES
        if self.version is Version.V5:
            properties = Properties(
                session_expiry_interval_s=dice.choice((None, 0, 1, 60, 3_600, 2**32 - 1)),
                receive_maximum=dice.choice((None, None, 1, 2, 65_535)),
                topic_alias_maximum=dice.choice((None, 0, 1, 10)),
                maximum_packet_size_bytes=dice.choice((None, None, None, 30, 100)),
                request_problem_information=dice.choice((None, 0, 1)),
                request_response_information=dice.choice((None, None, 1)),
                authentication_method=dice.choice((None,) * 12 + ("SCRAM-SHA-256", "x")),
                user_properties=(("a", self.word()),) if self.one_in(5) else (),
            )
        will = None
        if self.one_in(3):
            of_will = NO_PROPERTIES
            if self.version is Version.V5:
                of_will = Properties(
                    will_delay_interval_s=dice.choice((None, 0, 1, 10, 100)),
                    message_expiry_interval_s=dice.choice((None, 0, 1, 100)),
                    response_topic=dice.choice((None, "walk/a", self.word())),
                    payload_format_indicator=dice.choice((None, 1)),
                )
            will = p.Will(
                topic=self.topic(),
                payload=self.body(),
                qos=dice.randrange(3),
                retain=self.one_in(3),
                properties=of_will,
            )
        return p.Connect(
            version=self.version,
            client_id=dice.choice(CLIENTS) if dice.randrange(10) else self.word(),
            clean_start=self.one_in(2),
            keep_alive_s=dice.choice((0, 0, 1, 5, 60)),
            will=will,
            user_name=dice.choice((None, None, "u")),
            password=None,
            properties=properties,
        )

    def opening(self) -> bytes:
        return self.write(self.connect())

    def topic(self) -> str:
        return self.word() if self.one_in(12) else self.dice.choice(TOPICS)

    def hear(self, data: bytes) -> None:
        with suppress(Exception):
            self.frames.feed(data)
            while (frame := self.frames.next_packet()) is not None:
                found = read_packet(*frame, self.version)
                if isinstance(found, p.Publish) and found.qos:
                    kind: type[p.Acknowledgement] = p.Puback if found.qos == 1 else p.Pubrec
                    self.acknowledged.append(kind(packet_id=found.packet_id))
                elif isinstance(found, p.Pubrec):
                    self.acknowledged.append(p.Pubrel(packet_id=found.packet_id))
                elif isinstance(found, p.Pubrel):
                    self.acknowledged.append(p.Pubcomp(packet_id=found.packet_id))

    def new_id(self) -> int:
        if self.one_in(8):
            return self.dice.choice((1, 2, 65_535))
        self.packet_id += 1
        return self.packet_id

    def say(self) -> bytes:
        dice = self.dice
        choice = dice.randrange(100)
        if choice < 35:
            return self.write(self.published())
        if choice < 55 and self.acknowledged:
            found = self.acknowledged.pop(0 if dice.randrange(5) else -1)
            if self.version is Version.V5 and self.one_in(15):
                reason = ReasonCode.UNSPECIFIED_ERROR
                found = type(found)(packet_id=found.packet_id, reason=reason)
            return self.write(found)
        if choice < 75:
            return self.write(self.subscribe())
        if choice < 82:
            filters = tuple(self.filter() for _ in range(dice.choice((1, 1, 3))))
            return self.write(p.Unsubscribe(packet_id=self.new_id(), topic_filters=filters))
        if choice < 86:
            return self.write(p.Pingreq())
        if choice < 89:
            properties = NO_PROPERTIES
            if self.version is Version.V5:
                properties = Properties(session_expiry_interval_s=dice.choice((None, 0, 5, 100)))
            reason = dice.choice((ReasonCode.SUCCESS, ReasonCode.DISCONNECT_WITH_WILL))
            return self.write(p.Disconnect(reason=reason, properties=properties))
        if choice < 90:
            return self.write(self.connect())
        if choice < 91:
            return self.write(p.Auth(reason=ReasonCode.CONTINUE_AUTHENTICATION))
        kind: Any = dice.choice((p.Puback, p.Pubrec, p.Pubrel, p.Pubcomp))
        return self.write(kind(packet_id=self.new_id()))

    def filter(self) -> str:
        return self.word() if self.one_in(12) else self.dice.choice(FILTERS)

    def subscribe(self) -> p.Subscribe:
        dice = self.dice
        subscriptions = tuple(
            p.Subscription(
                topic_filter=self.filter(),
                qos=dice.randrange(3),
                no_local=self.version is Version.V5 and self.one_in(5),
                retain_as_published=self.version is Version.V5 and self.one_in(3),
                retain_handling=dice.randrange(3) if self.version is Version.V5 else 0,
            )
            for _ in range(dice.choice((1, 1, 1, 2, 5)))
        )
        properties = NO_PROPERTIES
        if self.version is Version.V5 and self.one_in(3):
            properties = Properties(subscription_identifiers=(dice.choice((1, 5, 268_435_455)),))
        return p.Subscribe(
            packet_id=self.new_id(), subscriptions=subscriptions, properties=properties
        )

    def published(self) -> p.Publish:
        dice = self.dice
        qos = dice.randrange(3)
        properties = NO_PROPERTIES
        topic = self.topic()
        if self.version is Version.V5 and self.one_in(2):
            alias = dice.choice((None, None, None, 1, 2, 65_535))
            if alias is not None and self.one_in(2):
                topic = ""
            properties = Properties(
                topic_alias=alias,
                message_expiry_interval_s=dice.choice((None, None, 0, 1, 60)),
                response_topic=dice.choice((None, None, "walk/b", self.word())),
                correlation_data=dice.choice((None, b"", b"\xff")),
                content_type=dice.choice((None, "t", self.word())),
                payload_format_indicator=dice.choice((None, None, 0, 1)),
                user_properties=tuple((self.word(), self.word()) for _ in range(dice.randrange(3))),
            )
        return p.Publish(
            topic=topic,
            payload=self.body(),
            qos=qos,
            retain=self.one_in(4),
            dup=bool(qos) and self.one_in(6),
            packet_id=self.new_id() if qos else 0,
            properties=properties,
        )
