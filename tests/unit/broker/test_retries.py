"""What is tried again: after which outcomes, for how long, and what is told in the end."""

import gc
import weakref
from collections.abc import Callable, Sequence

import pytest

from kafkaesque.broker.requests.retries import RETRY_MS, OnOutcome, retry
from kafkaesque.env import Env
from kafkaesque.model.errors import (
    InvalidTopic,
    LeaderNotAvailable,
    NotController,
    NotLeader,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.sim.env import World

TIMEOUT_MS = 500

Outcome = str | RequestRefused


class _Asked:
    """Has an outcome for each attempt; the last one for all that follow."""

    def __init__(self, outcomes: Sequence[Outcome], *, raises: bool) -> None:
        self.left_ms: list[int] = []
        self.told: list[Outcome] = []
        self._outcomes = [*outcomes]
        self._raises = raises

    def attempt(self, left_ms: int, on_outcome: OnOutcome[str]) -> None:
        self.left_ms.append(left_ms)
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if self._raises and isinstance(outcome, RequestRefused):
            raise outcome
        on_outcome(outcome)


def _late(last: RequestRefused | None) -> RequestRefused:
    return RequestTimedOut(f"too late: {last}")


def _run(
    *outcomes: Outcome,
    raises: bool = False,
    timeout_ms: int = TIMEOUT_MS,
    start: Callable[[Env, _Asked], None] | None = None,
) -> _Asked:
    asked = _Asked(outcomes, raises=raises)
    world = World(1)

    def run(env: Env) -> None:
        if start is not None:
            start(env, asked)
        else:
            retry(env.clock, timeout_ms, asked.attempt, asked.told.append, _late)

    world.add_machine("m").start(run)
    world.loop.run_until(lambda: bool(asked.told), 10 * TIMEOUT_MS)
    return asked


@pytest.mark.parametrize("raises", [False, True])
def test_it_is_tried_again_until_there_is_a_leader(raises: bool) -> None:
    asked = _run(LeaderNotAvailable("none"), NotLeader("moved"), "done", raises=raises)
    assert asked.told == ["done"]
    assert asked.left_ms == [TIMEOUT_MS - each * RETRY_MS for each in range(3)]


@pytest.mark.parametrize("raises", [False, True])
def test_any_other_refusal_is_told(raises: bool) -> None:
    refusal = InvalidTopic("no")
    asked = _run(refusal, "done", raises=raises)
    assert asked.told == [refusal]


def test_when_time_is_up_the_last_obstacle_is_known() -> None:
    asked = _run(LeaderNotAvailable("none at all"))
    assert str(asked.told[0]) == "too late: none at all"
    assert len(asked.left_ms) == TIMEOUT_MS // RETRY_MS


def test_without_time_nothing_is_tried() -> None:
    asked = _run("done", timeout_ms=0)
    assert str(asked.told[0]) == "too late: None"
    assert not asked.left_ms


def test_who_asks_says_what_passes() -> None:
    def start(env: Env, asked: _Asked) -> None:
        passing = (NotController,)
        retry(env.clock, TIMEOUT_MS, asked.attempt, asked.told.append, _late, passing)

    leaderless = LeaderNotAvailable("none")
    asked = _run(NotController("elsewhere"), leaderless, "done", start=start)
    assert asked.told == [leaderless]


def test_what_was_tried_is_not_left_to_the_garbage_collector() -> None:
    class Held:
        """What a request holds."""

    held = Held()
    gone = weakref.ref(held)
    told: list[Outcome] = []

    def attempt(_: int, on_outcome: OnOutcome[str], held: Held = held) -> None:
        on_outcome("done")

    gc.disable()
    try:
        retry(World(1).add_machine("m").boot().clock, TIMEOUT_MS, attempt, told.append, _late)
        del attempt, held
        assert told == ["done"]
        assert gone() is None
    finally:
        gc.enable()
