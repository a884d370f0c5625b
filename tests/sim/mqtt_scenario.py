"""Clients of MQTT with sessions that wander between brokers, which die."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.sim.env import Machine
from tests.unit.gateway_mqtt.kit import Ground, MqttClient

ResultT = TypeVar("ResultT")
#: So long a client waits for an answer before it tries another broker.
PATIENCE_MS = 8_000
BROKERS = 3
#: How often a client loses its connection after a step.
DROPS = 0.05


class Gone(Exception):
    """The connection is gone, or answers nothing."""


class Wanderer:
    """A client with a session that is kept; it keeps what clients have to keep."""

    def __init__(self, scenario: Scenario, name: str) -> None:
        self.scenario = scenario
        self.name = name
        self._client: MqttClient | None = None
        self._packet_id = 0
        #: Packet ids of messages of QoS 2 that were received and not released.
        self.unreleased: set[int] = set()
        self.seen: list[bytes] = []
        self.has_subscribed = False

    # -- the connection

    def client(self) -> MqttClient:
        """Return the connection, to whatever broker takes it."""
        while self._client is None or self._client.client.is_closed:
            self._client = self.scenario.connect(self.name)
        return self._client

    def drop(self) -> None:
        if self._client is not None and not self._client.client.is_closed:
            self._client.vanish()
        self._client = None

    def _maybe_drop(self) -> None:
        """Lose the connection between two steps, now and then."""
        if self.scenario.chance.random() < DROPS and not self.scenario.is_quiet:
            self.scenario.ground.wait(self.scenario.chance.randint(0, 20))
            self.drop()

    def _next(self) -> tuple[MqttClient, p.Packet]:
        """Return what comes next, and the connection that it has come by.

        Raises:
            Gone: nothing comes.
        """
        client = self.client()
        ground = self.scenario.ground
        until_ms = ground.env.clock.now_ms() + PATIENCE_MS

        def look() -> bool:
            client._take()
            late = ground.env.clock.now_ms() >= until_ms
            return bool(client.waiting) or client.client.is_closed or late

        ground.loop.run_until(look, 2 * PATIENCE_MS)
        if not client.waiting:
            self.drop()
            raise Gone
        return client, client.waiting.pop(0)

    def _wait(self, found: Callable[[p.Packet], bool]) -> p.Packet:
        """Wait for a packet, and take messages meanwhile.

        Raises:
            Gone: it does not come by this connection.
        """
        first, packet = self._next()
        client = first
        while not found(packet):
            self._take(client, packet)
            self._maybe_drop()
            if self._client is not first:
                raise Gone
            client, packet = self._next()
        return packet

    def _again(self, act: Callable[[bool], ResultT]) -> ResultT:
        """Do something until it is done; all times but the first say so."""
        is_repeated = False
        while True:
            try:
                return act(is_repeated)
            except Gone:
                is_repeated = True

    # -- what it sends

    def subscribe(self, topic: str) -> None:
        def act(_: bool) -> None:
            wanted = (p.Subscription(topic_filter=topic, qos=2),)
            self.client().send(p.Subscribe(packet_id=9_999, subscriptions=wanted))
            self._wait(lambda each: isinstance(each, p.Suback))

        self._again(act)

    def publish(self, topic: str, payload: bytes, qos: int) -> None:
        """Publish until it is acknowledged, with the same packet id each time."""
        self._packet_id += 1
        packet_id = self._packet_id

        def send(is_repeated: bool) -> None:
            packet = p.Publish(
                topic=topic, payload=payload, qos=qos, packet_id=packet_id, dup=is_repeated
            )
            self.client().send(packet)
            self._maybe_drop()
            kind = p.Puback if qos == 1 else p.Pubrec
            answer = self._wait(lambda each: isinstance(each, kind) and each.packet_id == packet_id)
            assert isinstance(answer, p.Acknowledgement)
            assert not answer.reason.is_error, answer

        def release(_: bool) -> None:
            self._maybe_drop()
            self.client().send(p.Pubrel(packet_id=packet_id))
            self._maybe_drop()
            self._wait(lambda each: isinstance(each, p.Pubcomp) and each.packet_id == packet_id)

        self._again(send)
        if qos == 2:
            self._again(release)

    # -- what it gets

    def _take(self, client: MqttClient, packet: p.Packet) -> None:
        match packet:
            case p.Publish(qos=1):
                self.seen.append(packet.payload)
                client.send(p.Puback(packet_id=packet.packet_id))
            case p.Publish(qos=2):
                if packet.packet_id not in self.unreleased:
                    self.unreleased.add(packet.packet_id)
                    self.seen.append(packet.payload)
                client.send(p.Pubrec(packet_id=packet.packet_id))
            case p.Pubrel():
                self.unreleased.discard(packet.packet_id)
                client.send(p.Pubcomp(packet_id=packet.packet_id))

    def listen(self, is_enough: Callable[[], bool]) -> None:
        """Take messages until it has enough, or nothing more comes."""
        while not is_enough():
            try:
                self._take(*self._next())
                self._maybe_drop()
            except Gone:
                if self.scenario.is_quiet:
                    return


class Scenario:
    """Three brokers, of which one at a time is dead, and two clients."""

    def __init__(self, seed: int) -> None:
        self.ground = Ground(seed, brokers=BROKERS)
        self.chance = random.Random(seed)
        self.is_quiet = False
        self._dead = 0
        #: With which broker each client is connected.
        self.at: dict[str, int] = {}
        self.publisher = Wanderer(self, "publisher")
        self.subscriber = Wanderer(self, "subscriber")

    def connect(self, name: str) -> MqttClient | None:
        """Connect with a broker that may be dead or not ready."""
        number = self.chance.randint(1, BROKERS)
        ground = self.ground
        if number == self._dead:
            ground.wait(50)
            return None
        client = MqttClient.__new__(MqttClient)
        try:
            client.__init__(ground, number)  # type: ignore[misc]
            client.send(
                p.Connect(
                    client_id=name,
                    clean_start=False,
                    properties=Properties(session_expiry_interval_s=3_600),
                )
            )
            until_ms = ground.env.clock.now_ms() + 4 * PATIENCE_MS

            def is_answered() -> bool:
                client._take()
                late = ground.env.clock.now_ms() >= until_ms
                return bool(client.waiting) or client.client.is_closed or late

            ground.loop.run_until(is_answered, 8 * PATIENCE_MS)
            if client.waiting:
                connack = client.waiting.pop(0)
                if isinstance(connack, p.Connack) and connack.reason is ReasonCode.SUCCESS:
                    self.at[name] = number
                    return client
        except AssertionError:
            pass
        ground.wait(100)
        return None

    def trouble(self) -> None:
        """Let a broker die soon, and come back later."""
        if self._dead:
            return
        clock = self.ground.env.clock
        number = self.chance.randint(1, BROKERS)
        self._dead = -1
        later_ms = self.chance.randint(500, 4_000)
        clock.call_later(self.chance.randint(0, 30), lambda: self.die(number, later_ms))

    def die(self, number: int, later_ms: int) -> None:
        """Let a broker die, and come back so much later."""
        machine = self.ground.cluster._machines[self.ground.cluster.names[number - 1]]

        def come_back() -> None:
            self.ground.cluster.boot(machine)
            self._dead = 0

        self._dead = number
        self.strike(machine)
        self.ground.env.clock.call_later(later_ms, come_back)

    def strike(self, machine: Machine) -> None:
        """End a broker's process."""
        machine.kill()

    def calm(self) -> None:
        """Wait until all brokers are there."""
        self.ground.loop.run_until(
            lambda: not self._dead and self.ground._are_ready(), 120_000, every_ms=10
        )
        self.is_quiet = True
