"""A client that is gone without a word is found, and what it had goes to others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaesque.gateway.nats import connection as nats_gateway
from kafkaesque.protocols.nats.connection import Connection as NatsConnection
from kafkaesque.protocols.nats.connection import Limits
from kafkaesque.protocols.stomp.connection import Connection as StompConnection
from tests.sim import half_open_scenario as scenarios
from tests.sim.seeds import first_of


@pytest.fixture(autouse=True)
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes of silence take seconds to simulate."""
    monkeypatch.setattr(nats_gateway, "_LIMITS", Limits(ping_interval_ms=scenarios.PING_MS))


@pytest.mark.parametrize("seed", first_of(range(1, 7), 1))
@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.subscriber_of_nats,
        scenarios.puller_of_jetstream,
        scenarios.consumer_of_stomp,
    ],
)
def test_a_client_that_is_gone_is_found(scenario: Callable[[int], None], seed: int) -> None:
    scenario(seed)


def test_a_broker_that_never_asks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NatsConnection, "deadline_ms", None)
    with pytest.raises(AssertionError, match="subscribed for ever"):
        scenarios.subscriber_of_nats(1)


def test_a_broker_that_misses_no_heart_beats_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StompConnection, "deadline_ms", None)
    with pytest.raises(AssertionError, match="has kept"):
        scenarios.consumer_of_stomp(1)
