"""A commit that a broker brings to the coordinator for its client does not go over a newer one.

Clients of the text protocol do not find coordinators by themselves. One that is not answered goes
to another broker, reads on there and commits.
"""

from kafkaesque.broker.requests.commands import Done, GroupOffset, GroupOffsets
from kafkaesque.model.errors import RequestTimedOut
from tests.sim.scenario import TOPIC, Scenario
from tests.sim.test_deposed_coordinator import GROUP, coordinators

TIMEOUT_MS = 10_000


def commit(scenario: Scenario, name: str, offset: int, *, is_wanted: bool = True) -> list[object]:
    outcomes: list[object] = []
    offsets = [GroupOffset(topic=TOPIC, partition=0, offset=offset)]
    scenario.broker(name).group_offsets.commit(
        GROUP, offsets, TIMEOUT_MS, outcomes.append, lambda: is_wanted
    )
    return outcomes


def end_of(scenario: Scenario, outcomes: list[object]) -> object:
    scenario.loop.run_until(lambda: outcomes != [], 2 * TIMEOUT_MS)
    (outcome,) = outcomes
    return outcome


def committed(scenario: Scenario, name: str) -> list[int]:
    outcomes: list[object] = []
    scenario.broker(name).group_offsets.fetch(GROUP, TOPIC, [0], TIMEOUT_MS, outcomes.append)
    found = end_of(scenario, outcomes)
    assert isinstance(found, GroupOffsets)
    return [each.offset for each in found.offsets]


def test_a_commit_that_does_not_come_through_is_not_made_later() -> None:
    scenario = Scenario(2)
    assert end_of(scenario, commit(scenario, "b1", 1)) == Done()
    (coordinator,) = coordinators(scenario)
    cut_off, other = (name for name in scenario.running() if name != coordinator)
    scenario.world.wire.block(cut_off, coordinator)
    scenario.world.wire.block(coordinator, cut_off)
    older = commit(scenario, cut_off, 5)
    scenario.loop.run_for(3_000)
    assert end_of(scenario, commit(scenario, other, 9)) == Done()
    scenario.world.wire.heal()
    outcome = end_of(scenario, older)
    assert isinstance(outcome, RequestTimedOut), outcome
    assert committed(scenario, other) == [9]


def test_a_commit_that_nobody_waits_for_is_not_made() -> None:
    scenario = Scenario(2)
    assert end_of(scenario, commit(scenario, "b1", 1)) == Done()
    outcome = end_of(scenario, commit(scenario, "b2", 5, is_wanted=False))
    assert isinstance(outcome, RequestTimedOut)
    assert committed(scenario, "b2") == [1]
