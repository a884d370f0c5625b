"""A node that is given any other's address finds the rest; it restarts, moves and leaves."""

from __future__ import annotations

from kafkaesque.env.network import Address
from kafkaesque.membership.entries import MemberState
from kafkaesque.membership.events import Leave, Readdress, SetFact
from kafkaesque.membership.ready import Change, Contested, MemberChanged
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.gossip.world import GossipWorld, Machine, NetworkOptions


def settled(*members: int, seed: int = 1) -> GossipWorld:
    """A cluster whose members were each given one that was there before."""
    world = GossipWorld(seed)
    for place, node in enumerate(members):
        world.start(node, seeds=members[place - 1 : place])
    agree(world)
    return world


def agree(world: GossipWorld, ms_max: int = 30_000) -> int:
    """Waits until all see all; returns how long it took."""
    began_ms = world.now_ms
    world.loop.run_until(world.all_agree, ms_max, every_ms=10)
    return world.now_ms - began_ms


def changes_of(world: GossipWorld) -> list[tuple[int, Change]]:
    seen: list[tuple[int, Change]] = []

    def note(machine: Machine, change: Change) -> None:
        seen.append((machine.node, change))

    world.on_change = note
    return seen


def test_a_chain_of_seeds_makes_one_cluster() -> None:
    world = settled(1, 2, 3, 4, 5, 6)
    assert [core.is_welcome for core in world.running()] == [True] * 6
    assert len({core.root for core in world.running()}) == 1


def test_a_seed_that_is_not_there_yet_is_asked_again() -> None:
    world = GossipWorld(1)
    world.start(2, seeds=[1])
    world.loop.run_for(20_000)
    assert not world.core(2).is_welcome
    world.start(1)
    assert agree(world) <= 6_000


def test_another_seed_is_asked_if_one_is_not_there() -> None:
    world = settled(1, 2)
    world.start(3, seeds=[8, 9, 2])
    assert agree(world) < 1_500


def test_a_member_that_lost_everybody_asks_its_seeds_again() -> None:
    world = settled(1, 2)
    world.kill(1)
    world.loop.run_until(lambda: len(world.core(2).live()) == 1)
    world.start(1)  # it knows nobody, and nobody told it of 2
    assert agree(world) <= 6_000


def test_joining_gets_by_with_a_network_that_loses_a_third() -> None:
    world = GossipWorld(3, network=NetworkOptions(one_lost_of=3, one_doubled_of=10))
    world.start_all(6)
    agree(world, 60_000)


def test_a_large_cluster_is_found_whole_though_no_frame_holds_it() -> None:
    world = GossipWorld(1)
    world.start_all(60)
    agree(world)
    world.start(61, seeds=[17])
    assert agree(world) < 3_000
    assert max(len(core.members()) for core in world.running()) == 61


def test_a_restart_with_the_same_id_outdates_the_life_before() -> None:
    world = settled(1, 2, 3)
    world.tell(3, SetFact("load", 5))
    world.tell(3, SetFact("before", 1))
    world.loop.run_for(500)
    before = world.core(3).own
    seen = changes_of(world)
    world.kill(3)
    world.start(3, seeds=[2])
    world.tell(3, SetFact("load", 6))
    agree(world)
    world.loop.run_for(500)
    for node in (1, 2):
        member = world.core(node).member(NodeId(3))
        assert member is not None
        assert member.life > before.life
        assert world.core(node).facts(NodeId(3)) == {"load": 6}
    restarts = [
        node
        for node, change in seen
        if isinstance(change, MemberChanged)
        and change.old is not None
        and change.new is not None
        and change.old.life != change.new.life
    ]
    assert sorted(restarts) == [1, 2]


def test_a_restart_with_a_clock_that_was_put_back_is_no_hindrance() -> None:
    world = settled(1, 2, 3)
    world.tell(3, SetFact("load", 5))
    world.loop.run_for(500)
    seen = changes_of(world)
    world.kill(3)
    world.loop.run_for(2_000)
    world.start(3, seeds=[2], clock_ms=-3_600_000)
    world.tell(3, SetFact("other", 6))
    assert agree(world) < 2_000
    world.loop.run_for(6_000)
    assert world.core(1).facts(NodeId(3)) == {"other": 6}
    assert not any(isinstance(change, Contested) for _, change in seen)


def test_a_node_that_comes_back_at_another_address_is_found_there() -> None:
    world = settled(1, 2, 3)
    world.kill(3)
    world.start(3, seeds=[2], host="elsewhere")
    agree(world)
    world.loop.run_for(10_000)
    member = world.core(1).member(NodeId(3))
    assert member is not None
    assert member.address.host == "elsewhere"
    assert world.all_agree()


def test_a_node_can_say_that_its_address_changes() -> None:
    world = settled(1, 2, 3)
    world.tell(3, Readdress(Address("elsewhere", 9190)))
    world.loop.run_for(300)
    for core in world.running():
        member = core.member(NodeId(3))
        assert member is not None
        assert (member.address.host, member.state) == ("elsewhere", MemberState.ALIVE)


def test_who_leaves_says_so_and_is_not_looked_for() -> None:
    world = settled(1, 2, 3, 4)
    world.tell(3, Leave())
    assert not world.core(3).is_gone
    world.loop.run_until(lambda: world.core(3).is_gone, 1_000)
    world.kill(3)
    seen = changes_of(world)
    world.loop.run_for(10_000)
    assert seen == []
    for core in world.running():
        member = core.member(NodeId(3))
        assert member is not None
        assert member.state is MemberState.LEFT
        assert core.live() == (1, 2, 4)
    world.start(3, seeds=[1])
    agree(world)


def test_who_is_alone_leaves_at_once() -> None:
    world = settled(1)
    world.tell(1, Leave())
    world.loop.run_until(lambda: world.core(1).is_gone, 10)


def test_two_processes_that_say_they_are_one_node_are_told_of() -> None:
    world = settled(1, 2, 3)
    seen = changes_of(world)
    twin = world.machines[NodeId(3)]
    first = twin.core
    assert first is not None
    # Another machine, which nobody will ever reach under its id but who takes part all the same.
    world.machines[NodeId(30)] = Machine(NodeId(30), Address("twin", 9190))
    del world.machines[NodeId(3)]
    world.machines[NodeId(3)] = world.machines.pop(NodeId(30))
    world.start(3, seeds=[1], host="twin", clock_ms=1)
    world.machines[NodeId(33)] = twin
    sent = world.frames_sent
    world.loop.run_for(20_000)
    told = [node for node, change in seen if isinstance(change, Contested)]
    assert told
    assert world.frames_sent - sent < 20_000  # it does not become a storm


def test_two_groups_that_know_nothing_of_one_another_are_one_soon() -> None:
    """Some are gone before the others hear of them, and find one another when they are back."""
    world = GossipWorld(0)
    for node in range(1, 6):
        world.start(node, seeds=[1, 2, 3])
    world.cut_power(1)
    world.loop.run_for(400)
    world.tell(2, Leave())
    world.kill(2)
    for node in (1, 2):
        world.start(node, seeds=[1, 2, 3])
    assert agree(world) < 30_000
