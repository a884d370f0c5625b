"""Transformations on the way out of a queue: what consumers get, and what stays as it came."""

from __future__ import annotations

import json

import pytest

from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.exchange_commands import RemoveTransformation
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.protocols.amqp.wire import Table
from kafkaesque.routing.exchanges.errors import TransformationInUse
from tests.unit.gateway_amqp.kit import AmqpClient, Ground
from tests.unit.gateway_amqp.test_exchanges import exchange
from tests.unit.gateway_amqp.test_streams import consume
from tests.unit.gateway_amqp.test_transformations import (
    CAST,
    CHANGED,
    ORDER,
    RENAME,
    put,
    submit,
)

OUT = "x-transformation-out"


def test_a_delivery_is_changed_and_so_is_the_same_one_again(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "v2", RENAME, CAST, {"do": "drop", "at": "headers.secret"})
    queue = client.queue(**{OUT: "v2"})
    client.publish(ORDER, queue, properties=Properties(headers={"secret": 1, "a": 2}))
    consume(client, queue)
    for _ in range(2):
        got, said, body = client.message(m.BasicDeliver)
        assert json.loads(body) == CHANGED
        assert (said.headers or {}).get("a") == 2
        assert "secret" not in (said.headers or {})
        client.send(1, m.BasicReject(delivery_tag=got.delivery_tag, requeue=True))
    got, _, _ = client.message(m.BasicDeliver)
    client.send(1, m.BasicAck(delivery_tag=got.delivery_tag))
    ground.wait(500)
    assert client.count(queue)[0] == 0
    # What is put later, and another rule: it holds for what waits.
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    client.publish(ORDER, queue)
    put(ground, "v2", {"do": "set", "at": "$.total", "value": 0})
    _, _, body = client.get(queue)
    assert json.loads(body) == {"customer": "c1", "total": 0}


def test_what_cannot_be_changed_becomes_a_dead_letter_as_it_came_and_says_why(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "strict", CAST)
    source, dead = exchange(client, "fanout"), client.queue()
    client.call(m.QueueBind(queue=dead, exchange=source, routing_key=""), m.QueueBindOk)
    queue = client.queue(**{OUT: "strict", "x-dead-letter-exchange": source})
    for body in (ORDER, b"no JSON", ORDER):
        client.publish(body, queue)
    found = [json.loads(client.get(queue, no_ack=True)[2])["total"] for _ in range(2)]
    assert found == [12.5, 12.5]
    ground.wait(2_000)
    _, said, body = client.get(dead)
    why = "strict: the body is no JSON, or too large"
    assert body == b"no JSON"
    assert (said.headers or {})["x-transformation-failed"] == why
    assert (said.headers or {})["x-first-death-reason"] == "rejected"
    assert client.count(queue)[0] == client.count(dead)[0] == 0


def test_what_nobody_takes_is_parked_and_does_not_come_again(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "strict", CAST)
    queue = client.queue(**{OUT: "strict"})
    client.publish(b"no JSON", queue)
    client.publish(ORDER, queue)
    consume(client, queue)
    got, _, body = client.message(m.BasicDeliver)
    assert json.loads(body)["total"] == 12.5
    client.send(1, m.BasicAck(delivery_tag=got.delivery_tag))
    assert client.silent(2_000)


def test_one_that_was_changed_and_is_rejected_says_nothing_of_rules(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "v2", CAST)
    dead = client.queue()
    said: dict[str, object] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    queue = client.queue(**{OUT: "v2"}, **said)
    client.publish(ORDER, queue)
    got, _, _ = client.get(queue)
    client.send(1, m.BasicReject(delivery_tag=got.delivery_tag, requeue=False))
    ground.wait(2_000)
    _, found, body = client.get(dead)
    assert body == ORDER
    assert "x-transformation-failed" not in (found.headers or {})


def test_a_queue_in_memory_changes_them_too(ground: Ground, client: AmqpClient) -> None:
    put(ground, "v2", RENAME, CAST)
    options = {"transient": "true", "transformation.out": "v2"}
    told = submit(ground, CreateQueue(vhost="/", name="memory", options=options))
    assert not isinstance(told, RequestRefused), told
    client.publish(ORDER, "memory")
    assert json.loads(client.get("memory")[2]) == CHANGED


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transformation.out": "nowhere"}, "there is no transformation 'nowhere'"),
        ({"transformation.out": "v2", "undeliverable": "drop"}, "would be lost"),
        ({"transformation.out": "v2", "stream.topic": "topic"}, "a stream is read in its topic"),
        ({"transformation.out": "x" * 256}, "more than 255 bytes"),
    ],
)
def test_what_cannot_be_is_refused(ground: Ground, options: dict[str, str], said: str) -> None:
    put(ground, "v2", CAST)
    submit(ground, CreateTopic(name="topic", partition_count=1))
    told = submit(ground, CreateQueue(vhost="/", name="q", options=options))
    assert isinstance(told, RequestRefused)
    assert said in str(told)


def test_a_declaration_names_one_that_there_is_and_holds_it(
    ground: Ground, client: AmqpClient
) -> None:
    put(ground, "v2", CAST)
    put(ground, "v3", CAST)
    queue = client.queue(**{OUT: "v2"})
    told = submit(ground, RemoveTransformation(vhost="/", name="v2"))
    assert type(told).__name__ == TransformationInUse.__name__
    assert "1 queue in vhost" in str(told)
    declare = m.QueueDeclare(queue=queue, durable=True, arguments={OUT: "v2"})
    assert client.call(declare, m.QueueDeclareOk).queue == queue
    client.send(1, m.QueueDeclare(queue=queue, durable=True, arguments={OUT: "v3"}))
    client.fails_channel(406, OUT)
    for value in ("nowhere", "", 1):
        client.send(1, m.QueueDeclare(queue="new", durable=True, arguments={OUT: value}))
        client.fails_channel(406, "transformation")
    arguments: Table = {OUT: "v2", "x-queue-type": "stream"}
    client.send(1, m.QueueDeclare(queue="new", durable=True, arguments=arguments))
    client.fails_channel(406, "a stream has none")
    client.call(m.QueueDelete(queue=queue), m.QueueDeleteOk)
    told = submit(ground, RemoveTransformation(vhost="/", name="v2"))
    assert not isinstance(told, RequestRefused), told
