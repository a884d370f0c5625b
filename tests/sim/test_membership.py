"""Membership as its page says: the textbook's figures, quick detection, and no false deaths."""

from __future__ import annotations

import math
import statistics
from xml.etree import ElementTree

import pytest

from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.events import SetFact
from kafkaesque.membership.messages import SyncMode
from kafkaesque.membership.rumours import Interest
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.gossip.epidemics import (
    expected_residue,
    never_hear,
    rounds_until_all_know,
)
from kafkaesque.sim.gossip.failures import (
    Starvation,
    detect,
    part_and_heal,
    plain_swim,
    starve,
)
from kafkaesque.sim.gossip.study import EXPERIMENTS, Findings, Scale, plan
from kafkaesque.sim.gossip.world import GossipWorld

FEW = Starvation(members=8, starved=3, minutes=1)


def test_theory_is_the_textbooks_table() -> None:
    table = [round(10_000 * expected_residue(k)) for k in range(1, 8)]
    assert table == [2032, 595, 198, 70, 25, 9, 3]


@pytest.mark.parametrize("coin", [True, False], ids=["coin", "counter"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_as_many_never_hear_of_a_rumour_as_theory_says(k: int, coin: bool) -> None:
    interest = Interest(feedback=True, coin=coin, k=k)
    missed = statistics.mean(never_hear(seed, 3_000, interest) for seed in range(3))
    expected = 3_000 * expected_residue(k)
    # Four standard deviations, if missing it were independent.
    assert missed == pytest.approx(expected, abs=4 * math.sqrt(expected / 3) + 0.05 * expected)


def test_whole_members_that_give_rumours_up_by_feedback_leave_the_same_part_out() -> None:
    count, minute = 100, 60_000
    config = MembershipConfig(
        interest=Interest(feedback=True, coin=True, k=1),
        gossip_fanout=1,
        # Next to nothing but rumours: no probes, and hardly any repair.
        probe_ms=10**9,
        sync_ms=minute,
    )
    world = GossipWorld(4, config=config)
    world.start_all(count)
    world.loop.run_until(world.all_agree, 10 * minute, every_ms=1_000)
    missed = []
    for node in range(1, 11):
        world.tell(node, SetFact("news", node))
        world.loop.run_for(1_500)
        missed.append(sum("news" not in core.facts(NodeId(node)) for core in world.running()))
    assert statistics.mean(missed) == pytest.approx(count * expected_residue(1), rel=0.35)


@pytest.mark.parametrize("mode", SyncMode)
def test_all_know_after_rounds_that_grow_with_the_logarithm(mode: SyncMode) -> None:
    few = statistics.mean(len(rounds_until_all_know(seed, 30, mode)) - 1 for seed in range(4))
    many = statistics.mean(len(rounds_until_all_know(seed, 480, mode)) - 1 for seed in range(4))
    # Sixteen times as many: push needs log2 n + ln n rounds, push-pull log3 n and a little.
    assert few < many < few + math.log2(16) + math.log(16) + 3
    if mode is SyncMode.PUSH_PULL:
        assert many < few + math.log(16, 3) + 2


@pytest.mark.parametrize("members", [3, 10, 50])
def test_a_kill_is_known_within_a_second(members: int) -> None:
    found = detect(1, members, 30 if members < 50 else 3, how="kill")
    assert max(found.dead_ms) < 1_000


def test_who_gets_no_processor_for_seconds_is_not_taken_for_dead() -> None:
    report = starve(1, FEW)
    assert report.suspicions > 100  # it is not that nobody noticed
    assert (report.deaths_of_healthy, report.deaths_of_starved, report.strayed) == (0, 0, 0)


def test_that_would_be_seen_plain_swim_kills_them() -> None:
    report = starve(1, FEW, plain_swim())
    assert report.deaths_of_starved > 5


def test_pauses_too_long_to_be_told_from_death_cost_only_those_who_pause() -> None:
    report = starve(2, Starvation(members=8, starved=3, minutes=2, pause_ms_max=30_000))
    assert report.deaths_of_starved > 0
    assert (report.deaths_of_healthy, report.strayed) == (0, 0)


def test_a_parted_cluster_finds_together() -> None:
    healing = part_and_heal(1, 9, 4)
    assert healing.healed_ms < 10_000
    assert healing.deaths_within_side == 0


def test_the_same_seed_gives_the_same_history() -> None:
    digests = set()
    for _ in range(2):
        world = GossipWorld(9)
        world.start_all(5)
        world.loop.run_for(5_000)
        world.kill(2)
        world.loop.run_for(5_000)
        digests.add(world.loop.history.digest())
    assert len(digests) == 1


@pytest.mark.extended
def test_the_study_prints_every_experiment_and_draws_what_can_be_drawn() -> None:
    scale = Scale(
        nodes=200,
        repeats=1,
        rounds_of=(10, 40),
        clusters_of=(3, 5),
        kills=2,
        power_cuts=1,
        node_minutes=1,
        node_minutes_beside=1,
    )
    found = dict(piece.run() for piece in plan(1, scale, EXPERIMENTS))
    findings = Findings(found)
    tables = findings.tables(scale)
    assert [table.title.split(":")[0] for table in tables] == list(EXPERIMENTS)
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert findings.problems() == []
    picture = ElementTree.fromstring(findings.plot(scale))
    words = "".join(picture.itertext())
    assert "Rumours: who never hears, of 200" in words
    assert "push-pull" in words
    late = [key for key in found if key[:2] == ("failures", "kill")][0]
    found[late].dead_ms.append(1_001)
    assert findings.problems() == [f"kill, {late[2]} nodes: 1001 ms until all others knew"]
