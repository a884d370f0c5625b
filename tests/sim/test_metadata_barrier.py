"""A broker that finds out whether its metadata are of now."""

from kafkaesque.broker.requests.commands import CreateTopic
from tests.sim.scenario import Scenario


def others_than_the_controller(scenario: Scenario) -> tuple[str, str, str]:
    controller = f"b{scenario.broker('b1').controller_client.leader()}"
    first, second = (name for name in ("b1", "b2", "b3") if name != controller)
    return controller, first, second


def ask(scenario: Scenario, name: str, timeout_ms: int) -> list[tuple[bool, bool]]:
    """Return, as soon as it is known, whether its metadata are of now, and have the topic."""
    broker = scenario.broker(name)
    told: list[tuple[bool, bool]] = []
    broker.metadata.when_current(
        timeout_ms, lambda is_current: told.append((is_current, "late" in broker.state.topics))
    )
    assert told == []
    return told


def create_topic(scenario: Scenario, name: str) -> None:
    done: list[object] = []
    command = CreateTopic(name="late", partition_count=1, replication_factor=1)
    scenario.broker(name).controller_client.submit(command, 5_000, done.append)
    scenario.loop.run_until(lambda: done != [], 5_000)


def test_a_broker_that_lags_waits_until_it_has_what_was_decided() -> None:
    scenario = Scenario(1)
    controller, lagging, other = others_than_the_controller(scenario)
    scenario.world.wire.block(controller, lagging)
    create_topic(scenario, other)
    assert "late" not in scenario.broker(lagging).state.topics
    told = ask(scenario, lagging, 60_000)
    in_vain = ask(scenario, lagging, 500)
    scenario.loop.run_until(lambda: in_vain != [], 600)
    assert (told, in_vain) == ([], [(False, False)])
    scenario.world.wire.unblock(controller, lagging)
    scenario.loop.run_until(lambda: told != [], 10_000)
    assert told == [(True, True)]


def test_every_broker_finds_out_at_once_if_nothing_is_in_the_way() -> None:
    scenario = Scenario(2)
    create_topic(scenario, "b1")
    told = [ask(scenario, name, 1_000) for name in ("b1", "b2", "b3")]
    scenario.loop.run_until(lambda: all(told), 100)
    assert told == [[(True, True)]] * 3
