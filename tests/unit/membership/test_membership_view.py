"""What a member knows: merging, bounds, forgetting, and comparing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaesque.env.network import Address
from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.entries import (
    ACCUSERS_MAX,
    Accusation,
    Fact,
    Member,
    MemberState,
    accused,
)
from kafkaesque.membership.suspicions import SuspicionTable
from kafkaesque.membership.view import ClusterView, LeaderHint
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.ids import NodeId

DAY_MS = 24 * 60 * 60 * 1000


def member(
    node: int, incarnation: int = 1, state: MemberState = MemberState.ALIVE, age_s: int = 0
) -> Member:
    return Member(NodeId(node), Address("host", 1), 1, incarnation, state, (), age_s)


def suspect(node: int, *accusers: int, refused: bool = False, incarnation: int = 1) -> Member:
    words = tuple(Accusation(NodeId(each), refused) for each in accusers)
    return accused(member(node, incarnation), words)


def view(*members: Member, config: MembershipConfig | None = None) -> ClusterView:
    made = ClusterView(MembershipConfig() if config is None else config)
    for each in members:
        made.merge(each, 0)
    return made


def test_the_greater_incarnation_is_true_and_of_one_the_worse_state() -> None:
    order = [
        member(1),
        suspect(1, 2),
        member(1, 1, MemberState.DEAD),
        member(1, 1, MemberState.LEFT),
        member(1, 2),
    ]
    for place, older in enumerate(order):
        for newer in order[place + 1 :]:
            assert view(older, newer).member(NodeId(1)) == newer
            assert view(newer, older).member(NodeId(1)) == newer


def test_accusers_are_united_and_bounded_and_refusals_are_kept_first() -> None:
    seen = view(suspect(1, 9, 8, refused=True))
    for node in (2, 3, 4):
        seen.merge(suspect(1, node), 0)
    found = seen.member(NodeId(1))
    assert found is not None
    assert len(found.accusers) == ACCUSERS_MAX
    assert [each.node for each in found.accusers] == [2, 3, 8, 9]
    assert seen.merge(suspect(1, 2, 3), 0) is None


def test_a_refusal_outdoes_the_same_nodes_silence() -> None:
    seen = view(suspect(1, 2), suspect(1, 2, refused=True), suspect(1, 2))
    found = seen.member(NodeId(1))
    assert found is not None
    assert found.accusers == (Accusation(NodeId(2), True),)


def test_who_takes_part_is_in_order_and_follows_every_change() -> None:
    seen = view(member(3), member(1), suspect(2, 1))
    assert seen.live() == (1, 2, 3)
    assert seen.alive == 2
    seen.merge(member(2, 1, MemberState.DEAD), 0)
    assert (seen.live(), seen.dead(), seen.alive) == ((1, 3), [2], 2)
    seen.merge(member(2, 2), 0)
    assert (seen.live(), seen.alive) == ((1, 2, 3), 3)


def test_facts_of_nobody_and_of_an_earlier_life_are_not_taken_in() -> None:
    seen = view(replace(member(1, 5), life=5))
    assert seen.merge(Fact(NodeId(2), "a", 9, 1), 0) is None
    assert seen.merge(Fact(NodeId(1), "a", 4, 1), 0) is None
    assert seen.merge(Fact(NodeId(1), "a", 6, 1), 0) is not None
    assert seen.merge(Fact(NodeId(1), "a", 6, 2), 0) is None
    assert seen.value(NodeId(1), "a") == 1


def test_a_new_life_ends_the_facts_of_the_one_before() -> None:
    seen = view(member(1))
    seen.merge(Fact(NodeId(1), "old", 5, 1), 0)
    seen.merge(Fact(NodeId(1), "both", 20, 1), 0)
    seen.merge(replace(member(1, 10), life=10), 0)
    assert set(seen.facts(NodeId(1))) == {"both"}


def test_the_leader_is_who_says_so_in_the_greatest_term_and_takes_part() -> None:
    seen = view(member(1), member(2), member(3))
    for node, term in ((1, 4), (2, 6), (3, 5)):
        seen.merge(Fact(NodeId(node), "leader/7", 10, term), 0)
    assert seen.leader(7) == LeaderHint(NodeId(2), 6)
    seen.merge(member(2, 1, MemberState.DEAD), 0)
    assert seen.leader(7) == LeaderHint(NodeId(3), 5)
    seen.merge(Fact(NodeId(3), "leader/7", 11, None), 0)
    assert seen.leader(7) == LeaderHint(NodeId(1), 4)
    assert seen.leader(8) is None


def test_facts_are_bounded_for_each_and_for_all() -> None:
    config = MembershipConfig(facts_max=3, facts_per_member_max=2)
    seen = view(member(1), member(2), config=config)
    for node in (1, 2):
        for name in "abc":
            seen.merge(Fact(NodeId(node), name, 5, 1), 0)
    assert (len(seen.facts(NodeId(1))), len(seen.facts(NodeId(2))), seen.refused) == (2, 1, 3)
    assert seen.merge(Fact(NodeId(1), "a", 6, 2), 0) is not None


def test_a_full_table_lets_go_who_left_before_who_died_and_none_that_lives() -> None:
    config = MembershipConfig(members_max=3)
    seen = view(member(1), config=config)
    seen.merge(member(2, 1, MemberState.DEAD), 10)
    seen.merge(member(3, 1, MemberState.LEFT), 20)
    seen.merge(member(4), 30)
    assert [each.node for each in seen.members()] == [1, 2, 4]
    seen.merge(member(5), 40)
    assert [each.node for each in seen.members()] == [1, 4, 5]
    assert seen.merge(member(6), 50) is None
    assert seen.refused == 1


def test_the_dead_are_forgotten_after_a_while_and_not_taught_again() -> None:
    first, second = view(member(1)), view(member(1))
    dead = member(2, 1, MemberState.DEAD)
    first.merge(dead, 0)
    told = first.at_hand(dead, 3_600_000)
    assert isinstance(told, Member)
    assert told.age_s == 3600
    second.merge(told, 3_600_000)
    assert [each.node for each in first.forget(DAY_MS)] == [2]
    assert first.merge(second.at_hand(dead, DAY_MS), DAY_MS) is None
    assert [each.node for each in second.forget(DAY_MS)] == [2]
    assert first.digests.root == second.digests.root == view(member(1)).digests.root


def test_a_withdrawn_fact_is_forgotten_and_leaves_nothing() -> None:
    seen = view(member(1))
    root = seen.digests.root
    seen.merge(Fact(NodeId(1), "a", 5, 1), 0)
    seen.merge(Fact(NodeId(1), "a", 6, None), 0)
    assert seen.forget(DAY_MS - 1) == []
    assert set(seen.facts(NodeId(1))) == {"a"}
    seen.forget(DAY_MS)
    assert set(seen.facts(NodeId(1))) == set()
    assert seen.digests.root == root


def deadline_ms(seen: ClusterView, config: MembershipConfig) -> int | None:
    table = SuspicionTable(config)
    for each in seen.members():
        if each.state is MemberState.SUSPECT:
            table.add(each, 0)
    table.judge(seen, 0)
    return table.next_ms()


@pytest.mark.parametrize(
    ("accusers", "expected_ms"), [(1, 30_000), (2, 17_500), (3, 10_188), (4, 5_000)]
)
def test_a_suspects_time_shrinks_with_the_logarithm_of_its_accusers(
    accusers: int, expected_ms: int
) -> None:
    seen = view(*(member(node) for node in range(1, 10)))
    seen.merge(suspect(9, *range(1, accusers + 1)), 0)
    assert deadline_ms(seen, MembershipConfig()) == expected_ms


def test_with_nobody_to_confirm_it_the_shortest_time_counts() -> None:
    assert deadline_ms(view(member(1), suspect(2, 1)), MembershipConfig()) == 5_000


def test_refusals_to_two_need_no_time_and_to_the_only_one_that_is_left_neither() -> None:
    config = MembershipConfig()
    three = (member(1), member(2))
    assert deadline_ms(view(*three, suspect(3, 1, refused=True)), config) == 30_000
    assert deadline_ms(view(*three, suspect(3, 1, 2, refused=True)), config) == 0
    alone = view(member(1), suspect(2, 1), suspect(3, 1, refused=True))
    assert deadline_ms(alone, config) == 0


def test_what_a_member_missed_itself_does_not_count() -> None:
    table = SuspicionTable(MembershipConfig())
    seen = view(member(1), suspect(2, 1))
    table.add(suspect(2, 1), 0)
    table.judge(seen, 0)
    table.forgive(3_000)
    assert table.due(7_999) == []
    assert table.due(8_000) == [(2, 1)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"probe_ms": 0}, "probe_ms must be at least 1, not 0"),
        ({"suspicion_ms_max": 10}, "suspicion_ms_min .5000. must not exceed suspicion_ms_max .10."),
        ({"refusals": 5}, "refusals must be at most 4, not 5"),
        ({"frame_bytes_max": 100}, "frame_bytes_max must be from 1086 to 16384, not 100"),
    ],
    ids=["range", "order", "accusers", "frame"],
)
def test_dials_are_checked(changes: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        MembershipConfig(**changes)  # type: ignore[arg-type]
