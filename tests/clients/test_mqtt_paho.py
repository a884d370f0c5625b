"""paho-mqtt, unchanged, at three brokers: each of them serves each client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as paho
import pika
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.clients.mqtt_cluster import MqttCluster, RawMqtt, new_name

VERSIONS = [paho.MQTTv311, paho.MQTTv5]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttCluster]:
    with MqttCluster(3, tmp_path_factory.mktemp("mqtt")) as found:
        yield found


def connect_properties(**values: int) -> Properties:
    found = Properties(PacketTypes.CONNECT)
    for name, value in values.items():
        setattr(found, name, value)
    return found


def kept(session_s: int = 300) -> dict[str, Any]:
    return {
        "clean_start": False,
        "properties": connect_properties(SessionExpiryInterval=session_s),
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transport", ["tcp", "websockets"])
def test_publish_and_subscribe(cluster: MqttCluster, version: int, transport: str) -> None:
    root = new_name("house")
    client = cluster.client(1, version=version, transport=transport)
    assert client.subscribe(f"{root}/+/temperature", 2) == [2]
    for qos in (0, 1, 2):
        client.publish(f"{root}/kitchen/temperature", f"{qos}", qos)
        found = client.message()
        assert (found.payload, found.qos) == (b"%d" % qos, qos)
        assert found.topic == f"{root}/kitchen/temperature"
    client.unsubscribe(f"{root}/+/temperature")
    client.close()


def test_a_session_outlives_its_broker(cluster: MqttCluster) -> None:
    me, topic = new_name("me"), new_name("room")
    client = cluster.client(1, me, **kept())
    client.subscribe(topic, 1)
    client.close()
    publisher = cluster.client(2)
    for number in range(10):
        publisher.publish(topic, f"{number}")
    client = cluster.client(1, me, **kept())
    assert client.session_present
    assert client.payloads(10) == [b"%d" % number for number in range(10)]
    cluster.brokers[0].kill()
    client.client.loop_stop()
    for number in range(10, 20):
        publisher.publish(topic, f"{number}")
    back = cluster.client(3, me, **kept())
    assert back.session_present
    seen: list[bytes] = []
    # The last answers to the broker that died may not have been heard.
    while not seen or seen[-1] != b"19":
        seen += back.payloads(1)
    assert [each for each in seen if int(each) >= 10] == [b"%d" % n for n in range(10, 20)]
    back.close()
    publisher.close()
    cluster.brokers[0].start()
    cluster.wait_until_ready()


def test_what_was_not_acknowledged_comes_again_byte_by_byte(cluster: MqttCluster) -> None:
    """Also what was retained, and though nobody subscribes to it any more (4.4.0-1, 3.10.4-3)."""
    me, topic = new_name("me").encode(), new_name("room").encode()
    name = bytes((0, len(topic))) + topic
    publisher = cluster.client(2)
    publisher.publish(topic.decode(), "kept", 2, retain=True)
    connect = b"\0\4MQTT\5\0\0\0\5\x11\0\0\x0e\x10" + bytes((0, len(me))) + me
    # With the identifier 9; QoS 1.
    subscribe = b"\0\1\2\x0b\x09" + name + b"\1"

    def opened(number: int) -> RawMqtt:
        client = RawMqtt(cluster.mqtt_ports[number - 1])
        client.send(0x10, connect)
        assert client.packet()[0] == 0x20
        return client

    client = opened(1)
    client.send(0x82, subscribe)
    assert client.packet() == (0x90, b"\0\1\0\1")
    first, kept_body = client.packet()
    assert (first, kept_body[len(name) + 2 :]) == (0x33, b"\2\x0b\x09kept")
    publisher.publish(topic.decode(), "new", 2)
    second, new_body = client.packet()
    assert (second, new_body[len(name) + 2 :]) == (0x32, b"\2\x0b\x09new")
    client.send(0xA2, b"\0\2\0" + name)
    assert client.packet() == (0xB0, b"\0\2\0\0")
    cluster.brokers[0].kill()
    client.close()
    back = opened(3)
    # The same packets, and marked as sent before.
    assert sorted([back.packet(), back.packet()]) == [(0x3A, new_body), (0x3B, kept_body)]
    for body in (new_body, kept_body):
        back.send(0x40, body[len(name) : len(name) + 2])
    back.send(0xC0, b"")
    assert back.packet() == (0xD0, b"")
    back.close()
    publisher.close()
    cluster.brokers[0].start()
    cluster.wait_until_ready()


def test_amqp_and_mqtt_meet(cluster: MqttCluster) -> None:
    root = new_name("plant")
    url = f"amqp://guest:guest@127.0.0.1:{cluster.amqp_ports[1]}/%2F"
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(root, durable=True)
    channel.queue_bind(root, "amq.topic", f"{root}.*.speed")
    client = cluster.client(1)
    client.subscribe(f"{root}/#", 1)
    said = Properties(PacketTypes.PUBLISH)
    said.ContentType = "text/plain"
    said.CorrelationData = b"c-1"
    said.UserProperty = ("unit", "rpm")
    client.publish(f"{root}/motor/speed", "1200", properties=said)
    method, properties, body = next(channel.consume(root, inactivity_timeout=30))
    assert (method.routing_key, body) == (f"{root}.motor.speed", b"1200")
    assert (properties.content_type, properties.correlation_id) == ("text/plain", "c-1")
    assert properties.headers == {"unit": "rpm"}
    channel.basic_ack(method.delivery_tag)
    assert client.message().payload == b"1200"
    out = pika.BasicProperties(content_type="text/plain", headers={"unit": "rpm"})
    channel.basic_publish("amq.topic", f"{root}.motor.target", b"900", out)
    found = client.message()
    assert (found.topic, found.payload) == (f"{root}/motor/target", b"900")
    assert found.properties is not None
    told = found.properties.json()
    assert (told["ContentType"], told["UserProperty"]) == ("text/plain", [("unit", "rpm")])
    client.close()
    connection.close()
