"""Who fails is found; who does not is left alone."""

from __future__ import annotations

import pytest

from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.entries import Member, MemberState
from kafkaesque.membership.ready import Change, Knock, MemberChanged
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.gossip.world import GossipWorld, Machine, NetworkOptions


def cluster(count: int, *, seed: int = 1, has_links: bool = False) -> GossipWorld:
    world = GossipWorld(seed, has_links=has_links)
    world.start_all(count)
    world.loop.run_until(world.all_agree, 30_000, every_ms=10)
    world.loop.run_for(2_000)
    return world


def standings(world: GossipWorld) -> list[Member]:
    """Collects every standing that anybody tells from now on."""
    seen: list[Member] = []

    def note(machine: Machine, change: Change) -> None:
        if isinstance(change, MemberChanged) and change.new is not None:
            seen.append(change.new)

    world.on_change = note
    return seen


def until_known(world: GossipWorld, node: int, state: MemberState, ms_max: int = 60_000) -> int:
    began_ms = world.now_ms
    world.loop.run_until(lambda: world.is_known(node, state), ms_max)
    return world.now_ms - began_ms


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("has_links", [False, True], ids=["alone", "linked"])
def test_a_killed_process_is_known_to_all_within_a_second(count: int, has_links: bool) -> None:
    world = cluster(count, has_links=has_links)
    for victim in range(1, count + 1):
        world.kill(victim)
        assert until_known(world, victim, MemberState.DEAD) < (150 if has_links else 1_000)
        world.start(victim, seeds=[victim % count + 1])
        world.loop.run_until(world.all_agree, 30_000, every_ms=10)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_a_machine_that_is_switched_off_is_suspected_soon_and_dead_later(count: int) -> None:
    world = cluster(count)
    world.cut_power(1)
    assert until_known(world, 1, MemberState.SUSPECT) < 1_000
    assert 4_000 < until_known(world, 1, MemberState.DEAD) < 6_000


def test_several_at_once_are_found_and_the_last_one_judges_alone() -> None:
    world = cluster(5)
    for victim in (1, 2, 3, 4):
        world.kill(victim)
    assert all(until_known(world, victim, MemberState.DEAD) < 2_000 for victim in (1, 2, 3, 4))
    assert world.core(5).live() == (5,)


@pytest.mark.parametrize("pause_ms", [500, 4_000])
def test_a_process_that_is_paused_for_seconds_is_suspected_and_clears_itself(pause_ms: int) -> None:
    world = cluster(5)
    seen = standings(world)
    world.pause(3)
    world.loop.run_for(pause_ms)
    world.resume(3)
    world.loop.run_for(1_000)
    assert world.all_agree()
    assert {each.node for each in seen} == {3}
    assert {each.state for each in seen} == {MemberState.ALIVE, MemberState.SUSPECT}


def test_one_that_was_paused_accuses_nobody() -> None:
    world = cluster(5)
    world.cut_power(5)
    world.loop.run_for(2_000)
    assert world.is_known(5, MemberState.SUSPECT)
    world.pause(1)
    world.loop.run_for(60_000)
    seen = standings(world)
    world.resume(1)
    world.loop.run_for(3_000)
    accused = {each.node for each in seen if each.state is MemberState.SUSPECT}
    assert accused <= {1, 5}
    assert world.core(1).health_score == 0


def test_a_link_that_is_broken_both_ways_harms_nobody() -> None:
    world = cluster(5)
    seen = standings(world)
    world.block(1, 2)
    world.block(2, 1)
    world.loop.run_for(60_000)
    assert seen == []


def test_with_only_two_a_break_is_a_death_and_healing_ends_it() -> None:
    world = cluster(2)
    world.part([1], [2])
    world.loop.run_until(lambda: world.core(1).live() == (1,), 10_000)
    world.loop.run_until(lambda: world.core(2).live() == (2,), 10_000)
    world.heal()
    world.loop.run_until(world.all_agree, 3_000)


def test_a_parted_cluster_heals_and_no_side_loses_its_own_on_the_word_of_the_other() -> None:
    world = cluster(7)
    world.part([1, 2], [3, 4, 5, 6, 7])
    world.loop.run_until(lambda: set(world.core(3).live()) == {3, 4, 5, 6, 7}, 60_000)
    world.loop.run_until(lambda: set(world.core(1).live()) == {1, 2}, 60_000)
    world.loop.run_for(5_000)
    seen = standings(world)
    world.heal()
    world.loop.run_until(world.all_agree, 10_000)
    dead = {each.node for each in seen if each.state is MemberState.DEAD}
    assert dead == set()


def test_a_single_node_that_was_cut_off_comes_back_with_old_news_and_does_no_harm() -> None:
    world = cluster(7)
    world.part([1], [2, 3, 4, 5, 6, 7])
    world.loop.run_until(lambda: world.core(1).live() == (1,), 60_000)
    world.loop.run_for(5_000)
    seen: list[tuple[int, Member]] = []

    def note(machine: Machine, change: Change) -> None:
        if isinstance(change, MemberChanged) and change.new is not None:
            seen.append((machine.node, change.new))

    world.on_change = note
    world.heal()
    world.loop.run_until(world.all_agree, 10_000)
    assert not any(each.state is MemberState.DEAD for _, each in seen)


def test_a_probe_of_a_life_that_is_over_accuses_not_the_next_one() -> None:
    for seed in range(20):
        world = cluster(2, seed=seed)
        world.kill(2)
        world.loop.run_for(seed * 15)
        world.start(2, seeds=[1])
        world.loop.run_until(world.all_agree, 30_000)
        seen = standings(world)
        world.loop.run_for(2_000)
        assert seen == []


def test_a_slow_network_alone_makes_no_suspects_for_long() -> None:
    network = NetworkOptions(latency_ms_min=20, latency_ms_max=45)
    world = GossipWorld(1, network=network)
    world.start_all(5)
    world.loop.run_until(world.all_agree, 30_000)
    seen = standings(world)
    world.loop.run_for(60_000)
    assert not any(each.state is not MemberState.ALIVE for each in seen)


def test_idle_members_send_the_same_whatever_the_number_of_others() -> None:
    rates = []
    for count in (5, 20):
        world = cluster(count)
        world.loop.run_for(10_000)
        before = world.frames_sent
        world.loop.run_for(30_000)
        rates.append((world.frames_sent - before) / 30 / count)
    assert rates[1] < 1.2 * rates[0]
    config = MembershipConfig()
    assert rates[1] < 4.5 * 1_000 / config.probe_ms


def test_the_core_is_quiet_between_its_ticks() -> None:
    world = cluster(3)
    core = world.core(1)
    while core.next_tick_ms() <= world.now_ms + 1:
        world.loop.step()
    core.tick(world.now_ms)
    core.take_ready()
    core.tick(core.next_tick_ms() - 1)
    assert core.take_ready() is None
    assert core.node == NodeId(1)


def test_what_came_while_a_member_was_paused_counts_before_its_deadlines() -> None:
    world = cluster(5)
    world.pause(3)
    world.loop.run_until(lambda: world.is_known(3, MemberState.SUSPECT), 2_000)
    # It refutes while 1 gets no processor, and the time of the suspicion ends meanwhile, too.
    world.pause(1)
    world.loop.run_for(1_000)
    world.resume(3)
    world.loop.run_for(35_000)
    seen = standings(world)
    world.resume(1)
    world.loop.run_for(5_000)
    assert world.all_agree()
    assert not any(each.state is MemberState.DEAD for each in seen if each.node == 3)


def test_who_hears_nothing_doubts_itself_and_takes_its_time() -> None:
    world = cluster(5)
    core = world.core(1)
    assert core.health_score == 0
    world.part([1], [2, 3, 4, 5])
    world.loop.run_for(3_000)
    assert core.health_score >= 3
    frames = world.frames_sent
    world.loop.run_for(5_000)
    assert core.health_score <= MembershipConfig().health_max
    assert frames < world.frames_sent
    world.heal()
    world.loop.run_until(world.all_agree, 10_000)
    world.loop.run_for(10_000)
    assert core.health_score == 0


def test_nobody_knocks_at_a_new_life_for_the_silence_of_the_old_one() -> None:
    world = cluster(2)
    knocked: list[int] = []
    perform = world._knock

    def watch(machine: Machine, knock: Knock) -> None:
        knocked.append(knock.life)
        perform(machine, knock)

    world._knock = watch  # type: ignore[method-assign]
    lives = set()
    for _ in range(20):
        lives.add(world.core(2).own.life)
        world.kill(2)
        world.loop.run_for(37)
        world.start(2, seeds=[1])
        world.loop.run_until(world.all_agree, 30_000)
        newest = world.core(2).own.life
        world.loop.run_for(90)
        assert newest not in knocked
        world.loop.run_for(1_000)
