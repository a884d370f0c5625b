"""What is answered of bindings and transformations holds at all living brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaesque.broker.controller.metadata_everywhere import MetadataEverywhere, OnEverywhere
from kafkaesque.broker.doors import cluster
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests.exchange_commands import BindDestination, PutTransformation
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import CONTROLLER_GROUP
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.transformations.rules import Rule, Set
from tests.sim.queue_scenario import QUEUE, TIMEOUT_MS, QueueScenario
from tests.sim.seeds import first_of


class _Binding(QueueScenario):
    def controller(self) -> str:
        for name in self.running():
            replica = self.broker(name).driver.get(CONTROLLER_GROUP)
            if replica is not None and replica.is_leader:
                return name
        raise AssertionError("nobody leads")

    def others(self) -> tuple[str, str, str]:
        """Return the controller's machine, and the other two."""
        controller = self.controller()
        first, second = (each for each in self.running() if each != controller)
        return controller, first, second

    def bind(self, key: str, broker: str) -> list[object]:
        done: list[object] = []
        command = BindDestination(
            vhost=DEFAULT_VHOST, source="amq.topic", destination=Destination(QUEUE), key=key
        )
        self.broker(broker).doors.exchanges.submit(command, TIMEOUT_MS, done.append)
        return done

    def transform(self, rule: Rule, broker: str) -> list[object]:
        done: list[object] = []
        command = PutTransformation(vhost=DEFAULT_VHOST, name="t", rule=rule)
        self.broker(broker).doors.exchanges.submit(command, TIMEOUT_MS, done.append)
        return done

    def rule(self, broker: str) -> Rule | None:
        vhost = self.broker(broker).doors.exchanges.vhost(DEFAULT_VHOST)
        found = vhost.transformations.get("t")
        return None if found is None else found.rule

    def routes(self, broker: str, key: str) -> bool:
        door = self.broker(broker).doors.exchanges
        return not door.route(DEFAULT_VHOST, "amq.topic", RoutedMessage(key=key)).is_unroutable


def _bind_many(scenario: _Binding) -> None:
    """Bind while the way from the controller to one broker is slow, and compare at each answer."""
    controller, first, slow = scenario.others()
    scenario.world.wire.link(controller, slow).loss = 0.3
    for number in range(20):
        key = f"k{number}"
        done = scenario.bind(key, first)
        scenario.loop.run_until(lambda: done != [], 4 * TIMEOUT_MS)  # noqa: B023
        assert not isinstance(done[0], RequestRefused), done
        living = [
            each
            for each in scenario.running()
            if scenario.broker(first).peers.is_alive(scenario.broker(each).node)
        ]
        assert all(scenario.routes(each, key) for each in living), key
    scenario.world.wire.link(controller, slow).loss = 0.0


@pytest.mark.parametrize("seed", first_of(range(1, 5), 1))
def test_what_is_bound_is_bound_at_every_living_broker(seed: int) -> None:
    _bind_many(_Binding(seed))


def _transform_many(scenario: _Binding) -> None:
    controller, first, slow = scenario.others()
    scenario.world.wire.link(controller, slow).loss = 0.3
    for number in range(10):
        rule = Rule(steps=(Set(at="headers.version", value=number),))
        done = scenario.transform(rule, first)
        scenario.loop.run_until(lambda: done != [], 4 * TIMEOUT_MS)  # noqa: B023
        assert not isinstance(done[0], RequestRefused), done
        assert [scenario.rule(each) for each in scenario.running()] == [rule] * 3


def test_a_transformation_that_is_answered_holds_at_every_broker() -> None:
    _transform_many(_Binding(1))


@pytest.mark.parametrize("change_many", [_bind_many, _transform_many])
def test_that_nobody_is_waited_for_is_found(
    monkeypatch: pytest.MonkeyPatch, change_many: Callable[[_Binding], None]
) -> None:
    def at_once(_: MetadataEverywhere, on_done: OnEverywhere) -> None:
        on_done(True)

    monkeypatch.setattr(MetadataEverywhere, "wait", at_once)
    with pytest.raises(AssertionError):
        change_many(_Binding(1))


def test_that_transformations_are_not_waited_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_HOLDING_EVERYWHERE", (BindDestination,))
    _bind_many(_Binding(1))
    with pytest.raises(AssertionError):
        _transform_many(_Binding(1))


def test_many_at_once_share_rounds() -> None:
    scenario = _Binding(1)
    _, first, _ = scenario.others()
    done = [scenario.bind(f"k{number}", first) for number in range(200)]
    scenario.loop.run_until(lambda: all(done), TIMEOUT_MS)
    assert not any(isinstance(each[0], RequestRefused) for each in done)
    assert all(scenario.routes(name, "k199") for name in scenario.running())


def test_a_dead_broker_is_not_waited_for() -> None:
    scenario = _Binding(1)
    _, first, second = scenario.others()
    scenario.kill(second)
    done = scenario.bind("a", first)
    scenario.loop.run_until(lambda: done != [], TIMEOUT_MS)
    assert not isinstance(done[0], RequestRefused)
    assert scenario.routes(first, "a")


def test_a_broker_that_is_cut_off_is_waited_for_until_it_is_lost() -> None:
    scenario = _Binding(1)
    controller, first, second = scenario.others()
    for one in (controller, first):
        scenario.world.wire.block(one, second)
        scenario.world.wire.block(second, one)
    done = scenario.bind("a", first)
    scenario.loop.run_for(700)
    before = len(done)
    scenario.loop.run_until(lambda: done != [], TIMEOUT_MS)
    assert before == 0
    assert not isinstance(done[0], RequestRefused)
