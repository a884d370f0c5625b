"""Taking from several partitions: who waits, what is shared, and what is given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.broker.doors.parted_takes import AGAIN_MS, WAITS_MAX, PartedTakes
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import LeaderNotAvailable, RequestTimedOut, UnknownConsumer
from kafkaesque.sim.env import World

LOG = b"l" * 16
CONSUMER = q.ConsumerName(1, 2, 3)
Outcome = tuple[int, Any]


class Calls:
    """The leaders: what they are asked, and what tests let them answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[q.TakeMessages, Callable[[Any], None]]] = []
        self.released: list[tuple[int, list[int]]] = []
        #: Those that have no leader, and do not answer for a long time.
        self.leaderless: set[int] = set()

    def ask(self, request: Any, _: object, __: int, on_done: Callable[[Any], None]) -> None:
        if isinstance(request, q.ReleaseMessages):
            self.released.append((request.partition, [each.first for each in request.claims]))
        elif request.wait_ms or request.partition in self.leaderless:
            self.asked.append((request, on_done))
        else:
            on_done(q.TakenMessages([]))

    def waits(self) -> list[int]:
        return [request.partition for request, _ in self.asked]

    def answer(self, partition: int, outcome: Any) -> None:
        at = self.waits().index(partition)
        _, on_done = self.asked.pop(at)
        on_done(outcome)


class Ground:
    def __init__(self) -> None:
        self.world = World(1)
        env = self.world.add_machine("b").boot()
        self.calls = Calls()
        self.takes = PartedTakes(env.clock, self.calls)  # type: ignore[arg-type]

    def take(self, consumer: q.ConsumerName | None = None, wait_ms: int = 20_000) -> list[Outcome]:
        outcomes: list[Outcome] = []
        take = q.TakeMessages(log_id=LOG, consumer=consumer, bytes_max=1, wait_ms=wait_ms)
        self.takes.take(
            take,
            [0, 1, 2],
            lambda number, found: outcomes.append((number, found)),
            leaderless=self.calls.leaderless,
        )
        return outcomes

    def wait(self, ms: int) -> None:
        self.world.loop.run_for(ms)


@pytest.fixture
def ground() -> Ground:
    return Ground()


def messages(*offsets: int) -> q.TakenMessages:
    return q.TakenMessages(
        [
            q.QueueMessage(offset=each, attempt=1, failures=0, timestamp_ms=0, key=None, value=b"v")
            for each in offsets
        ]
    )


def test_who_does_not_wait_is_told_that_there_is_nothing(ground: Ground) -> None:
    assert ground.take(wait_ms=0) == [(0, q.TakenMessages([]))]
    assert ground.calls.asked == []


def test_the_first_partition_that_has_something_answers(ground: Ground) -> None:
    outcomes = ground.take()
    assert ground.calls.waits() == [0, 1, 2]
    ground.calls.answer(1, messages(7))
    assert outcomes == [(1, messages(7))]


def test_waits_are_used_again(ground: Ground) -> None:
    for turn in range(5):
        outcomes = ground.take(CONSUMER)
        assert sorted(ground.calls.waits()) == [0, 1, 2]
        ground.calls.answer(turn % 3, messages(turn))
        assert len(outcomes) == 1
    assert ground.calls.released == []


def test_what_nobody_waits_for_is_given_back(ground: Ground) -> None:
    ground.take()
    ground.calls.answer(1, messages(7))
    ground.calls.answer(2, messages(8))
    assert ground.calls.released == [(2, [8])]


def test_more_than_one_wanted_is_given_back(ground: Ground) -> None:
    outcomes = ground.take()
    ground.calls.answer(1, messages(7, 8))
    assert outcomes == [(1, messages(7))]
    assert ground.calls.released == [(1, [8])]


def test_a_wait_that_has_brought_nothing_is_asked_for_again(ground: Ground) -> None:
    outcomes = ground.take()
    ground.calls.answer(1, q.TakenMessages([]))
    assert ground.calls.waits() == [0, 2]
    ground.wait(2 * AGAIN_MS)
    assert ground.calls.waits() == [0, 2, 1]
    assert outcomes == []


def test_time_is_up_whatever_the_leaders_say(ground: Ground) -> None:
    outcomes = ground.take(wait_ms=1_000)
    ground.calls.answer(1, LeaderNotAvailable("none"))
    ground.wait(1_500)
    assert [(number, type(found)) for number, found in outcomes] == [(0, LeaderNotAvailable)]


@pytest.mark.parametrize("refusal", [RequestTimedOut("lost"), UnknownConsumer("who?")])
def test_a_consumer_gets_nothing_of_before_it_has_attached_again(
    ground: Ground, refusal: Exception
) -> None:
    outcomes = ground.take(CONSUMER)
    ground.calls.answer(1, refusal)
    assert outcomes == [(0, refusal)]
    again = ground.take(CONSUMER)
    assert ground.calls.waits() == [0, 2, 0, 1, 2]
    ground.calls.answer(0, messages(5))
    assert (again, ground.calls.released) == ([], [(0, [5])])
    ground.calls.answer(0, messages(6))
    assert again == [(0, messages(6))]


def test_a_lost_answer_is_one_anonymous_request_s(ground: Ground) -> None:
    first, second = ground.take(), ground.take()
    ground.calls.answer(0, RequestTimedOut("lost"))
    assert (len(first), len(second)) == (1, 0)
    ground.calls.answer(1, messages(5))
    assert second == [(1, messages(5))]


def test_a_partition_without_a_leader_holds_up_nobody_who_waits_at_others(ground: Ground) -> None:
    ground.calls.leaderless = {1}
    outcomes = ground.take()
    assert ground.calls.waits() == [0, 1, 2]
    ground.calls.answer(2, messages(7))
    assert outcomes == [(2, messages(7))]
    # Who does not wait is told what the leader says when there is one.
    assert ground.take(wait_ms=0) == []


def test_after_a_wait_that_has_brought_something_the_next_is_asked_for_at_once(
    ground: Ground,
) -> None:
    every = [ground.take() for _ in range(WAITS_MAX + 1)]
    assert ground.calls.waits().count(0) == WAITS_MAX
    ground.calls.answer(0, messages(7))
    ground.wait(AGAIN_MS // 10)
    assert ground.calls.waits().count(0) == WAITS_MAX
    assert len([each for each in every if each]) == 1
