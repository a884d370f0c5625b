"""Several listeners of one protocol: clients are told the addresses of the one they came by."""

from dataclasses import replace

import pytest

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.joining import registration
from kafkaesque.broker.listeners import KAFKA, Listener
from kafkaesque.broker.metadata.features import KNOWN, LEVEL_WITH_LISTENERS, METADATA
from kafkaesque.broker.metadata.records import BrokerRegistered
from kafkaesque.broker.requests.commands import Done, RaiseFeature
from kafkaesque.env.network import Address
from kafkaesque.gateway.kafka.cluster_view import ClusterView
from kafkaesque.model.ids import NO_NODE, NodeId
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.sim.cluster import SimCluster
from tests.sim.scenario import TOPIC, Scenario

OUTSIDE = "outside"
CONFIG = SimCluster._config


def outside(name: str) -> Address:
    return Address(f"{name}.example", 443)


@pytest.fixture(autouse=True)
def two_of_three_have_another_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    def config(cluster: SimCluster, name: str) -> BrokerConfig:
        before = CONFIG(cluster, name)
        if name == "b3":
            return before
        more = Listener(protocol=KAFKA, name=OUTSIDE, advertised=outside(name))
        return replace(before, listeners=[*before.listeners, more])

    monkeypatch.setattr(SimCluster, "_config", config)


def registered(scenario: Scenario, name: str) -> list[BrokerRegistered]:
    """What all brokers know of one."""
    node = scenario.broker(name).node
    return [each.state.brokers[node] for each in scenario.cluster.brokers.values()]


def await_all_registered(scenario: Scenario) -> None:
    brokers = scenario.cluster.brokers
    scenario.loop.run_until(
        lambda: len(brokers) == 3 and all(len(b.state.brokers) == 3 for b in brokers.values()),
        30_000,
    )


def test_clients_are_told_of_the_listener_by_which_they_came() -> None:
    scenario = Scenario(1)
    await_all_registered(scenario)
    doors = scenario.broker("b1").doors
    inside, view = ClusterView(doors, KAFKA), ClusterView(doors, OUTSIDE)
    assert [inside.address(each).host for each in inside.brokers] == ["b1", "b2", "b3"]
    assert [view.address(each) for each in view.brokers] == [outside("b1"), outside("b2")]


def test_a_leader_without_the_listener_is_no_leader_for_its_clients() -> None:
    scenario = Scenario(2)
    await_all_registered(scenario)
    while (leader := scenario.leader) != "b3":
        scenario.kill(leader)
        scenario.loop.run_until(lambda: scenario.leaders() != [], 10_000)
        scenario.boot(leader)
        await_all_registered(scenario)
    doors = scenario.broker("b1").doors
    scenario.loop.run_until(lambda: doors.cluster.leaders.leader(scenario.group) == 3, 10_000)
    partition = doors.cluster.state.topic(TOPIC).partitions[0]
    assert ClusterView(doors, KAFKA).place(partition).leader == 3
    placed = ClusterView(doors, OUTSIDE).place(partition)
    assert (placed.error_code, placed.leader) == (ErrorCode.LISTENER_NOT_FOUND, NO_NODE)
    assert ClusterView(doors, OUTSIDE).find_broker(NodeId(3)) is None


def test_a_cluster_of_the_release_before_hears_of_listeners_after_the_upgrade(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as before:
        level = LEVEL_WITH_LISTENERS - 1
        before.setattr(registration, "KNOWN", {METADATA: (1, level)})
        scenario = Scenario(3)
        await_all_registered(scenario)
    for name in scenario.cluster.names:
        scenario.kill(name)
        scenario.boot(name)
        scenario.loop.run_for(3_000)
    scenario.loop.run_until(
        lambda: all(each.features == KNOWN for each in registered(scenario, "b1")), 30_000
    )
    assert all(each.endpoints == {} for each in registered(scenario, "b1"))
    assert all(each.endpoint(KAFKA) == Address("b1", 9092) for each in registered(scenario, "b1"))
    assert all(each.endpoint(KAFKA, OUTSIDE) is None for each in registered(scenario, "b1"))
    outcomes: list[object] = []
    command = RaiseFeature(name=METADATA, level=LEVEL_WITH_LISTENERS)
    scenario.broker("b2").doors.cluster.submit(command, 10_000, outcomes.append)
    scenario.loop.run_until(lambda: outcomes == [Done()], 10_000)
    scenario.loop.run_until(
        lambda: all(
            each.endpoint(KAFKA, OUTSIDE) == outside("b1") for each in registered(scenario, "b1")
        ),
        10_000,
    )
