"""Consumers of the matrix: what each protocol's usual client is given, in nobody's words.

Each has a place of its own that waits for it at the brokers (a group, a queue, a session, a durable
subscription), so that another connection, to another broker, goes on where one has ended; all but
those that are live by nature.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import nats
import pika
import stomp
from confluent_kafka import Consumer
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.clients.kafka_helpers import checked
from tests.clients.matrix_cluster import MatrixCluster
from tests.clients.matrix_producers import Said
from tests.clients.mqtt_cluster import Paho
from tests.clients.nats_cluster import subscribed
from tests.clients.sqs_cluster import sqs_client
from tests.clients.stomp_cluster import StompClient
from tests.clients.test_text_transactions import Person

#: Headers by which the message that everybody can say is known.
KNOWN: Final = ("content-type", "correlation-id", "reply-to", "room", "unit", "number")
#: So long a client waits for a message before it is asked again.
PATIENCE_S: Final = 0.2
#: So long a message is its receiver's, where the receiver says how long.
LOCK_S: Final = 10


def said_of(name: str | None, body: bytes | str, headers: Mapping[str, str | bytes | None]) -> Said:
    """Return a message that was given with the names that headers of records have."""
    texts = {
        key: value.decode() if isinstance(value, bytes) else value or ""
        for key, value in headers.items()
        if key in KNOWN
    }
    reply = texts.pop("reply-to", None)
    return Said(
        name=None if name is None else tuple(name.split(".")),
        body=body.decode() if isinstance(body, bytes) else body,
        content_type=texts.pop("content-type", None),
        correlation=texts.pop("correlation-id", None),
        reply=None if reply is None else tuple(reply.split(".")),
        headers=tuple(sorted(texts.items())),
    )


class Ledger:
    """What one consumer was given, and what the brokers have confirmed that it is done with."""

    def __init__(self) -> None:
        self.given: list[Said] = []
        #: Bodies that came after it was confirmed that the consumer is done with them.
        self.again: list[str] = []
        self._done: set[str] = set()

    def add(self, said: Said) -> None:
        """Note a message that was given."""
        self.given.append(said)
        if said.body in self._done:
            self.again.append(said.body)

    def confirm(self, said: Said) -> None:
        """Note that the consumer is done with a message, and the broker has said so."""
        self._done.add(said.body)

    @property
    def bodies(self) -> set[str]:
        return {each.body for each in self.given}


class Reading(ABC):
    """One client that is connected with a broker, and takes the messages of a place."""

    #: Whether what is published while nobody is connected waits at the brokers.
    is_kept = True

    def __init__(self, cluster: MatrixCluster, number: int, place: str) -> None:
        self.cluster = cluster
        self.number = number
        self.place = place

    @abstractmethod
    def open(self) -> None:
        """Connect and subscribe; what is published after this comes."""

    @abstractmethod
    def take(self, ledger: Ledger) -> None:
        """Note what has come, and acknowledge it; nothing after a moment's wait."""

    @abstractmethod
    def close(self) -> None:
        """Take leave; the place stays."""

    def port(self, protocol: str) -> int:
        return self.cluster.port(protocol, self.number)


class KafkaReading(Reading):
    """A member of a group, which commits."""

    def open(self) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": f"{self.place}-readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([self.place])

    def take(self, ledger: Ledger) -> None:
        found = [
            said_of((each.key() or b"").decode(), each.value() or b"", dict(each.headers() or ()))
            for each in checked(self._consumer.consume(100, PATIENCE_S))
        ]
        for each in found:
            ledger.add(each)
        if found:
            self._consumer.commit(asynchronous=False)
        for each in found:
            ledger.confirm(each)

    def close(self) -> None:
        self._consumer.close()


class TextReading(Reading):
    """Somebody with telnet, who keeps his offset himself."""

    offset = 0

    def open(self) -> None:
        self._person = Person(self.port("text"))
        (answer,) = self._person.say(f"SUBS {self.place} text-readers 0")
        self._subscription = answer.removeprefix("OK ")

    def take(self, ledger: Ledger) -> None:
        where = f"0:{self.offset}"
        *lines, _ = self._person.say(f"CONS {self.place} {self._subscription} {where}")
        for line in lines:
            _, _, offset, _, text = line.split(" ", 4)
            self.offset = int(offset) + 1
            message = json.loads(text)
            said = said_of(message.get("Key"), message["Body"], message.get("Header", {}))
            ledger.add(said)
            ledger.confirm(said)

    def close(self) -> None:
        self._person.close()


class AmqpReading(Reading):
    """basic.consume of a queue, with acknowledgements."""

    def open(self) -> None:
        self._connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port("amqp"))
        )
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=50)

    def take(self, ledger: Ledger) -> None:
        # AMQP confirms no acknowledgement.
        for method, properties, body in self._channel.consume(
            self.place, inactivity_timeout=PATIENCE_S
        ):
            if method is None:
                break
            ledger.add(self._read(method.routing_key, properties, body))
            self._channel.basic_ack(method.delivery_tag)

    @staticmethod
    def _read(key: str, properties: pika.BasicProperties, body: bytes) -> Said:
        named = {
            "content-type": properties.content_type,
            "correlation-id": properties.correlation_id,
            "reply-to": properties.reply_to,
        }
        said = {name: value for name, value in named.items() if value is not None}
        return said_of(key, body, {**(properties.headers or {}), **said})

    def close(self) -> None:
        self._connection.close()


class SqsReading(Reading):
    """ReceiveMessage and DeleteMessage."""

    def open(self) -> None:
        self._entered = contextlib.ExitStack()
        url = f"http://127.0.0.1:{self.port('sqs')}"
        self._client = self._entered.enter_context(sqs_client(url, read_timeout=30))
        self._url = self._client.get_queue_url(QueueName=self.place)["QueueUrl"]

    def take(self, ledger: Ledger) -> None:
        answer = self._client.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            VisibilityTimeout=LOCK_S,
            WaitTimeSeconds=0,
        )
        for each in answer.get("Messages", []):
            attributes = each.get("MessageAttributes", {})
            texts = {name: value["StringValue"] for name, value in attributes.items()}
            said = said_of(None, each["Body"], texts)
            ledger.add(said)
            self._client.delete_message(QueueUrl=self._url, ReceiptHandle=each["ReceiptHandle"])
            ledger.confirm(said)

    def close(self) -> None:
        self._entered.close()


class MqttReading(Reading):
    """A subscription of QoS 1 whose session ends with the connection."""

    expiry_s = 0
    is_kept = False
    _client: Paho

    def open(self) -> None:
        self._client = Paho(f"reader-{self.place}", 5)
        connect = Properties(PacketTypes.CONNECT)
        connect.SessionExpiryInterval = self.expiry_s
        self._client.connect(self.port("mqtt"), clean_start=not self.expiry_s, properties=connect)
        self._client.subscribe(self.place.replace(".", "/") + "/#", qos=1)

    def take(self, ledger: Ledger) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                ledger.add(self._read(self._client.messages.get(timeout=PATIENCE_S)))
        if not self._client.gone.empty():
            raise ConnectionError("the broker is gone")

    @staticmethod
    def _read(message: Any) -> Said:
        properties = message.properties
        said: dict[str, str | bytes] = dict(getattr(properties, "UserProperty", ()))
        for name, header in (
            ("ContentType", "content-type"),
            ("CorrelationData", "correlation-id"),
        ):
            if hasattr(properties, name):
                said[header] = getattr(properties, name)
        if hasattr(properties, "ResponseTopic"):
            said["reply-to"] = properties.ResponseTopic.replace("/", ".")
        return said_of(message.topic.replace("/", "."), message.payload, said)

    def close(self) -> None:
        self._client.close()


class MqttKeptReading(MqttReading):
    """One whose session is kept."""

    expiry_s = 3600
    is_kept = True


class StompReading(Reading):
    """A durable subscription to a topic, with acknowledgements."""

    def open(self) -> None:
        self._connection = stomp.Connection12(
            [("127.0.0.1", self.port("stomp"))], reconnect_attempts_max=1
        )
        self._client = StompClient(self._connection)
        self._connection.connect(wait=True, headers={"client-id": "matrix"})
        self.subscribe(self._client)

    def subscribe(self, client: StompClient) -> None:
        name = self.place.replace(".", "-")
        client.subscribe(f"/topic/{self.place}.#", name, "client-individual", durable="true")

    def take(self, ledger: Ledger) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                frame = self._client.messages.get(timeout=PATIENCE_S)
                ledger.add(self._read(frame))
                self._connection.ack(frame.headers["ack"])
        if not self._client.errors.empty():
            raise ConnectionError("the broker is gone")

    @staticmethod
    def _read(frame: Any) -> Said:
        headers = dict(frame.headers)
        if "reply-to" in headers:
            headers["reply-to"] = headers["reply-to"].removeprefix("/queue/")
        return said_of(headers["destination"].removeprefix("/topic/"), frame.body, headers)

    def close(self) -> None:
        if self._connection.is_connected():
            self._connection.disconnect()


class _Asyncio(Reading):
    """A client that lives in an event loop."""

    def __init__(self, cluster: MatrixCluster, number: int, place: str) -> None:
        super().__init__(cluster, number, place)
        self._loop = asyncio.new_event_loop()

    async def _connect(self) -> None:
        self._client = await nats.connect(
            f"nats://127.0.0.1:{self.port('nats')}", allow_reconnect=False
        )

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()

    @staticmethod
    def _read(message: Any) -> Said:
        headers = dict(message.headers or {})
        if "Content-Type" in headers:
            headers["content-type"] = headers.pop("Content-Type")
        if message.reply and not message.reply.startswith("$JS.ACK"):
            headers["reply-to"] = message.reply
        return said_of(message.subject, message.data, headers)


class NatsReading(_Asyncio):
    """A subscription of core NATS."""

    is_kept = False

    def open(self) -> None:
        async def work() -> None:
            await self._connect()
            self._subscription = await self._client.subscribe(f"{self.place}.>")
            await subscribed(self._client)

        self._loop.run_until_complete(work())

    def take(self, ledger: Ledger) -> None:
        async def work() -> None:
            with contextlib.suppress(TimeoutError):
                while True:
                    ledger.add(self._read(await self._subscription.next_msg(PATIENCE_S)))

        self._loop.run_until_complete(work())


class JetStreamReading(_Asyncio):
    """A durable consumer of the stream that the topic is."""

    def open(self) -> None:
        async def work() -> None:
            await self._connect()
            context = self._client.jetstream(timeout=30)
            stream = self.place
            # The topic is the stream; it stores nothing that a route does not bring there.
            await context.add_stream(name=stream, subjects=[f"{stream}-stored"])
            config = ConsumerConfig(
                durable_name="readers",
                ack_policy=AckPolicy.EXPLICIT,
                deliver_policy=DeliverPolicy.ALL,
                ack_wait=LOCK_S,
            )
            await context.add_consumer(stream, config)
            self._pull = await context.pull_subscribe_bind("readers", stream)

        self._loop.run_until_complete(work())

    def take(self, ledger: Ledger) -> None:
        async def work() -> None:
            messages: list[Any] = []
            with contextlib.suppress(TimeoutError):
                messages = await self._pull.fetch(50, timeout=PATIENCE_S * 2)
            for each in messages:
                said = self._read(each)
                ledger.add(said)
                await each.ack_sync(timeout=LOCK_S)
                ledger.confirm(said)

        self._loop.run_until_complete(work())


CONSUMERS: Final[dict[str, type[Reading]]] = {
    "kafka": KafkaReading,
    "kafka-view": KafkaReading,
    "amqp": AmqpReading,
    "sqs": SqsReading,
    "mqtt": MqttReading,
    "mqtt-kept": MqttKeptReading,
    "stomp": StompReading,
    "nats": NatsReading,
    "jetstream": JetStreamReading,
    "text": TextReading,
}
