"""How old a broker takes its rules to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkaesque.broker.upkeep.access_freshness import AccessFreshness
from kafkaesque.sim.env import World

BOUND_MS = 1_000


class Barrier:
    """Answers when a test says so."""

    def __init__(self) -> None:
        self.asked: list[Callable[[bool], None]] = []

    def when_current(self, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        self.asked.append(on_done)


class Place:
    def __init__(self) -> None:
        self.world = World(1)
        clock = self.world.add_machine("m").boot().clock
        self.barrier = Barrier()
        self.told: list[str] = []
        self.events: list[str] = []
        self.freshness = AccessFreshness(
            clock=clock, barrier=self.barrier, stale_ms_max=BOUND_MS, report=self.told.append
        )
        self.freshness.on_stale = lambda: self.events.append("stale")

    def wait(self, ms: int) -> None:
        self.world.loop.run_for(ms)

    def answer(self, is_current: bool) -> None:
        self.barrier.asked.pop()(is_current)

    def is_stale(self) -> Any:
        return self.freshness.is_stale


def test_nobody_comes_in_before_the_first_answer_and_nobody_waits_where_nobody_asks() -> None:
    place = Place()
    assert not place.is_stale()
    place.freshness.start(lambda: place.events.append("ready"))
    assert place.is_stale()
    place.answer(False)
    assert (place.is_stale(), place.events) == (True, [])
    place.wait(200)
    place.answer(True)
    assert (place.is_stale(), place.events) == (False, ["ready"])


def test_what_was_answered_is_as_old_as_the_question() -> None:
    place = Place()
    place.freshness.start(lambda: None)
    place.wait(900)
    place.answer(True)
    assert not place.is_stale()
    place.wait(99)
    assert not place.is_stale()
    place.wait(5)
    assert place.is_stale()
    assert place.events == ["stale"]


def test_it_goes_on_with_the_next_answer_and_says_so() -> None:
    place = Place()
    place.freshness.start(lambda: None)
    place.answer(True)
    place.wait(BOUND_MS + 5)
    assert place.is_stale()
    place.answer(False)
    place.wait(200)
    place.answer(True)
    assert not place.is_stale()
    assert [each.split()[0] for each in place.told] == ["no", "the"]


def test_it_ends() -> None:
    place = Place()
    place.freshness.start(lambda: None)
    place.answer(True)
    place.freshness.stop()
    place.wait(2 * BOUND_MS)
    assert place.events == []
    assert place.barrier.asked == []
