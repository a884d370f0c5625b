"""An exchange that keeps messages once, in a topic, for all its queues (ADR 48)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pika
import pika.exceptions
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pika.adapters.blocking_connection import BlockingChannel

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.amqp_cluster import AmqpCluster, new_name
from tests.clients.mqtt_cluster import Paho
from tests.clients.test_moves import run
from tests.waiting import eventually

PROPERTIES = pika.BasicProperties(
    delivery_mode=2, content_type="text/plain", headers={"from": "pika", "number": 7}, priority=3
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exchange-logs")


class LogCluster(AmqpCluster):
    """With a port for MQTT, and one for what is asked by HTTP."""

    def __init__(self, brokers: int, directory: Path) -> None:
        ports = unused_ports(2 * brokers)
        self.mqtt_ports, self.admin_ports = ports[:brokers], ports[brokers:]
        super().__init__(brokers, directory)

    def _section(self, number: int) -> str:
        ports = {"mqtt": self.mqtt_ports, "admin": self.admin_ports}
        more = (
            f'\n[[listener]]\nprotocol = "{name}"\nport = {found[number - 1]}\n'
            for name, found in ports.items()
        )
        return super()._section(number) + "".join(more)


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[LogCluster]:
    with LogCluster(3, directory) as found:
        yield found


@pytest.fixture
def channel(cluster: LogCluster) -> Iterator[BlockingChannel]:
    with cluster.connected() as connection:
        yield connection.channel()


def make_topic(cluster: LogCluster, partitions: int = 3) -> str:
    name = new_name("log")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result()
    return name


def declare(
    channel: BlockingChannel, log: str, queues: int, **arguments: Any
) -> tuple[str, list[str]]:
    exchange = new_name("exchange")
    channel.exchange_declare(exchange, "fanout", durable=True, arguments={"x-log": log})
    names = [new_name() for _ in range(queues)]
    for name in names:
        channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_bind(name, exchange)
    return exchange, names


def stored(directory: Path, body: bytes) -> int:
    """Return how often all logs of all brokers have something."""
    return sum(path.read_bytes().count(body) for path in directory.rglob("*.log"))


def take_all(channel: BlockingChannel, queue: str, count: int) -> list[tuple[Any, Any, bytes]]:
    found: list[tuple[Any, Any, bytes]] = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=20):
        assert method is not None, f"{len(found)} of {count} came"
        found.append((method, properties, body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_each_queue_has_what_was_published_and_the_disk_has_it_once(
    cluster: LogCluster, channel: BlockingChannel, directory: Path
) -> None:
    log = make_topic(cluster)
    exchange, queues = declare(channel, log, 10)
    channel.confirm_delivery()
    mark = b"once-" * 200
    bodies = [b"%d %b" % (number, mark) for number in range(30)]
    for number, body in enumerate(bodies):
        channel.basic_publish(exchange, f"key.{number}", body, PROPERTIES, mandatory=True)
    eventually(
        lambda: stored(directory, mark) == 3 * len(bodies), "each of three replicas has each"
    )
    for number, queue in enumerate(queues):
        with cluster.connected(1 + number % 3) as connection:
            found = take_all(connection.channel(), queue, len(bodies))
        assert [body for _, _, body in found] == bodies
        assert {method.routing_key for method, _, _ in found} == {f"key.{n}" for n in range(30)}
        _, properties, _ = found[0]
        assert properties.headers == {"from": "pika", "number": 7}
        assert (properties.content_type, properties.priority) == ("text/plain", 3)


def test_kafkas_clients_read_the_topic(cluster: LogCluster, channel: BlockingChannel) -> None:
    log = make_topic(cluster, 1)
    exchange, _ = declare(channel, log, 2)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "orders.new", b"for all", PROPERTIES, mandatory=True)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": new_name("group"),
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([log])
    found = consumer.poll(20)
    consumer.close()
    assert found is not None
    assert (found.key(), found.value()) == (b"orders.new", b"for all")


def test_nobody_wants_it_and_nothing_is_kept(cluster: LogCluster, channel: BlockingChannel) -> None:
    log = make_topic(cluster, 1)
    exchange, _ = declare(channel, log, 0)
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(exchange, "k", b"x", mandatory=True)
    assert "0" in run(cluster, "topic", "describe", log)


def test_dead_letters_and_redrives_have_bodies_of_their_own(
    cluster: LogCluster, channel: BlockingChannel
) -> None:
    log, dead = make_topic(cluster), new_name("dead")
    channel.queue_declare(dead, durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    exchange, (first, second) = declare(channel, log, 2, **arguments)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "k", b"poison", PROPERTIES, mandatory=True)
    method, _, body = next(channel.consume(first, inactivity_timeout=20))
    assert body == b"poison"
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.cancel()
    ((_, properties, body),) = take_all(channel, dead, 1)
    assert body == b"poison"
    assert properties.headers["x-death"][0]["queue"] == first
    assert "poison" in run(cluster, "queue", "peek", second)


def test_a_length_counts_the_messages_and_not_the_references(
    cluster: LogCluster, channel: BlockingChannel
) -> None:
    arguments = {"x-max-length-bytes": 2_500, "x-overflow": "reject-publish"}
    exchange, (queue,) = declare(channel, make_topic(cluster), 1, **arguments)
    channel.confirm_delivery()
    for _ in range(2):
        channel.basic_publish(exchange, "k", b"x" * 1_000, PROPERTIES)
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish(exchange, "k", b"x" * 1_000, PROPERTIES)
    assert len(take_all(channel, queue, 2)) == 2


def test_messages_that_the_topic_has_lost_are_given_up(
    cluster: LogCluster, channel: BlockingChannel
) -> None:
    log = make_topic(cluster, 1)
    exchange, (queue,) = declare(channel, log, 1)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "k", b"lost", PROPERTIES, mandatory=True)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    where = TopicPartition(log, 0, 1)
    admin.delete_records([where])[where].result()
    channel.basic_publish(exchange, "k", b"kept", PROPERTIES, mandatory=True)
    assert [body for _, _, body in take_all(channel, queue, 1)] == [b"kept"]

    def counts() -> dict[str, int]:
        document: dict[str, Any] = json.loads(run(cluster, "queue", "describe", queue, "--json"))
        found: dict[str, int] = document["counts"]
        return found

    eventually(lambda: counts()["parked"] == 1, "the lost one is parked, so that it is seen")


def test_without_the_topic_queues_have_copies(
    cluster: LogCluster, channel: BlockingChannel
) -> None:
    log = make_topic(cluster, 1)
    exchange, (queue,) = declare(channel, log, 1)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "k", b"gone", PROPERTIES, mandatory=True)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([log])[log].result()
    channel.basic_publish(exchange, "k", b"copied", PROPERTIES, mandatory=True)
    assert [body for _, _, body in take_all(channel, queue, 1)] == [b"copied"]


def test_what_is_declared_has_to_be_possible(cluster: LogCluster, channel: BlockingChannel) -> None:
    log, exchange = make_topic(cluster), new_name("exchange")
    channel.exchange_declare(exchange, arguments={"x-log": log})
    channel.exchange_declare(exchange, arguments={"x-log": log})
    for name, argument, code in ((new_name(), "no-such-topic", 404), (exchange, log + "2", 406)):
        with (
            cluster.connected() as connection,
            pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused,
        ):
            connection.channel().exchange_declare(name, arguments={"x-log": argument})
        assert refused.value.reply_code == code


def session() -> dict[str, Any]:
    """Return how a client connects that has a session."""
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 300
    return {"clean_start": False, "properties": properties}


def make_sessions(cluster: LogCluster, count: int, topic: str) -> list[str]:
    """Have clients subscribe and go; return their names."""
    names = [new_name("device") for _ in range(count)]
    for name in names:
        client = Paho(name, paho.MQTTv5, "tcp")
        client.connect(cluster.mqtt_ports[1], **session())
        assert client.subscribe(topic, 2) == [2]
        client.close()
    return names


def check_after_a_kill(
    cluster: LogCluster, names: list[str], expected: list[tuple[bytes, int]]
) -> None:
    """Kill the broker that the clients were at: they get everything at another one."""
    cluster.brokers[1].kill()
    for name in names:
        client = Paho(name, paho.MQTTv5, "tcp")
        client.connect(cluster.mqtt_ports[2], **session())
        assert client.session_present
        messages = [client.message() for _ in expected]
        assert [(each.payload, each.qos) for each in messages] == expected
        client.close()
    cluster.brokers[1].start()
    cluster.wait_until_ready()


def test_a_policy_names_the_topic_of_the_names_that_all_protocols_share(
    cluster: LogCluster, channel: BlockingChannel, directory: Path
) -> None:
    """Sessions of MQTT have references, then, and miss nothing when their broker dies."""
    log, queue = make_topic(cluster, 1), new_name()
    run(cluster, "policy", "create", "once", "-p", "^amq\\.topic$", "-s", f"log={log}")
    names = make_sessions(cluster, 3, "a/#")
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, "amq.topic", "a.#")
    publisher = Paho(new_name("publisher"), paho.MQTTv5, "tcp")
    publisher.connect(cluster.mqtt_ports[2])
    mark = b"named-" * 50
    for qos in (0, 1, 2):
        publisher.publish("a/b", b"%d %b" % (qos, mark), qos)
    publisher.close()
    eventually(lambda: stored(directory, mark) == 3 * 3, "each of three replicas has each once")
    found = [body for _, _, body in take_all(channel, queue, 3)]
    assert found == [b"%d %b" % (qos, mark) for qos in (0, 1, 2)]
    check_after_a_kill(cluster, names, [(b"%d %b" % (qos, mark), qos) for qos in (0, 1, 2)])
    run(cluster, "policy", "delete", "once", "--yes")


def test_sessions_of_mqtt_have_a_message_once_without_being_told_to(
    cluster: LogCluster, directory: Path
) -> None:
    names = make_sessions(cluster, 4, "own/#")
    publisher = Paho(new_name("publisher"), paho.MQTTv5, "tcp")
    publisher.connect(cluster.mqtt_ports[2])
    sent: list[bytes] = []

    def is_kept_once() -> bool:
        """Publish a message; sessions have copies until the topic is there and led."""
        sent.append(b"%d " % len(sent) + b"primer-" * 50)
        publisher.publish("own/first", sent[-1], 1)
        return stored(directory, sent[-1]) <= 3

    eventually(is_kept_once, "the topic is made")
    mark = b"by default-" * 50
    for qos in (1, 2):
        # Of the same name, and so to the same partition.
        publisher.publish("own/first", b"%d %b" % (qos, mark), qos)
    publisher.close()
    eventually(lambda: stored(directory, mark) == 2 * 3, "each of three replicas has each once")
    expected = [(b"%d %b" % (qos, mark), qos) for qos in (1, 2)]
    check_after_a_kill(cluster, names, [*((each, 1) for each in sent), *expected])
