"""Each row of the table of properties is what the protocols' own translations do, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.chassis.meanings import properties_of as amqp_properties_of
from kafkaesque.chassis.meanings import said_of
from kafkaesque.gateway.mqtt import messages as mqtt
from kafkaesque.gateway.nats import messages as nats
from kafkaesque.gateway.nats import stored as nats_stored
from kafkaesque.gateway.stomp import messages as stomp
from kafkaesque.gateway.stomp.destinations import Destination, Kind
from kafkaesque.model.ids import TopicId
from kafkaesque.model.message_properties import PROPERTIES, Form, MessageProperty
from kafkaesque.protocols.amqp.properties import Properties as AmqpProperties
from kafkaesque.protocols.amqp.properties import read_properties
from kafkaesque.protocols.mqtt.packets import Publish
from kafkaesque.protocols.mqtt.properties import Properties as MqttProperties
from kafkaesque.protocols.nats.headers import Headers as NatsHeaders
from kafkaesque.protocols.nats.headers import write_headers
from kafkaesque.protocols.stomp.events import Sent
from kafkaesque.routing.live_message import NO_ORIGIN, LiveMessage, live_message, record_headers
from kafkaesque.routing.names import MQTT

NOW_MS = 1_700_000_000_000
LIFE_MS = 60_000
#: By form: the header's value.
VALUES = {
    Form.TEXT: "text",
    Form.NAME: "answers.7",
    Form.TIME_MS: str(NOW_MS + LIFE_MS),
    Form.NUMBER: "7",
}
#: AMQP's values where they are not the header's.
AMQP_VALUES: dict[str, Any] = {
    "expiration": str(LIFE_MS),
    "timestamp": (NOW_MS + LIFE_MS) // 1_000,
    "priority": 7,
}
#: Properties of MQTT by their names in the specification: field, and value.
MQTT_FIELDS: dict[str, tuple[str, Any]] = {
    "Content Type": ("content_type", "text"),
    "Correlation Data": ("correlation_data", b"text"),
    "Response Topic": ("response_topic", "answers/7"),
    "Message Expiry Interval": ("message_expiry_interval_s", LIFE_MS // 1_000),
}
REPLY_SUBJECT = "the reply subject"
QUEUE = QueueState(
    name="queue-1",
    topic_id=TopicId(bytes(16)),
    partitions=[],
    configs={},
    queue=QueueName(DEFAULT_VHOST, "work"),
    options={},
)

rows = pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row.header)


def header_of(row: MessageProperty) -> tuple[str, bytes]:
    return row.header, VALUES[row.form].encode()


def live(row: MessageProperty) -> LiveMessage:
    return live_message(MQTT.key_of("a"), b"x", (header_of(row),))


def test_headers_and_names_are_told_apart() -> None:
    for names in (
        [each.header for each in PROPERTIES],
        [each.amqp for each in PROPERTIES],
        [each.mqtt for each in PROPERTIES if each.mqtt],
        [each.nats or each.header for each in PROPERTIES],
        [each.stomp or each.header for each in PROPERTIES],
    ):
        assert len(set(names)) == len(names)


@rows
def test_amqp(row: MessageProperty) -> None:
    value = AMQP_VALUES.get(row.amqp, VALUES[row.form])
    shown = amqp_properties_of((header_of(row),), NOW_MS)
    assert getattr(shown, row.amqp) == value
    assert shown.headers is None
    if row.amqp != "expiration":  # The queue keeps when that is: see `Publication`.
        assert said_of(AmqpProperties(**{row.amqp: value})) == [header_of(row)]


@rows
def test_mqtt(row: MessageProperty) -> None:
    shown = mqtt.properties_of(live(row), NOW_MS)
    if row.mqtt:
        field, value = MQTT_FIELDS[row.mqtt]
        assert shown == MqttProperties(**{field: value})
        said = MqttProperties(**{field: value})
    else:
        said = MqttProperties(user_properties=((row.header, VALUES[row.form]),))
        assert shown == said
    packet = Publish(topic="a", payload=b"x", properties=said)
    assert record_headers(mqtt.read_publish(packet, NO_ORIGIN, NOW_MS)) == (header_of(row),)


@rows
def test_nats(row: MessageProperty) -> None:
    variant = nats.Variants().of(live(row))
    value = VALUES[row.form]
    if row.nats == REPLY_SUBJECT:
        assert variant.write(b"1").startswith(b"MSG a 1 answers.7 1\r\n")
        found = nats.read_published(MQTT.key_of("a"), value, b"", b"x")
    else:
        raw = write_headers(NatsHeaders(((row.nats or row.header, value),)))
        assert nats_stored.raw_headers(record_headers(live(row))) == raw
        found = nats.read_published(MQTT.key_of("a"), "", raw, b"x")
    assert record_headers(found) == (header_of(row),)


@rows
def test_stomp(row: MessageProperty) -> None:
    name, value = row.stomp or row.header, VALUES[row.form]
    message = QueueMessage(0, 1, 0, NOW_MS, b"k", b"x", (header_of(row),))
    shown = dict(stomp.write_headers_of(message, QUEUE, "id", NOW_MS, ""))
    assert shown[name] == (f"/queue/{value}" if row.form is Form.NAME else value)
    sent = Sent(destination="/queue/work", headers=((name, value),), body=b"x")
    reply_to = value if row.form is Form.NAME else None
    published = stomp.read_sent(sent, Destination(Kind.QUEUE, "work"), reply_to, NOW_MS)
    properties = read_properties(published.properties)
    assert getattr(properties, row.amqp) == AMQP_VALUES.get(row.amqp, value)
