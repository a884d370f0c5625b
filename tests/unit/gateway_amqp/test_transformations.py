"""Transformations at bindings, at the wire: what arrives changed, and what becomes of the rest."""

from __future__ import annotations

import json

import pytest

from kafkaesque.broker.doors import publish_lanes
from kafkaesque.broker.replication.stored_batches import replay
from kafkaesque.broker.requests.commands import ControllerCommand, CreateTopic
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    PutTransformation,
    RemoveTransformation,
)
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.records import decode_batch
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.protocols.amqp.wire import Table, Timestamp
from kafkaesque.routing.exchanges.errors import NoSuchQueue, TransformationInUse
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.transformations.rules import read_rule
from tests.unit.gateway_amqp.kit import AmqpClient, Ground
from tests.unit.gateway_amqp.test_exchanges import exchange
from tests.unit.gateway_amqp.test_streams import consume, declare

ORDER = b'{"customer": "c1", "total": "12.50"}'
RENAME = {"do": "rename", "at": "$.customer", "to": "$.id"}
CAST = {"do": "cast", "at": "$.total", "to": "number"}
CHANGED = {"id": "c1", "total": 12.5}

SMALL = {"max.message.bytes": "3000"}


def submit(ground: Ground, command: ControllerCommand) -> object:
    done: list[object] = []
    broker = next(iter(ground.cluster.brokers.values()))
    broker.doors.cluster.submit(command, 10_000, done.append)
    ground.loop.run_until(lambda: bool(done), 10_000)
    return done[0]


def put(ground: Ground, name: str, *steps: object, **more: object) -> None:
    rule = read_rule(json.dumps({"steps": steps, **more}).encode())
    told = submit(ground, PutTransformation(vhost="/", name=name, rule=rule))
    assert not isinstance(told, RequestRefused), told


def bind(client: AmqpClient, queue: str, source: str, key: str = "k", **arguments: object) -> None:
    said: Table = {f"x-{name}": value for name, value in arguments.items()}
    binding = m.QueueBind(queue=queue, exchange=source, routing_key=key, arguments=said)
    client.call(binding, m.QueueBindOk)


def bodies(client: AmqpClient, queue: str) -> list[object]:
    found: list[object] = []
    while client.count(queue)[0]:
        found.append(json.loads(client.get(queue, no_ack=True)[2]))
    return found


def test_one_queue_gets_a_message_changed_and_another_as_it_was(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "v2", RENAME, CAST)
    source, new, old = exchange(client, "direct"), client.queue(), client.queue()
    bind(client, new, source, transformation="v2")
    bind(client, old, source)
    client.publish(ORDER, "k", exchange=source)
    # The second goes by a route that is remembered.
    client.publish(ORDER, "k", exchange=source)
    assert bodies(client, new) == [CHANGED, CHANGED]
    assert bodies(client, old) == [json.loads(ORDER)] * 2


def test_headers_and_properties_are_changed(ground: Ground, client: AmqpClient) -> None:
    put(
        ground,
        "head",
        {"do": "template", "at": "headers.origin", "text": "{headers.region}-{properties.type}"},
        {"do": "set", "at": "properties.type", "value": "order.v2"},
        {"do": "set", "at": "properties.timestamp", "value": "77"},
        {"do": "drop", "at": "headers.secret"},
        {"do": "cast", "at": "headers.count", "to": "text"},
    )
    source, queue = exchange(client, "direct"), client.queue()
    bind(client, queue, source, transformation="head")
    said = Properties(
        headers={"region": "eu", "secret": "s", "count": 3, "list": [1, {"a": b"b"}]},
        type="order",
        message_id="m1",
        priority=2,
        timestamp=Timestamp(5),
        delivery_mode=2,
    )
    client.publish(b"no JSON", "k", exchange=source, properties=said)
    got, found, body = client.get(queue)
    assert (got.exchange, got.routing_key, body) == (source, "k", b"no JSON")
    assert found.headers == {
        "region": "eu",
        "count": "3",
        "list": [1, {"a": b"b"}],
        "origin": "eu-order",
    }
    assert (found.type, found.message_id, found.priority) == ("order.v2", "m1", 2)
    assert (found.timestamp, found.delivery_mode) == (77, 2)


def test_a_message_that_a_rule_cannot_change_arrives_as_it_was_and_says_why(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "strict", CAST)
    source, queue = exchange(client, "direct"), client.queue()
    bind(client, queue, source, transformation="strict")
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.publish(b"no JSON", "k", exchange=source, properties=Properties(headers={"a": 1}))
    assert client.expect(m.BasicAck).delivery_tag == 1
    _, found, body = client.get(queue)
    assert body == b"no JSON"
    why = "strict: the body is no JSON, or too large"
    assert found.headers == {"a": 1, "x-transformation-failed": why}


def test_failures_go_once_to_the_queue_that_rules_name(ground: Ground, client: AmqpClient) -> None:
    failed, first, second = client.queue(), client.queue(), client.queue()
    put(ground, "f1", CAST, failures=failed)
    put(ground, "f2", RENAME, failures=failed)
    source, plain = exchange(client, "direct"), client.queue()
    bind(client, first, source, transformation="f1")
    bind(client, second, source, transformation="f2")
    bind(client, plain, source)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.publish(b"no JSON", "k", exchange=source)
    # Wherever it is to be, it is there now.
    assert client.expect(m.BasicAck).delivery_tag == 1
    assert [client.count(each)[0] for each in (first, second, plain, failed)] == [0, 0, 1, 1]
    _, found, body = client.get(failed)
    said = (found.headers or {})["x-transformation-failed"]
    why = "the body is no JSON, or too large"
    assert body == b"no JSON"
    assert sorted(str(said).splitlines()) == [f"f1: {why}", f"f2: {why}"]


@pytest.mark.parametrize("is_dead", [False, True])
def test_what_a_rule_makes_too_large_goes_to_the_queue_for_failures(
    ground: Ground, client: AmqpClient, is_dead: bool
) -> None:
    failed, source = client.queue(), exchange(client, "fanout")
    text = "{$.a}{$.a}{$.a}{$.a}"
    put(ground, "long", {"do": "template", "at": "$.b", "text": text}, failures=failed)
    submit(ground, CreateTopic(name="small", partition_count=1, configs=SMALL))
    topic = Destination("small", is_topic=True)
    said: dict[str, object] = {"x-transformation": "long"}
    submit(ground, BindDestination(vhost="/", source=source, destination=topic, arguments=said))
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    body = json.dumps({"a": "x" * 1_000}).encode()
    if is_dead:
        work = client.queue(**{"x-dead-letter-exchange": source})
        client.publish(body, work)
        client.expect(m.BasicAck)
        got, _, _ = client.get(work)
        client.send(1, m.BasicReject(delivery_tag=got.delivery_tag, requeue=False))
        ground.wait(2_000)
    else:
        client.publish(body, "", exchange=source)
        client.expect(m.BasicAck)
    _, found, arrived = client.get(failed)
    why = "long: what comes out is larger than 'small' takes"
    assert (found.headers or {})["x-transformation-failed"] == why
    assert arrived == body
    assert client.count(failed) == (0, 0)


def test_a_dead_letter_that_a_topic_does_not_take_holds_up_no_others(
    ground: Ground, client: AmqpClient
) -> None:
    source, queue = exchange(client, "fanout"), client.queue()
    submit(ground, CreateTopic(name="small", partition_count=1, configs=SMALL))
    topic = Destination("small", is_topic=True)
    submit(ground, BindDestination(vhost="/", source=source, destination=topic))
    bind(client, queue, source)
    work = client.queue(**{"x-dead-letter-exchange": source})
    for body in (b"1", b"2" * 4_000, b"3"):
        client.publish(body, work)
    for _ in range(3):
        got, _, _ = client.get(work)
        client.send(1, m.BasicReject(delivery_tag=got.delivery_tag, requeue=False))
    ground.wait(4_000)
    assert [client.get(queue)[2][:1] for _ in range(3)] == [b"1", b"2", b"3"]
    broker = next(iter(ground.cluster.brokers.values()))
    partition = broker.partitions.get(broker.state.topic("small").partitions[0].group)
    assert partition is not None
    batches = [data for _, data in replay(partition.log, 0)]
    in_topic = [each.value for data in batches for each in decode_batch(data, 1_000_000)]
    assert in_topic == [b"1", b"3"]


def test_all_that_is_kept_of_a_message_is_counted(
    ground: Ground, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_lanes, "UNDER_WAY_BYTES_MAX", 650_000)
    source = exchange(client, "fanout")
    for name in ("one", "two", "three"):
        put(ground, name, {"do": "set", "at": "$.b", "value": name})
        bind(client, client.queue(), source, transformation=name)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    body = json.dumps({"a": "x" * 100_000}).encode()
    client.publish(body, "", exchange=source)
    client.publish(body, "", exchange=source)
    told = [client.next() for _ in range(2)]
    assert sorted(type(each).__name__ for each in told) == ["BasicAck", "BasicNack"]
    # Nothing is counted of what has arrived.
    client.publish(body, "", exchange=source)
    client.expect(m.BasicAck)


def test_without_the_queue_for_failures_a_publish_is_refused(
    ground: Ground, client: AmqpClient
) -> None:
    failed, queue = client.queue(), client.queue()
    put(ground, "gone", CAST, failures=failed)
    source = exchange(client, "direct")
    bind(client, queue, source, transformation="gone")
    client.call(m.QueueDelete(queue=failed), m.QueueDeleteOk)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.publish(b"no JSON", "k", exchange=source)
    assert client.expect(m.BasicNack).delivery_tag == 1
    client.publish(ORDER, "k", exchange=source)
    assert client.expect(m.BasicAck).delivery_tag == 2
    assert client.count(queue) == (1, 0)
    rule = read_rule(json.dumps({"steps": [CAST], "failures": failed}).encode())
    told = submit(ground, PutTransformation(vhost="/", name="gone", rule=rule))
    assert isinstance(told, RequestRefused)
    assert type(told).__name__ == NoSuchQueue.__name__


def test_of_several_ways_the_transformation_counts_whose_name_comes_first(
    ground: Ground, client: AmqpClient
) -> None:
    for name in ("b", "a"):
        put(ground, name, {"do": "set", "at": "headers.by", "value": name})
    source, inner = exchange(client, "fanout"), exchange(client, "fanout")
    queue = client.queue()
    binding = m.ExchangeBind(source=source, destination=inner)
    client.call(binding, m.ExchangeBindOk)
    bind(client, queue, source)
    bind(client, queue, inner, "1", transformation="b")
    client.publish(b"", "", exchange=source)
    bind(client, queue, source, "2", transformation="a")
    client.publish(b"", "", exchange=source)
    assert [(client.get(queue)[1].headers or {}) for _ in range(2)] == [{"by": "b"}, {"by": "a"}]
    assert client.count(queue) == (0, 0)


def test_a_changed_rule_holds_for_bindings_that_are_there(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "again", {"do": "set", "at": "$.version", "value": 1})
    source, queue = exchange(client, "direct"), client.queue()
    bind(client, queue, source, transformation="again")
    client.publish(b"{}", "k", exchange=source)
    put(ground, "again", {"do": "set", "at": "$.version", "value": 2}, when="region = 'eu'")
    client.publish(b"{}", "k", exchange=source)
    said = Properties(headers={"region": "eu"})
    client.publish(b"{}", "k", exchange=source, properties=said)
    assert bodies(client, queue) == [{"version": 1}, {}, {"version": 2}]


def test_what_bindings_name_has_to_be_there_and_stays(ground: Ground, client: AmqpClient) -> None:
    source, queue = exchange(client, "direct"), client.queue()
    said: Table = {"x-transformation": "nowhere"}
    client.send(1, m.QueueBind(queue=queue, exchange=source, arguments=said))
    client.fails_channel(404, "no transformation 'nowhere'")
    put(ground, "held", RENAME)
    bind(client, queue, source, transformation="held")
    held = RemoveTransformation(vhost="/", name="held")
    told = submit(ground, held)
    assert type(told).__name__ == TransformationInUse.__name__
    inner = exchange(client, "fanout")
    said = {"x-transformation": "held"}
    client.send(1, m.ExchangeBind(source=source, destination=inner, arguments=said))
    client.fails_channel(406, "no place in a binding to an exchange")
    unbind = m.QueueUnbind(queue=queue, exchange=source, routing_key="k", arguments=said)
    client.call(unbind, m.QueueUnbindOk)
    assert not isinstance(submit(ground, held), RequestRefused)


@pytest.mark.parametrize("is_failing", [False, True])
def test_dead_letters_are_changed_too(ground: Ground, client: AmqpClient, is_failing: bool) -> None:
    failed, dead, source = client.queue(), client.queue(), exchange(client, "fanout")
    put(ground, "dead", RENAME, CAST, failures=failed)
    bind(client, dead, source, transformation="dead")
    work = client.queue(**{"x-dead-letter-exchange": source})
    client.publish(b"no JSON" if is_failing else ORDER, work)
    got, _, _ = client.get(work)
    client.send(1, m.BasicReject(delivery_tag=got.delivery_tag, requeue=False))
    ground.wait(2_000)
    if is_failing:
        assert client.count(dead) == (0, 0)
        _, found, body = client.get(failed)
        assert body == b"no JSON"
        assert "x-transformation-failed" in (found.headers or {})
    else:
        _, found, body = client.get(dead)
        assert json.loads(body) == CHANGED
    assert (found.headers or {})["x-first-death-queue"] == work


def test_a_delayed_message_is_changed(ground: Ground, client: AmqpClient) -> None:
    put(ground, "late", RENAME, CAST)
    source = exchange(client, "x-delayed-message", **{"x-delayed-type": "direct"})
    queue = client.queue()
    bind(client, queue, source, transformation="late")
    said = Properties(headers={"x-delay": 3_000})
    client.publish(ORDER, "k", exchange=source, properties=said)
    assert client.count(queue) == (0, 0)
    ground.wait(3_500)
    assert bodies(client, queue) == [CHANGED]


def test_a_stream_gets_it_changed_under_the_names_of_all_protocols(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "stream", RENAME, CAST, {"do": "set", "at": "properties.type", "value": "v2"})
    source, stream = exchange(client, "direct"), declare(client)
    bind(client, stream, source, transformation="stream")
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    said = Properties(content_type="application/json", headers={"count": 3})
    client.publish(ORDER, "k", exchange=source, properties=said)
    client.expect(m.BasicAck)
    consume(client, stream)
    _, found, body = client.message(m.BasicDeliver)
    assert json.loads(body) == CHANGED
    assert (found.type, found.content_type) == ("v2", "application/json")
    assert (found.headers or {})["count"] == "3"


def test_a_headers_exchange_does_not_demand_it(ground: Ground, client: AmqpClient) -> None:
    put(ground, "h", {"do": "drop", "at": 'headers."x-kind"'})
    source, queue = exchange(client, "headers"), client.queue()
    bind(client, queue, source, match="all-with-x", kind="a", transformation="h")
    client.publish(b"in", "", exchange=source, properties=Properties(headers={"x-kind": "a"}))
    client.publish(b"out", "", exchange=source, properties=Properties(headers={"x-kind": "b"}))
    _, found, body = client.get(queue)
    assert (body, found.headers) == (b"in", None)
    assert client.count(queue) == (0, 0)


def test_a_name_that_is_none_is_refused(client: AmqpClient) -> None:
    source, queue = exchange(client, "direct"), client.queue()
    said: Table = {"x-transformation": 1}
    client.send(1, m.QueueBind(queue=queue, exchange=source, arguments=said))
    client.fails_channel(406, "has to be a transformation's name")
