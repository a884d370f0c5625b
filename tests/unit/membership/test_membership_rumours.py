"""Which rumours are told first, and when they are given up."""

from __future__ import annotations

import pytest

from kafkaesque.env.network import Address
from kafkaesque.membership.entries import Entry, Fact, Member
from kafkaesque.membership.rumours import TELLINGS_MAX, Interest, RumourBoard
from kafkaesque.membership.wire import write_entry
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.dice import Chance, SimDice


def fact(name: str, version: int = 1, value: str = "") -> Fact:
    return Fact(NodeId(1), name, version, value)


def member(node: int) -> Member:
    return Member(NodeId(node), Address("host", 1), 1, 1)


def board(interest: Interest | None = None, rumours_max: int = 100) -> RumourBoard:
    chosen = Interest(k=TELLINGS_MAX) if interest is None else interest
    return RumourBoard(lambda: chosen, SimDice(Chance(1)), rumours_max)


def told(board: RumourBoard, room: int = 10_000, most: int = 255) -> list[Entry]:
    return [entry for entry, _ in board.choose(room, most, lambda entry: entry)]


def test_standings_come_before_facts() -> None:
    rumours = board()
    rumours.tell(fact("a"))
    rumours.tell(member(2))
    assert told(rumours) == [member(2), fact("a")]


def test_the_least_told_comes_first_and_of_equals_the_one_that_waits_longest() -> None:
    rumours = board()
    for name in "abc":
        rumours.tell(fact(name))
    assert told(rumours, most=2) == [fact("a"), fact("b")]
    rumours.tell(fact("d"))
    assert told(rumours, most=2) == [fact("c"), fact("d")]
    assert told(rumours, most=4) == [fact("a"), fact("b"), fact("c"), fact("d")]


def test_a_newer_entry_takes_the_place_of_the_one_before_and_counts_from_nothing() -> None:
    rumours = board(Interest(k=2))
    rumours.tell(fact("a", 1))
    told(rumours)
    rumours.tell(fact("a", 2))
    assert [told(rumours) for _ in range(3)] == [[fact("a", 2)], [fact("a", 2)], []]


def test_the_blind_counter_ends_after_k_tellings() -> None:
    rumours = board(Interest(k=3))
    rumours.tell(fact("a"))
    assert [len(told(rumours)) for _ in range(4)] == [1, 1, 1, 0]
    assert len(rumours) == 0


def test_feedback_counts_only_tellings_to_somebody_who_knew() -> None:
    rumours = board(Interest(feedback=True, k=2))
    rumours.tell(fact("a"))
    for _ in range(10):
        assert told(rumours) == [fact("a")]
    rumours.on_known((NodeId(1), "a"), 1)
    assert len(rumours) == 1
    rumours.on_known((NodeId(1), "a"), 1)
    assert len(rumours) == 0


def test_an_answer_about_an_older_version_does_not_count() -> None:
    rumours = board(Interest(feedback=True, k=1))
    rumours.tell(fact("a", 2))
    rumours.on_known((NodeId(1), "a"), 1)
    assert len(rumours) == 1


@pytest.mark.parametrize("k", [1, 4])
def test_the_coin_ends_one_of_k(k: int) -> None:
    tellings = 0
    rumours = board(Interest(coin=True, k=k))
    for version in range(400):
        rumours.tell(fact("a", version))
        while told(rumours):
            tellings += 1
    assert tellings / 400 == pytest.approx(k, rel=0.2)


def test_a_rumour_that_nobody_answers_to_is_given_up_all_the_same() -> None:
    rumours = board(Interest(feedback=True, k=1))
    rumours.tell(fact("a"))
    assert sum(len(told(rumours)) for _ in range(1000)) == TELLINGS_MAX


def test_what_does_not_fit_lets_shorter_ones_pass_and_is_not_told() -> None:
    rumours = board()
    rumours.tell(fact("long", value="x" * 200))
    rumours.tell(fact("a"))
    room = len(write_entry(fact("a")))
    assert told(rumours, room=room) == [fact("a")]
    assert told(rumours)[0] == fact("long", value="x" * 200)


def test_above_the_bound_the_most_told_fact_is_given_up() -> None:
    rumours = board(rumours_max=3)
    rumours.tell(member(2))
    rumours.tell(fact("a"))
    told(rumours)
    rumours.tell(fact("b"))
    rumours.tell(fact("c"))
    assert set(told(rumours)) == {member(2), fact("b"), fact("c")}


def test_standings_give_way_only_to_standings() -> None:
    rumours = board(rumours_max=2)
    rumours.tell(member(2))
    rumours.tell(member(3))
    rumours.tell(member(4))
    assert told(rumours) == [member(3), member(4)]


def test_k_has_its_range() -> None:
    with pytest.raises(ConfigError, match="k must be from 1 to 255, not 0"):
        Interest(k=0)
