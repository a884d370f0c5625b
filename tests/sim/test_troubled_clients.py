"""Clients that are slow, late, cut off or back at once; each promise with a planted bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kafkaesque.broker.queues.disuse import DisuseClock
from kafkaesque.broker.queues.host import QueueHost
from kafkaesque.gateway.mqtt import wills
from kafkaesque.gateway.mqtt.connection import MqttConnection
from kafkaesque.gateway.mqtt.desk import Desk
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.nats.jetstream.view import View
from kafkaesque.gateway.stomp.connection import StompConnection
from kafkaesque.queues import decisions as d
from kafkaesque.queues import replay as replay_module
from kafkaesque.queues.state import State
from kafkaesque.tables.log_table import Instant
from tests.sim import troubled_clients as scenarios
from tests.sim.seeds import some_of
from tests.sim.test_light_invariants import find


@pytest.mark.parametrize("seed", some_of(range(1, 4)))
@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.slow_subscriber,
        scenarios.overtaken_session,
        scenarios.overtaken_consumer,
        scenarios.jumping_clocks,
        scenarios.jumping_clock_of_a_session,
        scenarios.reconnect_storm,
        scenarios.half_open_mqtt,
        scenarios.half_open_stomp,
    ],
)
def test_troubled_clients(scenario: Callable[[int], None], seed: int) -> None:
    scenario(seed)


def test_a_broker_that_waits_for_a_slow_client_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(link: MqttConnection) -> bool:
        others = link.desk.clients.values()
        return any(isinstance(each, MqttLink) and each.is_slow for each in others)

    monkeypatch.setattr(MqttConnection, "is_full", is_full)
    find(scenarios.slow_subscriber, [1], "others wait for a slow one")


@pytest.mark.extended
def test_a_drop_that_is_not_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Desk, "note_drop", lambda _: None)
    find(scenarios.slow_subscriber, [1], "are counted")


def test_what_is_too_much_for_a_session_and_not_counted_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remove = replay_module._DO[d.Remove]

    def settle(state: State, decision: d.Remove) -> None:
        is_drop = decision.reason is d.Reason.TOO_LONG
        remove(state, replace(decision, reason=d.Reason.SETTLED) if is_drop else decision)

    monkeypatch.setitem(replay_module._DO, d.Remove, settle)
    find(scenarios.overtaken_session, [1], "are counted")


def test_a_will_by_the_wall_clock_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(testament: wills.Testament, _: int) -> None:
        will, testament._will = testament._will, None
        if will is None:
            return
        clock = testament._link.shared.clock
        due_ms = clock.wall_ms() + 1_000 * (will.properties.will_delay_interval_s or 0)

        def look() -> None:
            if clock.wall_ms() >= due_ms:
                testament._publish_unless_back(will)
            else:
                clock.call_later(50, look)

        look()

    monkeypatch.setattr(wills.Testament, "execute", execute)
    find(scenarios.jumping_clocks, [1], "the will of")


@pytest.mark.extended
def test_a_connection_that_stays_in_the_books_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    on_gone = MqttConnection.on_gone

    def stay(link: MqttConnection) -> None:
        on_gone(link)
        link.desk.clients.setdefault(link.client_id, link)

    monkeypatch.setattr(MqttConnection, "on_gone", stay)
    find(scenarios.reconnect_storm, [1], "gateways know")


@pytest.mark.extended
def test_a_will_of_a_storm_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wills.Testament, "_publish_unless_back", wills.Testament._publish)
    find(scenarios.reconnect_storm, [1], "a will came of a client that is back")


@pytest.mark.extended
def test_a_keep_alive_that_nobody_watches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MqttConnection, "_tick", lambda _: None)
    find(scenarios.half_open_mqtt, [1], "nobody misses")


def test_a_consumer_that_is_given_what_is_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "has", lambda *_: True)
    find(scenarios.overtaken_consumer, [1], "not what the stream has")


def test_a_session_that_ends_by_the_wall_clock_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def note_use(host: QueueHost) -> None:
        host._disuse.note_use(host._parts.clock.wall_ms())

    def on_the_wall(act: Callable[..., Any]) -> Callable[..., Any]:
        return lambda clock, queue, now, *more, **named: act(
            clock, queue, Instant(now.wall_ms, now.wall_ms), *more, **named
        )

    for name in ("begin", "left_ms"):
        monkeypatch.setattr(DisuseClock, name, on_the_wall(getattr(DisuseClock, name)))
    for name in ("note_use", "on_wanted"):
        monkeypatch.setattr(QueueHost, name, note_use)
    find(scenarios.jumping_clock_of_a_session, [1, 2], "a session has ended before its time")


def test_silence_that_nobody_watches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StompConnection, "_watch_silence", lambda _: None)
    find(scenarios.half_open_stomp, [1], "nobody misses")
