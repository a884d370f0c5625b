"""Producers of the matrix: one message in each protocol's own words, by its usual client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import nats
import pika
import stomp
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.clients.kafka_helpers import Sent, produce
from tests.clients.matrix_cluster import MatrixCluster
from tests.clients.mqtt_cluster import Paho, new_name
from tests.clients.sqs_cluster import sqs_client
from tests.clients.stomp_cluster import connected
from tests.clients.test_text_transactions import Person
from tests.waiting import DEADLINE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message in nobody's words: what every protocol can say and show."""

    #: Levels, as each protocol writes them with its own separator; None: the protocol shows none.
    name: tuple[str, ...] | None
    body: str
    content_type: str | None = "text/plain"
    correlation: str | None = "order-7"
    #: Levels of the name that answers go to.
    reply: tuple[str, ...] | None = ("answers", "here")
    headers: tuple[tuple[str, str], ...] = (("room", "kitchen"), ("unit", "°C"))

    def name_with(self, separator: str) -> str:
        """Return the name as a protocol writes it."""
        return separator.join(self.name or ())

    def reply_with(self, separator: str) -> str:
        """Return where answers go as a protocol writes it."""
        return separator.join(self.reply or ())

    def common(self) -> dict[str, str]:
        """Return all that it says with the names that headers of records have."""
        named = {
            "content-type": self.content_type,
            "correlation-id": self.correlation,
            "reply-to": self.reply_with(".") if self.reply else None,
        }
        said = {name: value for name, value in named.items() if value is not None}
        return {**dict(self.headers), **said}


def by_kafka(cluster: MatrixCluster, number: int, topic: str, said: Said) -> None:
    """Produce to a topic with librdkafka; the key is the name."""
    headers = [(name, value.encode()) for name, value in said.common().items()]
    record = Sent(value=said.body.encode(), key=said.name_with(".").encode(), headers=headers)
    produce(f"127.0.0.1:{cluster.port('kafka', number)}", topic, [record], acks="all")


def by_text(cluster: MatrixCluster, number: int, topic: str, said: Said) -> None:
    """PUBS to a topic."""
    person = Person(cluster.port("text", number))
    try:
        message = {"Header": said.common(), "Key": said.name_with("."), "Body": said.body}
        (answer,) = person.say(f"PUBS {topic} {json.dumps(message, ensure_ascii=False)}")
        assert answer.startswith("OK"), answer
    finally:
        person.close()


def by_sqs(cluster: MatrixCluster, number: int, queue: str, said: Said) -> None:
    """SendMessage to a queue; SQS has no names besides the queue's."""
    attributes = {
        name: {"DataType": "String", "StringValue": value} for name, value in said.common().items()
    }
    with sqs_client(f"http://127.0.0.1:{cluster.port('sqs', number)}") as client:
        url = client.get_queue_url(QueueName=queue)["QueueUrl"]
        client.send_message(QueueUrl=url, MessageBody=said.body, MessageAttributes=attributes)


def by_amqp(cluster: MatrixCluster, number: int, _: str, said: Said) -> None:
    """basic.publish to amq.topic, confirmed."""
    port = cluster.port("amqp", number)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(
            content_type=said.content_type,
            correlation_id=said.correlation,
            reply_to=said.reply_with(".") or None,
            headers=dict(said.headers),
            delivery_mode=2,
        )
        channel.basic_publish("amq.topic", said.name_with("."), said.body.encode(), properties)
    finally:
        connection.close()


def by_mqtt(cluster: MatrixCluster, number: int, _: str, said: Said) -> None:
    """PUBLISH of QoS 1, in 5.0."""
    properties = Properties(PacketTypes.PUBLISH)
    if said.content_type is not None:
        properties.ContentType = said.content_type
    if said.correlation is not None:
        properties.CorrelationData = said.correlation.encode()
    if said.reply is not None:
        properties.ResponseTopic = said.reply_with("/")
    properties.UserProperty = list(said.headers)
    client = Paho(new_name("producer"), 5)
    client.connect(cluster.port("mqtt", number))
    try:
        client.publish(said.name_with("/"), said.body.encode(), properties=properties)
    finally:
        client.close()


def by_stomp(cluster: MatrixCluster, number: int, _: str, said: Said) -> None:
    """SEND to /topic with a receipt."""
    headers = {**dict(said.headers), "persistent": "true"}
    if said.content_type is not None:
        headers["content-type"] = said.content_type
    if said.correlation is not None:
        headers["correlation-id"] = said.correlation
    if said.reply is not None:
        headers["reply-to"] = "/queue/" + said.reply_with(".")
    address = [("127.0.0.1", cluster.port("stomp", number))]
    with connected(stomp.Connection12(address, reconnect_attempts_max=1)) as client:
        client.publish("/topic/" + said.name_with("."), said.body, **headers)


def by_nats(cluster: MatrixCluster, number: int, _: str, said: Said) -> None:
    """HPUB, and PONG behind it."""
    headers = dict(said.headers)
    if said.content_type is not None:
        headers["Content-Type"] = said.content_type
    if said.correlation is not None:
        headers["correlation-id"] = said.correlation

    async def work() -> None:
        client = await nats.connect(f"nats://127.0.0.1:{cluster.port('nats', number)}")
        try:
            reply = said.reply_with(".")
            await client.publish(said.name_with("."), said.body.encode(), reply, headers)
            await client.flush(int(DEADLINE_S))
        finally:
            await client.close()

    asyncio.run(work())


#: Who produces: with a cluster, the number of a broker, what the message is given to (a topic or a
#: queue, for those that name one), and the message. It is committed when this returns.
Produce = Callable[[MatrixCluster, int, str, Said], None]
PRODUCERS: Final[dict[str, Produce]] = {
    "kafka": by_kafka,
    "amqp": by_amqp,
    "sqs": by_sqs,
    "mqtt": by_mqtt,
    "stomp": by_stomp,
    "nats": by_nats,
    "text": by_text,
}
