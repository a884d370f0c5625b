"""What a broker tells clients that hears of no other: where else they may ask."""

from kafkaesque.gateway.kafka.cluster_view import ClusterView
from kafkaesque.model.ids import NodeId
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


def test_a_lost_broker_is_listed_until_its_session_is_over() -> None:
    scenario = Scenario(3)
    session_ms = int(scenario.broker("b1").option("broker.session.timeout.ms"))
    scenario.kill("b2")
    scenario.loop.run_until(lambda: not scenario.broker("b1").peers.is_alive(NodeId(2)), 5_000)
    lost_ms = scenario.loop.now_ns // 1_000_000
    assert {each.node for each in scenario.broker("b1").alive_brokers()} == {1, 3}
    scenario.loop.run_until(lambda: listed(scenario, "b1") != [1, 2, 3], 2 * session_ms)
    assert listed(scenario, "b1") == [1, 3]
    assert session_ms <= scenario.loop.now_ns // 1_000_000 - lost_ms <= session_ms + 100


def test_a_broker_that_comes_back_at_once_never_goes_from_what_clients_are_told() -> None:
    scenario = Scenario(4)
    for name in ("b1", "b2", "b3"):
        scenario.kill(name)
        for step in range(100):
            scenario.loop.run_for(50)
            if step == 20:
                scenario.boot(name)
            for other, broker in scenario.cluster.brokers.items():
                if broker.is_ready and other in scenario.running():
                    assert listed(scenario, other) == [1, 2, 3]


def test_a_broker_that_has_just_started_lists_those_that_it_has_not_heard_of_yet() -> None:
    scenario = Scenario(5)
    controller = scenario.broker("b1").controller_node()
    started, unheard = (name for name in ("b1", "b2", "b3") if name != f"b{controller}")
    scenario.kill(started)
    scenario.loop.run_for(1_000)
    for way in ((started, unheard), (unheard, started)):
        scenario.world.wire.block(*way)
    scenario.boot(started)
    brokers = scenario.cluster.brokers
    scenario.loop.run_until(lambda: started in brokers and brokers[started].is_ready, 8_000)
    assert len(scenario.broker(started).alive_brokers()) == 2
    assert listed(scenario, started) == [1, 2, 3]
    scenario.loop.run_until(lambda: len(listed(scenario, started)) == 2, 10_000)
