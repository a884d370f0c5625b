"""The matrix: what a client of each protocol produces, a client of each protocol is given.

Name, body, headers and the properties that all protocols share are compared. All clients are the
usual ones of their protocols, unchanged, and connected with different brokers of one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pika
import pytest
from confluent_kafka.admin import NewTopic

from kafkaesque import Client
from tests.clients.kafka_helpers import admin_client, await_leaders
from tests.clients.matrix_cluster import MatrixCluster
from tests.clients.matrix_consumers import CONSUMERS, Reading
from tests.clients.matrix_producers import PRODUCERS, Said
from tests.waiting import DEADLINE_S, eventually

#: A topic of one partition, which is a stream of JetStream, too; and what all names begin with.
PLACE = "matrix"
#: By consumer, the queue that is bound for it.
QUEUES = {"amqp": "matrix-amqp", "sqs": "matrix-sqs"}
#: By producer, what it names: a topic, and a queue. The others name no more than the message.
INLETS = {"kafka": "matrix-feed", "text": "matrix-feed", "sqs": "matrix-inbox"}


def make_places(cluster: MatrixCluster) -> None:
    """Let all that waits for messages exist, bound to `amq.topic`; and what leads there."""
    for topic, partitions in ((PLACE, 1), (INLETS["kafka"], 3)):
        admin = admin_client(cluster.bootstrap_servers)
        admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(DEADLINE_S)
        await_leaders(cluster.bootstrap_servers, topic, partitions)
    cluster.run("route", "create", PLACE, PLACE)
    with Client(cluster.bootstrap_servers) as client:
        client.create_queue(
            "matrix-relay",
            forward_exchange="amq.topic",
            source_topic=INLETS["kafka"],
            source_start="earliest",
        )
        client.create_queue(
            INLETS["sqs"], forward_exchange="amq.topic", forward_routing_key=f"{PLACE}.sqs"
        )
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", cluster.port("amqp", 1))
    )
    with connection, connection.channel() as channel:
        for name in QUEUES.values():
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, "amq.topic", f"{PLACE}.#")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixCluster]:
    with MatrixCluster(3, tmp_path_factory.mktemp("matrix")) as found:
        yield found


@pytest.fixture(scope="module")
def given(cluster: MatrixCluster) -> Iterator[dict[str, list[Said]]]:
    """What each consumer was given when each producer had said its message."""
    make_places(cluster)
    with ExitStack() as leaving:
        readings: dict[str, Reading] = {}
        for number, (name, make) in enumerate(CONSUMERS.items()):
            reading = make(cluster, 1 + number % 3, QUEUES.get(name, PLACE))
            reading.open()
            leaving.callback(reading.close)
            readings[name] = reading
        for number, (name, produce) in enumerate(PRODUCERS.items()):
            produce(cluster, 1 + number % 3, INLETS.get(name, ""), message_of(name))
        found: dict[str, list[Said]] = {name: [] for name in CONSUMERS}

        def is_all() -> bool:
            for name, reading in readings.items():
                if len(found[name]) < len(PRODUCERS):
                    found[name] += reading.take()
            return all(len(each) >= len(PRODUCERS) for each in found.values())

        def missing() -> str:
            return str({name: [each.body for each in bodies] for name, bodies in found.items()})

        eventually(is_all, missing)
        yield found


def message_of(producer: str) -> Said:
    return Said(name=(PLACE, producer), body=f"21.5 °C, says {producer}")


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_what_one_produces_another_is_given(
    given: dict[str, list[Said]], producer: str, consumer: str
) -> None:
    sent = message_of(producer)
    (found,) = [each for each in given[consumer] if each.body == sent.body]
    assert found == replace(sent, name=sent.name if found.name is not None else None)
