"""Other clients of AMQP, unchanged: aio-pika, and amqplib for Node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aio_pika
import pytest

from tests.clients.amqp_cluster import AmqpCluster, new_name
from tests.clients.node_client import missing, run_node


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpCluster]:
    with AmqpCluster(3, tmp_path_factory.mktemp("amqp")) as found:
        yield found


def test_aio_pika_works_over_a_robust_connection(cluster: AmqpCluster) -> None:
    name = new_name("aio")

    async def work() -> tuple[list[bytes], object]:
        publisher = await aio_pika.connect_robust(cluster.url(1))
        consumer = await aio_pika.connect_robust(cluster.url(2))
        async with publisher, consumer:
            channel = await publisher.channel(publisher_confirms=True)
            queue = await channel.declare_queue(name, durable=True)
            for number in range(30):
                message = aio_pika.Message(
                    str(number).encode(),
                    delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                    headers={"n": number},
                    expiration=60,
                )
                await channel.default_exchange.publish(message, routing_key=name)
            taking = await consumer.channel()
            await taking.set_qos(prefetch_count=5)
            taken = await taking.get_queue(name)
            bodies: list[bytes] = []
            async with taken.iterator(timeout=30) as messages:
                async for each in messages:
                    async with each.process():
                        assert each.headers["n"] == int(each.body)
                        bodies.append(each.body)
                    if len(bodies) == 30:
                        break
            await asyncio.sleep(0.2)
            left = (await channel.declare_queue(name, durable=True)).declaration_result
            with pytest.raises(aio_pika.exceptions.QueueEmpty):
                await queue.get(timeout=10)
            return bodies, left.message_count

    bodies, left = asyncio.run(work())
    assert bodies == [str(number).encode() for number in range(30)]
    assert left == 0


def test_aio_pika_commits_and_rolls_back(cluster: AmqpCluster) -> None:
    name = new_name("aio")

    async def work() -> list[bytes]:
        connection = await aio_pika.connect(cluster.url(3))
        async with connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue(name, durable=True)
            exchange = channel.default_exchange
            async with channel.transaction():
                await exchange.publish(aio_pika.Message(b"kept"), routing_key=name)
            transaction = channel.transaction()
            await transaction.select()
            await exchange.publish(aio_pika.Message(b"lost"), routing_key=name)
            await transaction.rollback()
            found = []
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                found.append(message.body)
            return found

    assert asyncio.run(work()) == [b"kept"]


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_amqplib_for_node(cluster: AmqpCluster) -> None:
    name = new_name("node")
    found = run_node("amqp", "", url=cluster.url(2), name=name)
    assert found["declared"] == {"queue": name, "messageCount": 0, "consumerCount": 0}
    assert found["returned"] == "NO_ROUTE"
    assert found["count"] == 10
    first = found["first"]
    assert first["headers"] == {"n": 0, "nested": {"list": [1, "zwei", None]}}
    assert (first["contentType"], first["deliveryMode"]) == ("text/plain", 2)
    bodies = [body for body, _ in found["seen"]]
    assert sorted(bodies) == sorted([*(f"m{number}" for number in range(10)), "m0"])
    assert [body for body, redelivered in found["seen"] if redelivered] == ["m0"]
    code, said = found["error"]
    assert code == 404
    assert "NOT_FOUND - no queue" in said
    assert found["deleted"] == {"messageCount": 0}
