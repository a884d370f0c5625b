"""Clients that speak NATS line by line, at simulated brokers."""

from __future__ import annotations

import json
import re
from typing import Any

from kafkaesque.env.network import Address
from kafkaesque.sim.cluster import NATS_GATEWAYS, NATS_PORT
from tests.unit.chassis.client import Client
from tests.unit.chassis.simulated import SimulatedBrokers

PATIENCE_MS = 60_000
_MESSAGE = re.compile(rb"(H?)MSG (\S+) (\S+) (?:(\S+) )??(?:(\d+) )?(\d+)\r\n")


class Ground(SimulatedBrokers):
    """Simulated brokers with ports for NATS."""

    gateways = NATS_GATEWAYS

    def raw(self, broker: int = 1) -> NatsClient:
        """A client that has said nothing."""
        return NatsClient(self, self.cluster.names[broker - 1])

    def client(self, broker: int = 1, **options: Any) -> NatsClient:
        """A client that has said CONNECT."""
        client = self.raw(broker)
        client.connect(**options)
        return client


class NatsClient:
    """One connection."""

    def __init__(self, ground: Ground, name: str) -> None:
        self.ground = ground
        self.client = Client(ground.env, Address(name, NATS_PORT))
        #: How much of what has come was looked at.
        self._taken = 0
        self.wait_for(lambda: b"\n" in self.client.received)
        line = self.client.received.split(b"\n", 1)[0]
        self._taken = len(line) + 1
        assert line.startswith(b"INFO ")
        self.info: dict[str, Any] = json.loads(line[5:])

    def wait_for(self, condition: Any) -> None:
        self.ground.loop.run_until(condition, PATIENCE_MS)

    def connect(self, **options: Any) -> None:
        told = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        self.write(b"CONNECT " + json.dumps({**told, **options}).encode() + b"\r\n")
        self.flush()

    def write(self, data: bytes) -> None:
        self.client.link.write((data,))

    @property
    def is_closed(self) -> bool:
        return self.client.is_closed

    @property
    def waiting(self) -> bytes:
        """What has come and was not taken."""
        return self.client.received[self._taken :]

    def take(self) -> bytes:
        """Return what has come."""
        found = self.waiting
        self._taken += len(found)
        return found

    def flush(self) -> bytes:
        """Return what comes before the answer to a PING."""
        self.write(b"PING\r\n")
        return self.until(b"PONG\r\n")

    def until(self, end: bytes) -> bytes:
        """Return what comes before these bytes."""
        self.wait_for(lambda: end in self.waiting or self.is_closed)
        found, there, _ = self.waiting.partition(end)
        assert there, found
        self._taken += len(found) + len(there)
        return found

    def subscribe(self, subject: str, sid: str = "1", group: str = "") -> None:
        """Subscribe, and wait until all brokers know."""
        self.write(f"SUB {subject} {group} {sid}\r\n".encode())
        self.flush()

    def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        self.write(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")

    def message(self) -> tuple[str, str, str, bytes, bytes]:
        """Return the next message: subject, sid, reply, headers, payload."""

        def is_there() -> bool:
            found = _MESSAGE.match(self.waiting)
            return found is not None and len(self.waiting) >= found.end() + int(found[6]) + 2

        self.wait_for(lambda: is_there() or self.is_closed)
        found = _MESSAGE.match(self.waiting)
        assert found is not None, self.waiting
        end = found.end() + int(found[6])
        body = self.waiting[found.end() : end]
        self._taken += end + 2
        split = int(found[5] or 0)
        subject, sid, reply = (each.decode() for each in (found[2], found[3], found[4] or b""))
        return subject, sid, reply, body[:split], body[split:]
