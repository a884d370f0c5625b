"""Brokers with ports for STOMP, WebSocket and AMQP, and stomp.py at them."""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stomp

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.amqp_cluster import AmqpCluster
from tests.waiting import DEADLINE_S

_receipts = itertools.count()
VERSIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}


class StompCluster(AmqpCluster):
    """Brokers of ours, each with a port for STOMP, one for WebSocket and one for AMQP."""

    def __init__(self, brokers: int, directory: Path) -> None:
        self.stomp_ports = unused_ports(brokers)
        self.web_ports = unused_ports(brokers)
        super().__init__(brokers, directory)

    def _section(self, number: int) -> str:
        ports = {"stomp": self.stomp_ports[number - 1], "websocket": self.web_ports[number - 1]}
        tables = [
            f'\n[[listener]]\nprotocol = "{name}"\nport = {port}\n' for name, port in ports.items()
        ]
        return super()._section(number) + "".join(tables)

    @contextmanager
    def stomp(self, number: int = 1, version: str = "1.2", **more: Any) -> Iterator[StompClient]:
        """stomp.py, connected with a broker."""
        address = [("127.0.0.1", self.stomp_ports[number - 1])]
        with connected(VERSIONS[version](address, reconnect_attempts_max=1, **more)) as client:
            yield client


@contextmanager
def connected(connection: Any) -> Iterator[StompClient]:
    """A client that is connected; it hangs up at the end."""
    client = StompClient(connection)
    connection.connect(wait=True)
    try:
        yield client
    finally:
        if connection.is_connected():
            connection.disconnect()


class StompClient(stomp.ConnectionListener):  # type: ignore[misc]
    """A client, and what it is told."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.messages: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[str] = queue.Queue()
        connection.set_listener("client", self)

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame.headers.get("message", ""))

    def on_disconnected(self) -> None:
        self.errors.put("")

    def message(self) -> Any:
        """Return the next message."""
        return self.messages.get(timeout=DEADLINE_S)

    def receipt(self) -> str:
        """Return the next receipt; fails at once if the broker has refused something."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return self.receipts.get(timeout=0.2)
            except queue.Empty:
                if not self.errors.empty() and self.receipts.empty():
                    raise ConnectionError("an error, or the end, and no receipt") from None
                if time.monotonic() > deadline:
                    raise

    def publish(self, destination: str, body: str | bytes, **headers: str) -> None:
        """Send a message, and wait until it is in its queues."""
        name = f"r{next(_receipts)}"
        named = {each.replace("_", "-"): value for each, value in headers.items()}
        self.connection.send(destination, body, headers={**named, "receipt": name})
        assert self.receipt() == name

    def subscribe(
        self, destination: str, name: str = "s", ack: str = "auto", **headers: str
    ) -> None:
        """Subscribe, and wait until messages come."""
        receipt = f"r{next(_receipts)}"
        named = {each.replace("_", "-"): value for each, value in headers.items()}
        named["receipt"] = receipt
        self.connection.subscribe(destination, name, ack, headers=named)
        assert self.receipt() == receipt
