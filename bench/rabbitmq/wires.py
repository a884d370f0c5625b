"""Connections to whoever is compared: sockets to RabbitMQ, simulated ones to a broker of ours."""

from __future__ import annotations

import socket
import time
from typing import Final, Protocol

from tests.unit.gateway_amqp.kit import Ground

#: An answer takes less; what takes longer does not come.
PATIENCE_S: Final = 10.0
PATIENCE_MS: Final = 20_000
FORGET_S: Final = 0.15
#: What is to come without being asked for, at our broker: commits, deliveries, dead letters.
SETTLE_MS: Final = 300
_BYTES: Final = 1 << 16


class Wire(Protocol):
    """One connection."""

    def write(self, data: bytes) -> None:
        """Send bytes, if there is still somebody who reads them."""

    def read(self) -> bytes | None:
        """Wait for bytes; none: nothing comes any more; None: nobody answers."""

    def close(self) -> None:
        """Hang up without a word."""


class Peer(Protocol):
    """A broker."""

    def connect(self) -> Wire:
        """Return a new connection."""

    def settle(self) -> None:
        """Let the broker do what it does on its own."""

    def forget(self) -> None:
        """Let the broker notice that a connection is gone."""


class SocketWire:
    """A connection of the machine's."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, data: bytes) -> None:
        """See `Wire`."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def read(self) -> bytes | None:
        """See `Wire`."""
        try:
            return self._socket.recv(_BYTES)
        except TimeoutError:
            return None
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        """See `Wire`."""
        self._socket.close()


class Rabbit:
    """RabbitMQ."""

    def __init__(self, port: int) -> None:
        self._port = port

    def connect(self) -> SocketWire:
        """See `Peer`."""
        return SocketWire(self._port)

    def settle(self) -> None:
        """See `Peer`: its processes are asked one after the other, which is enough."""

    def forget(self) -> None:
        """See `Peer`: nothing tells when it has."""
        time.sleep(FORGET_S)


class SimWire:
    """A simulated connection."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._client = ground.raw()
        self._taken = 0

    def write(self, data: bytes) -> None:
        """See `Wire`."""
        if not self._client.is_closed:
            self._client.link.write((data,))

    def read(self) -> bytes | None:
        """See `Wire`."""
        client, clock = self._client, self._ground.env.clock
        until_ms = clock.now_ms() + PATIENCE_MS

        def has_come() -> bool:
            late = clock.now_ms() >= until_ms
            return len(client.received) > self._taken or client.is_closed or late

        self._ground.loop.run_until(has_come, 2 * PATIENCE_MS)
        data = client.received[self._taken :]
        self._taken += len(data)
        return None if not data and not client.is_closed else data

    def close(self) -> None:
        """See `Wire`."""
        if not self._client.is_closed:
            self._client.link.abort()


class Ours:
    """A simulated broker of ours: the same code as a real one, in virtual time."""

    def __init__(self) -> None:
        self.ground: Final = Ground()

    def connect(self) -> SimWire:
        """See `Peer`."""
        return SimWire(self.ground)

    def settle(self) -> None:
        """See `Peer`."""
        self.ground.wait(SETTLE_MS)

    def forget(self) -> None:
        """See `Peer`."""
        self.settle()
