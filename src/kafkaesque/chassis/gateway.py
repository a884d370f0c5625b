"""A protocol at one broker: its listeners, any number of them, and how they end."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.link import ClientConnection, PortOptions, Shared
from kafkaesque.chassis.port import Port
from kafkaesque.env.network import Address, ConnectionHandler


class Drainable(Protocol):
    """What ends in good order."""

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Answer what is begun, within a bound, and close; then call."""


def drain_all(drained: Sequence[Drainable], on_drained: Callable[[], None]) -> None:
    """Drain ports, or gateways, at the same time; call when all are done."""
    left = len(drained)

    def on_one() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            on_drained()

    if not drained:
        on_drained()
    for each in drained:
        each.drain(on_one)


class Gateway(ABC):
    """What gateways inherit from; each brings `start`, which says how it listens."""

    def __init__(self, chassis: Chassis) -> None:
        self.chassis: Final = chassis
        self.ports: Final[list[Port]] = []

    @abstractmethod
    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """

    @property
    def connections(self) -> dict[int, ClientConnection]:
        """Those that are open, by `id`."""
        return {key: each for port in self.ports for key, each in port.connections.items()}

    def listen(
        self, address: Address, options: PortOptions, make: Callable[[Shared], ConnectionHandler]
    ) -> Address:
        """Open a port; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        port = Port(self.chassis, options, make)
        self.ports.append(port)
        return port.open(address)

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Answer what is begun, within a bound, and close; then call."""
        drain_all(self.ports, on_drained)

    def stop(self) -> None:
        """Accept no more and close what is open; what was written is sent."""
        for port in self.ports:
            port.close()
