"""Transactions of the client: put, acknowledged and sent together, or not at all."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque import AsyncClient, Client, Message
from kafkaesque.client import errors
from kafkaesque.client.delivery import Delivery
from kafkaesque.client.queue_client import Received
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.testing import LiveCluster
from tests.unit.client.test_queue_delivery import torn
from tests.waiting import eventually

SOON_S = 30.0


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(cluster: LiveCluster) -> Client:
    return Client(cluster.bootstrap_servers, timeout=SOON_S)


def make_topic(cluster: LiveCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, num_partitions=3)]).values():
        future.result(SOON_S)


def move(client: Client, order: Delivery, queue: str, *, fails: bool = False) -> None:
    """Put something into a queue for an order, and acknowledge that."""
    with client.transaction() as transaction:
        transaction.put(queue, "never")
        transaction.ack(order)
        if fails:
            raise ZeroDivisionError


def test_a_message_is_acknowledged_with_what_comes_of_it(client: Client) -> None:
    orders, bills = unique("orders"), unique("bills")
    with client:
        client.create_queue(orders)
        client.create_queue(bills, max_priority=9)
        client.put(orders, {"id": 7})
        order = client.get(orders, timeout=SOON_S)
        with client.transaction() as transaction:
            transaction.put(bills, Message("cheap"))
            transaction.put(bills, Message("dear", priority=9))
            transaction.put(orders, {"id": 8})
            transaction.ack(order)
            assert client.poll(bills) is None, "nothing is done before the end"
        assert client.get(bills, timeout=SOON_S).text() == "dear"
        assert client.get(bills, timeout=SOON_S).text() == "cheap"
        assert client.get(orders, timeout=SOON_S).json() == {"id": 8}
        with pytest.raises(errors.LockLost):
            order.ack()


def test_an_exception_undoes_all(client: Client) -> None:
    orders, bills = unique("orders"), unique("bills")
    with client:
        client.create_queue(orders)
        client.create_queue(bills)
        client.put(orders, "one")
        order = client.get(orders, timeout=SOON_S)
        with pytest.raises(ZeroDivisionError):
            move(client, order, bills, fails=True)
        assert client.poll(bills) is None
        order.ack()


def test_a_lock_that_has_ended_undoes_all(client: Client) -> None:
    orders, bills = unique("orders"), unique("bills")
    with client:
        client.create_queue(orders)
        client.create_queue(bills)
        client.put(orders, "one")
        order = client.get(orders, timeout=SOON_S, lock=0.01)
        again = client.get(orders, timeout=SOON_S)
        with pytest.raises(errors.LockLost, match="nothing was done"):
            move(client, order, bills)
        assert client.get_many(bills, 1, timeout=0.5) == []
        again.ack()


def test_a_queue_without_room_undoes_all(client: Client) -> None:
    orders, bills = unique("orders"), unique("bills")
    with client:
        client.create_queue(orders)
        client.create_queue(bills, max_length=1, overflow="reject-publish")
        client.put(bills, "full")
        client.put(orders, "one")
        order = client.get(orders, timeout=SOON_S)
        with pytest.raises(errors.QueueFull, match=bills):
            move(client, order, bills)
        eventually(lambda: _is_acknowledged(order), "the transaction has ended")


def _is_acknowledged(message: Received) -> bool:
    try:
        message.ack()
    except errors.LockLost:
        return False
    return True


def test_a_queue_that_does_not_exist_is_named(client: Client) -> None:
    with client:
        client.create_queue(queue := unique("orders"))
        client.put(queue, "one")
        order = client.get(queue, timeout=SOON_S)
        with pytest.raises(errors.QueueNotFound, match="no-such"):
            move(client, order, unique("no-such"))
        order.ack()


def test_a_transaction_has_bounds(client: Client) -> None:
    with client, client.transaction() as transaction:
        with pytest.raises(errors.MessageTooLarge):
            transaction.put("orders", bytes(17 * 1024 * 1024))
        with pytest.raises(errors.InvalidArgument):
            transaction.send("topic", Message("x", priority=3))
        transaction._puts.clear()
        transaction._sends.clear()
        transaction._count = 0


def test_a_queue_over_a_topic_with_partitions_takes_part(
    cluster: LiveCluster, client: Client
) -> None:
    topic, over, done = unique("topic"), unique("over"), unique("done")
    make_topic(cluster, topic)
    with client:
        client.create_queue(over, source_topic=topic, source_start="earliest")
        client.create_queue(done)
        with client.transaction() as transaction:
            for number in range(30):
                transaction.send(topic, Message(f"{number}", key=f"{number}"))
        seen: set[str] = set()
        partitions: set[int] = set()
        while len(seen) < 30:
            for record in client.get_many(over, 10, timeout=SOON_S):
                seen.add(record.text())
                partitions.add(record.partition)
                with client.transaction() as transaction:
                    transaction.put(done, record.text())
                    transaction.ack(record)
        assert partitions == {0, 1, 2}
        found = [each.text() for each in client.get_many(done, 100, timeout=SOON_S)]
        assert sorted(found) == sorted(map(str, range(30)))
        assert client.get_many(over, 10, timeout=0.5) == []


def test_messages_of_all_partitions_are_settled(cluster: LiveCluster, client: Client) -> None:
    topic, over = unique("topic"), unique("over")
    make_topic(cluster, topic)
    with client:
        client.create_queue(over, source_topic=topic, source_start="earliest")
        with client.transaction() as transaction:
            for number in range(30):
                transaction.send(topic, Message(f"{number}", key=f"{number}"))
        taken: list[Received] = []
        while len(taken) < 30:
            taken += client.get_many(over, 30, timeout=SOON_S)
        client.extend(*taken, lock=60)
        client.ack(*taken)
        assert client.get_many(over, 10, timeout=0.5) == []


def test_a_lost_answer_leaves_all_or_nothing(cluster: LiveCluster, client: Client) -> None:
    orders, bills = unique("orders"), unique("bills")
    with client:
        client.create_queue(orders, visibility_timeout_ms=2_000)
        client.create_queue(bills)
        client.put(orders, "one")
        order = client.get(orders, timeout=SOON_S)
        try:
            with (
                torn(cluster, client, bills, ApiKey.RUN_TRANSACTION) as (unlucky, _),
                pytest.raises(errors.OutcomeUnknown),
            ):
                move(unlucky, order, bills)
            left = client.get_many(orders, 1, timeout=5)
            done = client.get_many(bills, 1, timeout=5)
            assert [len(left), len(done)] == [0, 1], "it was committed before its answer was lost"
        finally:
            cluster.heal()
            eventually(cluster.is_whole, "the cluster is whole again")


def test_asyncio_has_the_same(cluster: LiveCluster) -> None:
    orders, bills = unique("orders"), unique("bills")

    async def run() -> str:
        async with AsyncClient(cluster.bootstrap_servers, timeout=SOON_S) as client:
            await client.create_queue(orders)
            await client.create_queue(bills)
            await client.put(orders, "one")
            order = await client.get(orders, timeout=SOON_S)
            async with client.transaction() as transaction:
                transaction.ack(order)
                transaction.put(bills, "two")
            return (await client.get(bills, timeout=SOON_S)).text()

    assert asyncio.run(run()) == "two"
