"""A controller that was deposed and does not know it yet refuses nothing from its old state.

A client that is told that a topic is unknown takes it for deleted, and one that is told that it
exists takes it for made.
"""

import pytest

from kafkaesque.broker.controller.controller import Outcome
from kafkaesque.broker.requests.commands import (
    AskMoves,
    ControllerCommand,
    CreateTopic,
    DeleteTopic,
    MoveReplicas,
    MovesResult,
    MovesView,
    WantedReplicas,
)
from kafkaesque.model.errors import NotController, RequestRefused
from tests.sim.scenario import TOPIC, Scenario
from tests.sim.seeds import first_of


def controllers(scenario: Scenario) -> list[str]:
    return [name for name in scenario.running() if scenario.broker(name).controller.is_leader]


def ask(scenario: Scenario, name: str, command: ControllerCommand) -> list[Outcome]:
    """Let a broker's controller do something; the outcome comes into the list."""
    outcomes: list[Outcome] = []
    scenario.broker(name).controller.submit(command, outcomes.append)
    return outcomes


def outcome_in(scenario: Scenario, outcomes: list[Outcome]) -> Outcome:
    scenario.loop.run_until(lambda: outcomes != [], 30_000)
    (outcome,) = outcomes
    return outcome


def deposed(scenario: Scenario) -> tuple[str, str]:
    """Cut the controller off; return it, and the next one."""
    (old,) = controllers(scenario)
    for other in scenario.running():
        scenario.world.wire.block(old, other)
        scenario.world.wire.block(other, old)
    scenario.loop.run_until(lambda: len(controllers(scenario)) == 2, 30_000)
    (new,) = set(controllers(scenario)) - {old}
    return old, new


def create(name: str) -> CreateTopic:
    return CreateTopic(name=name, partition_count=1, replication_factor=3)


def delete(scenario: Scenario, name: str, topic: str) -> DeleteTopic:
    return DeleteTopic(topic_id=scenario.broker(name).state.topic(topic).topic_id)


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_a_topic_that_a_deposed_controller_does_not_know_is_not_said_to_be_unknown(
    seed: int,
) -> None:
    scenario = Scenario(seed)
    old, new = deposed(scenario)
    made = outcome_in(scenario, ask(scenario, new, create("later")))
    assert not isinstance(made, RequestRefused)
    assert old in controllers(scenario), "it does not know that it was deposed"
    outcomes = ask(scenario, old, delete(scenario, new, "later"))
    assert isinstance(outcome_in(scenario, outcomes), NotController)


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_a_topic_that_was_deleted_elsewhere_is_not_said_to_exist(seed: int) -> None:
    scenario = Scenario(seed)
    old, new = deposed(scenario)
    gone = outcome_in(scenario, ask(scenario, new, delete(scenario, new, TOPIC)))
    assert not isinstance(gone, RequestRefused)
    assert old in controllers(scenario), "it does not know that it was deposed"
    outcomes = ask(scenario, old, create(TOPIC))
    assert isinstance(outcome_in(scenario, outcomes), NotController)


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_a_move_that_a_deposed_controller_does_not_know_is_not_said_to_be_done(seed: int) -> None:
    scenario = Scenario(seed)
    old, new = deposed(scenario)
    node = int(old[1:])  # it cannot get its copy, so the move stays
    wanted = [WantedReplicas(topic=TOPIC, partition=0, replicas=[node])]
    asked = outcome_in(scenario, ask(scenario, new, MoveReplicas(partitions=wanted)))
    assert asked == MovesResult(refusals=[None])
    told = outcome_in(scenario, ask(scenario, new, AskMoves()))
    assert isinstance(told, MovesView)
    assert [each.removing for each in told.moving] != [()]
    assert old in controllers(scenario), "it does not know that it was deposed"
    assert isinstance(outcome_in(scenario, ask(scenario, old, AskMoves())), NotController)


def test_a_refusal_of_the_controller_that_leads_is_told() -> None:
    scenario = Scenario(1)
    (leader,) = controllers(scenario)
    outcome = outcome_in(scenario, ask(scenario, leader, create(TOPIC)))
    assert isinstance(outcome, RequestRefused)
    assert not isinstance(outcome, NotController)
    assert TOPIC in str(outcome)
