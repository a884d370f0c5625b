"""Epidemics in their pure form: one piece of news, and how many hear of it, and how soon.

What spreads it is the room of membership: its `RumourBoard` decides what is told and when it is
given up, its `Repair` compares two members, and its `ClusterView` tells what was news. What is left
out is that everybody knows the addresses of everybody, which ten thousand members in one process
would need most of their memory for: whom to talk to is drawn here, uniformly, as the theory has it.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import Final

from kafkaesque.env.network import Address
from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.entries import Entry, Fact, Member
from kafkaesque.membership.messages import (
    Packet,
    Sync,
    SyncBuckets,
    SyncDelta,
    SyncDigest,
    SyncMode,
    SyncWant,
)
from kafkaesque.membership.post import Post
from kafkaesque.membership.ready import Datagram, Outbox
from kafkaesque.membership.repair import Repair
from kafkaesque.membership.rumours import Interest, RumourBoard
from kafkaesque.membership.seal import Keyring
from kafkaesque.membership.view import ClusterView
from kafkaesque.membership.wire import read_packet
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.dice import Chance, SimDice

#: What the news is about: a member that all know.
_TELLER: Final = Member(NodeId(1), Address("node1", 9190), 1, 1)
_NEWS: Final = Fact(NodeId(1), "news", 2, 1)
_SECRET: Final = b"only for the simulator"
#: More rounds than this are an endless epidemic.
ROUNDS_MAX: Final = 1_000


def expected_residue(k: int) -> float:
    """Return the part that never hears, by feedback and coin: s = e^-((k+1)(1-s))."""
    part = 0.5
    for _ in range(200):
        part = math.exp(-(k + 1) * (1 - part))
    return part


class _Gossiper:
    """What one of very many members needs for rumours."""

    __slots__ = ("board", "view")

    def __init__(self, config: MembershipConfig, interest: Interest, dice: SimDice) -> None:
        self.view: Final = ClusterView(config)
        self.board: Final = RumourBoard(lambda: interest, dice, config.rumours_max)

    def hear(self, entry: Entry) -> bool:
        """Take news in and tell them on; say whether they were news."""
        merged = self.view.merge(entry, 0)
        if merged is not None:
            self.board.tell(merged.new)
        return merged is not None


def never_hear(seed: int, count: int, interest: Interest) -> int:
    """Return how many of so many members never hear of one piece of news.

    In every round each that has a rumour tells it to one by lot, and is told whether that was news.
    """
    chance = Chance(f"{seed}/{count}/{interest}")
    dice = SimDice(chance)
    config = MembershipConfig()
    members = [_Gossiper(config, interest, dice) for _ in range(count)]
    for member in members:
        member.view.merge(_TELLER, 0)
    members[0].hear(_NEWS)
    active = [0]
    for _ in range(ROUNDS_MAX):
        if not active:
            break
        active = list(_spread(members, active, config.frame_bytes_max, chance))
    return sum(member.view.value(_NEWS.node, _NEWS.name) is None for member in members)


def _spread(
    members: list[_Gossiper], active: list[int], room_bytes: int, chance: Chance
) -> Iterator[int]:
    """Let each that has a rumour tell it once; yield who has one afterwards."""
    count = len(members)
    newcomers = []
    for place in active:
        board = members[place].board
        other = chance.randrange(count - 1)
        other += other >= place
        for entry, _ in board.choose(room_bytes, 255, _as_it_is):
            if members[other].hear(entry):
                newcomers.append(other)
            else:
                board.on_known(entry.key, entry.version)
        if len(board):
            yield place
    yield from newcomers


def _as_it_is(entry: Entry) -> Entry:
    return entry


@cache
def keyring() -> Keyring:
    """Return what all comparers sign with."""
    return Keyring("simulated", [_SECRET])


class Comparer:
    """What one of very many members needs for repair."""

    __slots__ = ("address", "node", "outbox", "repair", "view")

    def __init__(self, node: NodeId, chance: Chance) -> None:
        config = MembershipConfig()
        dice = SimDice(chance)
        self.node: Final = node
        self.address: Final = Address(f"node{node}", 9190)
        self.outbox: Final = Outbox()
        self.view: Final = ClusterView(config)
        post = Post(
            node=node,
            life=1,
            keyring=keyring(),
            board=RumourBoard(lambda: Interest(k=1), dice, 1),
            view=self.view,
            outbox=self.outbox,
            frame_bytes_max=config.frame_bytes_max,
            rides_along=False,
        )
        self.repair: Final = Repair(config=config, dice=dice, view=self.view, post=post)

    def take_datagrams(self) -> list[Datagram]:
        """Return what this member has to send."""
        datagrams, self.outbox.datagrams = self.outbox.datagrams, []
        return datagrams

    def on_packet(self, sender: "Comparer", packet: Packet) -> None:
        """Take a step of a comparison."""
        repair, source = self.repair, sender.address
        match packet.message:
            case Sync() as message:
                repair.on_sync(sender.node, source, message)
            case SyncBuckets() as message:
                repair.on_buckets(sender.node, source, message)
            case SyncDigest() as message:
                repair.on_digest(sender.node, source, message)
            case SyncWant() as message:
                repair.on_want(sender.node, source, message)


def rounds_until_all_know(seed: int, count: int, mode: SyncMode) -> list[int]:
    """Return after how many rounds how many of so many members know one piece of news.

    In every round each member compares itself with one by lot, both as they were when the round
    began.
    """
    chance = Chance(f"{seed}/{count}/{mode.name}")
    members = [Comparer(NodeId(place + 1), chance) for place in range(count)]
    for member in members:
        member.view.merge(_TELLER, 0)
    members[0].view.merge(_NEWS, 0)
    known = [1]
    while known[-1] < count and len(known) <= ROUNDS_MAX:
        learned: list[tuple[Comparer, Entry]] = []
        for place, member in enumerate(members):
            other = chance.randrange(count - 1)
            other += other >= place
            learned += compare(member, members[other], mode)
        for member, entry in learned:
            member.view.merge(entry, 0)
        known.append(sum(m.view.value(_NEWS.node, _NEWS.name) is not None for m in members))
    return known


def compare(first: Comparer, second: Comparer, mode: SyncMode) -> list[tuple[Comparer, Entry]]:
    """Let two compare themselves; return what either would learn, without taking it in."""
    learned: list[tuple[Comparer, Entry]] = []
    first.repair.begin(second.node, second.address, mode)
    sender, receiver = first, second
    while True:
        datagrams = sender.take_datagrams()
        for datagram in datagrams:
            packet = read_packet(keyring().open(datagram.data).packet)
            if isinstance(packet.message, SyncDelta):
                learned += [(receiver, entry) for entry in packet.entries]
            receiver.on_packet(sender, packet)
        if not datagrams:
            return learned
        sender, receiver = receiver, sender
