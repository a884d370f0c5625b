"""Broker 0 is a broker like any other: it leads, is voted for, dies and comes back."""

from dataclasses import replace

import pytest

from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS
from kafkaesque.broker.requests.commands import ChangeConfig, ConfigChange, Done
from kafkaesque.model.ids import CONTROLLER_GROUP, GroupId, NodeId, write_node
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed
from tests.sim.scenario import Scenario
from tests.sim.seeds import first_of

ZERO = NodeId(0)
OPTIONS = SimOptions(first_id=0)
#: The machine on which broker 0 runs.
HOME = "b1"
NAME = "num.partitions"


def have_led(scenario: Scenario, group: GroupId) -> None:
    """Let broker 0 lead a group."""

    def leader() -> str | None:
        for name in scenario.running():
            replica = scenario.broker(name).driver.get(group)
            if replica is not None and replica.is_leader:
                return name
        return None

    for _ in range(100):
        name = leader()
        if name == HOME:
            return
        if name is not None:
            scenario.broker(name).driver.transfer_leadership(group, ZERO)
        scenario.loop.run_for(200)
    raise AssertionError("broker 0 does not lead")


def change(scenario: Scenario, node: NodeId, value: str) -> None:
    """Set an option of a broker, or of all, by way of a broker that is not the controller."""
    outcomes: list[object] = []
    changes = [ConfigChange(name=NAME, value=value)]
    command = ChangeConfig(topic=None, node=write_node(node), changes=changes)
    scenario.broker("b3").controller_client.submit(command, 20_000, outcomes.append)
    scenario.loop.run_until(lambda: outcomes == [Done()], 30_000)


@pytest.mark.parametrize("seed", first_of(range(4), 1))
def test_broker_zero_leads_is_killed_and_comes_back(seed: int) -> None:
    scenario = Scenario(seed, OPTIONS)
    assert sorted(scenario.broker("b2").state.brokers) == [0, 1, 2]
    for group in (scenario.group, CONTROLLER_GROUP):
        have_led(scenario, group)
    scenario.write(50)
    scenario.start_writing()
    scenario.loop.run_for(300)
    scenario.kill(HOME)
    scenario.loop.run_until(lambda: len(scenario.leaders()) == 1, 20_000)
    scenario.write(50)
    assert scenario.leaders() != [HOME]
    scenario.boot(HOME)
    scenario.loop.run_until(lambda: scenario.find(HOME) is not None, 20_000)
    scenario.settle()
    assert scenario.committed(HOME) == scenario.committed("b2") == scenario.committed("b3")
    have_led(scenario, scenario.group)
    scenario.write(20)
    reader = scenario.read_from_start()
    scenario.loop.run_until(lambda: reader.position >= scenario.end(HOME), 20_000)
    assert scenario.findings.anomalies == []


def test_a_vote_for_broker_zero_is_not_forgotten() -> None:
    scenario = Scenario(7, OPTIONS)
    have_led(scenario, scenario.group)
    scenario.write(10)
    scenario.settle()
    log = scenario.partition("b2").log
    log.save_hard_state(log.hard_state.term, ZERO)  # as it may have voted
    voted = log.hard_state
    assert voted.vote == ZERO
    scenario.broker("b2").store.submit(lambda: None)
    scenario.loop.run_for(500)
    scenario.kill("b2")
    scenario.boot("b2")
    scenario.loop.run_until(lambda: scenario.find("b2") is not None, 20_000)
    assert scenario.partition("b2").log.hard_state == voted


def test_options_of_broker_zero_are_not_those_of_all() -> None:
    scenario = Scenario(8, OPTIONS)
    change(scenario, ZERO, "7")
    change(scenario, ALL_BROKERS, "5")
    brokers = [scenario.broker(name) for name in scenario.cluster.names]
    scenario.loop.run_until(
        lambda: [each.options.values[NAME] for each in brokers] == [7, 5, 5], 10_000
    )
    for name in scenario.cluster.names:
        scenario.kill(name)
    for name in scenario.cluster.names:
        scenario.boot(name)
    scenario.loop.run_until(lambda: scenario.leaders() != [], 30_000)
    brokers = [scenario.broker(name) for name in scenario.cluster.names]
    scenario.loop.run_until(
        lambda: [each.options.values[NAME] for each in brokers] == [7, 5, 5], 10_000
    )


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_a_run_is_the_same_whether_the_ids_begin_with_zero_or_one() -> None:
    activities = ("compaction", "transactions", "moves", "controllers", "throttles")
    options = SimOptions(brokers=4, activities=activities, duration_ms=4_000)
    zero, one = (run_seed(21, replace(options, first_id=first)) for first in (0, 1))
    assert zero.ok, "\n".join((*zero.anomalies, *zero.lines[-40:]))
    assert zero.acknowledged == one.acknowledged > 100
    assert zero.faults == one.faults > 0


@pytest.mark.timeout(300)
def test_majorities_of_which_broker_zero_is_one_are_lost_and_groups_formed_anew() -> None:
    options = SimOptions(first_id=0, brokers=5, activities=("unclean",), duration_ms=6_000)
    report = run_seed(33, options)
    assert report.ok, "\n".join((*report.anomalies, *report.lines[-40:]))
    assert report.acknowledged > 100
