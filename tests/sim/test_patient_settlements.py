"""Settlements for which nobody waits: they share a commit with what the queue writes next."""

import pytest

from kafkaesque.broker.partitions.partition_tables import PATIENCE_MS
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import Offset
from tests.sim.queue_scenario import TIMEOUT_MS, QueueScenario

Outcomes = list[q.ClaimsResult | RequestRefused]


def settle(queues: QueueScenario, message: q.QueueMessage, broker: str) -> Outcomes:
    """Say that a message is done with, and do not wait."""
    outcomes: Outcomes = []
    log_id = queues.queue().topic_id
    request = q.SettleMessages(log_id=log_id, claims=[message.claim], is_patient=True)
    queues.broker(broker).doors.queues.ask(request, q.ClaimsResult, TIMEOUT_MS, outcomes.append)
    return outcomes


def log_end(queues: QueueScenario) -> Offset:
    return queues.hosted(queues.queue_leader()).queue.end_offset


def test_it_is_written_with_the_next_message() -> None:
    queues = QueueScenario(1)
    leader = queues.queue_leader()
    queues.put(b"one")
    (one,) = queues.take()
    before = log_end(queues)
    outcomes = settle(queues, one, leader)
    queues.loop.run_for(PATIENCE_MS - 1)
    assert (log_end(queues), outcomes) == (before, [])
    (two,) = queues.put(b"two", broker=leader)
    assert outcomes == [q.ClaimsResult([])]
    assert log_end(queues) - before == 2
    assert queues.hosted(leader).queue.state.live.first() == two


def test_without_company_it_is_written_soon() -> None:
    queues = QueueScenario(2)
    leader = queues.queue_leader()
    queues.put(b"one")
    (one,) = queues.take()
    before = log_end(queues)
    outcomes = settle(queues, one, leader)
    queues.loop.run_for(PATIENCE_MS)
    assert log_end(queues) - before == 1
    queues.loop.run_until(lambda: outcomes != [], 1_000)
    assert outcomes == [q.ClaimsResult([])]
    assert queues.counts().removed["settled"] == 1


def test_what_is_asked_later_is_answered_later() -> None:
    queues = QueueScenario(3)
    leader = queues.queue_leader()
    queues.put(b"one")
    (one,) = queues.take()
    outcomes = settle(queues, one, leader)
    assert queues.done(one, broker=leader) == [one.claim]
    assert outcomes == [q.ClaimsResult([])]


@pytest.mark.parametrize("options", [{"ordered.groups": "true"}, {"max.in.flight": "1"}])
def test_where_somebody_may_wait_for_it_it_is_written_at_once(options: dict[str, str]) -> None:
    queues = QueueScenario(4, options)
    leader = queues.queue_leader()
    queues.put(b"one", b"two")
    (one,) = queues.take()
    before = log_end(queues)
    settle(queues, one, leader)
    queues.loop.run_for(PATIENCE_MS - 1)
    assert log_end(queues) - before == 1


def test_a_leader_that_dies_before_it_was_written_loses_nothing() -> None:
    queues = QueueScenario(5)
    queues.put(b"one", b"two")
    (one,) = queues.take()
    outcomes = settle(queues, one, queues.follower())
    queues.kill(queues.queue_leader())
    queues.loop.run_until(lambda: outcomes != [], TIMEOUT_MS)
    assert outcomes == [q.ClaimsResult([])]
    assert queues.counts().removed["settled"] == 1
