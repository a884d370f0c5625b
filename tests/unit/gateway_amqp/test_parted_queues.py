"""Clients of AMQP use a queue of several partitions as any other one."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.protocols.amqp import methods as m
from tests.unit.gateway_amqp.kit import AmqpClient, Ground, Message

COUNT = 12
NAME = "parted"


@pytest.fixture
def ground() -> Ground:
    found = Ground(brokers=3)
    done: list[object] = []
    broker = found.cluster.brokers[found.cluster.names[0]]
    command = CreateQueue(vhost=DEFAULT_VHOST, name=NAME, options={"partitions": "3"})
    broker.controller_client.submit(command, 10_000, done.append)
    name = QueueName(DEFAULT_VHOST, NAME)
    brokers = found.cluster.brokers.values()
    found.loop.run_until(lambda: all(name in each.state.queues for each in brokers), 10_000)
    return found


def arrived(ground: Ground) -> list[int]:
    """Return how many messages each partition has."""
    broker = ground.cluster.brokers[ground.cluster.names[0]]
    log_id = broker.state.queues[QueueName(DEFAULT_VHOST, NAME)].topic_id
    found: dict[int, q.QueueCounts] = {}
    for number in range(3):
        broker.doors.queues.ask(
            q.AskQueue(log_id=log_id, partition=number),
            q.QueueCounts,
            10_000,
            lambda counts, number=number: found.update({number: counts}),  # type: ignore[misc]
        )
    ground.loop.run_until(lambda: len(found) == 3, 10_000)
    return [found[number].arrived for number in range(3)]


def publish(ground: Ground, client: AmqpClient) -> None:
    """Publish, one after the other, and wait until all are confirmed."""
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    confirmed = 0
    for number in range(COUNT):
        client.publish(b"%d" % number, NAME)
        confirmed = client.expect(m.BasicAck).delivery_tag
    assert confirmed == COUNT


def test_messages_are_spread_consumed_and_acknowledged_together(
    ground: Ground, client: AmqpClient
) -> None:
    publish(ground, client)
    assert all(arrived(ground))
    assert client.count(NAME) == (COUNT, 0)
    client.call(m.BasicConsume(queue=NAME, consumer_tag="c"), m.BasicConsumeOk)
    got = [client.delivery() for _ in range(COUNT)]
    assert sorted(int(body) for _, _, body in got) == list(range(COUNT))
    assert not any(method.redelivered for method, _, _ in got)
    assert client.count(NAME) == (0, 1)
    client.send(1, m.BasicAck(delivery_tag=0, multiple=True))
    # What comes while it waits is brought, whatever the partition.
    client.publish(b"late", NAME)
    both = [client.next(), client.next()]
    assert [each.body for each in both if isinstance(each, Message)] == [b"late"]
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    client.send(1, m.BasicNack(delivery_tag=0, multiple=True, requeue=True))
    (method, _, body) = client.get(NAME)
    assert (body, method.redelivered, method.message_count) == (b"late", True, 0)


def test_what_a_lost_client_has_comes_again(ground: Ground, client: AmqpClient) -> None:
    publish(ground, client)
    other = ground.client(2)
    other.open()
    other.call(m.BasicConsume(queue=NAME, consumer_tag="c"), m.BasicConsumeOk)
    assert len({other.delivery()[2] for _ in range(COUNT)}) == COUNT
    assert other.client.connection is not None
    other.client.connection.close()
    client.call(m.BasicConsume(queue=NAME, consumer_tag="d"), m.BasicConsumeOk)
    got = [client.delivery() for _ in range(COUNT)]
    assert sorted(int(body) for _, _, body in got) == list(range(COUNT))


def test_it_is_purged_and_deleted_as_a_whole(ground: Ground, client: AmqpClient) -> None:
    publish(ground, client)
    assert client.call(m.QueuePurge(queue=NAME), m.QueuePurgeOk).message_count == COUNT
    assert client.count(NAME) == (0, 0)
    assert client.call(m.QueueDelete(queue=NAME), m.QueueDeleteOk).message_count == 0


def test_nobody_has_it_for_himself(client: AmqpClient) -> None:
    client.send(1, m.BasicConsume(queue=NAME, consumer_tag="c", exclusive=True))
    close = client.expect(m.ChannelClose)
    assert "several partitions" in close.reply_text


def test_it_is_declared_with_an_argument(ground: Ground, client: AmqpClient) -> None:
    name = client.queue(**{"x-partitions": 2})
    broker = ground.cluster.brokers[ground.cluster.names[0]]
    assert len(broker.state.queues[QueueName(DEFAULT_VHOST, name)].partitions) == 2
    # One that was made in other ways is declared with it, or without arguments.
    said: list[dict[str, object]] = [{}, {"x-partitions": 3}]
    for arguments in said:
        declare = m.QueueDeclare(queue=NAME, durable=True, arguments=arguments)
        client.call(declare, m.QueueDeclareOk)
    client.send(1, m.QueueDeclare(queue=NAME, durable=True, arguments={"x-partitions": 2}))
    client.fails_channel(406, "inequivalent arg 'x-partitions'")
    both: dict[str, object] = {"x-partitions": 2, "x-max-priority": 3}
    client.send(1, m.QueueDeclare(queue="ordered", durable=True, arguments=both))
    client.fails_channel(406, "several partitions has no max.priority")


def test_what_nobody_was_sent_comes_for_the_first_time(client: AmqpClient) -> None:
    client.call(m.BasicConsume(queue=NAME, consumer_tag="c"), m.BasicConsumeOk)
    client.publish(b"0", NAME)
    first = client.delivery()[0].delivery_tag
    # What it has asked for comes when its channel may have no more.
    client.call(m.BasicQos(prefetch_count=1, is_global=True), m.BasicQosOk)
    client.publish(b"1", NAME)
    assert client.silent()
    client.send(1, m.BasicAck(delivery_tag=first))
    method, _, body = client.delivery()
    assert (method.redelivered, body) == (False, b"1")
