"""Streams: topics that clients of AMQP declare, publish to, and read without removing anything."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.gateway.amqp.stream_consumer import FILTERED_MAX
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.protocols.amqp.wire import Timestamp
from tests.unit.gateway_amqp.kit import AmqpClient, Ground

_names = itertools.count()


def declare(client: AmqpClient, name: str = "", **arguments: object) -> str:
    name = name or f"stream-{next(_names)}"
    said = {"x-queue-type": "stream", **{k.replace("_", "-"): v for k, v in arguments.items()}}
    client.call(m.QueueDeclare(queue=name, durable=True, arguments=said), m.QueueDeclareOk)
    return name


def publish(client: AmqpClient, name: str, *bodies: str) -> None:
    """Publish, and wait until it is committed."""
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    for body in bodies:
        client.publish(body.encode(), name)
        client.expect(m.BasicAck)


def consume(
    client: AmqpClient, name: str, offset: object = "first", tag: str = "c", *, no_ack: bool = False
) -> None:
    arguments = {} if offset is None else {"x-stream-offset": offset}
    method = m.BasicConsume(queue=name, consumer_tag=tag, arguments=arguments, no_ack=no_ack)
    client.call(method, m.BasicConsumeOk)


def take(client: AmqpClient, count: int) -> list[tuple[int, str]]:
    """Return offsets and bodies of messages that come."""
    found = []
    for _ in range(count):
        _, properties, body = client.message(m.BasicDeliver)
        offset = (properties.headers or {})["x-stream-offset"]
        assert isinstance(offset, int)
        found.append((offset, body.decode()))
    return found


def test_what_is_read_stays_for_all(ground: Ground, client: AmqpClient) -> None:
    name = declare(client)
    publish(client, name, "a", "b", "c")
    consume(client, name)
    assert take(client, 3) == [(0, "a"), (1, "b"), (2, "c")]
    client.send(1, m.BasicAck(delivery_tag=3, multiple=True))
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    other = ground.client()
    other.open()
    consume(other, name, no_ack=True)
    assert take(other, 3) == [(0, "a"), (1, "b"), (2, "c")]
    publish(client, name, "d")
    assert take(other, 1) == [(3, "d")]
    # Rejected or not: nothing of a stream comes again or goes anywhere.
    assert client.silent()


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ("first", ["a", "b", "c", "d"]),
        ("last", ["c", "d"]),
        ("next", ["d"]),
        (None, ["d"]),
        (1, ["b", "c", "d"]),
        (99, ["d"]),
        (Timestamp(1), ["a", "b", "c", "d"]),
        ("1h", ["a", "b", "c", "d"]),
    ],
)
def test_consumers_say_where_they_begin(
    client: AmqpClient, offset: object, expected: list[str]
) -> None:
    name = declare(client)
    publish(client, name, "a", "b", "c")
    consume(client, name, offset)
    client.publish(b"d", name)
    seen: list[str] = []
    while len(seen) < len(expected):
        found = client.next(1)
        if not isinstance(found, m.BasicAck):
            seen.append(found.body.decode())  # type: ignore[union-attr]
    assert seen == expected


def test_a_time_passes_over_what_is_older(ground: Ground, client: AmqpClient) -> None:
    name = declare(client)
    publish(client, name, "old")
    ground.wait(5_000)
    now_s = ground.env.clock.wall_ms() // 1000
    ground.wait(2_000)
    publish(client, name, "new", "newer")
    consume(client, name, Timestamp(now_s))
    assert [body for _, body in take(client, 2)] == ["new", "newer"]


def test_prefetch_is_how_far_a_consumer_may_be_behind(client: AmqpClient) -> None:
    name = declare(client)
    publish(client, name, *"abcde")
    client.call(m.BasicQos(prefetch_count=2), m.BasicQosOk)
    consume(client, name)
    assert [body for _, body in take(client, 2)] == ["a", "b"]
    assert client.silent()
    client.send(1, m.BasicAck(delivery_tag=1))
    assert take(client, 1) == [(2, "c")]
    # A rejection says no more than that it was had.
    client.send(1, m.BasicNack(delivery_tag=3, multiple=True, requeue=True))
    assert take(client, 2) == [(3, "d"), (4, "e")]


def test_properties_come_with_messages(client: AmqpClient) -> None:
    name = declare(client)
    sent = Properties(
        content_type="text/plain", correlation_id="7", priority=3, headers={"colour": "red"}
    )
    client.publish(b"x", name, properties=sent)
    consume(client, name)
    deliver, got, _ = client.message(m.BasicDeliver)
    assert (deliver.routing_key, deliver.redelivered) == (name, False)
    assert (got.content_type, got.correlation_id, got.priority) == ("text/plain", "7", 3)
    assert got.headers == {"colour": "red", "x-stream-offset": 0}


def test_exchanges_lead_to_streams(client: AmqpClient) -> None:
    name, queue = declare(client), client.queue()
    for each in (name, queue):
        bind = m.QueueBind(queue=each, exchange="amq.topic", routing_key=f"{name}.#")
        client.call(bind, m.QueueBindOk)
    client.publish(b"both", f"{name}.x", exchange="amq.topic")
    consume(client, name)
    assert take(client, 1) == [(0, "both")]
    assert client.get(queue)[2] == b"both"


def test_dead_letters_may_go_to_a_stream(ground: Ground, client: AmqpClient) -> None:
    name = declare(client)
    more = {"x-dead-letter-exchange": "amq.fanout", "x-max-length": 1}
    client.call(m.QueueBind(queue=name, exchange="amq.fanout"), m.QueueBindOk)
    queue = client.queue(**more)
    for body in (b"1", b"2"):
        client.publish(body, queue)
    consume(client, name)
    assert take(client, 1) == [(0, "1")]


def test_dead_letters_that_name_a_stream_are_in_it(client: AmqpClient) -> None:
    stream = declare(client)
    queue = client.queue(**{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream})
    client.publish(b"dead", queue)
    tag = client.get(queue)[0].delivery_tag
    client.send(1, m.BasicReject(delivery_tag=tag, requeue=False))
    consume(client, stream, "first")
    assert take(client, 1) == [(0, "dead")]


def test_a_stream_is_a_topic(ground: Ground, client: AmqpClient) -> None:
    name = declare(client, x_max_age="7D", x_max_length_bytes=10**9)
    state = next(iter(ground.cluster.brokers.values())).doors.cluster.state
    topic = state.topics[name]
    assert topic.configs["retention.ms"] == str(7 * 86_400_000)
    assert topic.configs["retention.bytes"] == str(10**9)
    client.call(m.QueueDelete(queue=name), m.QueueDeleteOk)
    ground.loop.run_until(lambda: name not in state.topics, 10_000)
    client.send(1, m.QueueDeclare(queue=name, passive=True))
    client.fails_channel(404)


def test_a_topic_that_was_there_can_be_a_stream_and_stays(
    ground: Ground, client: AmqpClient
) -> None:
    doors = next(iter(ground.cluster.brokers.values())).doors
    done: list[object] = []
    for name, count in (("of-kafka", 1), ("wide", 2)):
        create = CreateTopic(name=name, partition_count=count, replication_factor=1)
        doors.cluster.submit(create, 10_000, done.append)
    ground.loop.run_until(lambda: len(done) == 2, 10_000)
    assert not any(isinstance(each, RequestRefused) for each in done)
    declare(client, "of-kafka")
    publish(client, "of-kafka", "x")
    client.call(m.QueueDelete(queue="of-kafka"), m.QueueDeleteOk)
    ground.wait(1_000)
    assert "of-kafka" in doors.cluster.state.topics
    said: Mapping[str, object] = {"x-queue-type": "stream"}
    client.send(1, m.QueueDeclare(queue="wide", durable=True, arguments=dict(said)))
    client.fails_channel(406, "one partition")


def test_consumers_are_told_when_the_topic_goes(ground: Ground, client: AmqpClient) -> None:
    name = declare(client)
    consume(client, name)
    other = ground.client()
    other.open()
    other.call(m.QueueDelete(queue=name), m.QueueDeleteOk)
    assert client.expect(m.BasicCancel) == m.BasicCancel(consumer_tag="c", nowait=True)


def test_a_stream_is_durable_and_shared(client: AmqpClient) -> None:
    said = {"x-queue-type": "stream"}
    for method, text in (
        (m.QueueDeclare(queue="s", arguments=dict(said)), "non-durable"),
        (m.QueueDeclare(queue="s", durable=True, exclusive=True, arguments=dict(said)), "exclus"),
        (m.QueueDeclare(queue="s", durable=True, auto_delete=True, arguments=dict(said)), "auto-"),
    ):
        client.send(1, method)
        client.fails_channel(406, f"invalid property '{text}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-max-age", "7 days"),
        ("x-max-age", 7),
        ("x-max-length", 7),
        ("x-message-ttl", 7),
        ("x-dead-letter-exchange", ""),
        ("x-single-active-consumer", True),
    ],
)
def test_an_argument_that_is_none_of_a_stream_is_named(
    client: AmqpClient, name: str, value: object
) -> None:
    said = {"x-queue-type": "stream", name: value}
    client.send(1, m.QueueDeclare(queue="s", durable=True, arguments=said))
    client.fails_channel(406, f"invalid arg '{name}'")


@pytest.mark.parametrize("offset", ["somewhere", -1, True, "1x", 1.5])
def test_a_place_that_is_none_is_refused(client: AmqpClient, offset: object) -> None:
    name = declare(client)
    arguments = {"x-stream-offset": offset}
    client.send(1, m.BasicConsume(queue=name, consumer_tag="c", arguments=arguments))
    client.fails_channel(406, "invalid arg 'x-stream-offset'")


@pytest.mark.parametrize("kind", [m.BasicGet, m.QueuePurge])
def test_what_streams_do_not_know_ends_the_connection(
    client: AmqpClient, kind: type[m.BasicGet | m.QueuePurge]
) -> None:
    client.send(1, kind(queue=declare(client)))
    client.fails(540, "not supported by stream queue")


def test_a_stream_is_read_from_any_broker_and_survives_its_leader() -> None:
    ground = Ground(seed=5, brokers=3)
    first = ground.client(1)
    first.open()
    name = declare(first, "events")
    publish(first, name, "a", "b")
    leader = next(iter(ground.cluster.brokers.values())).doors.cluster
    group = leader.state.topics[name].partitions[0].group
    led = int(leader.leaders.leader(group) or 0)
    reader = ground.client(1 + led % 3)
    reader.open()
    consume(reader, name)
    assert take(reader, 2) == [(0, "a"), (1, "b")]
    ground.kill(led)
    ground.wait(15_000)
    writer = ground.client(1 + led % 3)
    writer.open()
    publish(writer, name, "c")
    assert take(reader, 1) == [(2, "c")]


def test_no_stream_has_the_name_of_a_queue_that_is_shown_as_a_topic(
    ground: Ground, client: AmqpClient
) -> None:
    doors, done = next(iter(ground.cluster.brokers.values())).doors, list[object]()
    command = CreateQueue(vhost="/", name="seen", options={"kafka.topic": "shown"})
    doors.cluster.submit(command, 10_000, done.append)
    ground.loop.run_until(lambda: bool(done), 10_000)
    arguments: dict[str, object] = {"x-queue-type": "stream"}
    client.send(1, m.QueueDeclare(queue="shown", durable=True, arguments=arguments))
    client.fails_channel(406, "shows a queue")


def filtered(client: AmqpClient, name: str, text: object, tag: str = "c") -> None:
    arguments = {"x-stream-offset": "first", "x-filter": text}
    method = m.BasicConsume(queue=name, consumer_tag=tag, arguments=arguments)
    client.call(method, m.BasicConsumeOk)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colour = 'red'", ["a", '{"total": 120}']),
        ("properties.priority > 2", ["b"]),
        ("$.total BETWEEN 100 AND 200", ['{"total": 120}']),
        ("colour IS NULL OR properties.type = 'order'", ["b"]),
    ],
    ids=["header", "property", "body", "both"],
)
def test_a_filter_passes_over_what_a_consumer_does_not_want(
    ground: Ground, client: AmqpClient, text: str, expected: list[str]
) -> None:
    name = declare(client)
    red = Properties(headers={"colour": "red"})
    client.publish(b"a", name, properties=red)
    client.publish(b"b", name, properties=Properties(priority=3, type="order"))
    client.publish(b'{"total": 120}', name, properties=red)
    client.publish(b'{"total": 7}', name, properties=Properties(headers={"colour": "blue"}))
    other = ground.client()
    other.open()
    consume(other, name)
    assert len(take(other, 4)) == 4
    filtered(other, name, text, "d")
    assert [body for _, body in take(other, len(expected))] == expected
    assert other.silent()


def test_passing_over_takes_no_prefetch_and_goes_on_with_what_comes(client: AmqpClient) -> None:
    """More is passed over than in one turn of the loop; what follows is neither late nor lost."""
    name = declare(client)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    wanted, others = Properties(type="wanted"), 3 * FILTERED_MAX
    for number in range(others):
        client.publish(b"%d" % number, name)
    for body in (b"x", b"y"):
        client.publish(body, name, properties=wanted)
    confirmed = 0
    while confirmed < others + 2:
        confirmed = client.expect(m.BasicAck).delivery_tag
    client.call(m.BasicQos(prefetch_count=1), m.BasicQosOk)
    filtered(client, name, "properties.type = 'wanted'")
    assert take(client, 1) == [(others, "x")]
    assert client.silent()
    client.send(1, m.BasicAck(delivery_tag=1))
    assert take(client, 1) == [(others + 1, "y")]
    client.send(1, m.BasicAck(delivery_tag=2))
    client.publish(b"no", name)
    client.publish(b"z", name, properties=wanted)
    client.expect(m.BasicAck)
    assert take(client, 1) == [(others + 3, "z")]


@pytest.mark.parametrize(
    ("text", "said"), [("colour =", "at character"), ("", "at character"), (5, "has to be a text")]
)
def test_a_filter_that_is_none_closes_the_channel(
    client: AmqpClient, text: object, said: str
) -> None:
    name = declare(client)
    client.send(1, m.BasicConsume(queue=name, arguments={"x-filter": text}))
    client.fails_channel(406, said)


def test_a_queue_whose_consumers_share_messages_has_no_filter(client: AmqpClient) -> None:
    queue = client.queue()
    client.send(1, m.BasicConsume(queue=queue, arguments={"x-filter": "a = 1"}))
    client.fails_channel(406, "x-filter is for streams")
