"""Clients that speak MQTT packet by packet, at simulated brokers."""

from __future__ import annotations

import itertools
from typing import TypeVar

import msgspec

from kafkaesque.env.network import Address
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.frames import FrameReader
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.sim.cluster import AMQP_PORT, MQTT_GATEWAYS, MQTT_PORT
from tests.unit.chassis.client import Client
from tests.unit.chassis.simulated import SimulatedBrokers

PATIENCE_MS = 60_000
PacketT = TypeVar("PacketT", bound=p.Packet)
_names = itertools.count()

__all__ = ["AMQP_PORT", "Ground", "MqttClient", "new_name"]


def new_name(of: str = "client") -> str:
    """Return a name that no other test has."""
    return f"{of}{next(_names)}"


class Ground(SimulatedBrokers):
    """Simulated brokers with ports for MQTT and AMQP."""

    gateways = MQTT_GATEWAYS

    def client(
        self,
        client_id: str = "",
        broker: int = 1,
        *,
        version: Version = Version.V5,
        clean: bool = True,
        expiry_s: int | None = None,
        will: p.Will | None = None,
        keep_alive_s: int = 0,
        properties: Properties = NO_PROPERTIES,
    ) -> MqttClient:
        """A client that is let in."""
        client = MqttClient(self, broker, version)
        if expiry_s is not None:
            properties = msgspec.structs.replace(properties, session_expiry_interval_s=expiry_s)
        client.connack = client.connect(
            p.Connect(
                version=version,
                client_id=client_id,
                clean_start=clean,
                will=will,
                keep_alive_s=keep_alive_s,
                properties=properties,
            )
        )
        assert client.connack.reason is ReasonCode.SUCCESS, client.connack
        return client

    def session(self, client_id: str, broker: int = 1, *, clean: bool = False) -> MqttClient:
        """A client with a session that is kept for an hour."""
        return self.client(client_id, broker, clean=clean, expiry_s=3_600)


class MqttClient:
    """One connection."""

    def __init__(self, ground: Ground, broker: int = 1, version: Version = Version.V5) -> None:
        self.ground = ground
        self.version = version
        name = ground.cluster.names[broker - 1]
        self.client = Client(ground.env, Address(name, MQTT_PORT))
        self._frames = FrameReader(2**28)
        self._taken = 0
        self.waiting: list[p.Packet] = []
        self.connack = p.Connack()
        self._aliases: dict[int, str] = {}
        self._ids = itertools.count(1)
        ground.loop.run_until(
            lambda: self.client.connection is not None or self.client.is_closed, PATIENCE_MS
        )

    # -- sending

    def write(self, data: bytes) -> None:
        self.client.link.write((data,))

    def send(self, *packets: p.Packet) -> None:
        self.write(b"".join(write_packet(each, self.version) for each in packets))

    def connect(self, packet: p.Connect) -> p.Connack:
        self.send(packet)
        return self.expect(p.Connack)

    def subscribe(
        self, *filters: str | p.Subscription, qos: int = 2, identifier: int = 0
    ) -> tuple[ReasonCode, ...]:
        """Subscribe; return what was granted."""
        wanted = tuple(
            p.Subscription(topic_filter=each, qos=qos) if isinstance(each, str) else each
            for each in filters
        )
        properties = NO_PROPERTIES
        if identifier:
            properties = Properties(subscription_identifiers=(identifier,))
        packet_id = next(self._ids)
        self.send(p.Subscribe(packet_id=packet_id, subscriptions=wanted, properties=properties))
        suback = self.expect(p.Suback)
        assert suback.packet_id == packet_id
        return suback.reasons

    def unsubscribe(self, *filters: str) -> tuple[ReasonCode, ...]:
        self.send(p.Unsubscribe(packet_id=next(self._ids), topic_filters=filters))
        return self.expect(p.Unsuback).reasons

    def publish(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 1,
        *,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> ReasonCode:
        """Publish, and return what the broker says in the end."""
        packet_id = next(self._ids) if qos else 0
        self.send(
            p.Publish(
                topic=topic,
                payload=payload,
                qos=qos,
                retain=retain,
                packet_id=packet_id,
                properties=properties,
            )
        )
        if qos == 0:
            return ReasonCode.SUCCESS
        if qos == 1:
            return self.expect(p.Puback).reason
        pubrec = self.expect(p.Pubrec)
        if not pubrec.reason.is_error:
            self.send(p.Pubrel(packet_id=packet_id))
            assert self.expect(p.Pubcomp).packet_id == packet_id
        return pubrec.reason

    # -- receiving

    def _take(self) -> None:
        data = self.client.received[self._taken :]
        self._taken += len(data)
        self._frames.feed(data)
        while (frame := self._frames.next_packet()) is not None:
            self.waiting.append(read_packet(*frame, self.version))

    def find(self, kind: type[p.Packet]) -> int | None:
        """Return where the next packet of a kind waits, if one has come."""
        self._take()
        numbers = (at for at, each in enumerate(self.waiting) if isinstance(each, kind))
        return next(numbers, None)

    def expect(self, kind: type[PacketT]) -> PacketT:
        """Return the next packet of a kind; others wait for the next calls."""
        self.ground.loop.run_until(
            lambda: self.find(kind) is not None or self.client.is_closed, PATIENCE_MS
        )
        at = self.find(kind)
        assert at is not None, f"closed: {self.waiting}"
        packet = self.waiting.pop(at)
        assert isinstance(packet, kind)
        return packet

    def message(self, *, acknowledge: bool = True) -> p.Publish:
        """Return the next message, and answer it."""
        found = self.expect(p.Publish)
        if acknowledge:
            self.acknowledge(found)
        return found

    def acknowledge(self, found: p.Publish) -> None:
        if found.qos == 1:
            self.send(p.Puback(packet_id=found.packet_id))
        elif found.qos == 2:
            self.send(p.Pubrec(packet_id=found.packet_id))
            assert self.expect(p.Pubrel).packet_id == found.packet_id
            self.send(p.Pubcomp(packet_id=found.packet_id))

    def payloads(self, count: int) -> list[bytes]:
        """Return what the next messages hold."""
        return [self.message().payload for _ in range(count)]

    def is_silent(self, ms: int = 500) -> bool:
        """Tell whether nothing comes for a while."""
        self.ground.wait(ms)
        self._take()
        return not self.waiting

    def ends(self) -> ReasonCode | None:
        """Wait for the end of the connection, and return why it has ended."""
        self.ground.loop.run_until(lambda: self.client.is_closed, PATIENCE_MS)
        self._take()
        found = [each for each in self.waiting if isinstance(each, p.Disconnect | p.Connack)]
        return found[-1].reason if found else None

    def disconnect(self, reason: ReasonCode = ReasonCode.SUCCESS) -> None:
        self.send(p.Disconnect(reason=reason))
        self.ground.loop.run_until(lambda: self.client.is_closed, PATIENCE_MS)

    def vanish(self) -> None:
        """Be gone without a farewell."""
        self.client.link.abort()
        self.ground.wait(10)
