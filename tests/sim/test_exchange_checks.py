"""Exchanges over AMQP under every fault, and brokers with a planted bug that the checkers find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kafkaesque.chassis.amqp.incoming import read_incoming
from kafkaesque.chassis.amqp.outgoing import Outgoing
from kafkaesque.gateway.amqp import consumer as consumer_module
from kafkaesque.gateway.amqp.publishing import Publishing
from kafkaesque.gateway.queueing.publisher import Publisher
from kafkaesque.gateway.queueing.settlements import Settlements
from kafkaesque.protocols.amqp.events import Published
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.sim.options import SimOptions, with_faults
from kafkaesque.sim.runner import run_seed
from tests.sim.seeds import first_of

EXCHANGES = SimOptions(activities=("exchanges",), between_ms=500, min_insync=2)
SEEDS_MAX = 6


def find(what: str) -> None:
    """Some run has an anomaly of this name."""
    found: list[str] = []
    for seed in range(SEEDS_MAX):
        found += run_seed(seed, EXCHANGES).anomalies
        if any(each.startswith(f"exchanges: {what}") for each in found):
            return
    pytest.fail(f"nobody noticed: {found[:10]}")


@pytest.mark.parametrize("seed", first_of(range(16), 1))
def test_messages_come_to_their_queues_through_every_fault(seed: int) -> None:
    report = run_seed(seed, with_faults(seed, EXCHANGES, "all"))
    assert report.ok, report.anomalies
    counts = report.counts
    assert counts["confirmed"] > 50
    assert counts["acknowledged"] > 50
    assert counts["returned"] > 5


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(16))
def test_messages_come_in_order_where_brokers_die_and_links_break(seed: int) -> None:
    report = run_seed(seed, replace(EXCHANGES, between_ms=1_500))
    assert report.ok, report.anomalies


def every(count: int, times_max: int = 1_000) -> Callable[[], bool]:
    """Return what says yes at each so manieth time."""
    calls = 0

    def is_due() -> bool:
        nonlocal calls
        calls += 1
        return calls % count == 0 and calls <= count * times_max

    return is_due


def test_a_confirm_before_all_queues_have_it_loses_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send, is_due = Publisher._send, every(20)

    def forget(
        self: Publisher,
        event: Published,
        outgoing: Outgoing,
        routed: RoutedMessage,
        route: Route,
        on_outcome: Any,
        **more: Any,
    ) -> None:
        if is_due():
            on_outcome(None)
        else:
            send(self, event, outgoing, routed, route, on_outcome, **more)

    monkeypatch.setattr(Publisher, "_send", forget)
    find("lost")


@pytest.mark.extended
def test_a_commit_that_settles_nothing_brings_messages_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not to the end: the run waits for queues to be empty.
    flush, is_due = Settlements.flush, every(5, times_max=8)

    def say_so(
        self: Settlements, then: Callable[[bool], None] = lambda _: None, **more: Any
    ) -> None:
        if self._gathered and is_due():
            self._gathered = {}
        flush(self, then, **more)

    monkeypatch.setattr(Settlements, "flush", say_so)
    find("acknowledged again")


@pytest.mark.extended
def test_messages_that_overtake_one_another_are_out_of_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send, is_due = Publisher._send, every(7)

    def dawdle(self: Publisher, *arguments: Any, **more: Any) -> None:
        if is_due():
            clock = self._link.shared.clock
            clock.call_later(150, lambda: send(self, *arguments, **more))
        else:
            send(self, *arguments, **more)

    monkeypatch.setattr(Publisher, "_send", dawdle)
    find("out of order")


@pytest.mark.extended
def test_a_return_that_comes_after_its_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    give_back = Publishing._return

    def dawdle(self: Publishing, *said: Any) -> None:
        clock = self.channel.connection.shared.clock
        clock.call_later(20, lambda: give_back(self, *said))

    monkeypatch.setattr(Publishing, "_return", dawdle)
    find("return after its confirm")


@pytest.mark.extended
def test_a_return_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Publishing, "_return", lambda self, *said: None)
    find("unreturned")


@pytest.mark.extended
def test_a_message_that_comes_again_and_does_not_say_so_is_doubled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def as_new(*arguments: Any) -> Any:
        return read_incoming(*arguments)._replace(is_redelivered=False)

    monkeypatch.setattr(consumer_module, "read_incoming", as_new)
    find("doubled")


@pytest.mark.extended
def test_a_message_that_is_routed_by_another_key_comes_to_a_wrong_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routed = Outgoing.routed

    def misread(self: Outgoing, event: Published) -> RoutedMessage:
        key = "b.x" if event.routing_key == "c.x" else event.routing_key
        return routed(self, msgspec.structs.replace(event, routing_key=key))

    monkeypatch.setattr(Outgoing, "routed", misread)
    find("wrong queue")


@pytest.mark.extended
def test_a_message_that_is_kept_under_another_key_is_altered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = Outgoing.messages

    def miswrite(self: Outgoing, exchange: str, bodies: Sequence[bytes]) -> Any:
        return messages(self._replace(keys=("another", *self.keys[1:])), exchange, bodies)

    monkeypatch.setattr(Outgoing, "messages", miswrite)
    find("altered")
