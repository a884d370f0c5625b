"""What a core makes of frames that no member would have sent it, and of facts."""

from __future__ import annotations

import pytest

from kafkaesque.env.network import Address
from kafkaesque.membership.config import FRAME_BYTES, Identity, MembershipConfig
from kafkaesque.membership.core import MembershipCore
from kafkaesque.membership.entries import Accusation, Fact, Member, MemberState
from kafkaesque.membership.errors import FactRefused, Refusal
from kafkaesque.membership.events import Received, SetFact
from kafkaesque.membership.messages import Gossip, Message, Ping, SyncDelta, Welcome
from kafkaesque.membership.ready import REFUSALS_TOLD_MAX, Turned
from kafkaesque.membership.seal import ANYBODY, Keyring
from kafkaesque.membership.view import LeaderHint
from kafkaesque.membership.wire import write_entry, write_message, write_packet
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.dice import Chance, SimDice
from kafkaesque.sim.gossip.world import CLUSTER_ID, SECRET, GossipWorld

HERE, THERE = Address("here", 9190), Address("there", 9190)
ONE, TWO = NodeId(1), NodeId(2)
KEYRING = Keyring("cluster", [SECRET])
PING = write_packet(write_message(Ping(1)))


def core(config: MembershipConfig | None = None) -> MembershipCore:
    identity = Identity(cluster_id="cluster", node=ONE, address=HERE, life=100, secrets=[SECRET])
    dials = MembershipConfig() if config is None else config
    made = MembershipCore(identity, dials, SimDice(Chance(1)), 0)
    made.take_ready()
    return made


def refused(member: MembershipCore, frame: bytes) -> Refusal | None:
    """Brings a frame; returns why it was turned away, and sees that nothing came of it then."""
    before = (member.root, member.own)
    member.step(Received(THERE, frame))
    ready = member.take_ready()
    turned = [] if ready is None else [c for c in ready.changes if isinstance(c, Turned)]
    if not turned:
        return None
    assert (member.root, member.own) == before
    return turned[0].refusal


def test_a_member_is_answered() -> None:
    member = core()
    member.step(Received(THERE, KEYRING.seal(TWO, ONE, 1, 1, PING)))
    ready = member.take_ready()
    assert ready is not None
    assert {datagram.address for datagram in ready.datagrams} == {THERE}


def test_whoever_is_no_member_is_turned_away_and_gets_no_answer() -> None:
    stranger = Keyring("cluster", [b"another secret, as long"])
    cases = {
        b"": Refusal.MALFORMED,
        stranger.seal(TWO, ONE, 1, 1, PING): Refusal.UNKNOWN_KEY,
        Keyring("other", [SECRET]).seal(TWO, ONE, 1, 1, PING): Refusal.OTHER_CLUSTER,
        KEYRING.seal(TWO, NodeId(3), 1, 1, PING): Refusal.NOT_FOR_US,
        KEYRING.seal(TWO, ONE, 1, 2, b"\x00"): Refusal.UNREADABLE,
        KEYRING.seal(TWO, ONE, 1, 3, PING[:-1]): Refusal.UNREADABLE,
        KEYRING.seal(ONE, TWO, 100, 1, PING): Refusal.OWN,
    }
    for frame, why in cases.items():
        member = core()
        assert refused(member, frame) is why
        assert member.refusals[why] == 1
        assert member.take_ready() is None


def test_a_recorded_frame_is_answered_once() -> None:
    member = core()
    frame = KEYRING.seal(TWO, ONE, 1, 1, PING)
    assert refused(member, frame) is None
    assert refused(member, frame) is Refusal.REPLAYED


def test_many_strangers_are_counted_and_a_few_are_told_of() -> None:
    member = core()
    for _ in range(1_000):
        member.step(Received(THERE, b"noise"))
    ready = member.take_ready()
    assert ready is not None
    assert len(ready.changes) == REFUSALS_TOLD_MAX
    assert member.refusals[Refusal.MALFORMED] == 1_000


def test_noise_of_every_length_changes_nothing() -> None:
    member, chance = core(), Chance(5)
    root = member.root
    for _ in range(2_000):
        noise = bytearray(KEYRING.seal(TWO, ONE, 1, chance.randrange(10**6), PING))
        for _ in range(chance.randrange(1, 4)):
            noise[chance.randrange(len(noise))] ^= 1 << chance.randrange(8)
        member.step(Received(THERE, bytes(noise[: chance.randrange(len(noise) + 1)])))
    assert member.root == root
    assert [each.node for each in member.members()] == [1]


def entries(*wanted: Member | Fact, message: Message | None = None) -> bytes:
    head = write_message(Gossip(1, False) if message is None else message)
    return write_packet(head, [write_entry(each) for each in wanted])


@pytest.mark.parametrize(
    ("message", "age_s", "state"),
    [
        (Gossip(1, False), 0, MemberState.DEAD),
        (Gossip(1, False), 2, MemberState.SUSPECT),
        (SyncDelta(), 0, MemberState.SUSPECT),
        (Welcome(), 0, MemberState.SUSPECT),
    ],
    ids=["rumour", "old rumour", "repair", "welcome"],
)
def test_only_a_fresh_verdict_is_taken_for_one(
    message: Message, age_s: int, state: MemberState
) -> None:
    member, three = core(), NodeId(3)
    frames = [
        entries(Member(three, THERE, 1, 1)),
        entries(Member(three, THERE, 1, 1, MemberState.DEAD, (), age_s), message=message),
    ]
    for number, packet in enumerate(frames, start=1):
        member.step(Received(THERE, KEYRING.seal(TWO, ONE, 1, number, packet)))
    found = member.member(three)
    assert found is not None
    assert found.state is state
    assert found.accusers == ((Accusation(TWO, False),) if state is MemberState.SUSPECT else ())


def test_a_node_refutes_whatever_is_said_of_it() -> None:
    member = core()
    for number, state in enumerate((MemberState.DEAD, MemberState.LEFT), start=1):
        word = Member(ONE, HERE, 100, member.own.incarnation, state)
        member.step(Received(THERE, KEYRING.seal(TWO, ONE, 1, number, entries(word))))
        assert member.own.state is MemberState.ALIVE
        assert member.own.incarnation == 100 + number
    assert member.member(ONE) == member.own


def test_a_frame_to_anybody_is_no_frame_to_node_zero() -> None:
    for receiver in (ANYBODY, NodeId(0), TWO):
        envelope = KEYRING.open(KEYRING.seal(NodeId(0), receiver, 1, 1, b"packet"))
        assert (envelope.sender, envelope.receiver) == (0, receiver)


def test_a_member_with_the_secret_cannot_make_a_table_grow_without_end() -> None:
    member = core(MembershipConfig(members_max=20, facts_max=50, facts_per_member_max=50))
    for number in range(1, 400):
        other = Member(NodeId(number + 1), THERE, 1, 1)
        fact = Fact(NodeId(number + 1), f"fact{number}", 5, number)
        packet = entries(other, fact, Fact(TWO, f"fact{number}", 5, 1))
        member.step(Received(THERE, KEYRING.seal(TWO, ANYBODY, 1, number, packet)))
        member.take_ready()
    assert len(member.members()) == 20
    assert sum(len(member.facts(each.node)) for each in member.members()) == 50
    assert member.entries_refused > 0


def test_every_frame_keeps_to_its_length() -> None:
    world = GossipWorld(1)
    sizes: set[int] = set()
    send = world._send

    def watch(machine, datagram):  # type: ignore[no-untyped-def]
        sizes.add(len(datagram.data))
        send(machine, datagram)

    world._send = watch  # type: ignore[method-assign]
    world.start_all(20)
    for node in (1, 2, 3):
        for number in range(200):
            world.tell(node, SetFact(f"leader/{node * 1000 + number}", number))
    world.loop.run_for(20_000)
    assert FRAME_BYTES * 0.9 < max(sizes) <= FRAME_BYTES
    assert len({each.root for each in world.running()}) == 1
    assert world.core(20).leader(3199) == LeaderHint(NodeId(3), 199)


def test_facts_spread_change_and_are_withdrawn() -> None:
    world = GossipWorld(1)
    world.start_all(5)
    world.loop.run_until(world.all_agree, 30_000)
    for value in (1, 2.5, "three", b"four"):
        world.tell(2, SetFact("load", value))
        world.loop.run_for(500)
        assert {each.facts(TWO).get("load") for each in world.running()} == {value}
    world.tell(2, SetFact("load", None))
    world.loop.run_for(500)
    assert {len(each.facts(TWO)) for each in world.running()} == {0}


def test_the_same_value_again_is_no_news() -> None:
    member = core()
    member.step(SetFact("load", 5))
    root = member.root
    member.step(SetFact("load", 5))
    assert member.root == root


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("", 1, "cannot be named ''"),
        ("a b", 1, "cannot be named 'a b'"),
        ("x" * 49, 1, "cannot be named"),
        ("load", float("nan"), "fact load cannot be the number nan"),
        ("load", 2**63, "more than 64 bits"),
        ("load", "x" * 256, "a text of more than 255 bytes"),
        ("load", "\ud800", "a text that is not Unicode"),
        ("load", True, "a bool: say 0 or 1"),
    ],
    ids=["empty", "space", "long name", "nan", "large", "long", "surrogate", "bool"],
)
def test_facts_that_cannot_be_told_are_refused(name: str, value: object, words: str) -> None:
    with pytest.raises(FactRefused, match=words):
        core().step(SetFact(name, value))  # type: ignore[arg-type]


def test_two_clusters_on_one_network_do_not_mix() -> None:
    world = GossipWorld(1)
    world.start(1)
    world.start(2, seeds=[1], secrets=[b"another secret, as long"])
    world.loop.run_for(10_000)
    assert [each.live() for each in world.running()] == [(1,), (2,)]
    assert world.core(1).refusals[Refusal.UNKNOWN_KEY] > 2
    assert CLUSTER_ID


def test_the_secret_is_changed_while_the_cluster_works() -> None:
    old, new = SECRET, b"the secret that follows"
    world = GossipWorld(1)
    world.start_all(3)
    world.loop.run_until(world.all_agree, 30_000)
    for step in ([old, new], [new, old], [new]):
        for node in (1, 2, 3):
            world.kill(node)
            world.start(node, seeds=[node % 3 + 1], secrets=step)
            world.loop.run_until(world.all_agree, 10_000, every_ms=10)
    assert all(not each.refusals[Refusal.UNKNOWN_KEY] for each in world.running())
