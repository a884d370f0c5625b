"""A cluster of members driven by Hypothesis: whatever happens to it, in the end all know the same.

The model is what each node's broker has told its member last.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaesque.env.network import Address
from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.entries import Accusation, Entry, Fact, Member, MemberState, accused
from kafkaesque.membership.events import Leave, SetFact
from kafkaesque.membership.view import ClusterView
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.gossip.world import GossipWorld, NetworkOptions

NODES = st.integers(1, 5)
NAMES = st.sampled_from(["load", "disk", "leader/1"])
VALUES = st.one_of(st.none(), st.integers(0, 9))
MS = st.sampled_from([1, 20, 100, 400, 1_500, 7_000])


class MembershipMachine(RuleBasedStateMachine):
    """Five machines, whose processes are killed, paused, cut off, restarted, or leave."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GossipWorld(0)
        self.told: dict[int, dict[str, int]] = {}
        #: The greatest version that each life of a member has had of each other one.
        self.seen: dict[tuple[int, int, int], int] = {}

    @initialize(seed=st.integers(0, 2**16), lost=st.sampled_from([0, 5, 50]))
    def begin(self, seed: int, lost: int) -> None:
        network = NetworkOptions(one_lost_of=lost, one_doubled_of=20)
        self.world = GossipWorld(seed, network=network)
        for node in range(1, 6):
            self.start(node)

    def is_running(self, node: int) -> bool:
        machine = self.world.machines.get(NodeId(node))
        return machine is not None and machine.is_running

    @rule(node=NODES)
    def start(self, node: int) -> None:
        if not self.is_running(node):
            self.world.start(node, seeds=[1, 2, 3])
            self.told[node] = {}

    @rule(node=NODES)
    def kill(self, node: int) -> None:
        if self.is_running(node):
            self.world.kill(node)
            del self.told[node]

    @rule(node=NODES)
    def cut_power(self, node: int) -> None:
        if self.is_running(node):
            self.world.cut_power(node)
            del self.told[node]

    @rule(node=NODES)
    def leave(self, node: int) -> None:
        if self.is_running(node):
            self.world.tell(node, Leave())
            self.kill(node)

    @rule(node=NODES)
    def pause(self, node: int) -> None:
        self.world.pause(node)

    @rule(node=NODES)
    def resume(self, node: int) -> None:
        self.world.resume(node)

    @rule(side=st.sets(NODES, min_size=1, max_size=4))
    def part(self, side: set[int]) -> None:
        self.world.part(side, {1, 2, 3, 4, 5} - side)

    @rule()
    def heal(self) -> None:
        self.world.heal()

    @rule(node=NODES, name=NAMES, value=VALUES)
    def set_fact(self, node: int, name: str, value: int | None) -> None:
        if self.is_running(node):
            self.world.tell(node, SetFact(name, value))
            if value is None:
                self.told[node].pop(name, None)
            else:
                self.told[node][name] = value

    @rule(ms=MS)
    def wait(self, ms: int) -> None:
        self.world.loop.run_for(ms)

    @invariant()
    def nobody_doubts_itself_and_no_view_goes_back(self) -> None:
        for core in self.world.running():
            own = core.member(core.node)
            assert own == core.own
            assert core.facts(core.node) == self.told[core.node]
            for member in core.members():
                key = (core.node, core.own.life, member.node)
                assert self.seen.get(key, 0) <= member.version
                self.seen[key] = member.version

    def teardown(self) -> None:
        self.world.heal()
        for node in range(1, 6):
            self.start(node)
            self.world.resume(node)
        self.world.loop.run_until(self.world.all_agree, 120_000, every_ms=20)
        self.world.loop.run_until(self.is_settled, 60_000, every_ms=20)
        for core in self.world.running():
            for node, told in self.told.items():
                assert core.facts(NodeId(node)) == told

    def is_settled(self) -> bool:
        return len({core.root for core in self.world.running()}) == 1


TestMembership = MembershipMachine.TestCase


@st.composite
def words(draw: st.DrawFn) -> Entry:
    """Something that is said of one of three nodes; in one version it is always the same."""
    node = NodeId(draw(st.integers(1, 3)))
    number = draw(st.integers(1, 6))
    life = 1 if number < 4 else 4
    if draw(st.booleans()):
        return Fact(node, draw(NAMES), number, number if number % 3 else None)
    member = Member(node, Address(f"host{number}", 1), life, number)
    state = draw(st.sampled_from(MemberState))
    if state is MemberState.SUSPECT:
        return accused(member, (Accusation(NodeId(draw(st.integers(1, 3))), draw(st.booleans())),))
    return Member(node, member.address, life, number, state)


@given(st.lists(words(), max_size=12), st.randoms(use_true_random=False))
def test_the_order_in_which_members_hear_makes_no_difference(
    heard: list[Entry], chance: Random
) -> None:
    known: list[Entry] = [Member(NodeId(node), Address("host", 1), 1, 1) for node in (1, 2, 3)]
    views = []
    for _ in range(2):
        view = ClusterView(MembershipConfig())
        for entry in (*known, *heard, *heard):
            view.merge(entry, 0)
        views.append(view)
        chance.shuffle(heard)
    first, second = views
    assert list(first.members()) == sorted(second.members(), key=lambda each: each.node)
    for node in (1, 2, 3):
        assert first.facts(NodeId(node)) == second.facts(NodeId(node))
    assert first.digests.root == second.digests.root
    assert first.digests.checksums() == second.digests.checksums()
    assert first.live() == second.live()
    assert first.alive == second.alive
