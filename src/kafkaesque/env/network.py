"""The door to the network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.disk import Buffer, FileRange

#: `ConnectionHandler.on_writable` is called when what is unsent falls to this, after it has been
#: above.
LOW_WATER_BYTES: Final = 64 * 1024


class Address(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class NameUnknown(OSError):
    """A machine's name has no address, as far as can be found out now."""


class HandshakeFailed(OSError):
    """The two ends have not agreed on TLS, or one does not trust the other."""


class Framing(Enum):
    """How the bytes of a connection are cut for the handler."""

    #: Each call gets the payload of one frame that had a big-endian int32 length before it.
    LENGTH_PREFIXED = "length prefixed"
    #: Each call gets whatever came.
    STREAM = "stream"


class Connection(Protocol):
    """One connection, from the handler's side."""

    @property
    def peer(self) -> str:
        """Who is at the other end, for people to read."""

    def peer_certificate(self) -> PeerCertificate | None:
        """Return the certificate that the other end has shown; None if it has shown none.

        The same from `on_open` to `on_close`. Without TLS there is none.
        """

    def write(self, parts: Sequence[Buffer | FileRange]) -> None:
        """Send all parts, in order, after what was written before; never blocks.

        The length prefix of a frame is the caller's to write. Buffers must not change until they
        are sent. Harmless on a closed connection.
        """

    def unsent_bytes(self) -> int:
        """Return how much of what was written has not left yet; the caller bounds it."""

    def received_bytes(self) -> int:
        """Return how much has come since the beginning, whether it was delivered or not."""

    def sent_bytes(self) -> int:
        """Return how much of what was written has left since the beginning."""

    def pause_reading(self) -> None:
        """Deliver nothing more until `resume_reading`; the sender is slowed down by TCP."""

    def resume_reading(self) -> None:
        """Deliver again."""

    def limit_frames(self, frame_bytes_max: int) -> None:
        """Allow frames up to this length from the next one on, in place of `ListenOptions`'."""

    def close(self) -> None:
        """Send what was written, then close; `on_close` follows."""

    def abort(self) -> None:
        """Close at once and drop what was not sent; `on_close` follows."""


class ConnectionHandler(Protocol):
    """What a server or client does with a connection."""

    def on_open(self, connection: Connection) -> None:
        """The connection stands; called first."""

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """A frame's payload, or a piece of the stream. The buffer now belongs to the handler."""

    def on_writable(self) -> None:
        """What was written has been sent, down to `LOW_WATER_BYTES`."""

    def on_close(self, error: Exception | None) -> None:
        """The connection is gone; called last, exactly once after `on_open`."""


class HalfCloseHandler(ConnectionHandler, Protocol):
    """A handler that still has answers to give when the other end sends no more.

    It is known by having `on_eof`. A connection whose handler has none is closed then, as by
    `Connection.close`: what was written is sent, and nothing else.
    """

    def on_eof(self) -> None:
        """The other end sends no more, and may still read: the handler closes when it is done.

        Called at most once, after the last `on_bytes`; not if the connection is being closed.
        """


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def address(self) -> Address:
        """The address with the port that was really bound."""

    def close(self) -> None:
        """Accept no more; existing connections stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Limits of a listener, or of a connection that is dialled."""

    framing: Framing
    #: The name of what the environment knows of TLS for this listener: certificate, key, whom it
    #: trusts, whether the other end needs a certificate. Empty: in the clear. A connection is
    #: handed to its handler when the handshake has ended well, and nobody else hears of it; the
    #: listener bounds how long that takes, in how many bytes, and for how many at once.
    tls: str = ""
    #: For a listener with `tls`: whether it takes connections in the clear as well, which have no
    #: certificate then. Not for protocols in which a client may begin with the byte 0x16.
    is_tls_optional: bool = False
    #: A longer frame closes the connection before anything is allocated for it.
    frame_bytes_max: int = 100 * 1024 * 1024
    #: One more connection is accepted and closed at once.
    connections_max: int = 20_000
    #: If this process dies, the other ends are to hear of it before those of other connections do,
    #: and find the listener closed already. Nothing is promised: it is done where it can be.
    is_closed_first: bool = False
    #: Called for each connection that was closed at once because there was no room for it.
    on_refused: Callable[[], None] | None = None


#: Called with where a datagram came from, and what is in it.
OnDatagram = Callable[[Address, bytes], None]


class Datagrams(Protocol):
    """A port for datagrams: messages that may get lost, overtake one another, or come twice."""

    @property
    def address(self) -> Address:
        """The address with the port that was really bound."""

    def send(self, address: Address, data: bytes) -> None:
        """Send once; never blocks, and raises nothing: what cannot be sent is lost.

        The first ones to a name wait, a few of them, until its address is known.
        """

    def close(self) -> None:
        """Send and receive no more; harmless if it was done."""


class Network(Protocol):
    """Connections to and from others."""

    def listen(
        self, address: Address, options: ListenOptions, accept: Callable[[], ConnectionHandler]
    ) -> Listener:
        """Accept connections, each with a new handler; port 0 takes a free one.

        Raises:
            OSError: the address cannot be bound.
            InvariantBroken: the environment knows nothing of the name in `options.tls`.
        """

    def connect(
        self,
        address: Address,
        options: ListenOptions,
        handler: ConnectionHandler,
        on_failed: Callable[[Exception], None],
    ) -> None:
        """Connect; then either `handler.on_open` or `on_failed` is called, once.

        With `options.tls` the other end must show a certificate that is trusted. What name it has
        is the caller's to check, by `Connection.peer_certificate`.

        Raises:
            InvariantBroken: the environment knows nothing of the name in `options.tls`.
        """

    def open_datagrams(self, address: Address, on_datagram: OnDatagram) -> Datagrams:
        """Send and receive datagrams; port 0 takes a free one.

        Raises:
            OSError: the address cannot be bound.
        """
