"""A connection that a peer, or a stranger, has dialled: what others have to say comes in on it."""

from typing import Protocol

from kafkaesque.broker.peers.door import PeerDoor
from kafkaesque.broker.peers.messages import GreetingDenied, MalformedPeerFrame, write_denial
from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.disk import Buffer
from kafkaesque.env.network import Connection
from kafkaesque.model.ids import NodeId


class InboundOwner(Protocol):
    """All links of a broker, as far as one of them needs the others."""

    door: PeerDoor

    def on_inbound_open(self, inbound: "Inbound") -> None:
        """Somebody has connected."""

    def on_frame(self, inbound: "Inbound", frame: Buffer) -> None:
        """Take a frame that it sent.

        Raises:
            MalformedPeerFrame: it is not to be spoken with.
        """

    def on_inbound_lost(self, inbound: "Inbound") -> None:
        """It is gone."""


class Inbound:
    """One of them; `node` is known once it has greeted."""

    __slots__ = ("_owner", "connection", "node")

    def __init__(self, owner: InboundOwner) -> None:
        self._owner = owner
        self.connection: Connection | None = None
        self.node: NodeId | None = None

    def on_open(self, connection: Connection) -> None:
        self.connection = connection
        self._owner.on_inbound_open(self)

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        try:
            self._owner.on_frame(self, data)
        except GreetingDenied as error:
            self._deny(error)
        except MalformedPeerFrame as error:
            self.turn_away(str(error))

    def on_writable(self) -> None:
        pass

    def on_close(self, error: Exception | None) -> None:
        self._owner.on_inbound_lost(self)
        self.connection = None

    def certificate(self) -> PeerCertificate | None:
        """Return what the other end has shown."""
        return None if self.connection is None else self.connection.peer_certificate()

    def _deny(self, error: GreetingDenied) -> None:
        """Tell the other side, too, why it is not let in."""
        if self.connection is not None:
            parts = write_denial(error.denial)
            size = sum(len(part) for part in parts)
            self.connection.write([size.to_bytes(4, "big"), *parts])
            self._owner.door.tell_of(self.connection.peer, str(error))
            self._owner.door.release(self)
            self.connection.close()

    def turn_away(self, reason: str) -> None:
        """Close it and say why."""
        if self.connection is not None:
            self._owner.door.tell_of(self.connection.peer, reason)
            self.connection.abort()
