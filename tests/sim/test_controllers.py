"""Controllers are added and removed at work, while what may go wrong does."""

from collections.abc import Callable

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.commands import (
    ChangeConfig,
    ChangeControllers,
    ConfigChange,
    ControllerCommand,
    Done,
)
from kafkaesque.model.ids import CONTROLLER_GROUP
from tests.sim.scenario import TOPIC, Scenario


def running(scenario: Scenario) -> list[Broker]:
    """Return the brokers that run and have come so far that they can be asked."""
    return [
        scenario.broker(name)
        for name in scenario.running()
        if name in scenario.cluster.brokers and not scenario.world.machines[name].paused
    ]


def leads(broker: Broker) -> bool:
    replica = broker.driver.get(CONTROLLER_GROUP)
    return replica is not None and replica.is_leader and replica.term_committed


def leader(scenario: Scenario) -> Broker:
    scenario.loop.run_until(lambda: any(map(leads, running(scenario))), 30_000)
    return max(filter(leads, running(scenario)), key=lambda each: term_of(each))


def term_of(broker: Broker) -> int:
    replica = broker.driver.get(CONTROLLER_GROUP)
    assert replica is not None
    return replica.term


def submit(scenario: Scenario, command: ControllerCommand) -> object:
    """Have a command carried out, and return what the answer is."""
    outcomes: list[object] = []
    leader(scenario).submit(command, 20_000, outcomes.append)
    scenario.loop.run_until(lambda: bool(outcomes), 30_000)
    return outcomes[0]


def ask(scenario: Scenario, node: int, *, is_added: bool) -> object:
    return submit(scenario, ChangeControllers(node=node, is_added=is_added))


def note_something(scenario: Scenario, value: str) -> None:
    """Have something committed that can be recognised."""
    changes = [ConfigChange(name="retention.ms", value=value)]
    assert submit(scenario, ChangeConfig(topic=TOPIC, changes=changes)) == Done()


def noted(broker: Broker) -> str | None:
    topic = broker.state.topics.get(TOPIC)
    return None if topic is None else topic.configs.get("retention.ms")


def change(scenario: Scenario, node: int, *, is_added: bool) -> None:
    """Ask for a change, again where the leader went away."""
    for _ in range(10):
        outcome = ask(scenario, node, is_added=is_added)
        if outcome == Done() or "already" in str(outcome) or "is no controller" in str(outcome):
            return
        scenario.loop.run_for(500)
    pytest.fail(f"{outcome}")


def voters(scenario: Scenario) -> tuple[int, ...] | None:
    """Return who votes, as the leader has committed; None while that changes."""
    broker = leader(scenario)
    replica = broker.driver.get(CONTROLLER_GROUP)
    assert replica is not None
    if not replica.core.is_settled:
        return None
    return tuple(sorted(replica.core.configuration.voters))


def await_voters(scenario: Scenario, *nodes: int) -> None:
    scenario.loop.run_until(lambda: voters(scenario) == nodes, 60_000)


def until(scenario: Scenario, what: Callable[[], bool]) -> None:
    scenario.loop.run_until(what, 60_000)


def lose_disk(scenario: Scenario, name: str) -> None:
    scenario.broker(name).env.disk.remove("__cluster_metadata-0/snapshot")
    scenario.kill(name)
    scenario.boot(name)
    scenario.loop.run_for(3_000)
    assert scenario.told("cannot start: the log of the metadata begins at")
    assert scenario.find(name) is None
