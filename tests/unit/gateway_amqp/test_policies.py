"""Policies at the wire: what is there already obeys them, and clients declare as before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaesque.broker.requests.exchange_commands import ExchangeCommand, PutPolicy, RemovePolicy
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp import methods as m
from tests.unit.gateway_amqp.kit import AmqpClient, Ground

#: Queues look once a second whether something else holds for them.
SOON_MS = 2_000


def submit(ground: Ground, command: ExchangeCommand) -> None:
    done: list[object] = []
    broker = next(iter(ground.cluster.brokers.values()))
    broker.doors.exchanges.submit(command, 10_000, done.append)
    ground.loop.run_until(lambda: bool(done), 10_000)
    assert not isinstance(done[0], RequestRefused), done
    ground.wait(SOON_MS)


@pytest.fixture(autouse=True)
def without_policies(ground: Ground) -> Iterator[None]:
    yield
    for is_operator in (False, True):
        submit(ground, RemovePolicy(vhost="/", name="p", is_operator=is_operator))


def put(ground: Ground, queue: str, *, is_operator: bool = False, **settings: object) -> None:
    definition = {name.replace("_", "-"): value for name, value in settings.items()}
    submit(
        ground,
        PutPolicy(
            vhost="/",
            name="p",
            pattern=f"^{queue}$",
            definition=definition,
            is_operator=is_operator,
        ),
    )


def publish(client: AmqpClient, name: str, *bodies: bytes) -> None:
    for body in bodies:
        client.publish(body, name)


def test_a_length_limits_a_queue_that_is_there(ground: Ground, client: AmqpClient) -> None:
    name = client.queue()
    publish(client, name, b"1", b"2", b"3")
    put(ground, name, max_length=2)
    publish(client, name, b"4")
    assert client.count(name) == (2, 0)
    assert client.get(name)[2] == b"3"
    # The queue was declared without it, and can be so again.
    client.call(m.QueueDeclare(queue=name, durable=True), m.QueueDeclareOk)
    put(ground, name, is_operator=True, max_length=1)
    publish(client, name, b"5")
    assert client.count(name) == (1, 0)


def test_dead_letters_go_where_a_policy_says(ground: Ground, client: AmqpClient) -> None:
    name, dead = client.queue(), client.queue()
    put(ground, name, dead_letter_exchange="", dead_letter_routing_key=dead)
    publish(client, name, b"bad")
    got, _, _ = client.get(name)
    client.send(1, m.BasicReject(delivery_tag=got.delivery_tag, requeue=False))
    ground.wait(SOON_MS)
    _, properties, body = client.get(dead)
    assert body == b"bad"
    assert (properties.headers or {})["x-first-death-queue"] == name


def test_messages_and_queues_end_as_a_policy_says(ground: Ground, client: AmqpClient) -> None:
    short, idle = client.queue(), client.queue()
    put(ground, short, message_ttl=500)
    publish(client, short, b"soon over")
    ground.wait(2_000)
    assert client.count(short) == (0, 0)
    put(ground, idle, expires=10_000)
    ground.wait(40_000)
    client.send(1, m.QueueDeclare(queue=idle, passive=True))
    client.fails_channel(404)


def test_a_consumer_has_a_message_for_as_long_as_a_policy_says(
    ground: Ground, client: AmqpClient
) -> None:
    name = client.queue()
    put(ground, name, consumer_timeout=3_000)
    publish(client, name, b"once", b"more")
    client.call(m.BasicQos(prefetch_count=1), m.BasicQosOk)
    client.call(m.BasicConsume(queue=name, consumer_tag="c"), m.BasicConsumeOk)
    first, _, _ = client.message(m.BasicDeliver)
    assert not first.redelivered
    ground.wait(10_000)
    # The channel stays open, and somebody else may have it.
    other = ground.client()
    other.open()
    got, _, body = other.get(name)
    assert (got.redelivered, body) == (True, b"once")
