"""Queues that nobody uses are not asked by the sweep; those in which something has begun are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.queues.host import QueueHost
from kafkaesque.broker.queues.hosts import SWEEP_MS
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.broker.upkeep.log_cleaner import LogCleaner
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.records import Record
from tests.sim.queue_scenario import QUEUE, QueueScenario

#: The cleaner looks every 15 s.
LONG_MS = 20_000


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often partitions and queues were asked, by what."""
    count: Counter[str] = Counter()

    def watch(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            count[name] += 1
            return method(*arguments, **named)

        monkeypatch.setattr(owner, name, counted)

    watch(QueueHost, "configure")
    watch(Partition, "expire_waiting")
    watch(LogCleaner, "_plan")
    return count


def lock_ms_of(queues: QueueScenario, broker: str) -> int:
    return queues.hosted(broker).queue.state.policy.lock_ms


def change_lock(queues: QueueScenario, lock_ms: int) -> None:
    changes: dict[str, str | None] = {"visibility.timeout.ms": str(lock_ms)}
    queues.submit(ChangeQueue(vhost=DEFAULT_VHOST, name=QUEUE, changes=changes))


def test_nobody_asks_an_idle_queue(asked: Counter[str]) -> None:
    queues = QueueScenario(31)
    for number in range(5):
        queues.create(f"idle-{number}")
    queues.put(b"1")
    queues.loop.run_for(5_000)
    assert asked["configure"]
    asked.clear()
    queues.loop.run_for(LONG_MS)
    assert not asked


def test_a_changed_option_holds_although_nobody_uses_the_queue(asked: Counter[str]) -> None:
    queues = QueueScenario(32)
    queues.loop.run_for(5_000)
    leader = queues.queue_leader()
    change_lock(queues, 7_000)
    queues.loop.run_for(2 * SWEEP_MS)
    assert lock_ms_of(queues, leader) == 7_000
    # What changes while nobody leads holds with the next leader.
    queues.kill(leader)
    change_lock(queues, 9_000)
    leader = queues.queue_leader()
    queues.loop.run_for(2 * SWEEP_MS)
    assert lock_ms_of(queues, leader) == 9_000
    queues.loop.run_for(2 * SWEEP_MS)
    asked.clear()
    queues.loop.run_for(LONG_MS)
    assert not asked["configure"]


def test_options_that_could_not_be_written_are_written_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues = QueueScenario(33)
    queues.loop.run_for(5_000)
    host = queues.hosted(queues.queue_leader())
    ask = QueueHost.ask
    refused: list[object] = []

    def refuse(host: QueueHost, request: Any, on_result: Any) -> None:
        if len(refused) < 2:
            refused.append(request)
            on_result(host.kind.over_bound)
        else:
            ask(host, request, on_result)

    monkeypatch.setattr(QueueHost, "ask", refuse)
    change_lock(queues, 7_000)
    queues.loop.run_for(4 * SWEEP_MS)
    assert len(refused) == 2
    assert host.queue.state.policy.lock_ms == 7_000


def test_messages_that_were_looked_at_are_not_kept_for_long() -> None:
    queues = QueueScenario(34)
    queues.put(b"1", b"2")
    queues.loop.run_for(3 * SWEEP_MS)
    request = q.PeekMessages(log_id=queues.queue().topic_id, bytes_max=1_000)
    assert len(queues.ask(request, q.PeekedMessages).messages) == 2
    bodies = queues.hosted(queues.queue_leader()).bodies
    assert bodies._kept
    queues.loop.run_for(3 * SWEEP_MS)
    assert not bodies._kept


def test_consumers_of_a_broker_that_is_lost_are_detached() -> None:
    queues = QueueScenario(35)
    leader = queues.queue_leader()
    other = queues.follower()
    consumer = queues.broker(other).doors.queues.new_consumer()
    attach = q.AttachConsumer(log_id=queues.queue().topic_id, consumer=consumer)
    queues.ask(attach, q.AttachedConsumer, other)
    queues.loop.run_for(5_000)
    host = queues.hosted(leader)
    assert host.consumers
    assert host.queue.consumer_count == 1
    queues.kill(other)
    queues.loop.run_for(LONG_MS)
    assert not host.consumers
    assert not host.queue.consumer_count


def test_a_waiting_request_expires_in_time() -> None:
    queues = QueueScenario(36)
    queues.loop.run_for(2_000)
    leader = queues.leader
    for name in queues.running():
        if name != leader:
            queues.kill(name)
    outcomes: list[ProduceResult | RequestRefused] = []
    # Twice: after it was emptied it is filled again.
    for number in (1, 2):
        batch = encode_batch([Record(0, 0, None, b"%d" % number, ())])
        queues.partition(leader).produce(batch, acks=-1, timeout_ms=100, on_done=outcomes.append)
        queues.loop.run_for(400)
        assert len(outcomes) == number
        assert isinstance(outcomes[-1], RequestTimedOut)
    assert not queues.partition(leader).has_waiting
    queues.loop.run_for(300)
    assert not queues.broker(leader).partitions._waiting
