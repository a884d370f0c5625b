"""The invariants of MQTT and JetStream, each with a planted bug that its scenario has to find.

Others have files of their own: live delivery (`test_live.py`), retained messages
(`test_retained.py`), QoS 1 and 2 from end to end (`test_mqtt_sessions.py`), shared subscriptions
and settlements (`test_queue_checks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.gateway.mqtt import delivering, publishing, wills
from kafkaesque.gateway.mqtt.connection import MqttConnection
from kafkaesque.gateway.mqtt.delivering import Delivering
from kafkaesque.gateway.mqtt.journal import Journal, Staged
from kafkaesque.protocols.mqtt.exchanges import OutgoingExchanges, Stage
from kafkaesque.sim.loop import SimStuck
from tests.sim import light_scenario as scenarios
from tests.sim import test_mqtt_sessions as sessions
from tests.sim.seeds import some_of

Scenario = Callable[[int], None]


def find(scenario: Scenario, seeds: Sequence[int], what: str) -> None:
    """Check that one of these seeds breaks the promise, and that the scenario says how."""
    said = []
    for seed in seeds:
        try:
            scenario(seed)
        except (AssertionError, SimStuck) as error:
            said.append(str(error))
            if what in said[-1]:
                return
    raise AssertionError(f"nobody noticed: {said}")


@pytest.mark.parametrize("seed", some_of(range(1, 5)))
@pytest.mark.parametrize(
    "scenario", [scenarios.mqtt_without_power, scenarios.jetstream_without_power]
)
def test_what_is_acknowledged_outlives_a_power_cut_of_all(scenario: Scenario, seed: int) -> None:
    scenario(seed)


def test_a_gateway_that_answers_before_the_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pass_on: Any = publishing._pass_on

    def at_once(*arguments: Any) -> None:
        *others, on_done = arguments
        pass_on(*others, lambda _: None)
        on_done(1)

    monkeypatch.setattr(publishing, "_pass_on", at_once)
    find(scenarios.mqtt_without_power, [1, 2], "acknowledged, and lost")


def test_a_topic_that_answers_before_the_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_later = Partition._answer_later

    def at_once(self: Partition, acks: int, *arguments: Any) -> None:
        answer_later(self, 0, *arguments)

    monkeypatch.setattr(Partition, "_answer_later", at_once)
    find(scenarios.jetstream_without_power, [3, 5], "acknowledged, and lost")


@pytest.mark.parametrize("seed", some_of(range(1, 8)))
def test_of_two_connections_of_a_client_one_survives(seed: int) -> None:
    scenarios.two_connections(seed)


def test_a_connection_that_is_not_told_of_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MqttConnection, "take_over", lambda _: None)
    find(scenarios.two_connections, [1], "both connections survive")


@pytest.mark.parametrize("seed", some_of(range(1, 8)))
def test_a_will_is_published_once_or_never(seed: int) -> None:
    scenarios.wills(seed)


def test_a_will_that_is_published_in_spite_of_a_farewell_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wills.Testament, "cancel", lambda _: None)
    find(scenarios.wills, [1], "came 1 times")


def test_a_will_that_is_published_though_its_client_is_back_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wills.Testament, "_publish_unless_back", wills.Testament._publish)
    find(scenarios.wills, [1], "came 1 times")


@pytest.mark.parametrize("seed", some_of(range(1, 8)))
def test_no_more_is_in_flight_than_the_client_takes_and_nothing_is_stuck(seed: int) -> None:
    scenarios.in_flight(seed)


def test_a_broker_that_does_not_count_what_is_in_flight_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Delivering, "begin", lambda _: None)
    find(scenarios.in_flight, [1], "are in flight")


def test_an_id_that_is_in_flight_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(exchanges: OutgoingExchanges, packet_id: int, qos: int) -> None:
        stage = Stage.AWAITS_PUBACK if qos == 1 else Stage.AWAITS_PUBREC
        exchanges._stages[packet_id] = stage

    def try_begin(exchanges: OutgoingExchanges, packet_id: int) -> bool:
        begin(exchanges, packet_id, 1)
        return True

    # Ids come round after three messages, and nobody looks whether they are free.
    monkeypatch.setattr(delivering, "_SESSION_IDS", 3)
    monkeypatch.setattr(OutgoingExchanges, "has", lambda *_: False)
    monkeypatch.setattr(OutgoingExchanges, "begin", begin)
    monkeypatch.setattr(OutgoingExchanges, "try_begin", try_begin)
    find(scenarios.in_flight, [1, 2], "an id is in flight twice")


@pytest.mark.extended
def test_a_cursor_that_passes_what_is_not_acknowledged_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a position in a log does: what is acknowledged ends all before it."""
    take, acknowledge = Delivering.take, Delivering.acknowledge

    def pass_over(delivering: Delivering, packet_id: int) -> None:
        sent = delivering._taken.get(packet_id)
        for each in delivering._taken.values():
            if sent is not None and each.taken.offset < sent.taken.offset:
                each.taken.feed.settle(each.taken)

    def take_one(delivering: Delivering, packet: Any) -> None:
        pass_over(delivering, packet.packet_id)
        take(delivering, packet)

    def take_all(delivering: Delivering, packet_ids: Sequence[int]) -> None:
        for each in packet_ids:
            pass_over(delivering, each)
        acknowledge(delivering, packet_ids)

    monkeypatch.setattr(Delivering, "take", take_one)
    monkeypatch.setattr(Delivering, "acknowledge", take_all)
    find(scenarios.in_flight, [3], "messages never came")


def test_a_staged_message_that_is_overlooked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PUBREC was sent for has to be there, whoever reads the session's notes."""
    take_staged = Journal._take_staged

    def overlook(journal: Journal, packet_id: int, staged: Staged) -> None:
        if journal.is_recovered:
            take_staged(journal, packet_id, staged)

    monkeypatch.setattr(Journal, "_take_staged", overlook)

    def scenario(seed: int) -> None:
        lost = sessions.MESSAGES - len(sessions.run(seed, 2))
        assert not lost, f"released, and lost: {lost}"

    find(scenario, [3, 131], "released, and lost")
