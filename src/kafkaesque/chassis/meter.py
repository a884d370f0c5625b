"""What the connections of one listener have done, in plain numbers, for the admin port."""

from collections.abc import Mapping
from typing import Final, Protocol

from kafkaesque.chassis.channel_facts import ConnectionFacts
from kafkaesque.chassis.client_facts import ClientFacts
from kafkaesque.chassis.identity import Identity
from kafkaesque.env.network import Connection


class Counted(Protocol):
    """An open connection."""

    connection: Connection | None
    identity: Identity | None
    #: When it was admitted, and when the client was last seen to do something.
    opened_ms: int
    active_ms: int
    #: What the client calls itself; empty where it does not.
    client_id: str
    #: The topic or queue that it last published to, noted where quotas are.
    published_to: str

    @property
    def number(self) -> int:
        """In the order of acceptance, at all ports of the broker."""

    @property
    def is_muted(self) -> bool:
        """Whether its client is throttled at the moment."""

    def dismiss(self, reason: str) -> None:
        """Hang up; see `ClientConnection`."""

    def describe(self, subscriptions_max: int) -> ClientFacts | None:
        """Return what the client has subscribed to; see `ClientConnection`."""

    def describe_channels(self, channels_max: int, consumers_max: int) -> ConnectionFacts | None:
        """Return what a connection of AMQP has open; see `ClientConnection`."""


class Meter:
    """Counters of one listener, which only grow; bytes are those of the wire.

    Bytes are counted where they are sent and received, and added up when somebody asks.
    """

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_open",
        "accepted",
        "logged_in",
        "login_failures",
        "refused",
        "requests",
        "without_login",
    )

    def __init__(self, connections: Mapping[int, Counted]) -> None:
        """`connections` are those that are open, whoever adds them and takes them away."""
        self._open: Final = connections
        self.accepted = 0
        #: Closed for a limit or quota on connections.
        self.refused = 0
        #: Begun; what a request is, the protocol says.
        self.requests = 0
        #: Log-ins that succeeded, repeated ones as well, and that failed.
        self.logged_in = 0
        self.login_failures = 0
        #: Connections on which something was asked for without a log-in, where that is optional.
        self.without_login = 0
        #: Of connections that are gone.
        self._bytes_in = 0
        self._bytes_out = 0

    def note_gone(self, connection: Connection) -> None:
        """A connection is counted among the open ones no more."""
        self._bytes_in += connection.received_bytes()
        self._bytes_out += connection.sent_bytes()

    @property
    def connections(self) -> list[Counted]:
        """Those that are open now."""
        return list(self._open.values())

    @property
    def open(self) -> int:
        """Connections that are open now."""
        return len(self._open)

    @property
    def bytes_in(self) -> int:
        """Bytes received."""
        links = [each.connection for each in self._open.values()]
        return self._bytes_in + sum(link.received_bytes() for link in links if link is not None)

    @property
    def bytes_out(self) -> int:
        """Bytes sent."""
        links = [each.connection for each in self._open.values()]
        return self._bytes_out + sum(link.sent_bytes() for link in links if link is not None)
