"""Messages that clients are about to be sent, joined: one write for each client and turn.

Theory of operation. Deliveries wait at their connection until all that is carried out in this turn
has been; then each connection is written to once. Clients that get the same copies, as most do
that run the same program, are written the same bytes: those are joined once for all that follow one
another. Whatever else is written to a connection takes along what waits there: the order holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.chassis.link import ClientConnection, Shared
from kafkaesque.env.clock import Clock


class Outbox:
    """The connections of one protocol that have something to send; see the module."""

    __slots__ = ("_clock", "_connections", "_joined", "_last")

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._connections: list[DeliveringConnection] = []
        #: The last copies that were joined, and what came out.
        self._last: list[bytes] = []
        self._joined = b""

    def add(self, connection: DeliveringConnection) -> None:
        """Have a connection send at the end of the turn; it says so with its first copy."""
        if not self._connections:
            self._clock.call_soon(self._send)
        self._connections.append(connection)

    def _send(self) -> None:
        connections, self._connections = self._connections, []
        for each in connections:
            each.send_pending(self._join)
        # The bytes are held by whoever sends them.
        self._last, self._joined = [], b""

    def _join(self, copies: list[bytes]) -> bytes:
        # Mostly these are the same objects as before, and equal without a look at their bytes.
        if copies != self._last:
            self._last, self._joined = copies, b"".join(copies)
        return self._joined


class DeliveringConnection(ClientConnection):
    """A client that is sent many small messages."""

    __slots__ = ("_outbox", "_pending", "_pending_bytes")

    def __init__(self, shared: Shared, outbox: Outbox) -> None:
        super().__init__(shared)
        self._outbox: Final = outbox
        #: What is sent at the end of this turn.
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def deliver(self, copy: bytes) -> None:
        """Send a message at the end of this turn, or earlier."""
        if not self._pending:
            self._outbox.add(self)
        self._pending.append(copy)
        self._pending_bytes += len(copy)

    def write(self, data: bytes | None) -> None:
        """Send bytes behind all that was delivered before."""
        if self.connection is not None and data:
            if self._pending:
                self.send_pending(b"".join)
            self.connection.write((data,))

    def waiting_to_leave(self) -> int:
        """Return how many bytes the client has not taken yet."""
        connection = self.connection
        return 0 if connection is None else connection.unsent_bytes() + self._pending_bytes

    def send_pending(self, join: Callable[[list[bytes]], bytes]) -> None:
        """Write what waits, as `join` returns it."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending and self.connection is not None:
            self.connection.write((join(pending),))

    def close(self) -> None:
        """See `ClientConnection`."""
        self.send_pending(b"".join)
        super().close()
