"""The port for STOMP, and STOMP over WebSocket."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import STOMP, WEBSOCKET, Listener, names_of
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.link import ClientConnection, PortOptions, Shared
from kafkaesque.chassis.stream_gateway import StreamGateway
from kafkaesque.chassis.web_socket import Payload
from kafkaesque.gateway.queueing.desk import desk_of
from kafkaesque.gateway.stomp.connection import StompConnection

CONNECTIONS_MAX: Final = 20_000
#: With so many bytes of messages unread, a client is sent no more.
UNSENT_BYTES_MAX: Final = 2 * 1024 * 1024


class StompGateway(StreamGateway):
    """One broker's ports for STOMP."""

    protocol = STOMP
    payload = Payload.TEXT
    subprotocols = ("v12.stomp", "v11.stomp", "v10.stomp")

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        self._configuration: Final = doors.configuration
        self._desk: Final = desk_of(doors, chassis)

    def options(self, listener: Listener) -> PortOptions:
        """See `StreamGateway`."""
        return replace(
            PortOptions.of(listener),
            connections_max=CONNECTIONS_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
            refuses_http=True,
        )

    def make_connection(self, shared: Shared) -> ClientConnection:
        """See `StreamGateway`."""
        return StompConnection(self._desk, self._names, shared)

    def begin(self) -> None:
        """See `StreamGateway`."""
        self._desk.sweeping.begin()

    def stop(self) -> None:
        """See `Gateway`."""
        self._desk.sweeping.end()
        super().stop()

    def _names(self) -> set[str]:
        listeners = self._configuration.file.listeners
        return names_of(listeners, STOMP) | names_of(listeners, WEBSOCKET)
