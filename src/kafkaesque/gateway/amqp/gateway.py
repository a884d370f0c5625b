"""The port for AMQP 0-9-1."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.chassis.rights import check_rows
from kafkaesque.env.network import Address
from kafkaesque.gateway.amqp.authorization import ROWS
from kafkaesque.gateway.amqp.connection import AmqpConnection
from kafkaesque.gateway.queueing.desk import desk_of
from kafkaesque.protocols.amqp.states import CLIENT_METHODS

CONNECTIONS_MAX: Final = 20_000
#: With so many bytes of deliveries unread, a client is sent no more.
UNSENT_BYTES_MAX: Final = 2 * 1024 * 1024


class AmqpGateway(Gateway):
    """One broker's ports for AMQP."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        check_rows(ROWS, CLIENT_METHODS)
        self._desk: Final = desk_of(doors, chassis)

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
        self._desk.sweeping.begin()
        return self.listen(listener.address, options, partial(AmqpConnection, self._desk))

    def stop(self) -> None:
        """See `Gateway`."""
        self._desk.sweeping.end()
        super().stop()
