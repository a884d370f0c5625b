"""Broker 0, which Kafka allows: every client finds it, and a cluster outlives its death."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import (
    admin_client,
    await_leaders,
    consume,
    describe_topic,
    produce,
    unique,
)
from tests.waiting import DEADLINE_S, eventually

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

COUNT = 20
VALUES = [b"%d" % number for number in range(COUNT)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker 0 that is alone: controller, leader and coordinator of everything."""
    directory = tmp_path_factory.mktemp("zero")
    with KafkaesqueCluster(brokers=1, directory=directory, first_id=0) as cluster:
        yield cluster.bootstrap_servers


def make_topic(servers: str, assignment: list[int]) -> str:
    name = unique("zero")
    topic = NewTopic(name, 1, replica_assignment=[assignment])
    admin = admin_client(servers)
    admin.create_topics([topic], request_timeout=DEADLINE_S)[name].result()
    await_leaders(servers, name, 1)
    return name


def by_librdkafka(servers: str, topic: str) -> list[bytes]:
    """Write in a transaction and read as a member of a group."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": unique("t")})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for value in VALUES:
        producer.produce(topic, value)
    producer.commit_transaction(DEADLINE_S)
    options = {"bootstrap.servers": servers, "group.id": unique("g")}
    with closing(Consumer({**options, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])
        read: list[bytes] = []

        def poll() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                read.append(message.value() or b"")
            return len(read) == COUNT

        eventually(poll, "all values")
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)
        assert committed.offset >= COUNT
    return read


def by_kafka_python(servers: str, topic: str) -> list[bytes]:
    """Write, and read as a member of a group."""
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for future in [producer.send(topic, value) for value in VALUES]:
            future.get(DEADLINE_S)
    options = {"group_id": unique("g"), "auto_offset_reset": "earliest"}
    with closing(KafkaConsumer(topic, bootstrap_servers=servers, **options)) as consumer:
        read: list[bytes] = []

        def poll() -> bool:
            # Longer than a rebalance takes: where the time of a poll ends within one, kafka-python
            # (3.0.12) forgets what it was assigned, and that it has to ask again.
            for records in consumer.poll(timeout_ms=5_000).values():
                read.extend(record.value for record in records)
            return len(read) == COUNT

        eventually(poll, "all values")
        consumer.commit()
    return read


def by_aiokafka(servers: str, topic: str) -> list[bytes]:
    """Write, and read as a member of a group."""

    async def go() -> list[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=unique("g"),
            auto_offset_reset="earliest",
        )
        async with consumer:
            read = [(await consumer.getone()).value for _ in range(COUNT)]
            await consumer.commit()
            return read

    return asyncio.run(asyncio.wait_for(go(), DEADLINE_S))


@pytest.mark.parametrize("use", [by_librdkafka, by_kafka_python, by_aiokafka])
def test_each_client_works_with_broker_zero(
    alone: str, use: Callable[[str, str], list[bytes]]
) -> None:
    topic = make_topic(alone, [0])
    assert use(alone, topic) == VALUES


def test_options_of_broker_zero_are_its_own(alone: str) -> None:
    admin: AdminClient = admin_client(alone)
    resource = ConfigResource(ConfigResource.Type.BROKER, "0")
    (found,) = admin.describe_configs([resource]).values()
    assert found.result(DEADLINE_S)["num.partitions"].value
    cluster = admin.describe_cluster().result(DEADLINE_S)
    assert [node.id for node in cluster.nodes] == [0]
    assert cluster.controller is not None
    assert cluster.controller.id == 0


def test_a_cluster_outlives_its_leader_zero_which_comes_back(tmp_path: Path) -> None:
    with KafkaesqueCluster(brokers=3, directory=tmp_path, first_id=0) as cluster:
        servers, zero = cluster.bootstrap_servers, cluster.brokers[0]
        admin = admin_client(servers)
        topic = make_topic(servers, [0, 1, 2])

        def leader() -> int:
            return describe_topic(admin, topic).partitions[0].leader

        def leads_again() -> bool:
            where = [TopicPartition(topic, 0)]
            admin.elect_leaders(ElectionType.PREFERRED, where).result(DEADLINE_S)
            return leader() == 0

        eventually(leads_again, "broker 0 leads")
        produce(servers, topic, VALUES[:10], acks="all")
        zero.kill()
        eventually(lambda: leader() in (1, 2), "another broker leads")
        produce(servers, topic, VALUES[10:15], acks="all")
        zero.start()
        cluster.wait_until_ready()
        eventually(leads_again, "broker 0 leads again")
        produce(servers, topic, VALUES[15:], acks="all")
        assert [message.value() for message in consume(servers, topic, COUNT)] == VALUES
