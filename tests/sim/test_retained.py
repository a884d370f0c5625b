"""Retained messages while brokers die: every broker finds the last one of each name."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kafkaesque.broker.live.retained_log import RetainedLog
from kafkaesque.broker.metadata.topic_names import RETAINED_TOPIC
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.records import Record
from kafkaesque.routing.names import MQTT
from kafkaesque.sim.options import SimOptions
from tests.sim.live_scenario import LiveScenario, message
from tests.sim.queue_scenario import TIMEOUT_MS
from tests.sim.seeds import first_of, some_of

NAMES = 7


@dataclass
class _Retainer:
    """Retains at one broker, some messages each few milliseconds, until it dies."""

    scenario: LiveScenario
    broker: str
    #: By name: what was confirmed last, and what nobody knows of.
    confirmed: dict[str, int] = field(default_factory=dict)
    doubted: dict[str, set[int]] = field(default_factory=dict)
    open: int = 0
    sent: int = 0
    is_over: bool = False

    def go_on(self) -> None:
        if self.is_over or self.broker not in self.scenario.running():
            self.is_over = True
            return
        for _ in range(3):
            self._retain()
        self.scenario.env.clock.call_later(20, self.go_on)

    def _retain(self) -> None:
        self.sent += 1
        number = self.sent
        name = f"{self.broker}/{number % NAMES}"
        body = b"" if number % 11 == 0 else b"%d" % number
        self.open += 1
        self.doubted.setdefault(name, set()).add(number)

        def on_done(outcome: RequestRefused | None) -> None:
            self.open -= 1
            if outcome is None:
                self.confirmed[name] = number
            if not isinstance(outcome, RequestTimedOut):
                self.doubted[name].discard(number)

        self.scenario.live(self.broker).retain(message(name, body), on_done)

    def may_be(self, name: str, body: bytes | None) -> bool:
        """Tell whether a name may have this body, or none."""
        confirmed = self.confirmed.get(name, 0)
        numbers = {confirmed} | {each for each in self.doubted.get(name, ()) if each > confirmed}
        if body is None:
            return any(number % 11 == 0 for number in numbers)
        return int(body) in numbers


def _run(seed: int, *, compacts: bool) -> LiveScenario:
    activities = ("compaction",) if compacts else ()
    scenario = LiveScenario(seed, sim_options=SimOptions(activities=activities))
    retainers = [_Retainer(scenario, name) for name in scenario.running()]
    for each in retainers:
        each.go_on()
    for turn in range(3):
        scenario.loop.run_for(1_000)
        victim = _leader(scenario) if turn < 2 else scenario.running()[0]
        scenario.retained("#", scenario.running()[turn])
        scenario.kill(victim)
        scenario.loop.run_for(2_000)
        scenario.boot(victim)
        scenario.loop.run_for(2_000)
    living = [each for each in retainers if not each.is_over]
    for each in retainers:
        each.is_over = True
    scenario.loop.run_until(lambda: not any(each.open for each in living), 8 * TIMEOUT_MS)
    _check(scenario, retainers)
    return scenario


def _leader(scenario: LiveScenario) -> str:
    state = scenario.any().state.topic(RETAINED_TOPIC).partitions[0]
    found: list[str] = []

    def is_found() -> bool:
        found[:] = [
            name
            for name in scenario.running()
            if (partition := scenario.broker(name).partitions.get(state.group)) is not None
            and partition.is_leader
        ]
        return len(found) == 1

    scenario.loop.run_until(is_found, 3 * TIMEOUT_MS)
    return found[0]


def _check(scenario: LiveScenario, retainers: list[_Retainer]) -> None:
    """Compare all brokers, and what they find with what was confirmed and with the log."""
    found = {
        name: {each.key: each.body for each in scenario.retained("#", name)}
        for name in scenario.running()
    }
    assert len(found) == 3
    first, *others = found.values()
    assert all(each == first for each in others)
    logged: dict[bytes | None, bytes | None] = {}
    for record in scenario.records_of(RETAINED_TOPIC):
        logged[record.key] = record.value
    in_log = {key: value for key, value in logged.items() if value is not None}
    assert {key.encode(): body for key, body in first.items()} == in_log
    count = 0
    for retainer in retainers:
        for number in range(NAMES):
            key = f"{retainer.broker}/{number}"
            assert retainer.may_be(key, dict(first).get(key)), key  # type: ignore[call-overload]
            count += key in retainer.confirmed
    assert count > NAMES


@pytest.mark.parametrize("seed", first_of(range(1, 7), 1))
def test_every_broker_finds_the_last_one_of_each_name(seed: int) -> None:
    _run(seed, compacts=False)


def test_compaction_changes_nothing() -> None:
    scenario = _run(7, compacts=True)
    ends = [
        scenario.broker(name).partitions.get(
            scenario.any().state.topic(RETAINED_TOPIC).partitions[0].group
        )
        for name in scenario.running()
    ]
    records = scenario.records_of(RETAINED_TOPIC)
    assert any(each is not None and each.log.end_offset > len(records) for each in ends)


def test_a_clearing_that_is_overlooked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = RetainedLog._apply

    def overlook(log: RetainedLog, record: Record) -> None:
        if record.value is not None:
            apply(log, record)

    monkeypatch.setattr(RetainedLog, "_apply", overlook)
    with pytest.raises(AssertionError):
        _run(1, compacts=False)


@pytest.mark.parametrize("seed", some_of(range(1, 5)))
@pytest.mark.parametrize("publisher", [0, 1])
def test_who_subscribes_meanwhile_is_given_it_or_finds_it(seed: int, publisher: int) -> None:
    """A message is published before it is committed: nobody falls between the two."""
    scenario = LiveScenario(seed)
    here, there = scenario.running()[0], scenario.running()[publisher]
    scenario.retain(message("first", b"x"))
    ways = set()
    for number in range(60):
        topic = f"t/{number}"
        wanted = message(topic, b"%d" % number)
        outcomes: list[RequestRefused | None] = []
        scenario.live(there).retain(wanted, outcomes.append)
        scenario.live(there).publish(wanted)
        scenario.loop.run_for(number % 20 / 2)
        receiver = scenario.subscribe(topic, broker=here)
        was_open = not outcomes
        found = scenario.retained(topic, here)
        scenario.loop.run_until(lambda: outcomes != [], TIMEOUT_MS)  # noqa: B023
        assert [each.body for each in found] or receiver.bodies, (number, was_open)
        ways.add(bool(found))
        receiver.end()
    assert True in ways


def test_a_topic_without_a_leader_holds_up_no_subscriber() -> None:
    scenario = LiveScenario(1)
    scenario.retain(message("first", b"x"))
    here, *others = scenario.running()
    for each in others:
        scenario.kill(each)
    scenario.live(here).retain(message("second", b"y"), lambda _: None)
    begun_ms = scenario.env.clock.now_ms()
    pages: list[object] = []
    scenario.live(here).retained(MQTT.read_filter("#"), pages.append)
    scenario.loop.run_until(lambda: pages != [], 60_000)
    assert isinstance(pages[0], RequestRefused)
    assert scenario.env.clock.now_ms() - begun_ms < 30_000
