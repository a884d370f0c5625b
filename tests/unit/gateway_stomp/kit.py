"""Clients that speak STOMP frame by frame, at simulated brokers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from kafkaesque.env.network import Address
from kafkaesque.protocols.stomp.frames import Frame, FrameReader, write_headers
from kafkaesque.protocols.stomp.versions import Version
from kafkaesque.sim.cluster import STOMP_GATEWAYS, STOMP_PORT
from tests.unit.chassis.client import Client
from tests.unit.gateway_amqp import kit as amqp_kit
from tests.unit.gateway_amqp.kit import PATIENCE_MS

_names = itertools.count()
_receipts = itertools.count()


class Ground(amqp_kit.Ground):
    """Simulated brokers with ports for STOMP, and for AMQP."""

    gateways = STOMP_GATEWAYS

    def stomp(
        self, broker: int = 1, version: str = "1.2", headers: Mapping[str, str] | None = None
    ) -> StompClient:
        """A client that is connected."""
        client = StompClient(self, self.cluster.names[broker - 1])
        client.connect(version, headers)
        return client

    def stranger(self, broker: int = 1) -> StompClient:
        """A client that has said nothing."""
        return StompClient(self, self.cluster.names[broker - 1])

    def amqp(self, broker: int = 1) -> amqp_kit.AmqpClient:
        """A client of AMQP with channel 1."""
        found = self.client(broker)
        found.open()
        return found


class StompClient:
    """One connection."""

    def __init__(self, ground: Ground, name: str) -> None:
        self.ground = ground
        self.client = Client(ground.env, Address(name, STOMP_PORT))
        self.version = Version.V1_2
        bounds = {"command_bytes_max": 32, "headers_max": 1_000, "head_bytes_max": 2**20}
        self._frames = FrameReader(**bounds, body_bytes_max=2**30)
        self._taken = 0
        self._waiting: list[Frame] = []
        ground.loop.run_until(lambda: self.client.connection is not None, PATIENCE_MS)

    # -- sending

    def write(self, data: bytes) -> None:
        self.client.link.write((data,))

    def send(self, command: str, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        head = write_headers(tuple((headers or {}).items()), self.version)
        self.write(b"".join((command.encode(), b"\n", head, b"\n", body, b"\0")))

    def connect(self, version: str = "1.2", headers: Mapping[str, str] | None = None) -> Frame:
        said = {"accept-version": version, "host": "localhost", **(headers or {})}
        if version == "1.0":
            del said["accept-version"]
        self.write(b"CONNECT\n" + write_headers(tuple(said.items()), Version.V1_0) + b"\n\0")
        connected = self.expect("CONNECTED")
        self.version = Version(version)
        self._frames.version = self.version
        return connected

    def call(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        """Send a frame, and wait for its receipt."""
        receipt = f"r{next(_receipts)}"
        self.send(command, {**headers, "receipt": receipt}, body)
        self.receipt(receipt)

    def publish(self, destination: str, body: bytes, **headers: str) -> None:
        """Send a message, and wait until it is in its queues."""
        named = {each.replace("_", "-"): value for each, value in headers.items()}
        self.call("SEND", {"destination": destination, **named}, body)

    def subscribe(self, destination: str, name: str = "s", **headers: str) -> None:
        named = {each.replace("_", "-"): value for each, value in headers.items()}
        self.call("SUBSCRIBE", {"destination": destination, "id": name, **named})

    def ack(self, message: Frame, command: str = "ACK", **more: str) -> None:
        if self.version is Version.V1_2:
            said = {"id": message.get("ack") or ""}
        else:
            said = {"message-id": message.get("message-id") or ""}
            said["subscription"] = message.get("subscription") or ""
        self.send(command, {**said, **more})

    # -- receiving

    def _take(self) -> None:
        data = self.client.received[self._taken :]
        self._taken += len(data)
        self._frames.feed(data)
        while (frame := self._frames.next_frame()) is not None:
            self._waiting.append(frame)

    def next(self, *commands: str) -> Frame:
        """Return the next frame of one of these commands; without any, the next one."""

        def found() -> int | None:
            self._take()
            numbers = (
                at
                for at, each in enumerate(self._waiting)
                if not commands or each.command in (*commands, "ERROR")
            )
            return next(numbers, None)

        self.ground.loop.run_until(
            lambda: found() is not None or self.client.is_closed, PATIENCE_MS
        )
        at = found()
        assert at is not None, "the broker has closed the connection"
        return self._waiting.pop(at)

    def expect(self, command: str) -> Frame:
        """Return the next frame, which has to be of a command."""
        found = self.next(command)
        assert found.command == command, found
        return found

    def message(self) -> Frame:
        return self.expect("MESSAGE")

    def receipt(self, name: str) -> None:
        found = self.expect("RECEIPT")
        assert found.get("receipt-id") == name, found

    def error(self, text: str) -> Frame:
        """The broker has an error for us, and closes the connection."""
        found = self.expect("ERROR")
        assert text in (found.get("message") or ""), found
        self.ground.loop.run_until(lambda: self.client.is_closed, PATIENCE_MS)
        return found

    def silent(self, ms: int = 500) -> bool:
        """Tell whether nothing comes for a while."""
        self.ground.wait(ms)
        self._take()
        return not self._waiting

    def close(self) -> None:
        """Hang up, without a word."""
        self.client.link.abort()
        self.ground.wait(100)


def new_name() -> str:
    """Return a name that no other test has."""
    return f"stomp-{next(_names)}"
