"""What lies between simulated machines: links with latency, and faults on them.

Theory of operation. A `Pipe` is one direction of a TCP connection: what is put into it arrives
once, after the link's latency, and is delivered in order: a packet that comes before its turn waits
at the receiver. Loss delays (TCP sends again). While a link is blocked, its pipes stall: what is
under way waits, and is sent again some time after the link is whole. Who waits too long for an
acknowledgement gives up, and its connection ends in a time-out; the other side does not learn of it
until it sends something itself.

A machine that lost its power answers nothing. One that has come back answers for connections that
it does not remember with a reset.
"""

import bisect
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from kafkaesque.sim.dice import Chance
from kafkaesque.sim.loop import NS_PER_MS, SimLoop

#: Within a machine.
LOOPBACK_NS: Final = 15_000
#: TCP's first retransmission comes after so long, each further one after twice the time.
RETRANSMIT_MS: Final = 200
RETRANSMIT_MS_MAX: Final = 3_000
LOSSES_IN_A_ROW_MAX: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class WireOptions:
    """How the network behaves when nothing is wrong."""

    latency_us_min: int = 40
    latency_us_max: int = 400
    #: One packet in so many is late, by up to `late_ms_max`.
    late_one_in: int = 200
    late_ms_max: int = 8
    #: None: as much as is sent.
    bytes_per_ms: int | None = None
    #: Of so many datagrams one is lost, or comes twice, even where nothing is wrong.
    datagrams_lost_one_in: int = 200
    datagrams_doubled_one_in: int = 1_000
    #: An unacknowledged sender ends its connection after a time between these.
    give_up_ms_min: int = 4_000
    give_up_ms_max: int = 20_000


@dataclass(slots=True)
class Link:
    """One direction between two machines, with what is wrong with it."""

    source: str
    target: str
    blocked: bool = False
    #: When it was last blocked; says how far back-off has gone.
    blocked_at_ns: int = 0
    extra_ms: float = 0.0
    #: Probability that a packet has to be sent again.
    loss: float = 0.0


class Packet(NamedTuple):
    """What travels through a pipe: data, or a sign."""

    kind: str
    data: bytes = b""
    #: For "window": how many bytes the receiver has consumed.
    consumed: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {len(self.data) or self.consumed} {crc32(self.data):08x}"


class Endpoint(Protocol):
    """A socket, as the wire sees it."""

    #: Nobody uses it any more.
    closed: bool
    #: The machine lost it without a word.
    vanished: bool

    @property
    def reachable(self) -> bool:
        """Whether its machine has power."""

    def on_packet(self, packet: Packet) -> None:
        """Something arrived."""

    def on_given_up(self) -> None:
        """No acknowledgement came for too long."""


class Wire:
    """All links."""

    def __init__(self, loop: SimLoop, options: WireOptions) -> None:
        self.loop: Final = loop
        self.options: Final = options
        self.chance: Final[Chance] = loop.chance("wire")
        self._datagram_chance: Final[Chance] = loop.chance("datagrams")
        self._links: Final[dict[tuple[str, str], Link]] = {}
        self._stalled: Final[dict[Pipe, None]] = {}

    def link(self, source: str, target: str) -> Link:
        """Return the link from one machine to another."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(source, target)
        return link

    def block(self, source: str, target: str) -> None:
        """Let nothing through in this direction."""
        link = self.link(source, target)
        if not link.blocked and source != target:
            link.blocked = True
            link.blocked_at_ns = self.loop.now_ns

    def unblock(self, source: str, target: str) -> None:
        """Let everything through again."""
        link = self.link(source, target)
        if link.blocked:
            link.blocked = False
            self._release(link)

    def heal(self) -> None:
        """Take every fault off every link."""
        for link in self._links.values():
            link.extra_ms = link.loss = 0.0
            self.unblock(link.source, link.target)

    def latency_ns(self, link: Link, size: int = 0) -> int:
        """Draw how long a packet takes."""
        if link.source == link.target:
            return LOOPBACK_NS
        options, chance = self.options, self.chance
        delay = self._way_ns(link, chance)
        if link.loss:
            again_ms = RETRANSMIT_MS
            for _ in range(LOSSES_IN_A_ROW_MAX):
                if chance.random() >= link.loss:
                    break
                delay += again_ms * NS_PER_MS
                again_ms *= 2
        if options.bytes_per_ms is not None:
            delay += size * NS_PER_MS // options.bytes_per_ms
        return delay

    def datagram_ns(self, link: Link) -> list[int]:
        """Draw how long each copy of a datagram takes that arrives: none of one that is lost."""
        if link.source == link.target:
            return [LOOPBACK_NS]
        options, chance = self.options, self._datagram_chance
        is_lost = chance.below(options.datagrams_lost_one_in) == 0
        if link.blocked or is_lost or (link.loss and chance.random() < link.loss):
            return []
        is_doubled = chance.below(options.datagrams_doubled_one_in) == 0
        return [self._way_ns(link, chance) for _ in range(1 + is_doubled)]

    def _way_ns(self, link: Link, chance: Chance) -> int:
        options = self.options
        least_us, most_us = options.latency_us_min, options.latency_us_max
        delay = (least_us + chance.below(most_us - least_us + 1)) * 1_000
        if chance.below(options.late_one_in) == 0:
            delay += chance.below(options.late_ms_max * NS_PER_MS)
        return delay + int(link.extra_ms * NS_PER_MS)

    def give_up_ns(self) -> int:
        """Draw how long somebody waits for an acknowledgement."""
        options = self.options
        return self.chance.randint(options.give_up_ms_min, options.give_up_ms_max) * NS_PER_MS

    def stall(self, pipe: "Pipe") -> None:
        """Remember a pipe that waits for its link."""
        self._stalled[pipe] = None

    def _release(self, link: Link) -> None:
        backed_off_ns = self.loop.now_ns - link.blocked_at_ns
        wait_ns = min(max(backed_off_ns, RETRANSMIT_MS * NS_PER_MS), RETRANSMIT_MS_MAX * NS_PER_MS)
        for pipe in [pipe for pipe in self._stalled if pipe.link is link]:
            del self._stalled[pipe]
            self.loop.after(self.chance.randrange(wait_ns), "sent again", pipe.send_again)


class Pipe:
    """One direction of a connection."""

    __slots__ = (
        "_back",
        "_early",
        "_expecting_ns",
        "_gave_up",
        "_last_number",
        "_next_number",
        "_probing",
        "_receiver",
        "_sender",
        "_waiting",
        "_wire",
        "link",
    )

    def __init__(self, wire: Wire, link: Link, sender: Endpoint, receiver: Endpoint) -> None:
        self._wire: Final = wire
        self.link: Final = link
        self._back: Final = wire.link(link.target, link.source)
        self._sender: Final = sender
        self._receiver: Final = receiver
        self._last_number = 0
        #: The number of the packet that is delivered next, and packets that came before their turn.
        self._next_number = 1
        self._early: Final[dict[int, Packet]] = {}
        #: What is to be sent again when the link is whole, with numbers, in their order.
        self._waiting: Final[list[tuple[int, Packet]]] = []
        self._gave_up = False
        self._probing = False
        #: When that block of the way back began which is being watched.
        self._expecting_ns = -1

    def send(self, packet: Packet) -> None:
        """Let a packet be delivered after all that were sent before it."""
        self._last_number += 1
        self._send(self._last_number, packet)

    def send_again(self) -> None:
        """The link was whole again a moment ago."""
        if self.link.blocked:
            self._wire.stall(self)
            return
        waiting = list(self._waiting)
        self._waiting.clear()
        for number, packet in waiting:
            self._send(number, packet)

    def _send(self, number: int, packet: Packet) -> None:
        if self._gave_up:
            return
        if self._waiting or self.link.blocked:
            self._wait(number, packet)
            return
        delay = self._wire.latency_ns(self.link, len(packet.data))
        what = f"{self.link.source}>{self.link.target} {packet}"
        self._wire.loop.after(delay, what, lambda: self._arrive(number, packet))

    def _arrive(self, number: int, packet: Packet) -> None:
        if self._gave_up:
            return
        receiver = self._receiver
        if self.link.blocked:
            self._wait(number, packet)
        elif not receiver.reachable:
            self._probe(RETRANSMIT_MS)
        elif receiver.closed:
            if packet.kind == "data" or receiver.vanished:
                self._be_reset()
        else:
            if self._back.blocked and packet.kind == "data":
                self._expect_acknowledgement()
            self._early[number] = packet
            self._deliver()

    def _deliver(self) -> None:
        while (packet := self._early.pop(self._next_number, None)) is not None:
            self._next_number += 1
            self._receiver.on_packet(packet)

    def _wait(self, number: int, packet: Packet) -> None:
        # A reset is sent once: if it is lost, the other side goes on believing.
        if packet.kind == "reset":
            self._gave_up = True
            self._waiting.clear()
            return
        if not self._waiting:
            self._wire.stall(self)
            self._wire.loop.after(self._wire.give_up_ns(), "give up?", self._maybe_give_up)
        bisect.insort(self._waiting, (number, packet), key=_number_of)

    def _maybe_give_up(self) -> None:
        if self._waiting and self.link.blocked:
            self._give_up()

    def _expect_acknowledgement(self) -> None:
        blocked_at_ns = self._back.blocked_at_ns
        if self._expecting_ns == blocked_at_ns:
            return
        self._expecting_ns = blocked_at_ns

        def look() -> None:
            if self._back.blocked and self._back.blocked_at_ns == blocked_at_ns:
                self._give_up()

        self._wire.loop.after(self._wire.give_up_ns(), "give up?", look)

    def _give_up(self) -> None:
        if not self._gave_up:
            self._gave_up = True
            self._waiting.clear()
            self._sender.on_given_up()

    def _probe(self, wait_ms: int, waited_ms: int = 0) -> None:
        """Send to a machine without power, again and again."""
        if self._sender.closed or (self._probing and waited_ms == 0):
            return
        self._probing = True
        if self._receiver.reachable:
            self._be_reset()
        elif waited_ms * NS_PER_MS > self._wire.give_up_ns():
            self._give_up()
        else:
            self._wire.loop.after(
                wait_ms * NS_PER_MS,
                "sent again",
                lambda: self._probe(min(2 * wait_ms, RETRANSMIT_MS_MAX), waited_ms + wait_ms),
            )

    def _be_reset(self) -> None:
        """The machine answers for a connection that it does not know."""
        if self._sender.closed or self._gave_up:
            return
        loop = self._wire.loop
        if self._back.blocked:  # The answer is lost; the next attempt gets another one.
            loop.after(RETRANSMIT_MS_MAX * NS_PER_MS, "sent again", self._be_reset)
            return
        delay = self._wire.latency_ns(self._back)
        loop.after(delay, "reset", lambda: self._sender.on_packet(Packet("reset")))


def _number_of(entry: tuple[int, Packet]) -> int:
    return entry[0]
