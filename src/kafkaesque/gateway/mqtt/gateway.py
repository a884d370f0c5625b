"""The port for MQTT."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.env.network import Address
from kafkaesque.gateway.mqtt.connection import MqttConnection
from kafkaesque.gateway.mqtt.desk import Desk
from kafkaesque.gateway.mqtt.sweeping import Sweeping

CONNECTIONS_MAX: Final = 20_000
#: With so many bytes unread, a client is sent no more.
UNSENT_BYTES_MAX: Final = 1024 * 1024


class MqttGateway(Gateway):
    """One broker's ports for MQTT."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        self._desk: Final = Desk(doors, chassis.report)
        self._sweeping: Final = Sweeping(self._desk)

    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = replace(
            PortOptions.of(listener),
            connections_max=CONNECTIONS_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
        )
        if not self.ports:
            self._sweeping.begin()
        return self.listen(listener.address, options, partial(MqttConnection, self._desk))

    def stop(self) -> None:
        """See `Gateway`."""
        self._sweeping.end()
        super().stop()
