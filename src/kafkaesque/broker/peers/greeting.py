"""The first section on a connection between brokers: who dials, and the proof that it may.

A cluster with a secret takes no greeting but one that is sealed with it, as gossip is
(`membership.seal`), for this receiver. A sealed greeting counts only if it comes after those of its
sender that have come before: its life, and within that its number, are greater. So what somebody
has recorded opens no connection. What follows on the connection is not signed.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from kafkaesque.broker.peers.messages import (
    PROTOCOL_VERSION,
    Denial,
    GreetingDenied,
    Hello,
    MalformedPeerFrame,
    SectionKind,
    read_hello,
    write_raw_section,
    write_section,
)
from kafkaesque.env.disk import Buffer
from kafkaesque.env.network import Address
from kafkaesque.membership.errors import FrameRefused, Refusal
from kafkaesque.membership.seal import ANYBODY, Envelope, Keyring
from kafkaesque.model.ids import NodeId, read_node, write_node

#: Senders whose last greeting is remembered; all of them have the secret.
SENDERS_MAX: Final = 2_000
#: Characters of somebody else's cluster id that are reported.
SHOWN_CHARACTERS_MAX: Final = 64

_DENIALS: Final = {
    Refusal.OTHER_CLUSTER: Denial.OTHER_CLUSTER,
    Refusal.UNKNOWN_KEY: Denial.OTHER_SECRET,
    Refusal.FORGED: Denial.OTHER_SECRET,
}


class Greeter:
    """Writes this broker's greetings, and reads others'."""

    def __init__(
        self,
        *,
        node: NodeId,
        cluster_id: str,
        incarnation: int,
        advertised: Address,
        secrets: tuple[bytes, ...] = (),
        life: Callable[[], int] = lambda: 1,
        on_life: Callable[[NodeId, int], None] = lambda node, life: None,
    ) -> None:
        """`life`: this process's number, of which gossip sees to it that it grows.

        `on_life` is told the numbers of others, for gossip to tell them when they fall back: with
        a clock that was put back they would be refused here for as long as that was.
        """
        self._node: Final = node
        self.cluster_id: Final = cluster_id
        self.incarnation: Final = incarnation
        self.advertised: Final = advertised
        self._keyring: Final = Keyring(cluster_id, secrets, b"greeting") if secrets else None
        self._life: Final = life
        self._on_life: Final = on_life
        self._number = 0
        #: Life and number of each sender's last greeting.
        self._last: Final[dict[NodeId, tuple[int, int]]] = {}

    def write(self, to: NodeId) -> list[Buffer]:
        """Return the section that greets a broker."""
        return self._write(to, SectionKind.HELLO, SectionKind.SEALED_HELLO)

    def write_claim(self) -> list[Buffer]:
        """Return the section that asks whoever gets it about this broker's id."""
        return self._write(ANYBODY, SectionKind.CLAIM, SectionKind.SEALED_CLAIM)

    def _write(self, to: NodeId, plain: SectionKind, sealed: SectionKind) -> list[Buffer]:
        hello = Hello(
            PROTOCOL_VERSION,
            self.cluster_id,
            self._node,
            write_node(to),
            self.incarnation,
            *self.advertised,
        )
        if self._keyring is None:
            return write_section(plain, hello)
        self._number += 1
        packet = msgspec.msgpack.encode(hello)
        frame = self._keyring.seal(self._node, to, self._life(), self._number, packet)
        return write_raw_section(sealed, frame)

    def read(
        self,
        kind: SectionKind,
        body: memoryview,
        check: Callable[[Hello], None] = lambda hello: None,
    ) -> Hello:
        """Return who greets this broker, from a section of one of the two kinds.

        A greeting at which `check` raises is as if it had not come: it outdates none.

        Raises:
            GreetingDenied: it is no member of this cluster, or was one before.
            MalformedPeerFrame: it is nobody for this broker.
        """
        hello, envelope = self._read(kind is SectionKind.SEALED_HELLO, body)
        receiver = read_node(hello.to_node)
        if receiver != self._node:
            raise MalformedPeerFrame(f"it looks for broker {receiver}, not {self._node}")
        if hello.node == self._node:
            raise MalformedPeerFrame(f"it says that it is broker {self._node}, which is this one")
        if envelope is not None:
            self._check_order(envelope)
        check(hello)
        if envelope is not None:
            self._remember(envelope)
        return hello

    def read_claim(self, kind: SectionKind, body: memoryview) -> Hello:
        """Return who asks about an id; it may be this broker's own. It outdates no greeting.

        Raises:
            GreetingDenied: it is no member of this cluster.
            MalformedPeerFrame: it is no question.
        """
        hello, _ = self._read(kind is SectionKind.SEALED_CLAIM, body)
        if read_node(hello.to_node) != ANYBODY:
            raise MalformedPeerFrame("a question to somebody else")
        return hello

    def _read(self, is_sealed: bool, body: memoryview) -> tuple[Hello, Envelope | None]:
        envelope = None
        if is_sealed:
            hello, envelope = self._open(body)
        else:
            hello = read_hello(body)
            if hello.cluster_id == self.cluster_id and self._keyring is not None:
                raise GreetingDenied(
                    Denial.SECRET_WANTED,
                    f"broker {hello.node} greets without the cluster's secret: "
                    "set its cluster.secret.file",
                )
        if hello.cluster_id != self.cluster_id:
            theirs = hello.cluster_id[:SHOWN_CHARACTERS_MAX]
            raise GreetingDenied(
                Denial.OTHER_CLUSTER,
                f"it belongs to cluster {theirs!r}, this broker to {self.cluster_id!r}",
            )
        return hello, envelope

    def _open(self, body: memoryview) -> tuple[Hello, Envelope]:
        if self._keyring is None:
            raise GreetingDenied(
                Denial.NO_SECRET,
                "it greets with a cluster secret, and this broker has none: "
                "set cluster.secret.file",
            )
        try:
            envelope = self._keyring.open(bytes(body))
        except FrameRefused as error:
            if error.refusal in _DENIALS:
                reason = f"its greeting is rejected: {error}"
                raise GreetingDenied(_DENIALS[error.refusal], reason) from None
            raise MalformedPeerFrame(f"its greeting is rejected: {error}") from None
        hello = read_hello(memoryview(envelope.packet))
        if (hello.node, read_node(hello.to_node)) != (envelope.sender, envelope.receiver):
            raise MalformedPeerFrame("a greeting whose seal is another's")
        return hello, envelope

    def _check_order(self, envelope: Envelope) -> None:
        if (envelope.life, envelope.number) <= self._last.get(envelope.sender, (0, 0)):
            raise GreetingDenied(
                Denial.OUTDATED,
                f"a greeting of broker {envelope.sender} that is older than one seen before: "
                "was its clock set back, or does another process have this id?",
            )

    def _remember(self, envelope: Envelope) -> None:
        self._last.pop(envelope.sender, None)
        self._last[envelope.sender] = (envelope.life, envelope.number)
        self._on_life(envelope.sender, envelope.life)
        if len(self._last) > SENDERS_MAX:
            del self._last[next(iter(self._last))]


def explain(denial: Denial) -> str:
    """Return what the one who greeted can do about it."""
    match denial:
        case Denial.OTHER_CLUSTER:
            return "it belongs to another cluster: compare cluster.id"
        case Denial.SECRET_WANTED:
            return (
                "it wants the cluster's secret, and this broker has none: set cluster.secret.file"
            )
        case Denial.NO_SECRET:
            return "it has no cluster secret, and this broker has one: set its cluster.secret.file"
        case Denial.OTHER_SECRET:
            return "it does not know this broker's secret: compare the files of cluster.secret.file"
        case Denial.OUTDATED:
            return (
                "it has seen a later greeting: was the clock set back, or is this id in use twice?"
            )
        case Denial.ID_IN_USE:
            return "it is linked with another process of this broker's id"
        case Denial.OTHER_CERTIFICATE:
            return (
                "this broker's certificate names another one: compare id and cluster.id with the "
                "URI in it (`kafkaesque certs show FILE`)"
            )
