"""The ports for MQTT, over TCP and WebSocket."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import MQTT, Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.link import ClientConnection, PortOptions, Shared
from kafkaesque.chassis.stream_gateway import StreamGateway
from kafkaesque.chassis.web_socket import Payload
from kafkaesque.gateway.mqtt.connection import MqttConnection
from kafkaesque.gateway.mqtt.desk import Desk
from kafkaesque.gateway.mqtt.sweeping import Sweeping

CONNECTIONS_MAX: Final = 20_000
#: With so many bytes unread, a client is sent no more.
UNSENT_BYTES_MAX: Final = 1024 * 1024


class MqttGateway(StreamGateway):
    """One broker's ports for MQTT."""

    protocol: ClassVar[str] = MQTT
    payload: ClassVar[Payload] = Payload.BINARY
    subprotocols: ClassVar[tuple[str, ...]] = ("mqtt",)
    needs_subprotocol: ClassVar[bool] = True

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        self._desk: Final = Desk(doors, chassis.report)
        self._sweeping: Final = Sweeping(self._desk)

    def options(self, listener: Listener) -> PortOptions:
        """See `StreamGateway`."""
        return replace(
            PortOptions.of(listener),
            connections_max=CONNECTIONS_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
        )

    def make_connection(self, shared: Shared) -> ClientConnection:
        """See `StreamGateway`."""
        return MqttConnection(self._desk, shared)

    def begin(self) -> None:
        """See `StreamGateway`."""
        if not self.ports:
            self._sweeping.begin()

    def stop(self) -> None:
        """See `Gateway`."""
        self._sweeping.end()
        super().stop()
