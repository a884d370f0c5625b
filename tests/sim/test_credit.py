"""Credit of STOMP and of JetStream, with a broker that does not count for each."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.stomp.subscription import Subscription
from kafkaesque.queues.distributor import Distributor
from tests.sim import credit_scenario as scenarios
from tests.sim.seeds import first_of


@pytest.mark.parametrize("seed", first_of(range(1, 9), 1))
def test_no_reader_of_stomp_has_more_than_its_prefetch(seed: int) -> None:
    scenarios.readers_of_stomp(seed)


@pytest.mark.parametrize("seed", first_of(range(1, 9), 1))
@pytest.mark.parametrize("is_pushed", [False, True])
def test_no_more_is_out_than_max_ack_pending(seed: int, *, is_pushed: bool) -> None:
    scenarios.workers_of_jetstream(seed, is_pushed=is_pushed)


def test_a_broker_that_does_not_count_its_readers_messages_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Subscription, "_credit", 10)
    with pytest.raises(AssertionError, match="are held with a credit of"):
        scenarios.readers_of_stomp(1)


def test_a_queue_that_does_not_count_what_is_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Distributor, "_room", lambda _: 1_000)
    with pytest.raises(AssertionError, match="are out, and"):
        scenarios.workers_of_jetstream(1, is_pushed=False)
