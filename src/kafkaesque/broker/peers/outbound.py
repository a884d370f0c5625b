"""The link that a broker has dialled to another one: what it has to say leaves on it."""

from collections.abc import Callable
from typing import Protocol

from kafkaesque.broker.peers.door import GREETING_BYTES_MAX
from kafkaesque.broker.peers.greeting import Greeter, explain
from kafkaesque.broker.peers.messages import Denial, MalformedPeerFrame, read_denial
from kafkaesque.broker.peers.papers import Papers
from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.disk import Buffer
from kafkaesque.env.network import Address, Connection, Framing, HandshakeFailed, ListenOptions
from kafkaesque.model.ids import NodeId

#: Raft messages to a peer that reads too slowly are dropped beyond this; Raft sends them again.
UNSENT_BYTES_MAX = 64 * 1024 * 1024
#: A connection that stood for this long was a good one: it is dialled again at once. Who does not
#: let us in says so before that.
STABLE_MS = 1_000
#: Short: a dying process may take one more connection before it refuses the next.
RECONNECT_MS_MIN = 5
RECONNECT_MS_MAX = 500


class LinkOwner(Protocol):
    """All links of a broker, as far as one of them needs the others."""

    env: Env
    greeter: Greeter
    papers: Papers
    report_error: Callable[[str], None]
    report_warning: Callable[[str], None]
    #: Told when a peer is linked with another process of this broker's id.
    on_id_in_use: Callable[[NodeId], None]

    def on_refused(self, node: NodeId, address: Address) -> None:
        """Nobody listens where a peer was dialled."""

    def on_link_open(self, node: NodeId) -> None:
        """A link that we dialled is open."""

    def on_outbound_lost(self, node: NodeId) -> None:
        """A link that we dialled is gone."""

    def schedule_flush(self) -> None:
        """Have what was added leave at the end of the turn."""


class Outbound:
    """The link that we dialled, to one peer."""

    __slots__ = (
        "_next_address",
        "_opened_ms",
        "_owner",
        "_parts",
        "_retry",
        "address",
        "attempts",
        "connection",
        "denial",
        "is_over",
        "is_refused",
        "node",
        "state",
        "untrusted",
    )

    def __init__(self, owner: LinkOwner, node: NodeId, address: Address) -> None:
        self._owner = owner
        self.node = node
        self.address = self._next_address = address
        self.connection: Connection | None = None
        self.state = "idle"
        self.attempts = 0
        #: Why the peer does not let us in, as far as it was told of already.
        self.denial: Denial | None = None
        #: Why whoever listens there is not believed to be the peer; empty: it is.
        self.untrusted = ""
        #: Whether the peer is not to be dialled any more.
        self.is_over = False
        self._opened_ms = 0
        #: Whether nobody listened there when it was dialled last: the machine says so itself.
        self.is_refused = False
        self._parts: list[Buffer] = []
        self._retry: Timer | None = None

    def move(self, address: Address, *, at_once: bool) -> None:
        """The peer is elsewhere: dial it there, at once or when the connection breaks."""
        self._next_address = address
        if at_once and address != self.address:
            self._take_address()
            if self.connection is not None:
                self.connection.abort()

    def _take_address(self) -> None:
        if self.address != self._next_address:
            self.address = self._next_address
            self.denial = None

    def dial(self) -> None:
        if self.state != "idle" or self.is_over:
            return
        self._take_address()
        self.state = "dialling"
        options = ListenOptions(
            framing=Framing.LENGTH_PREFIXED,
            frame_bytes_max=GREETING_BYTES_MAX,
            tls=self._owner.papers.dials_by,
            is_closed_first=True,
        )
        self._owner.env.network.connect(self.address, options, self, self._on_failed)

    def _on_failed(self, error: Exception) -> None:
        self.state = "idle"
        self.is_refused = isinstance(error, ConnectionRefusedError)
        if self.is_refused:
            # Who has turned us away is gone: another process may let us in.
            self.denial = None
            self._owner.on_refused(self.node, self.address)
        elif isinstance(error, HandshakeFailed):
            self._say_untrusted(str(error))
        self._redial_later()

    def _redial_later(self) -> None:
        if self.is_over:
            return
        delay = min(RECONNECT_MS_MAX, RECONNECT_MS_MIN * 2 ** min(self.attempts, 10))
        self.attempts += 1
        self._retry = self._owner.env.clock.call_later(delay, self.dial)

    def on_open(self, connection: Connection) -> None:
        owner = self._owner
        if self.is_over:
            connection.abort()
            return
        self.is_refused = False
        self._opened_ms = owner.env.clock.now_ms()
        certificate = connection.peer_certificate()
        if not owner.papers.is_dialled(certificate, self.node):
            self._say_untrusted(owner.papers.explain(certificate, self.node))
            connection.abort()
            return
        self.untrusted = ""
        self.state = "open"
        self.connection = connection
        # A frame of its own: the other side takes no long one from somebody it does not know.
        self._parts = owner.greeter.write(self.node)
        self.flush()
        owner.on_link_open(self.node)

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        # Nobody answers on the connection that we dialled, but to turn us away.
        try:
            denial = read_denial(data)
        except MalformedPeerFrame:
            pass
        else:
            if denial is not self.denial:
                self.denial = denial
                self._tell_of(denial)
            if denial is Denial.ID_IN_USE:
                self._owner.on_id_in_use(self.node)
        if self.connection is not None:
            self.connection.abort()

    def _say_untrusted(self, reason: str) -> None:
        """Report why nothing is said to whoever listens there, unless that is known."""
        if reason != self.untrusted:
            self.untrusted = reason
            self._owner.report_error(
                f"broker {self.node} at {self.address} is not spoken with: {reason}"
            )

    def _tell_of(self, denial: Denial) -> None:
        sentence = f"broker {self.node} at {self.address} turns this broker away: {explain(denial)}"
        # After a kill the process before may be taken for alive for a moment.
        is_passing = denial in (Denial.ID_IN_USE, Denial.OUTDATED)
        owner = self._owner
        (owner.report_warning if is_passing else owner.report_error)(sentence)

    def denied_for(self) -> Denial | None:
        """Return why the peer does not let us in; None if it does, or is not known not to."""
        opened = self._opened_ms if self.state == "open" else None
        if opened is not None and self._owner.env.clock.now_ms() - opened >= STABLE_MS:
            return None
        return self.denial

    def on_writable(self) -> None:
        pass

    def on_close(self, error: Exception | None) -> None:
        self.connection = None
        self.state = "idle"
        self._parts.clear()
        self._owner.on_outbound_lost(self.node)
        if self._owner.env.clock.now_ms() - self._opened_ms >= STABLE_MS:
            # At once: a refused connection is the quickest proof that a process is gone.
            self.attempts = 0
            self.dial()
        else:
            self._redial_later()

    def add(self, parts: list[Buffer]) -> None:
        if self.state == "open":
            self._parts.extend(parts)
            self._owner.schedule_flush()

    def is_congested(self) -> bool:
        return self.connection is None or self.connection.unsent_bytes() > UNSENT_BYTES_MAX

    def flush(self) -> None:
        if not self._parts or self.connection is None:
            return
        parts, self._parts = self._parts, []
        size = sum(len(part) for part in parts)
        self.connection.write([size.to_bytes(4, "big"), *parts])

    def close(self) -> None:
        self.is_over = True
        if self._retry is not None:
            self._retry.cancel()
        if self.connection is not None:
            self.connection.close()
