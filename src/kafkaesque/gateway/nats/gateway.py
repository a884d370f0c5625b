"""The port for NATS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.env.network import Address
from kafkaesque.gateway.nats.connection import NatsConnection
from kafkaesque.gateway.nats.desk import Desk

CONNECTIONS_MAX: Final = 20_000
#: With so much unread a client is read from no more; see `PENDING_BYTES_MAX` for its end.
UNSENT_BYTES_MAX: Final = 1024 * 1024


class NatsGateway(Gateway):
    """One broker's ports for NATS."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        self._desk: Final = Desk(doors, chassis.report)

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
        return self.listen(listener.address, options, partial(NatsConnection, self._desk))

    def drain(self, on_drained: Callable[[], None]) -> None:
        """See `Gateway`; clients are told to go elsewhere."""
        self._desk.is_leaving = True
        super().drain(on_drained)
