"""Queues that Kafka's clients read as topics; the clients are as they are."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer

from kafkaesque import Client, Message
from kafkaesque.testing import LiveCluster
from tests.clients.kafka_helpers import await_leaders, unique
from tests.clients.test_cli import Cli, cli
from tests.waiting import DEADLINE_S, eventually

__all__ = ["cli"]

#: So few bytes that most answers have one batch, or none but decisions.
FEW_BYTES = 300
COUNT = 12


@pytest.fixture
def view(bootstrap_servers: str) -> str:
    """A queue's view, of its name, with decisions between messages and behind them."""
    name = unique("viewed")
    with Client(bootstrap_servers) as client:
        client.create_queue(name, kafka_topic=name)
        for number in range(COUNT):
            client.put(name, Message(str(number), key=b"k", headers={"colour": "red"}))
            if number % 2:
                for message in client.get_many(name, 2, timeout=DEADLINE_S):
                    message.ack()
    await_leaders(bootstrap_servers, name, 1)
    return name


def consumer_of(bootstrap_servers: str, group: str, **more: object) -> Consumer:
    options = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    return Consumer({**options, **more})


def take(consumer: Consumer, count: int) -> list[str]:
    found: list[str] = []

    def is_all() -> bool:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None
            assert (message.key(), message.headers()) == (b"k", [("colour", b"red")])
            found.append((message.value() or b"").decode())
        return len(found) >= count

    eventually(is_all, lambda: str(found))
    return found


NUMBERS = [str(number) for number in range(COUNT)]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_group_reads_all_and_goes_on_where_it_was(
    bootstrap_servers: str, view: str, isolation: str
) -> None:
    group = unique("readers")
    more = {"isolation.level": isolation, "max.partition.fetch.bytes": FEW_BYTES}
    with closing(consumer_of(bootstrap_servers, group, **more)) as consumer:
        consumer.subscribe([view])
        assert take(consumer, COUNT) == NUMBERS
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(view, 0)], DEADLINE_S)
        _, end = consumer.get_watermark_offsets(TopicPartition(view, 0), DEADLINE_S)
        assert committed.offset == end, "one that has read all has no lag"
    with Client(bootstrap_servers) as client:
        client.put(view, Message("next", key=b"k", headers={"colour": "red"}))
    with closing(consumer_of(bootstrap_servers, group, **more)) as consumer:
        consumer.subscribe([view])
        assert take(consumer, 1) == ["next"]


def test_members_of_a_group_share_a_queue_s_partitions(bootstrap_servers: str) -> None:
    name, group = unique("viewed"), unique("readers")
    with Client(bootstrap_servers) as client:
        client.create_queue(name, kafka_topic=f"{name}.view", partitions=3)
        for number in range(9):
            client.put(name, Message(str(number), key=b"k", headers={"colour": "red"}))
    more = {"group.protocol": "consumer"}
    with closing(consumer_of(bootstrap_servers, group, **more)) as consumer:
        consumer.subscribe([f"{name}.view"])
        assert sorted(take(consumer, 9)) == [str(number) for number in range(9)]
        assert len(consumer.assignment()) == 3


def test_other_clients_read_it_too(bootstrap_servers: str, view: str) -> None:
    servers = bootstrap_servers.split(",")
    options = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": FEW_BYTES}
    found: list[str] = []
    with closing(KafkaConsumer(view, bootstrap_servers=servers, **options)) as consumer:

        def is_all() -> bool:
            polled = consumer.poll(timeout_ms=50).values()
            found.extend(record.value.decode() for records in polled for record in records)
            return len(found) >= COUNT

        eventually(is_all, lambda: str(found))
    assert found == NUMBERS

    async def read() -> list[str]:
        reader = AIOKafkaConsumer(view, bootstrap_servers=bootstrap_servers, **options)
        await reader.start()
        try:
            return [(await reader.getone()).value.decode() for _ in range(COUNT)]
        finally:
            await reader.stop()

    assert asyncio.run(asyncio.wait_for(read(), DEADLINE_S)) == NUMBERS


def test_a_producer_is_refused(bootstrap_servers: str, view: str) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(view, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    (error,) = errors
    assert error is not None
    assert error.code() == KafkaError.POLICY_VIOLATION


def test_the_command_line_shows_it_as_a_topic(cli: Cli, view: str) -> None:
    read = cli("consume", view, "--from-beginning", "--until-end")
    assert read.output.split() == NUMBERS
    assert [view, "1", "3"] in [row[:3] for row in cli("topic", "list").rows]
    assert "message.timestamp.type" in cli("topic", "describe", view).output
    assert f"kafka.topic\t{view}" in cli("queue", "describe", view).output
    for refused in (
        ("topic", "delete", view, "--yes"),
        ("topic", "alter", view, "--config", "retention.ms=5"),
    ):
        assert "shows a queue" in cli(*refused, code=1).errors
    assert "exists already" in cli("topic", "create", view, code=1).errors
    # What was read is there all the same, for those who take it.
    put = cli("queue", "put", view, "last")
    assert put.output
    assert cli("queue", "get", view).output == "last\n"


def test_readers_go_on_at_the_next_leader(kafkaesque_live: LiveCluster) -> None:
    cluster, name = kafkaesque_live, "orders"
    servers = cluster.bootstrap_servers
    with closing(consumer_of(servers, "readers")) as consumer:
        with Client(servers) as client:
            client.create_queue(name, kafka_topic=name)
        consumer.subscribe([name])
        found: list[str] = []
        for number in range(2):
            # A connection from before may end under a message, and nobody knows what became of it.
            with Client(servers) as client:
                for part in range(3):
                    body = f"{number}{part}"
                    client.put(name, Message(body, key=b"k", headers={"colour": "red"}))
                client.get(name, timeout=DEADLINE_S).ack()
            found += take(consumer, 3)
            (described,) = consumer.list_topics(name, DEADLINE_S).topics[name].partitions.values()
            if not number:
                cluster.kill(described.leader)
        assert found == [f"{number}{part}" for number in range(2) for part in range(3)]
        assert consumer.poll(0) is None
