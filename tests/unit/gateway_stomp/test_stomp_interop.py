"""Messages between STOMP, AMQP and topics: headers are properties, and the other way round."""

from __future__ import annotations

from kafkaesque.broker.requests.commands import EARLIEST, CreateTopic, FetchResult
from kafkaesque.broker.requests.exchange_commands import BindDestination
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.protocols.amqp.wire import Timestamp
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.live_message import LiveMessage
from kafkaesque.routing.names import MQTT
from tests.unit.gateway_stomp.kit import Ground, StompClient, new_name

SAID = {
    "content-type": "text/plain",
    "content-encoding": "utf-8",
    "correlation-id": "7",
    "amqp-message-id": "m-1",
    "type": "greeting",
    "app-id": "tests",
    "priority": "4",
    "persistent": "true",
    "timestamp": "1700000000000",
    "color": "red",
}
PROPERTIES = Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    correlation_id="7",
    message_id="m-1",
    type="greeting",
    app_id="tests",
    priority=4,
    delivery_mode=2,
    timestamp=Timestamp(1_700_000_000),
    headers={"color": "red"},
)


def test_headers_are_properties(ground: Ground, client: StompClient) -> None:
    amqp = ground.amqp()
    name = amqp.queue()
    client.call("SEND", {"destination": f"/queue/{name}", **SAID}, b"a")
    got, properties, body = amqp.get(name, no_ack=True)
    assert (got.exchange, got.routing_key, body) == ("", name, b"a")
    assert properties == PROPERTIES


def test_properties_are_headers(ground: Ground, client: StompClient) -> None:
    amqp = ground.amqp()
    name = amqp.queue()
    amqp.publish(b"a", name, properties=PROPERTIES)
    client.subscribe(f"/queue/{name}")
    message = client.message()
    assert message.body == b"a"
    assert {each: message.get(each) for each in SAID} == SAID


def test_stomp_reads_what_stomp_has_said(client: StompClient) -> None:
    name = new_name()
    long = {"correlation-id": "7" * 300, "timestamp": "1700000000123", "content-type": "x" * 300}
    said = {**SAID, **long}
    client.call("SEND", {"destination": f"/queue/{name}", **said}, b"a")
    client.subscribe(f"/queue/{name}")
    message = client.message()
    assert {each: message.get(each) for each in said} == said


def test_fields_that_are_no_texts_are_written_as_such(ground: Ground, client: StompClient) -> None:
    amqp = ground.amqp()
    name = amqp.queue()
    table = {
        "yes": True,
        "n": 5,
        "list": ["a", 1],
        "none": None,
        "raw": b"\xff",
        "destination": "x",
    }
    amqp.publish(b"a", name, properties=Properties(headers=table))
    client.subscribe(f"/queue/{name}")
    message = client.message()
    shown = {each: message.get(each) for each in table}
    assert shown == {
        "yes": "true",
        "n": "5",
        "list": '["a",1]',
        "none": "",
        "raw": "\ufffd",
        "destination": f"/queue/{name}",
    }


def test_a_header_without_a_name_is_left_out(ground: Ground, client: StompClient) -> None:
    """A frame with one could not be read, and its client would hang up."""
    amqp = ground.amqp()
    name = amqp.queue()
    amqp.publish(b"a", name, properties=Properties(headers={"": "nameless", "b": "c"}))
    client.subscribe(f"/queue/{name}")
    message = client.message()
    assert (message.body, message.get("b")) == (b"a", "c")


def test_a_topic_of_stomp_is_the_exchange_of_amqp(ground: Ground, client: StompClient) -> None:
    amqp = ground.amqp()
    queue = amqp.queue()
    bind = m.QueueBind(queue=queue, exchange="amq.topic", routing_key="news.#")
    amqp.call(bind, m.QueueBindOk)
    client.subscribe("/topic/news.*")
    client.publish("/topic/news.sport", b"from stomp")
    amqp.publish(b"from amqp", "news.art", exchange="amq.topic")
    got, _, body = amqp.get(queue, no_ack=True)
    assert (got.exchange, got.routing_key, body) == ("amq.topic", "news.sport", b"from stomp")
    messages = [client.message(), client.message()]
    assert [(each.get("destination"), each.body) for each in messages] == [
        ("/topic/news.sport", b"from stomp"),
        ("/topic/news.art", b"from amqp"),
    ]


def test_what_mqtt_and_nats_publish_comes_from_the_topic_that_was_subscribed_to(
    ground: Ground, client: StompClient
) -> None:
    client.subscribe("/topic/rooms.*")
    broker = next(iter(ground.cluster.brokers.values()))
    broker.doors.live.publish(LiveMessage(key=MQTT.key_of("rooms/a.b"), body=b"21"))
    message = client.message()
    assert (message.get("destination"), message.body) == ("/topic/rooms.a%252Eb", b"21")


def test_a_topic_that_is_bound_gets_keys_and_headers(ground: Ground, client: StompClient) -> None:
    """A consumer of Kafka sees headers by the table of meanings, and the key."""
    broker = next(iter(ground.cluster.brokers.values()))
    doors = broker.doors
    done: list[object] = []
    doors.cluster.submit(CreateTopic(name="readings", partition_count=1), 10_000, done.append)
    ground.loop.run_until(lambda: len(done) == 1, 10_000)
    bind = BindDestination(
        vhost="/", source="amq.topic", destination=Destination("readings", is_topic=True), key="r.#"
    )
    doors.exchanges.submit(bind, 10_000, done.append)
    ground.loop.run_until(lambda: len(done) == 2, 10_000)
    client.call("SEND", {"destination": "/topic/r.one", **SAID}, b"a")
    reader = Reader()
    feed = doors.reading.feed(TopicPartition("readings", 0), reader)
    feed.seek(EARLIEST)
    feed.grant(1_000_000)
    ground.loop.run_until(lambda: bool(reader.records), 10_000)
    (record,) = reader.records
    assert (record.key, record.value) == (b"r.one", b"a")
    named = {**SAID, "message-id": "m-1"}
    for name in ("persistent", "amqp-message-id"):
        del named[name]
    assert dict(record.headers) == {each: value.encode() for each, value in named.items()}


class Reader:
    """Keeps what a topic has."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def on_batches(self, result: FetchResult) -> None:
        for batch in scan_batches(memoryview(result.records)).batches:
            self.records += decode_batch(result.records, 1 << 20, at=batch.at)

    def on_refused(self, refusal: RequestRefused) -> None:
        raise refusal
