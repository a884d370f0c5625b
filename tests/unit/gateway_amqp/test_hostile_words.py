"""What others have written where brokers read their own words: it hurts nobody.

An option that only gateways set can be set by whoever may change the queue, and a topic's records
have the headers that their producers have given them.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.options.queues import DECLARATION, SOURCE_START, SOURCE_TOPIC
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.gateway.queueing.sweeping import SWEEP_MS
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import DEATH, STORED_AMQP
from kafkaesque.model.records import Record
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.wire import Table, Timestamp
from tests.unit.gateway_amqp.kit import PATIENCE_MS, AmqpClient, Ground


def submit(ground: Ground, command: Any) -> None:
    done: list[object] = []
    ground.cluster.brokers["b1"].doors.cluster.submit(command, 10_000, done.append)
    ground.loop.run_until(lambda: bool(done), PATIENCE_MS)
    assert not isinstance(done[0], Exception), done


def append(ground: Ground, topic: str, headers: Headers, key: bytes = b"key") -> None:
    """Append what a client of Kafka has produced."""
    done: list[object] = []
    ground.cluster.brokers["b1"].doors.publishing.publish(
        TopicPartition(topic, 0),
        bytes(encode_batch([Record(0, 1, key, b"body", headers)])),
        acks=-1,
        timeout_ms=10_000,
        on_done=done.append,
        is_wanted=lambda: True,
    )
    ground.loop.run_until(lambda: bool(done), PATIENCE_MS)
    assert not isinstance(done[0], Exception), done


@pytest.mark.parametrize("owner", ["x", "1", "1.x.y", "9" * 5_000 + ".1.1", "-1.1.1", "1.1.1.1"])
def test_an_owner_that_is_none(ground: Ground, client: AmqpClient, owner: str) -> None:
    options = {DECLARATION: json.dumps({"owner": owner})}
    submit(ground, CreateQueue(vhost=DEFAULT_VHOST, name="hostile", options=options))
    ground.wait(2 * SWEEP_MS)
    client.send(1, m.BasicConsume(queue="hostile", consumer_tag="c"))
    client.expect(m.BasicConsumeOk)
    assert client.queue()


@pytest.mark.parametrize(
    "death",
    [
        {"queue": "q", "at_ms": 10**25},
        {"queue": "q", "at_ms": -1},
        {"queue": "q", "exchange": "x" * 256},
        {"queue": "q", "exchange": "\u00e9" * 200},
        {"queue": "q", "key": "k" * 256},
    ],
)
def test_a_history_that_no_broker_has_written(
    ground: Ground, client: AmqpClient, death: dict[str, object]
) -> None:
    submit(ground, CreateTopic(name="produced", partition_count=1))
    options = {SOURCE_TOPIC: "produced", SOURCE_START: "earliest"}
    submit(ground, CreateQueue(vhost=DEFAULT_VHOST, name="over", options=options))
    append(ground, "produced", ((DEATH, json.dumps(death).encode()),))
    append(ground, "produced", ())
    client.send(1, m.BasicConsume(queue="over", consumer_tag="c"))
    client.expect(m.BasicConsumeOk)
    assert [client.delivery()[2] for _ in range(2)] == [b"body", b"body"]


@pytest.mark.parametrize("value", [None, b"", b"garbage"])
def test_a_message_that_no_client_of_amqp_has_sent(
    ground: Ground, client: AmqpClient, value: bytes | None
) -> None:
    """Each delivery has its own message's key, though all say the same of themselves."""
    submit(ground, CreateTopic(name="produced", partition_count=1))
    options = {SOURCE_TOPIC: "produced", SOURCE_START: "earliest"}
    submit(ground, CreateQueue(vhost=DEFAULT_VHOST, name="over", options=options))
    for key in (b"one", b"two"):
        append(ground, "produced", ((STORED_AMQP, value),), key)
    client.send(1, m.BasicConsume(queue="over", consumer_tag="c"))
    client.expect(m.BasicConsumeOk)
    assert [client.delivery()[0].routing_key for _ in range(2)] == ["one", "two"]


@pytest.mark.parametrize("word", [[], {}, [[1]], 5, True, "every"])
def test_a_way_of_matching_that_there_is_none_of(client: AmqpClient, word: object) -> None:
    """The controller plans the binding: what it cannot look up must not stop it."""
    queue = client.queue()
    client.send(1, m.QueueBind(queue=queue, exchange="amq.headers", arguments={"x-match": word}))
    client.fails_channel(406, "x-match")
    assert client.queue()


@pytest.mark.parametrize("value", [Timestamp(5), [Timestamp(5)], Decimal("1.5"), b"\xff", None])
def test_an_argument_of_any_type(client: AmqpClient, value: object) -> None:
    arguments = {"x-mine": value}
    for _ in range(2):
        client.send(1, m.QueueDeclare(queue="typed", durable=True, arguments=arguments))
        client.expect(m.QueueDeclareOk)


@pytest.mark.parametrize(
    "arguments", [{"x-mine": "\udcff"}, {"\udcff": 1}, {"x": {"y": ["\udcff"]}}]
)
def test_an_argument_that_cannot_be_kept(client: AmqpClient, arguments: Table) -> None:
    client.send(1, m.QueueDeclare(queue="unkept", durable=True, arguments=arguments))
    client.fails_channel(406, "cannot be kept")
    assert client.queue()


@pytest.mark.parametrize(
    "method",
    [
        m.QueueDeclare(queue="a\udcff"),
        m.QueueDelete(queue="a\udcff"),
        m.QueueBind(queue="a\udcff", exchange="amq.topic"),
        m.QueueBind(queue="a", exchange="amq.topic", routing_key="\udcff"),
        m.ExchangeDeclare(exchange="a\udcff", type="topic"),
        m.ExchangeDeclare(exchange="a", type="topic", arguments={"x": "\udcff"}),
        m.ExchangeBind(destination="amq.topic", source="amq.topic", arguments={"\udcff": 1}),
        m.BasicConsume(queue="a\udcff"),
    ],
)
def test_a_name_that_is_no_utf_8(method: m.Method) -> None:
    """It fits into no request to the controller, which may be another broker's."""
    ground = Ground(seed=9, brokers=3)
    for broker in (1, 2, 3):
        client = ground.client(broker)
        client.open()
        client.send(1, method)
        client.fails_channel(406, "no UTF-8")
        assert client.queue()
