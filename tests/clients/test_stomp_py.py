"""stomp.py at our brokers, over TCP and WebSocket, and beside AMQP and Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import stomp
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.amqp_cluster import new_name
from tests.clients.stomp_cluster import VERSIONS, StompCluster, connected
from tests.waiting import DEADLINE_S


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StompCluster]:
    with StompCluster(3, tmp_path_factory.mktemp("stomp")) as found:
        yield found


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_go_through_a_queue(cluster: StompCluster, version: str) -> None:
    name = new_name("stomp")
    with cluster.stomp(1, version) as sender, cluster.stomp(2, version) as receiver:
        for number in range(20):
            sender.publish(
                f"/queue/{name}", f"né {number}", n=str(number), content_type="text/plain"
            )
        receiver.subscribe(f"/queue/{name}", ack="client")
        for number in range(20):
            frame = receiver.message()
            assert (frame.body, frame.headers["n"]) == (f"né {number}", str(number))
        message_id = frame.headers["ack" if version == "1.2" else "message-id"]
        receiver.connection.ack(message_id, *(["s"] if version == "1.1" else []))
    with cluster.connected(3) as amqp:
        assert amqp.channel().queue_declare(name, passive=True).method.message_count == 0


def test_heart_beats_keep_a_connection(cluster: StompCluster) -> None:
    name = new_name("stomp")
    with cluster.stomp(heartbeats=(1_000, 1_000)) as client:
        client.subscribe(f"/queue/{name}")
        client.publish(f"/queue/{name}", "a")
        assert client.message().body == "a"
        assert client.errors.empty()


def test_a_transaction_is_committed_or_aborted(cluster: StompCluster) -> None:
    name = new_name("stomp")
    with cluster.stomp() as client:
        client.subscribe(f"/queue/{name}")
        for body in ("no", "yes"):
            transaction = client.connection.begin()
            client.connection.send(f"/queue/{name}", body, transaction=transaction)
            end = client.connection.commit if body == "yes" else client.connection.abort
            end(transaction)
        assert client.message().body == "yes"


def test_a_topic_reaches_subscribers_at_all_brokers(cluster: StompCluster) -> None:
    topic = f"/topic/{new_name('news')}"
    with cluster.stomp(1) as first, cluster.stomp(2) as second, cluster.stomp(3) as third:
        first.subscribe(topic)
        second.subscribe(topic)
        third.subscribe(topic)
        third.publish(topic, "extra")
        for each in (first, second, third):
            assert each.message().body == "extra"


def test_stomp_py_over_a_web_socket(cluster: StompCluster) -> None:
    name = new_name("stomp")
    address = [("127.0.0.1", cluster.web_ports[1])]
    socket = stomp.WSStompConnection(address, ws_path="/stomp", reconnect_attempts_max=1)
    with connected(socket) as client, cluster.stomp(1) as other:
        client.subscribe(f"/queue/{name}")
        other.publish(f"/queue/{name}", "from tcp")
        assert client.message().body == "from tcp"
        client.publish(f"/queue/{name}", "from a page")
        assert client.message().body == "from a page"


def test_a_message_is_the_same_over_stomp_amqp_and_kafka(cluster: StompCluster) -> None:
    """Headers and body, from STOMP to the others and from AMQP to STOMP."""
    topic, queue = new_name("readings"), new_name("stomp")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(DEADLINE_S)
    bind = ["binding", "create", "amq.topic", "--topic", topic, "--key", f"{topic}.#"]
    command = [sys.executable, "-m", "kafkaesque.cli.app", *bind, "-b", cluster.bootstrap_servers]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    with cluster.connected() as amqp, cluster.stomp(2) as client:
        channel = amqp.channel()
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "amq.topic", f"{topic}.#")
        client.subscribe(f"/topic/{topic}.*")
        body = json.dumps({"temperature": 21.5}).encode()
        headers = {
            "content-type": "application/json",
            "correlation-id": "c-1",
            "type": "reading",
            "priority": "4",
            "unit": "celsius",
        }
        client.publish(f"/topic/{topic}.hall", body, **headers)
        frame = client.message()
        assert frame.body.encode() == body
        assert {each: frame.headers[each] for each in headers} == headers
        method, properties, taken = channel.basic_get(queue, auto_ack=True)
        assert taken == body
        assert (method.exchange, method.routing_key) == ("amq.topic", f"{topic}.hall")
        assert properties.content_type == "application/json"
        assert (properties.correlation_id, properties.type) == ("c-1", "reading")
        assert (properties.priority, properties.headers) == (4, {"unit": "celsius"})
        channel.basic_publish("amq.topic", f"{topic}.cellar", body, properties)
        again = client.message()
        assert again.headers["destination"] == f"/topic/{topic}.cellar"
        assert {each: again.headers[each] for each in headers} == headers
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    records = consumer.consume(2, DEADLINE_S)
    consumer.close()
    assert [each.key() for each in records] == [
        f"{topic}.hall".encode(),
        f"{topic}.cellar".encode(),
    ]
    for each in records:
        assert each.value() == body
        assert dict(each.headers() or []) == {
            name: value.encode() for name, value in headers.items()
        }
