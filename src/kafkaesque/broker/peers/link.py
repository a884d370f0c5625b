"""The connections between brokers, and who is alive.

Theory of operation. Every broker dials every other broker it knows and sends on the connection that
it dialled; what others have to say comes in on those that they dialled. All that one turn of the
loop produces for a peer leaves as one frame. A heartbeat goes to each peer every `heartbeat_ms`,
however many groups the two share.

A peer becomes *alive* when it has greeted us and our own connection to it stands, so that it can
both hear and be heard, and stays so while something comes from it within `peer_timeout_ms`. It is
*lost* when nothing came for that long, or at once when its process is evidently gone: a connection
to it broke and dialling it again is refused. `on_peer_lost` and `on_peer_seen` tell each change.
Who is lost for its silence is hung up on, so that both dial anew: what holds a connection back may
outlast its cause, such as the kernel's growing pauses between attempts, or a frame without an end.
Between a broken connection and the proof whether its process is gone, an alive peer is *doubted*.

A process that greets as a peer of which another process is linked is turned away, as long as that
one is alive: two processes cannot be one broker (see `identity`). Between `listen` and `start`
nobody is dialled, so nobody is alive, and claims of ids are answered.

Where brokers speak TLS, a certificate says which broker greets, or is dialled (`papers`).

Whoever connects is a stranger until it has greeted in a short frame of its own; `PeerDoor` bounds
strangers. A peer that greets on another connection has given up the one before.

A link promises order on one connection and nothing about delivery: a frame may be lost with the
connection, and Raft repeats. Requests fail with `PeerUnreachable` when their link breaks, and with
`PeerNotAsked` where there is none to send them on.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from kafkaesque.broker.config import PeerTimings
from kafkaesque.broker.peers.claim_desk import ClaimDesk
from kafkaesque.broker.peers.controller_word import ControllerWord
from kafkaesque.broker.peers.door import GREETING_BYTES_MAX, STRANGERS_MAX, PeerDoor
from kafkaesque.broker.peers.greeting import Greeter
from kafkaesque.broker.peers.inbound import Inbound
from kafkaesque.broker.peers.messages import (
    Denial,
    GreetingDenied,
    Heartbeat,
    Hello,
    LeaderReport,
    MalformedPeerFrame,
    PeerAnswer,
    PeerRequest,
    SectionKind,
    read_answer,
    read_heartbeat,
    read_leaders,
    read_raft_section,
    read_request,
    read_sections,
    write_answer,
    write_heartbeat,
    write_raft_section,
    write_request,
    write_section,
)
from kafkaesque.broker.peers.outbound import Outbound
from kafkaesque.broker.peers.papers import Papers
from kafkaesque.env import Env
from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.clock import Timer
from kafkaesque.env.disk import Buffer
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import NodeId

#: A frame between brokers is never longer.
PEER_FRAME_BYTES_MAX = 256 * 1024 * 1024
#: Requests under way to one peer.
REQUESTS_MAX = 10_000
#: Heartbeats of which it is known when they were sent.
BEATS_MAX = 64
#: Brokers that are dialled; no other one is let in.
PEERS_MAX = 1_000
#: Each peer's connection, one that it has just given up, and strangers.
CONNECTIONS_MAX = 2 * PEERS_MAX + 2 * STRANGERS_MAX


class OnWord(Protocol):
    """See `Founding.on_word`."""

    def __call__(
        self,
        node: NodeId,
        incarnation: int,
        word: ControllerWord,
        *,
        own_sequence: int,
        echoed_sequence: int,
    ) -> None: ...


def _no_word(
    node: NodeId,
    incarnation: int,
    word: ControllerWord,
    *,
    own_sequence: int,
    echoed_sequence: int,
) -> None:
    """Nobody wants to know."""


class PeerUnreachable(KafkaesqueError):
    """The request could not be brought to the peer, or its answer was lost; it may be done."""


class PeerNotAsked(PeerUnreachable):
    """There was no link to send the request on: it is not done."""


class PeerEvents(Protocol):
    """What a peer network reports to its broker."""

    def on_raft(self, node: NodeId, group: int, message: memoryview) -> None:
        """A Raft message came for a group."""

    def on_leaders(self, node: NodeId, reports: list[LeaderReport]) -> None:
        """A broker says which groups it leads."""

    def on_request(
        self, node: NodeId, request: msgspec.Raw, answer: Callable[[PeerAnswer], None]
    ) -> None:
        """A broker asks; `answer` is to be called once."""

    def on_peer_seen(self, node: NodeId, *, restarted: bool) -> None:
        """A peer is alive that was not, or is a new incarnation of one that was."""

    def on_peer_lost(self, node: NodeId) -> None:
        """A peer that was alive is not."""

    def on_peer_doubted(self, node: NodeId) -> None:
        """A connection to a peer that is alive broke; what became of it is not known yet."""

    def on_peer_trusted(self, node: NodeId) -> None:
        """A peer that was doubted is as it was."""

    def on_link_up(self, node: NodeId) -> None:
        """A connection to the peer stands; what it must know anyway is to be sent now."""


class _Peer:
    """What is known about one other broker."""

    __slots__ = (
        "advertised",
        "alive",
        "damaged",
        "doubted",
        "echoed_ms",
        "heard",
        "heard_ms",
        "inbound",
        "incarnation",
        "lost_ms",
        "restarted",
        "sequence_seen",
    )

    def __init__(self, now_ms: int) -> None:
        self.alive = False
        self.doubted = False
        self.heard = False
        self.restarted = False
        self.heard_ms = 0
        #: When it was lost; before it was heard of, since when it is dialled.
        self.lost_ms = now_ms
        self.incarnation = 0
        #: When the newest of our heartbeats was sent that it says it has seen; None: none.
        self.echoed_ms: int | None = None
        self.sequence_seen = 0
        #: Groups of which it has a damaged copy.
        self.damaged: frozenset[int] = frozenset()
        self.inbound: Inbound | None = None
        #: Where the process that has greeted last says that it is.
        self.advertised: Address | None = None


class PeerNetwork:
    """All links of one broker."""

    def __init__(
        self,
        *,
        env: Env,
        node: NodeId,
        greeter: Greeter,
        timings: PeerTimings,
        papers: Papers | None = None,
        events: PeerEvents | None = None,
        report: Callable[[str], None],
        report_error: Callable[[str], None] | None = None,
        report_warning: Callable[[str], None] | None = None,
    ) -> None:
        """Without `report_error` and `report_warning`, `report` is told what they would be.

        `papers` say whether brokers speak TLS; without, they do not.
        """
        self.env = env
        self.node = node
        self.greeter = greeter
        self.report = report
        self.report_error = report_error or report
        self.report_warning = report_warning or report
        self.closed = False
        self.papers = papers or Papers(greeter.cluster_id, "")
        self.door = PeerDoor(env.clock, report)
        self.claims = ClaimDesk(self)
        #: Told when a peer is linked with another process of this broker's id.
        self.on_id_in_use: Callable[[NodeId], None] = lambda node: None
        #: What heartbeats say of this broker's controller, and who is told what others' say.
        self.write_word: Callable[[NodeId], ControllerWord] = lambda node: ControllerWord()
        self.on_word: OnWord = _no_word
        #: The groups that heartbeats name as damaged here.
        self.write_damaged: Callable[[], tuple[int, ...]] = tuple
        #: Told of every dial that is refused, with the address.
        self.on_dial_refused: Callable[[NodeId, Address], None] = lambda node, address: None
        self._timings = timings
        #: Set before `start`, if it was not given.
        self.events: PeerEvents
        if events is not None:
            self.events = events
        self._outbound: dict[NodeId, Outbound] = {}
        self._peers: dict[NodeId, _Peer] = {}
        self._flush_asked = False
        self._is_dialling = False
        #: Numbers of heartbeats are this process's own: an answer to one of an earlier process,
        #: which was this broker then, proves nothing.
        self._first_sequence = greeter.incarnation >> 2
        #: The newest heartbeat that was sent.
        self.sequence = self._first_sequence
        self._correlation = 0
        self._waiting: dict[int, tuple[NodeId, Callable[[PeerAnswer | PeerUnreachable], None]]] = {}
        self._beat: Timer | None = None
        #: When the last heartbeats were sent; the newest is `sequence`.
        self._sent_ms: deque[int] = deque(maxlen=BEATS_MAX)
        self._beat_due_ms = 0
        #: In the order of opening.
        self._inbounds: dict[Inbound, None] = {}

    # -- start and stop

    def listen(self, address: Address) -> Address:
        """Let others connect; return the bound address."""
        options = ListenOptions(
            framing=Framing.LENGTH_PREFIXED,
            frame_bytes_max=GREETING_BYTES_MAX,
            tls=self.papers.listens_by,
            is_tls_optional=self.papers.is_optional,
            connections_max=CONNECTIONS_MAX,
            is_closed_first=True,
        )
        self._listener = self.env.network.listen(address, options, lambda: Inbound(self))
        return self._listener.address

    def start(self) -> None:
        """Dial the peers that are known, and begin to beat."""
        self._is_dialling = True
        for link in list(self._outbound.values()):
            link.dial()
        self._beat_due_ms = self.env.clock.now_ms()
        self._on_beat()

    def add_peer(self, node: NodeId, address: Address) -> None:
        """Dial a peer from now on; a changed address replaces the old one.

        Not while the process is alive that says that it is where it is dialled: then another one
        says that it is this peer, and counts when the first one is gone.
        """
        if node == self.node:
            return
        peer = self._peers.setdefault(node, _Peer(self.env.clock.now_ms()))
        known = self._outbound.get(node)
        if known is not None:
            stays = peer.alive and peer.inbound is not None and peer.advertised == known.address
            known.move(address, at_once=not stays)
            return
        link = self._outbound[node] = Outbound(self, node, address)
        if self._is_dialling:
            link.dial()

    def remove_peer(self, node: NodeId) -> None:
        """Dial a peer no more, and forget it; harmless if it is not known."""
        link = self._outbound.pop(node, None)
        peer = self._peers.get(node)
        if link is None or peer is None:
            return
        if peer.alive:
            self._lose(node, peer)
        link.close()
        if peer.inbound is not None and peer.inbound.connection is not None:
            peer.inbound.connection.abort()
        del self._peers[node]

    def close(self) -> None:
        """Stop; open requests fail. Harmless if it was done."""
        if self.closed:
            return
        self.closed = True
        if self._beat is not None:
            self._beat.cancel()
        self._listener.close()
        self.flush()
        for link in self._outbound.values():
            link.close()
        for inbound in list(self._inbounds):
            if inbound.connection is not None:
                inbound.connection.close()

    # -- liveness

    def is_alive(self, node: NodeId) -> bool:
        """Tell whether a peer was heard of lately; a broker is always alive to itself."""
        if node == self.node:
            return True
        peer = self._peers.get(node)
        return peer is not None and peer.alive

    def was_alive(self, node: NodeId, within_ms: int) -> bool:
        """Tell whether a peer is alive, or was lost or first dialled no longer ago than that."""
        peer = self._peers.get(node)
        if peer is None or peer.alive:
            return self.is_alive(node)
        return self.env.clock.now_ms() - peer.lost_ms <= within_ms

    def is_gone(self, node: NodeId, within_ms: int) -> bool:
        """Tell whether a peer is not alive, and was not within so many ms or does not run.

        That it does not run is what its machine says: nobody listens there.
        """
        if self.is_alive(node):
            return False
        return self.is_refused(node) or not self.was_alive(node, within_ms)

    def may_live(self, node: NodeId) -> bool:
        """Tell whether a peer is alive, or was lost so lately that it may not know that it was.

        Not if its machine says that it does not run.
        """
        if self.is_alive(node):
            return True
        return self.was_alive(node, self._timings.peer_timeout_ms) and not self.is_refused(node)

    def has_heard_us(self, node: NodeId, since_ms: int) -> bool:
        """Tell whether a peer is known to have heard something that we sent since then."""
        peer = self._peers.get(node)
        return peer is not None and peer.echoed_ms is not None and peer.echoed_ms >= since_ms

    def lost_ms(self, node: NodeId) -> int:
        """Return when a peer was lost or, if it was never heard of, first dialled; 0 if never."""
        peer = self._peers.get(node)
        return 0 if peer is None else peer.lost_ms

    def is_refused(self, node: NodeId) -> bool:
        """Tell whether a peer's machine has said that nobody listens there, and nothing since."""
        link = self._outbound.get(node)
        return link is not None and link.is_refused

    def is_damaged(self, node: NodeId, group: int) -> bool:
        """Tell whether a peer has said of its copy of a group that it is damaged."""
        peer = self._peers.get(node)
        return peer is not None and group in peer.damaged

    def peers(self) -> list[NodeId]:
        """Return the peers that are dialled."""
        return list(self._outbound)

    def incarnation(self, node: NodeId) -> int | None:
        """Return which process of a peer is linked with us; None if none is."""
        peer = self._peers.get(node)
        return peer.incarnation if peer is not None and peer.inbound is not None else None

    def advertised(self, node: NodeId) -> Address | None:
        """Return where a peer's process says that it is, or else where it is dialled."""
        peer, link = self._peers.get(node), self._outbound.get(node)
        if peer is not None and peer.advertised is not None:
            return peer.advertised
        return None if link is None else link.address

    def addresses(self) -> list[Address]:
        """Return where peers are dialled."""
        return [link.address for link in self._outbound.values()]

    def denials(self) -> dict[NodeId, Denial]:
        """Return which peers do not let this broker in, and why, as they have said."""
        denied = {node: link.denied_for() for node, link in self._outbound.items()}
        return {node: denial for node, denial in denied.items() if denial is not None}

    def is_linked(self, node: NodeId) -> bool:
        """Tell whether the connection that was dialled to a peer stands."""
        link = self._outbound.get(node)
        return link is not None and link.state == "open"

    def is_trusted(self, node: NodeId) -> bool:
        """Tell whether no broken connection speaks against a peer's being there."""
        peer = self._peers.get(node)
        return peer is not None and not peer.doubted

    def give_up_doubted(self, node: NodeId) -> None:
        """Others have found a peer dead: if it is doubted here, that is what it is."""
        peer = self._peers.get(node)
        if peer is not None and peer.alive and peer.doubted:
            self._lose(node, peer)

    def _on_beat(self) -> None:
        now_ms = self.env.clock.now_ms()
        self._forgive_own_stall(now_ms)
        self.door.sweep(now_ms)
        self.sequence += 1
        self._sent_ms.append(now_ms)
        self.hold_flush()
        wall_ms = self.env.clock.wall_ms()
        damaged = self.write_damaged()
        for node, link in self._outbound.items():
            peer = self._peers[node]
            if peer.alive and now_ms - peer.heard_ms > self._timings.peer_timeout_ms:
                self._lose(node, peer)
                if peer.inbound is not None and peer.inbound.connection is not None:
                    peer.inbound.connection.abort()
            word = self.write_word(node)
            beat = Heartbeat(self.sequence, peer.sequence_seen, wall_ms, *word, damaged)
            link.add(write_heartbeat(beat))
        self.flush()
        self._beat = self.env.clock.call_later(self._timings.heartbeat_ms, self._on_beat)

    def _forgive_own_stall(self, now_ms: int) -> None:
        """If this broker itself was late, its peers may well have spoken meanwhile."""
        late_ms = now_ms - self._beat_due_ms
        self._beat_due_ms = now_ms + self._timings.heartbeat_ms
        if late_ms > self._timings.heartbeat_ms:
            self.report(f"broker {self.node} was held up for {late_ms} ms")
            for peer in self._peers.values():
                peer.heard_ms += late_ms
            self.door.forgive(late_ms)

    def _lose(self, node: NodeId, peer: _Peer) -> None:
        peer.alive = peer.heard = peer.doubted = False
        peer.lost_ms = self.env.clock.now_ms()
        self._fail_requests(node)
        self.events.on_peer_lost(node)

    def on_refused(self, node: NodeId, address: Address) -> None:
        """Nobody listens where the peer should: if we had it alive, its process is gone."""
        peer = self._peers.get(node)
        if peer is not None and peer.alive and peer.inbound is None:
            self._lose(node, peer)
        self.on_dial_refused(node, address)

    def on_inbound_open(self, inbound: Inbound) -> None:
        """Somebody has connected."""
        self._inbounds[inbound] = None
        self.door.admit(inbound)
        try:
            self.papers.check_any(inbound.certificate())
        except MalformedPeerFrame as error:
            inbound.turn_away(str(error))

    def on_inbound_lost(self, inbound: Inbound) -> None:
        """A connection that a peer dialled is closed."""
        if inbound.connection is not None:
            self.claims.on_closed(inbound.connection)
        self._inbounds.pop(inbound, None)
        self.door.release(inbound)
        if inbound.node is None or self.closed:
            return
        peer = self._peers.get(inbound.node)
        if peer is None or peer.inbound is not inbound:
            return
        peer.inbound = None
        self.claims.on_holder_gone(inbound.node)
        self._maybe_doubt(inbound.node, peer)
        link = self._outbound.get(inbound.node)
        if link is not None and link.state == "open" and link.connection is not None:
            # Ask the kernel whether the process still lives: a new dial is refused if not.
            link.connection.abort()

    def on_outbound_lost(self, node: NodeId) -> None:
        """The connection that we dialled is closed."""
        self._fail_requests(node)
        peer = self._peers.get(node)
        if not self.closed and peer is not None:
            self._maybe_doubt(node, peer)

    def _maybe_doubt(self, node: NodeId, peer: _Peer) -> None:
        if peer.alive and not peer.doubted:
            peer.doubted = True
            self.events.on_peer_doubted(node)

    def on_link_open(self, node: NodeId) -> None:
        """The connection that we dialled stands."""
        self.schedule_flush()
        self.events.on_link_up(node)
        self._maybe_alive(node, self._peers[node])

    def _maybe_alive(self, node: NodeId, peer: _Peer) -> None:
        link = self._outbound.get(node)
        if not peer.heard or link is None or link.state != "open":
            return
        if peer.alive:
            if peer.doubted and peer.inbound is not None:
                peer.doubted = False
                self.events.on_peer_trusted(node)
            return
        peer.alive = True
        restarted, peer.restarted = peer.restarted, False
        self.events.on_peer_seen(node, restarted=restarted)

    # -- receiving

    def on_frame(self, inbound: Inbound, frame: Buffer) -> None:
        """Take a frame that a peer sent."""
        if self.closed:
            return
        for kind, body in read_sections(frame):
            if kind in (SectionKind.HELLO, SectionKind.SEALED_HELLO):
                if inbound.node is not None:
                    raise MalformedPeerFrame(f"broker {inbound.node} greets a second time")
                check = partial(self._check_id, inbound.certificate())
                self._on_hello(inbound, self.greeter.read(kind, body, check))
            elif kind in (SectionKind.CLAIM, SectionKind.SEALED_CLAIM):
                if inbound.node is not None or inbound.connection is None:
                    raise MalformedPeerFrame("a claim of a peer that has greeted")
                hello = self.greeter.read_claim(kind, body)
                self.papers.check(inbound.certificate(), NodeId(hello.node))
                self.claims.on_claim(inbound.connection, hello)
            elif inbound.node is None:
                raise MalformedPeerFrame("the first section must be a greeting")
            else:
                self._on_section(inbound.node, kind, body)
        if inbound.node is not None:
            self._peers[inbound.node].heard_ms = self.env.clock.now_ms()

    def _check_id(self, certificate: PeerCertificate | None, hello: Hello) -> None:
        """Turn away who is not the broker, and a second process of it while the first is there."""
        self.papers.check(certificate, NodeId(hello.node))
        peer = self._peers.get(NodeId(hello.node))
        if (
            peer is not None
            and peer.alive
            and peer.inbound is not None
            and peer.incarnation != hello.incarnation
        ):
            raise GreetingDenied(
                Denial.ID_IN_USE,
                f"it says that it is broker {hello.node}, at {hello.host}:{hello.port}, and "
                f"another process, at {peer.advertised}, is",
            )

    def _on_hello(self, inbound: Inbound, hello: Hello) -> None:
        node = NodeId(hello.node)
        if node not in self._outbound and len(self._outbound) >= PEERS_MAX:
            raise MalformedPeerFrame(f"broker {node} is new, and {PEERS_MAX} others are known")
        self.door.release(inbound)
        inbound.node = node
        if inbound.connection is not None:
            inbound.connection.limit_frames(PEER_FRAME_BYTES_MAX)
        if node not in self._outbound:
            self.add_peer(node, Address(hello.host, hello.port))
        peer = self._peers[node]
        former, peer.inbound = peer.inbound, inbound
        if former is not None and former.connection is not None:
            former.connection.abort()
        restarted = peer.incarnation not in (0, hello.incarnation)
        if restarted:
            peer.echoed_ms = None
            if peer.alive:
                self._lose(node, peer)
        peer.restarted = peer.restarted or restarted
        peer.incarnation = hello.incarnation
        peer.advertised = Address(hello.host, hello.port)
        peer.heard_ms = self.env.clock.now_ms()
        peer.heard = True
        self._outbound[node].denial = None
        self._maybe_alive(node, peer)

    def _on_section(self, node: NodeId, kind: SectionKind, body: memoryview) -> None:
        peer = self._peers[node]
        if not peer.alive:
            peer.heard = True
            self._maybe_alive(node, peer)
        match kind:
            case SectionKind.RAFT:
                group, message = read_raft_section(body)
                self.events.on_raft(node, group, message)
            case SectionKind.HEARTBEAT:
                self._on_heartbeat(node, peer, read_heartbeat(body))
            case SectionKind.LEADERS:
                self.events.on_leaders(node, read_leaders(body))
            case SectionKind.REQUEST:
                correlation, request = read_request(body)
                self.events.on_request(node, request, self._answerer(node, correlation))
            case SectionKind.RESPONSE:
                correlation, answer = read_answer(body)
                waiting = self._waiting.pop(correlation, None)
                if waiting is not None:
                    waiting[1](answer)

    def _on_heartbeat(self, node: NodeId, peer: _Peer, beat: Heartbeat) -> None:
        peer.sequence_seen = beat.sequence
        peer.damaged = frozenset(beat.damaged)
        echoed = beat.echoed_sequence
        if not self._first_sequence < echoed <= self.sequence:
            echoed = 0
        elif (at := len(self._sent_ms) - 1 - self.sequence + echoed) >= 0:
            peer.echoed_ms = self._sent_ms[at]
        self.claims.on_echo(node, echoed)
        self.on_word(
            node,
            peer.incarnation,
            ControllerWord(beat.standing, beat.founding, beat.term),
            own_sequence=self.sequence,
            echoed_sequence=echoed,
        )

    def _answerer(self, node: NodeId, correlation: int) -> Callable[[PeerAnswer], None]:
        def answer(result: PeerAnswer) -> None:
            link = self._outbound.get(node)
            if link is not None:
                link.add(write_answer(correlation, result))

        return answer

    # -- sending

    def send_raft(self, node: NodeId, group: int, parts: list[Buffer]) -> bool:
        """Send a Raft message with this turn's frame; False if it was dropped."""
        link = self._outbound.get(node)
        if link is None or link.state != "open" or link.is_congested():
            return False
        link.add(write_raft_section(group, parts))
        return True

    def send_leaders(self, node: NodeId, reports: list[LeaderReport]) -> None:
        """Tell one peer which groups this broker leads."""
        link = self._outbound.get(node)
        if link is not None and reports:
            link.add(write_section(SectionKind.LEADERS, reports))

    def ask(
        self,
        node: NodeId,
        request: PeerRequest,
        on_answer: Callable[[PeerAnswer | PeerUnreachable], None],
    ) -> int | None:
        """Ask a peer; return a ticket for `give_up`, or None if it failed at once."""
        link, peer = self._outbound.get(node), self._peers.get(node)
        # The answer comes on the connection that the peer has dialled. One that has not dialled
        # yet, as after this broker's restart, would do what is asked and could not say so.
        is_heard = peer is not None and (peer.inbound is not None or request.may_go_unanswered)
        is_open = link is not None and link.state == "open" and is_heard
        if link is None or not is_open or len(self._waiting) >= REQUESTS_MAX:
            reason = PeerNotAsked(f"broker {node} cannot be reached at the moment")
            self.env.clock.call_soon(lambda: on_answer(reason))
            return None
        self._correlation += 1
        self._waiting[self._correlation] = (node, on_answer)
        link.add(write_request(self._correlation, request))
        return self._correlation

    def give_up(self, ticket: int) -> None:
        """Forget a request; its answer is dropped."""
        self._waiting.pop(ticket, None)

    def _fail_requests(self, node: NodeId) -> None:
        failed = [ticket for ticket, (to, _) in self._waiting.items() if to == node]
        for ticket in failed:
            _, on_answer = self._waiting.pop(ticket)
            on_answer(PeerUnreachable(f"the connection to broker {node} broke"))

    def hold_flush(self) -> None:
        """Ask for no flush: the caller's turn ends with one."""
        self._flush_asked = True

    def schedule_flush(self) -> None:
        """See to it that this turn's frames leave at its end."""
        if not self._flush_asked:
            self._flush_asked = True
            self.env.clock.call_soon(self.flush)

    def flush(self) -> None:
        """Send this turn's frames now."""
        self._flush_asked = False
        for link in self._outbound.values():
            link.flush()
