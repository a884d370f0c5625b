"""A client of a simulated listener that keeps what comes."""

from kafkaesque.env import Env
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions


class Client:
    """Connects at once."""

    def __init__(self, env: Env, address: Address) -> None:
        self.received = b""
        self.is_closed = False
        self.connection: Connection | None = None
        options = ListenOptions(framing=Framing.STREAM)
        env.network.connect(address, options, self, lambda _: self.on_close(None))

    @property
    def link(self) -> Connection:
        assert self.connection is not None
        return self.connection

    @property
    def lines(self) -> list[str]:
        """Return the lines that have come as a whole."""
        return self.received.decode().split("\n")[:-1]

    def say(self, text: str) -> None:
        self.link.write((text.encode() + b"\n",))

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        self.received += bytes(data)

    def on_writable(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        self.is_closed = True
