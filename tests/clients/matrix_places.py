"""What the matrix' messages pass on their way, and where they wait for consumers."""

from __future__ import annotations

import pika
from confluent_kafka.admin import NewTopic

from kafkaesque import Client
from tests.clients.kafka_helpers import admin_client, await_leaders
from tests.clients.matrix_cluster import MatrixCluster
from tests.waiting import DEADLINE_S

#: A topic of one partition, which is a stream of JetStream, too; and what all names begin with.
PLACE = "matrix"
#: By consumer, the queue that is bound for it.
QUEUES = {"amqp": "matrix-amqp", "sqs": "matrix-sqs", "kafka-view": "matrix-viewed.view"}
#: The queue of one that sees it as a topic.
VIEWED = "matrix-viewed"
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
        for name in (QUEUES["amqp"], QUEUES["sqs"], VIEWED):
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, "amq.topic", f"{PLACE}.#")
    cluster.run("queue", "alter", VIEWED, "-c", f"kafka.topic={QUEUES['kafka-view']}")
