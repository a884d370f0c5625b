"""What a broker tells clients that hears of no other: where else they may ask."""

from kafkaesque.gateway.kafka.cluster_view import ClusterView
from tests.sim.scenario import Scenario


def listed(scenario: Scenario, name: str) -> list[int]:
    """Return the brokers that clients are told of."""
    return [each.node for each in ClusterView(scenario.broker(name)).brokers]


def is_cut_off(scenario: Scenario, name: str) -> bool:
    return ClusterView(scenario.broker(name)).is_cut_off


def test_a_broker_that_is_cut_off_names_all_brokers() -> None:
    scenario = Scenario(1)
    for name in ("b2", "b3"):
        scenario.world.wire.block("b1", name)
        scenario.world.wire.block(name, "b1")
    scenario.loop.run_until(lambda: scenario.broker("b1").controller_node() is None, 10_000)
    scenario.loop.run_for(10_000)
    assert [each.node for each in scenario.broker("b1").alive_brokers()] == [1]
    assert listed(scenario, "b1") == [1, 2, 3]
    assert listed(scenario, "b2") == listed(scenario, "b3") == [2, 3]
    assert [is_cut_off(scenario, name) for name in ("b1", "b2", "b3")] == [True, False, False]


def test_the_two_sides_of_one_cut_know_their_ways_again_when_it_is_healed() -> None:
    scenario = Scenario(2)
    scenario.world.wire.block("b2", "b1")
    scenario.world.wire.block("b3", "b1")
    scenario.loop.run_for(10_000)
    assert listed(scenario, "b1") == [1, 2, 3]
    scenario.world.wire.unblock("b2", "b1")
    scenario.world.wire.unblock("b3", "b1")
    scenario.loop.run_until(
        lambda: all(len(scenario.broker(each).alive_brokers()) == 3 for each in ("b1", "b2", "b3")),
        10_000,
    )
    scenario.kill("b2")
    scenario.loop.run_until(lambda: listed(scenario, "b1") == listed(scenario, "b3") == [1, 3])
