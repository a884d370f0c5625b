"""Answers whoever asks whether another process has its id; see `identity` for those that ask.

A connection that stands is no proof that its process lives: machines lose power. So "in use" is
said when that process has answered to a heartbeat that was sent after the question came, and
"free" when its connection is gone. Of two that ask for one id the earlier one is told of the later
one, for as long as it keeps its connection: of an earlier one that is dead nobody is told.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kafkaesque.broker.peers.greeting import Greeter
from kafkaesque.broker.peers.messages import (
    Claimed,
    Hello,
    MalformedPeerFrame,
    SectionKind,
    Verdict,
    write_section,
)
from kafkaesque.env.network import Address, Connection
from kafkaesque.model.ids import NodeId


class Holders(Protocol):
    """The links of this broker, as far as they say which process has which id."""

    node: NodeId
    greeter: Greeter
    #: The number of the newest heartbeat that was sent.
    sequence: int

    def incarnation(self, node: NodeId) -> int | None:
        """Return which process is linked as a broker, if one is."""

    def advertised(self, node: NodeId) -> Address | None:
        """Return where a broker says that it is."""


@dataclass(slots=True)
class _Claim:
    hello: Hello
    #: Our newest heartbeat when it came, while it is not answered.
    since_sequence: int | None


class ClaimDesk:
    """Claims that have come in on the peer port; each as long as its connection stands."""

    def __init__(self, peers: Holders) -> None:
        self._peers = peers
        self._claims: dict[Connection, _Claim] = {}
        #: Asked when another process claims this broker's own id: whether this one keeps it.
        self.keeps_id: Callable[[Hello], bool] = lambda hello: True
        #: Where a broker that is not linked with this one may be.
        self.last_known: Callable[[NodeId], Address | None] = lambda node: None

    def on_claim(self, connection: Connection, hello: Hello) -> None:
        """Somebody asks; there are no more of them than strangers.

        Raises:
            MalformedPeerFrame: it asks a second time.
        """
        if connection in self._claims:
            raise MalformedPeerFrame("a second question")
        self._claims[connection] = claim = _Claim(hello, None)
        greeter, node = self._peers.greeter, NodeId(hello.node)
        if node == self._peers.node:
            if hello.incarnation == greeter.incarnation:
                self._answer(connection, Verdict.YOURS, greeter.advertised)
            elif self.keeps_id(hello):
                self._answer(connection, Verdict.IN_USE, greeter.advertised)
            else:
                self._answer(connection, Verdict.FREE)
            return
        for earlier, other in list(self._claims.items()):
            if other.hello.node == node and other.hello.incarnation != hello.incarnation:
                self._answer(earlier, Verdict.IN_USE, Address(hello.host, hello.port))
        holder = self._peers.incarnation(node)
        if holder is None:
            self._answer(connection, Verdict.FREE, self.last_known(node))
        elif holder == hello.incarnation:
            self._answer(connection, Verdict.YOURS)
        else:
            claim.since_sequence = self._peers.sequence

    def on_closed(self, connection: Connection) -> None:
        """A connection is gone, maybe one on which somebody had asked."""
        self._claims.pop(connection, None)

    def on_echo(self, node: NodeId, echoed_sequence: int) -> None:
        """A broker has answered to one of our heartbeats."""
        for connection, claim in list(self._claims.items()):
            since = claim.since_sequence
            if claim.hello.node == node and since is not None and echoed_sequence > since:
                self._answer(connection, Verdict.IN_USE, self._peers.advertised(node))

    def on_holder_gone(self, node: NodeId) -> None:
        """No process is linked with us as this broker any more."""
        for connection, claim in list(self._claims.items()):
            if claim.hello.node == node and claim.since_sequence is not None:
                self._answer(connection, Verdict.FREE, self.last_known(node))

    def _answer(
        self, connection: Connection, verdict: Verdict, where: Address | None = None
    ) -> None:
        self._claims[connection].since_sequence = None
        host, port = where or Address("", 0)
        claimed = Claimed(self._peers.node, verdict, host, port)
        parts = write_section(SectionKind.CLAIMED, claimed)
        size = sum(len(part) for part in parts)
        connection.write([size.to_bytes(4, "big"), *parts])
