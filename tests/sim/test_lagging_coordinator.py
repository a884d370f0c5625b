"""A coordinator that is cut off from the controller alone: it leads, and lags in the metadata.

A topic that groups have consumed is deleted and made anew meanwhile. What they commit for the new
one, by its name, is stored by a coordinator that knows the old one only.
"""

from typing import Any

from kafkaesque.broker.metadata.records import TopicDeleted
from kafkaesque.broker.requests.commands import (
    ControllerCommand,
    CreateTopic,
    DeleteTopic,
    GroupOffset,
    GroupOffsets,
)
from kafkaesque.groups.table import GroupTable
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario
from tests.sim.test_deposed_coordinator import GROUP, coordinators

AGAIN = "again"


def answer(scenario: Scenario, answers: list[Any]) -> Any:
    scenario.loop.run_until(lambda: answers != [], 20_000)
    (found,) = answers
    return found


def submit(scenario: Scenario, name: str, command: ControllerCommand) -> None:
    answers: list[Any] = []
    scenario.broker(name).controller_client.submit(command, 10_000, answers.append)
    answer(scenario, answers)


def commit(scenario: Scenario, name: str, offset: int) -> object:
    answers: list[object] = []
    offsets = [GroupOffset(topic=AGAIN, partition=0, offset=offset)]
    scenario.broker(name).group_offsets.commit(GROUP, offsets, 10_000, answers.append)
    return answer(scenario, answers)


def fetch(scenario: Scenario, name: str) -> list[int]:
    answers: list[object] = []
    scenario.broker(name).group_offsets.fetch(GROUP, AGAIN, [0], 10_000, answers.append)
    found = answer(scenario, answers)
    assert isinstance(found, GroupOffsets), found
    return [each.offset for each in found.offsets]


def with_coordinator(seed: int) -> tuple[Scenario, str, str]:
    """Return a cluster, its controller, and another broker that coordinates the group."""
    scenario = Scenario(seed, SimOptions(brokers=5))
    create(scenario, "b1")
    commit(scenario, "b1", 5)
    (coordinator,) = coordinators(scenario)
    controller = f"b{scenario.broker('b1').controller_client.leader()}"
    assert coordinator != controller, "another seed is needed"
    return scenario, controller, coordinator


def create(scenario: Scenario, name: str) -> None:
    submit(scenario, name, CreateTopic(name=AGAIN, partition_count=1, replication_factor=1))


def make_anew(scenario: Scenario, name: str) -> None:
    submit(scenario, name, DeleteTopic(name=AGAIN))
    create(scenario, name)
    scenario.loop.run_for(1_000)


def test_what_is_committed_for_the_new_topic_outlives_the_late_deletion_of_the_old_one() -> None:
    scenario, controller, lagging = with_coordinator(1)
    scenario.world.wire.block(controller, lagging)
    scenario.world.wire.block(lagging, controller)
    scenario.loop.run_for(1_000)
    make_anew(scenario, controller)
    commit(scenario, lagging, 42)
    scenario.world.wire.heal()
    scenario.loop.run_for(5_000)
    assert coordinators(scenario) == [lagging]
    assert fetch(scenario, lagging) == [42]


def test_nothing_of_the_old_topic_is_left_where_the_coordinator_does_not_lag() -> None:
    scenario, controller, coordinator = with_coordinator(1)
    make_anew(scenario, controller)
    assert fetch(scenario, coordinator) == []


def test_what_was_confirmed_to_be_of_the_old_topic_goes_whatever_the_clocks_say() -> None:
    scenario, _, coordinator = with_coordinator(1)
    broker = scenario.broker(coordinator)
    topic_id = broker.state.topic(AGAIN).topic_id
    (table,) = (host.table for host in broker.group_coordinators.all() if _keeps(host.table))
    slow_clock = TopicDeleted(topic_id=topic_id, name=AGAIN, at_ms=1)
    broker.group_coordinators.on_topic_deleted(slow_clock)
    scenario.loop.run_for(1_000)
    assert _keeps(table)  # just committed
    broker.group_coordinators.on_topic_deleted(slow_clock)
    scenario.loop.run_for(1_000)
    assert not _keeps(table)


def _keeps(table: GroupTable) -> bool:
    return table.committed_positions(GROUP) != []
