"""Consumers of queues that hang up at the worst moment."""

import pytest

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import QueueInUse
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.attach_consumer_request import AttachConsumerRequest
from kafkaesque.sim.clients.kafka_client import BrokerLink
from tests.sim.queue_scenario import QUEUE, QueueScenario, values

TIMEOUT_MS = 20_000


def test_a_consumer_that_hangs_up_while_it_is_attached_is_not_there_for_ever() -> None:
    for closed_after_ms in range(0, 50, 10):
        queues = QueueScenario(1)
        leader, gateway = queues.queue_leader(), queues.follower()
        queues.kill(leader)
        place = queues.cluster.names.index(gateway)
        link = BrokerLink(queues.env, queues.cluster.addresses[place])
        attach = AttachConsumerRequest("/", QUEUE, 1, False, TIMEOUT_MS)
        link.send(ApiKey.ATTACH_CONSUMER, 0, attach, lambda _: None)
        queues.loop.run_for(300 + closed_after_ms)
        link.close()
        queues.loop.run_for(5_000)
        assert queues.counts().consumers == 0, closed_after_ms


def test_a_consumer_whose_leave_was_not_heard_is_gone_with_its_connection() -> None:
    queues = QueueScenario(2)
    leader, gateway = queues.queue_leader(), queues.follower()
    link = BrokerLink(queues.env, queues.cluster.addresses[queues.cluster.names.index(gateway)])
    answers: list[int | None] = []

    def ask(*, is_leaving: bool, timeout_ms: int) -> None:
        request = AttachConsumerRequest("/", QUEUE, 1, is_leaving, timeout_ms)
        link.send(
            ApiKey.ATTACH_CONSUMER,
            0,
            request,
            lambda answer: answers.append(None if answer is None else answer.error_code),
        )

    ask(is_leaving=False, timeout_ms=TIMEOUT_MS)
    queues.loop.run_until(lambda: len(answers) == 1, 2_000)
    wire = queues.world.wire
    wire.block(leader, gateway)
    wire.block(gateway, leader)
    queues.loop.run_for(5_000)  # the brokers have given up their connection
    ask(is_leaving=True, timeout_ms=100)
    queues.loop.run_until(lambda: len(answers) == 2, 2_000)
    assert answers[0] == 0
    assert answers[1] not in (0, None)
    wire.unblock(leader, gateway)
    wire.unblock(gateway, leader)
    queues.loop.run_for(1_000)
    assert queues.queue_leader() == leader
    assert queues.counts().consumers == 1
    link.close()
    queues.loop.run_for(3_000)
    assert queues.counts().consumers == 0


@pytest.mark.parametrize("is_back", [False, True])
def test_a_consumer_that_loses_its_broker_with_the_leader_is_not_waited_for(is_back: bool) -> None:
    """The next leader waits half a minute for consumers, but not for those of a dead broker."""
    queues = QueueScenario(3, {"sharing": "exclusive"})
    queues.put(b"one")
    log_id = queues.queue().topic_id
    leader = queues.queue_leader()

    def attach(broker: str) -> object:
        consumer = queues.broker(broker).doors.queues.new_consumer()
        request = q.AttachConsumer(log_id=log_id, consumer=consumer)
        outcome = queues.try_to(request, q.AttachedConsumer, broker)
        return consumer if isinstance(outcome, q.AttachedConsumer) else outcome

    first = attach(leader)
    assert isinstance(first, q.ConsumerName)
    assert values(queues.take(consumer=first, lock_ms=0, broker=leader)) == [b"one"]
    queues.kill(leader)
    other = queues.queue_leader()
    assert isinstance(attach(other), QueueInUse)
    if is_back:
        queues.boot(leader)
    queues.loop.run_for(5_000 if is_back else 14_000)
    second = attach(other)
    assert isinstance(second, q.ConsumerName), second
    (again,) = queues.take(consumer=second, broker=other)
    assert (again.value, again.attempt, again.failures) == (b"one", 2, 1)
