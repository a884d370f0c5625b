"""MQTT and other protocols at the same names."""

from __future__ import annotations

import pytest

from kafkaesque.broker.requests.exchange_commands import PutTransformation
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties as AmqpProperties
from kafkaesque.protocols.amqp.wire import Table
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from kafkaesque.routing.live_message import LiveMessage
from kafkaesque.routing.names import MQTT
from kafkaesque.routing.transformations.rules import read_rule
from tests.unit.gateway_amqp.kit import AmqpClient
from tests.unit.gateway_mqtt.kit import Ground, new_name


@pytest.fixture
def amqp(ground: Ground) -> AmqpClient:
    client = AmqpClient(ground, ground.cluster.names[0])  # type: ignore[arg-type]
    client.open()
    return client


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_amqp_publishes_reaches_mqtt(ground: Ground, amqp: AmqpClient, is_kept: bool) -> None:
    root = new_name("root")
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    client.subscribe(f"{root}/#")
    amqp.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    properties = AmqpProperties(
        content_type="text/plain",
        correlation_id="c",
        reply_to="answers.here",
        headers={"unit": "C", "count": 3},
        message_id="m1",
    )
    amqp.publish(b"21", f"{root}.a/b.c", exchange="amq.topic", properties=properties)
    found = client.message()
    assert (found.topic, found.payload, found.qos) == (f"{root}/a%2Fb/c", b"21", 1)
    said = found.properties
    assert (said.content_type, said.correlation_data) == ("text/plain", b"c")
    assert said.response_topic == "answers/here"
    assert set(said.user_properties) == {("unit", "C"), ("count", "3"), ("message-id", "m1")}


def test_what_mqtt_publishes_reaches_queues_of_amqp(ground: Ground, amqp: AmqpClient) -> None:
    root = new_name("root")
    queue = amqp.queue()
    bind = m.QueueBind(queue=queue, exchange="amq.topic", routing_key=f"{root}.#")
    amqp.call(bind, m.QueueBindOk)
    client = ground.client(new_name())
    said = Properties(
        content_type="text/plain",
        correlation_data=b"c",
        response_topic="answers/here",
        message_expiry_interval_s=60,
        user_properties=(
            ("unit", "C"),
            ("mqtt.message", "forged"),
            ("amqp.message", "forged"),
            ("nats.headers", "forged"),
        ),
    )
    client.publish(f"{root}/a.b//c", b"21", properties=said)
    got, properties, body = amqp.get(queue)
    assert (got.routing_key, body) == (f"{root}.a%2Eb..c", b"21")
    assert (properties.content_type, properties.correlation_id) == ("text/plain", "c")
    assert properties.reply_to == "answers.here"
    assert properties.headers == {"unit": "C"}
    assert 50_000 < int(properties.expiration or 0) <= 60_000


@pytest.mark.parametrize("version", list(Version))
def test_a_queue_that_is_full_refuses_what_mqtt_publishes(
    ground: Ground, amqp: AmqpClient, version: Version
) -> None:
    topic, queue = new_name("root"), new_name("full")
    options = Table({"x-max-length": 1, "x-overflow": "reject-publish"})
    amqp.call(m.QueueDeclare(queue=queue, arguments=options), m.QueueDeclareOk)
    bind = m.QueueBind(queue=queue, exchange="amq.topic", routing_key=topic)
    amqp.call(bind, m.QueueBindOk)
    client = ground.client(new_name(), version=version)
    assert client.publish(topic, b"1") is R.SUCCESS
    if version is Version.V5:
        for qos in (1, 2):
            assert client.publish(topic, b"2", qos) is R.QUOTA_EXCEEDED
        assert client.publish(new_name("root")) is R.NO_MATCHING_SUBSCRIBERS
    else:
        # It has no way to say so.
        client.send(p.Publish(topic=topic, payload=b"2", qos=1, packet_id=7))
        assert client.ends() is None
    assert amqp.get(queue)[2] == b"1"


def test_a_binding_changes_what_mqtt_publishes_and_subscribers_get_it_as_it_was(
    ground: Ground, amqp: AmqpClient
) -> None:
    root, queue = new_name("root"), amqp.queue()
    rule = read_rule(
        b'{"steps": [{"do": "rename", "at": "$.t", "to": "$.celsius"},'
        b'{"do": "template", "at": "headers.unit", "text": "{properties.content_type} {unit}"}]}'
    )
    command = PutTransformation(vhost="/", name=root, rule=rule)
    done: list[object] = []
    broker = ground.cluster.brokers[ground.cluster.names[0]]
    broker.doors.exchanges.submit(command, 10_000, done.append)
    ground.loop.run_until(lambda: bool(done), 10_000)
    assert not isinstance(done[0], RequestRefused), done
    said: Table = {"x-transformation": root}
    bind = m.QueueBind(queue=queue, exchange="amq.topic", routing_key=f"{root}.#", arguments=said)
    amqp.call(bind, m.QueueBindOk)
    client = ground.client(new_name())
    client.subscribe(f"{root}/#")
    properties = Properties(content_type="text/plain", user_properties=(("unit", "C"),))
    client.publish(f"{root}/a", b'{"t": 21}', properties=properties)
    _, kept, body = amqp.get(queue)
    assert (body, kept.content_type) == (b'{"celsius":21}', "text/plain")
    assert kept.headers == {"unit": "text/plain C"}
    live = client.message()
    assert (live.payload, live.properties.user_properties) == (b'{"t": 21}', (("unit", "C"),))


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_others_publish_live_reaches_mqtt(ground: Ground, is_kept: bool) -> None:
    topic = new_name("rooms/")
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    client.subscribe(topic)
    broker = ground.cluster.brokers[ground.cluster.names[0]]
    message = LiveMessage(
        key=MQTT.key_of(topic),
        body=b"x",
        reply=MQTT.key_of("answers"),
        headers=(("a", b"1"), ("bytes", b"\xff"), ("nats.headers", b"NATS/1.0\r\n\r\n")),
    )
    broker.doors.live.publish(message)
    found = client.message()
    assert (found.topic, found.payload) == (topic, b"x")
    assert found.properties.response_topic == "answers"
    assert found.properties.user_properties == (("a", "1"),)
