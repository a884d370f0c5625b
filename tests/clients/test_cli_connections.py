"""`kafkaesque connection`: clients of all protocols by their own names, one of which is closed."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as paho
import pika
import pika.exceptions
import pytest
import stomp
from confluent_kafka import Consumer
from paho.mqtt.enums import CallbackAPIVersion

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.test_cli_up import KAFKAESQUE
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

PROTOCOLS = ("admin", "amqp", "mqtt", "stomp")


class Ground:
    """One broker, and where its ports are."""

    def __init__(self, cluster: KafkaesqueCluster, ports: dict[str, int]) -> None:
        self.servers = cluster.bootstrap_servers
        self.ports = ports

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = processes.run(
            [*KAFKAESQUE, "connection", *words, "-b", self.servers],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done

    def find(self, client_id: str, *words: str) -> dict[str, Any] | None:
        found = json.loads(self.run("list", "--json", *words).stdout)
        return next((each for each in found if each["client_id"] == client_id), None)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    ports = dict(zip(PROTOCOLS, unused_ports(len(PROTOCOLS)), strict=True))
    sections = "".join(
        f'\n[[listener]]\nprotocol = "{name}"\nport = {port}\n' for name, port in ports.items()
    )
    directory = tmp_path_factory.mktemp("connections")
    with KafkaesqueCluster(1, directory=directory, sections=lambda _: sections) as cluster:
        yield Ground(cluster, ports)


def test_a_client_of_kafka_is_listed_closed_and_comes_again(ground: Ground) -> None:
    consumer = Consumer(
        {"bootstrap.servers": ground.servers, "client.id": "billing-7", "group.id": "billing"}
    )
    # Once librdkafka knows the brokers it ends the connection that told it of them, and is without
    # one until it asks again.
    for _ in range(2):
        consumer.list_topics(timeout=DEADLINE_S)
    found = ground.find("billing-7", "--protocol", "kafka")
    assert found is not None
    assert (found["protocol"], found["user"]) == ("kafka", "ANONYMOUS")
    assert found["bytes_in"] > 0
    assert found["opened_at"] > 1_700_000_000_000
    name = f"{found['broker']}:{found['number']}"
    assert name in ground.run("list").stdout
    done = ground.run("close", name)
    assert done.stdout == f"the connection of {found['peer']} with broker 1 is closed\n"
    again = ground.run("close", name, code=1)
    assert "broker '1' has no connection" in again.stderr
    consumer.list_topics(timeout=DEADLINE_S)
    assert ground.find("billing-7") is not None
    consumer.close()
    assert ground.find("billing-7", "--protocol", "mqtt") is None
    assert "is no connection" in ground.run("close", "7", code=2).stderr


def test_a_client_of_amqp_is_told_who_has_closed_it(ground: Ground) -> None:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", ground.ports["amqp"], client_properties={"connection_name": "shop"}
    )
    connection = pika.BlockingConnection(parameters)
    found = ground.find("shop")
    assert found is not None
    ground.run("close", f"1:{found['number']}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.process_data_events(DEADLINE_S)
    assert caught.value.reply_code == 320


def test_rabbitmqs_api_closes_by_name(ground: Ground) -> None:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", ground.ports["amqp"], client_properties={"connection_name": "till"}
    )
    connection = pika.BlockingConnection(parameters)
    root = f"http://127.0.0.1:{ground.ports['admin']}/rabbitmq/api/connections"
    with urllib.request.urlopen(root) as answer:
        shown = json.load(answer)
    (name,) = [each["name"] for each in shown if each["user_provided_name"] == "till"]
    request = urllib.request.Request(
        f"{root}/{urllib.parse.quote(name, safe='')}",
        method="DELETE",
        headers={"X-Kafkaesque-Request": "1"},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(DEADLINE_S)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(request)


def test_a_client_of_mqtt_hears_that_an_administrator_has_closed_it(ground: Ground) -> None:
    reasons: list[str] = []
    client = paho.Client(
        CallbackAPIVersion.VERSION2,
        "thermometer",
        protocol=paho.MQTTv5,
        reconnect_on_failure=False,
    )
    client.on_disconnect = lambda *found: reasons.append(str(found[3]))
    client.connect("127.0.0.1", ground.ports["mqtt"])
    client.loop_start()
    eventually(lambda: ground.find("thermometer") is not None, "it is listed", pause_s=0.5)
    found = ground.find("thermometer")
    assert found is not None
    ground.run("close", f"1:{found['number']}")
    eventually(lambda: bool(reasons), "it hears of it")
    client.loop_stop()
    assert reasons == ["Administrative action"]


def test_a_client_of_stomp_is_listed_and_closed(ground: Ground) -> None:
    connection = stomp.Connection12(
        [("127.0.0.1", ground.ports["stomp"])], reconnect_attempts_max=1
    )
    connection.connect("guest", "guest", wait=True, headers={"client-id": "display"})
    found = ground.find("display", "--user", "ANONYMOUS")
    assert found is not None
    ground.run("close", f"1:{found['number']}")
    eventually(lambda: not connection.is_connected(), "it is closed")
