"""The port for NATS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import NATS, Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.link import PortOptions, Shared
from kafkaesque.chassis.stream_gateway import StreamGateway
from kafkaesque.chassis.web_socket import Payload
from kafkaesque.gateway.nats.connection import NatsConnection
from kafkaesque.gateway.nats.desk import Desk

CONNECTIONS_MAX: Final = 20_000
#: With so much unread a client is read from no more; see `PENDING_BYTES_MAX` for its end.
UNSENT_BYTES_MAX: Final = 1024 * 1024


class NatsGateway(StreamGateway):
    """One broker's ports for NATS."""

    protocol: ClassVar[str] = NATS
    payload: ClassVar[Payload] = Payload.BINARY
    #: nats-server asks for none.
    subprotocols: ClassVar[tuple[str, ...]] = ()

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        self._desk: Final = Desk(doors, chassis.report)

    def options(self, listener: Listener) -> PortOptions:
        """See `StreamGateway`; an HTTP request ends a connection by its first line."""
        return replace(
            PortOptions.of(listener),
            connections_max=CONNECTIONS_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
        )

    def make_connection(self, shared: Shared) -> NatsConnection:
        """See `StreamGateway`."""
        return NatsConnection(self._desk, shared)

    def begin(self) -> None:
        """See `StreamGateway`."""
        self._desk.jetstream.sweeping.begin()
        self._desk.jetstream.copying.begin()

    def stop(self) -> None:
        """See `Gateway`."""
        self._desk.jetstream.sweeping.end()
        self._desk.jetstream.copying.end()
        super().stop()

    def drain(self, on_drained: Callable[[], None]) -> None:
        """See `Gateway`; clients are told to go elsewhere."""
        self._desk.is_leaving = True
        super().drain(on_drained)
