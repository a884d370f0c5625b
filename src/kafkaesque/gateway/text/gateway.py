"""The text port: accepts people with telnet and bounds what they may use."""

from collections.abc import Callable

from kafkaesque.broker.broker import Broker
from kafkaesque.env.network import Address, Connection, Framing, Listener, ListenOptions

CONNECTIONS_MAX = 1_000


class TextGateway:
    """One broker's text port."""

    def __init__(self, broker: Broker, report: Callable[[str], None]) -> None:
        self.broker = broker
        self.report = report
        self._listener: Listener | None = None

    def start(self, address: Address) -> Address:
        """Listen; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = ListenOptions(framing=Framing.STREAM, connections_max=CONNECTIONS_MAX)
        self._listener = self.broker.env.network.listen(address, options, _Closing)
        return self._listener.address

    def stop(self) -> None:
        """Accept no more and close what is open."""
        if self._listener is not None:
            self._listener.close()


class _Closing:
    """Closes at once: there are no commands yet."""

    def on_open(self, connection: Connection) -> None:
        connection.close()

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        pass

    def on_writable(self) -> None:
        pass

    def on_close(self, error: Exception | None) -> None:
        pass
