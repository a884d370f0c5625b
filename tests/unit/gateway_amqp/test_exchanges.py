"""Exchanges over AMQP: declared, bound, published to, and refused as RabbitMQ does it."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pytest

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.protocols.amqp.wire import Table
from tests.unit.gateway_amqp.kit import AmqpClient, Ground

_names = itertools.count()


def exchange(client: AmqpClient, kind: str, **arguments: Any) -> str:
    name = f"exchange-{next(_names)}"
    declare = m.ExchangeDeclare(exchange=name, type=kind, durable=True, arguments=arguments)
    client.call(declare, m.ExchangeDeclareOk)
    return name


def bind(client: AmqpClient, queue: str, source: str, key: str = "", **arguments: Any) -> None:
    method = m.QueueBind(queue=queue, exchange=source, routing_key=key, arguments=arguments)
    client.call(method, m.QueueBindOk)


def gets(client: AmqpClient, queue: str) -> list[tuple[str, str, bytes]]:
    """Fetch all that is in a queue: exchange, key and body."""
    found = []
    while client.count(queue)[0]:
        got, _, body = client.get(queue, no_ack=True)
        found.append((got.exchange, got.routing_key, body))
    return found


def test_a_direct_exchange_goes_by_the_key(client: AmqpClient) -> None:
    source, first, second = exchange(client, "direct"), client.queue(), client.queue()
    bind(client, first, source, "red")
    bind(client, second, source, "red")
    bind(client, second, source, "blue")
    for key in ("red", "blue", "green"):
        client.publish(key.encode(), key, exchange=source)
    assert gets(client, first) == [(source, "red", b"red")]
    assert gets(client, second) == [(source, "red", b"red"), (source, "blue", b"blue")]


def test_decimals_are_arguments_as_others(client: AmqpClient) -> None:
    price = Decimal("1.50")
    queue, other = client.queue(price=price), client.queue()
    source = exchange(client, "headers", price=price)
    bind(client, queue, source, price=price)
    bind(client, other, source, prices=[price], nested={"price": price})
    said: Table = {"price": price, "prices": [price], "nested": {"price": price}}
    client.publish(b"x", "", exchange=source, properties=Properties(headers=said))
    assert client.get(queue)[1].headers == said
    assert client.get(other)[2] == b"x"
    unbind = m.QueueUnbind(queue=queue, exchange=source, arguments={"price": price})
    client.call(unbind, m.QueueUnbindOk)
    client.publish(b"y", "", exchange=source, properties=Properties(headers=said))
    assert gets(client, queue) == []


def test_topics_fanouts_and_headers(client: AmqpClient) -> None:
    queue = client.queue()
    topic, fanout, headers = (exchange(client, each) for each in ("topic", "fanout", "headers"))
    bind(client, queue, topic, "logs.#.error")
    bind(client, queue, fanout)
    said_by: dict[str, Any] = {"x-match": "all", "a": 1, "b": "two"}
    bind(client, queue, headers, **said_by)
    client.publish(b"1", "logs.x.y.error", exchange=topic)
    client.publish(b"no", "logs.x.warning", exchange=topic)
    client.publish(b"2", "anything", exchange=fanout)
    said: Table = {"a": 1, "b": "two", "c": True}
    client.publish(b"3", "", exchange=headers, properties=Properties(headers=said))
    client.publish(b"no", "", exchange=headers, properties=Properties(headers={"a": 1}))
    assert [body for _, _, body in gets(client, queue)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("more", [{}, {"priority": 1}])
def test_filters_and_hashes_see_properties_that_brokers_go_by_and_others(
    client: AmqpClient, more: dict[str, Any]
) -> None:
    source, orders, others = exchange(client, "direct"), client.queue(), client.queue()
    bind(client, orders, source, **{"x-filter": "properties.type = 'order'"})
    bind(client, others, source, **{"x-filter": "properties.type IS NULL"})
    said = Properties(type="order", content_type="text/plain", **more)
    client.publish(b"order", "", exchange=source, properties=said)
    client.publish(b"other", "", exchange=source, properties=Properties(**more))
    assert gets(client, orders) == [(source, "", b"order")]
    assert gets(client, others) == [(source, "", b"other")]
    hashing = exchange(client, "x-consistent-hash", **{"hash-property": "message_id"})
    queues = [client.queue() for _ in range(2)]
    for each in queues:
        bind(client, each, hashing, "1")
    for number in range(32):
        said = Properties(message_id=str(number), **more)
        client.publish(b"", "", exchange=hashing, properties=said)
    counts = [client.count(each)[0] for each in queues]
    assert sum(counts) == 32
    assert all(counts), counts


def test_exchanges_are_bound_to_exchanges(client: AmqpClient) -> None:
    first, second, queue = exchange(client, "topic"), exchange(client, "fanout"), client.queue()
    binding = m.ExchangeBind(source=first, destination=second, routing_key="a.*")
    client.call(binding, m.ExchangeBindOk)
    bind(client, queue, second)
    client.publish(b"in", "a.b", exchange=first)
    client.call(
        m.ExchangeUnbind(source=first, destination=second, routing_key="a.*"), m.ExchangeUnbindOk
    )
    client.publish(b"out", "a.b", exchange=first)
    assert gets(client, queue) == [(first, "a.b", b"in")]


def test_what_nobody_is_bound_for_goes_to_the_alternate_or_back(client: AmqpClient) -> None:
    other, queue = exchange(client, "fanout"), client.queue()
    source = exchange(client, "direct", **{"alternate-exchange": other})
    bind(client, queue, other)
    client.publish(b"x", "nobody", exchange=source)
    assert gets(client, queue) == [(source, "nobody", b"x")]
    alone = exchange(client, "direct")
    client.publish(b"y", "nobody", exchange=alone, mandatory=True)
    returned, _, body = client.message(m.BasicReturn)
    assert (returned.exchange, body) == (alone, b"y")


def test_a_delayed_exchange_delays(ground: Ground, client: AmqpClient) -> None:
    source, queue = (
        exchange(client, "x-delayed-message", **{"x-delayed-type": "direct"}),
        client.queue(),
    )
    bind(client, queue, source, "k")
    said: Table = {"x-delay": 3_000}
    client.publish(b"later", "k", exchange=source, properties=Properties(headers=said))
    assert client.count(queue) == (0, 0)
    ground.wait(3_500)
    assert [body for _, _, body in gets(client, queue)] == [b"later"]


def test_a_binding_without_names_is_the_last_queues_by_its_name(client: AmqpClient) -> None:
    first, last = client.queue(), client.queue()
    client.call(m.QueueBind(exchange="amq.direct"), m.QueueBindOk)
    client.call(m.QueueBind(exchange="amq.direct", routing_key="said"), m.QueueBindOk)
    # A queue that is named is bound with the key that is said, also if that is empty.
    client.call(m.QueueBind(queue=first, exchange="amq.direct"), m.QueueBindOk)
    for key in (last, "said", ""):
        client.publish(key.encode(), key, exchange="amq.direct")
    assert [body for *_, body in gets(client, last)] == [last.encode(), b"said"]
    assert [body for *_, body in gets(client, first)] == [b""]
    # Counted last was the other one.
    client.call(m.QueueDeclare(queue=last, passive=True), m.QueueDeclareOk)
    client.call(m.QueueUnbind(exchange="amq.direct"), m.QueueUnbindOk)
    for key in (last, "said"):
        client.publish(key.encode(), key, exchange="amq.direct")
    assert [body for *_, body in gets(client, last)] == [b"said"]


def test_an_unbound_queue_gets_no_more(client: AmqpClient) -> None:
    source, queue = exchange(client, "fanout"), client.queue()
    bind(client, queue, source)
    client.call(m.QueueUnbind(queue=queue, exchange=source), m.QueueUnbindOk)
    client.publish(b"x", "", exchange=source)
    assert gets(client, queue) == []
    # What is not bound is unbound.
    client.call(m.QueueUnbind(queue=queue, exchange=source), m.QueueUnbindOk)


def test_declared_again_passively_and_deleted(client: AmqpClient) -> None:
    name = exchange(client, "topic")
    again = m.ExchangeDeclare(exchange=name, type="topic", durable=True)
    client.call(again, m.ExchangeDeclareOk)
    client.call(m.ExchangeDeclare(exchange=name, passive=True), m.ExchangeDeclareOk)
    client.call(m.ExchangeDelete(exchange=name), m.ExchangeDeleteOk)
    client.call(m.ExchangeDelete(exchange=name), m.ExchangeDeleteOk)
    client.send(1, m.ExchangeDeclare(exchange=name, passive=True))
    client.fails_channel(404, f"no exchange '{name}' in vhost '/'")


def test_nowait_is_answered_with_nothing(client: AmqpClient) -> None:
    queue = client.queue()
    client.send(1, m.ExchangeDeclare(exchange="quiet", type="fanout", nowait=True))
    client.send(1, m.QueueBind(queue=queue, exchange="quiet", nowait=True))
    client.publish(b"x", "", exchange="quiet")
    client.send(1, m.ExchangeDelete(exchange="quiet", nowait=True))
    assert gets(client, queue) == [("quiet", "", b"x")]
    assert client.silent()


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (m.ExchangeDeclare(exchange="amq.mine", type="direct", durable=True), 403, "amq."),
        (m.ExchangeDeclare(exchange="", type="direct"), 403, "default exchange"),
        (m.ExchangeDelete(exchange=""), 403, "default exchange"),
        (m.ExchangeDelete(exchange="amq.topic"), 403, "amq."),
        (m.ExchangeDeclare(exchange="amq.topic", type="direct", durable=True), 406, "'type'"),
        (m.QueueBind(queue="absent", exchange="amq.topic"), 404, "no queue 'absent'"),
        (m.ExchangeBind(source="absent", destination="amq.topic"), 404, "no exchange 'absent'"),
        (m.ExchangeBind(source="amq.topic", destination="absent"), 404, "no exchange 'absent'"),
    ],
)
def test_mistakes_that_close_the_channel(
    client: AmqpClient, method: m.Method, code: int, text: str
) -> None:
    client.send(1, method)
    client.fails_channel(code, text)


def test_the_default_exchange_is_not_bound(client: AmqpClient) -> None:
    client.send(1, m.QueueBind(queue=client.queue(), exchange=""))
    client.fails_channel(403, "operation not permitted on the default exchange")


def test_an_unknown_type_ends_the_connection(client: AmqpClient) -> None:
    client.send(1, m.ExchangeDeclare(exchange="odd", type="odd"))
    client.fails(503, "")


def test_an_internal_exchange_is_not_published_to(client: AmqpClient) -> None:
    declare = m.ExchangeDeclare(exchange="inner", type="fanout", internal=True)
    client.call(declare, m.ExchangeDeclareOk)
    client.publish(b"x", "", exchange="inner")
    client.fails_channel(403, "cannot publish to internal exchange 'inner'")


def test_an_exchange_in_use_is_deleted_only_where_that_is_meant(client: AmqpClient) -> None:
    source, queue = exchange(client, "fanout"), client.queue()
    bind(client, queue, source)
    client.send(1, m.ExchangeDelete(exchange=source, if_unused=True))
    client.fails_channel(406, "in use")
    client.call(m.ExchangeDelete(exchange=source), m.ExchangeDeleteOk)


def test_an_auto_delete_exchange_goes_with_its_last_binding(client: AmqpClient) -> None:
    queue = client.queue()
    declare = m.ExchangeDeclare(exchange="passing", type="fanout", auto_delete=True)
    client.call(declare, m.ExchangeDeclareOk)
    bind(client, queue, "passing")
    client.call(m.QueueDelete(queue=queue), m.QueueDeleteOk)
    client.send(1, m.ExchangeDeclare(exchange="passing", passive=True))
    client.fails_channel(404)


def test_a_transaction_goes_through_exchanges(client: AmqpClient) -> None:
    source, queue = exchange(client, "fanout"), client.queue()
    bind(client, queue, source)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.publish(b"x", "", exchange=source)
    client.publish(b"y", "nowhere", mandatory=True)
    client.send(1, m.TxCommit())
    assert client.message(m.BasicReturn)[2] == b"y"
    client.expect(m.TxCommitOk)
    client.publish(b"z", "", exchange="missing")
    client.send(1, m.TxCommit())
    client.fails_channel(404, "no exchange 'missing'")
    assert [body for _, _, body in gets(client, queue)] == [b"x"]


def test_an_exchange_that_was_declared_elsewhere_is_found() -> None:
    """What one broker has heard of, another may not have: publishing finds out."""
    trio = Ground(seed=5, brokers=3)
    here, there = trio.client(1), trio.client(3)
    here.open()
    there.open()
    source, queue = exchange(here, "fanout"), here.queue()
    bind(here, queue, source)
    there.publish(b"x", "", exchange=source, mandatory=True)
    there.call(m.BasicQos(), m.BasicQosOk)
    trio.wait(300)
    assert gets(here, queue) == [(source, "", b"x")]


def test_dead_letters_go_through_exchanges_and_say_so(client: AmqpClient) -> None:
    grave, first, second = exchange(client, "topic"), client.queue(), client.queue()
    bind(client, first, grave, "dead.*")
    bind(client, second, grave, "#")
    arguments = {"x-dead-letter-exchange": grave, "x-dead-letter-routing-key": "dead.one"}
    source = client.queue(**arguments)
    client.publish(b"x", source)
    tag = client.get(source)[0].delivery_tag
    client.send(1, m.BasicReject(delivery_tag=tag, requeue=False))
    for number, queue in enumerate((first, second)):
        client.call(m.BasicConsume(queue=queue, consumer_tag=f"{number}"), m.BasicConsumeOk)
        deliver, properties, body = client.delivery()
        assert (deliver.exchange, deliver.routing_key, body) == (grave, "dead.one", b"x")
        headers: dict[str, Any] = properties.headers or {}
        (death,) = headers["x-death"]
        assert (death["queue"], death["exchange"], death["routing-keys"]) == (source, "", [source])
        assert headers["x-first-death-exchange"] == ""


def test_a_dead_letter_that_dies_again_has_the_key_that_it_came_with(client: AmqpClient) -> None:
    """Unless its queue says another one; copies are made as long as the first keys hold."""
    middle, last = exchange(client, "direct"), exchange(client, "direct")
    one = client.queue(**{"x-dead-letter-exchange": middle, "x-dead-letter-routing-key": "next"})
    two = client.queue(**{"x-dead-letter-exchange": last})
    three, wrong = client.queue(), client.queue()
    bind(client, two, middle, "next")
    bind(client, three, last, "next")
    bind(client, wrong, last, one)
    bind(client, wrong, last, "copy")
    client.publish(b"x", one, properties=Properties(headers={"CC": ["copy"]}))
    for queue in (one, two):
        client.call(m.BasicConsume(queue=queue, consumer_tag=queue), m.BasicConsumeOk)
        tag = client.delivery()[0].delivery_tag
        client.send(1, m.BasicReject(delivery_tag=tag, requeue=False))
    client.call(m.BasicConsume(queue=three, consumer_tag="c"), m.BasicConsumeOk)
    deliver, properties, _ = client.delivery()
    assert (deliver.exchange, deliver.routing_key) == (last, "next")
    assert client.count(wrong)[0] == 0
    headers: dict[str, Any] = properties.headers or {}
    told = [(each["queue"], each["exchange"], each["routing-keys"]) for each in headers["x-death"]]
    assert told == [(two, middle, ["next"]), (one, "", [one, "copy"])]
    assert (headers["x-first-death-exchange"], headers["x-last-death-exchange"]) == ("", middle)
    assert "CC" not in headers


def test_a_dead_letter_in_a_queue_has_the_queues_name_for_its_key(client: AmqpClient) -> None:
    last = exchange(client, "direct")
    found, wrong, two = client.queue(), client.queue(), client.queue()
    one = client.queue(**{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": two})
    client.call(m.QueueDelete(queue=two), m.QueueDeleteOk)
    again = m.QueueDeclare(queue=two, durable=True, arguments={"x-dead-letter-exchange": last})
    client.call(again, m.QueueDeclareOk)
    bind(client, found, last, two)
    bind(client, wrong, last, one)
    client.publish(b"x", one)
    for queue in (one, two):
        client.call(m.BasicConsume(queue=queue, consumer_tag=queue), m.BasicConsumeOk)
        tag = client.delivery()[0].delivery_tag
        client.send(1, m.BasicReject(delivery_tag=tag, requeue=False))
    client.call(m.BasicConsume(queue=found, consumer_tag="c"), m.BasicConsumeOk)
    _, properties, _ = client.delivery()
    headers: dict[str, Any] = properties.headers or {}
    told = [(each["queue"], each["exchange"], each["routing-keys"]) for each in headers["x-death"]]
    assert told == [(two, "", [two]), (one, "", [one])]
    assert client.count(wrong)[0] == 0


def test_a_queue_for_dead_letters_may_be_declared_later(client: AmqpClient) -> None:
    """And a message that dies a second time tells both."""
    later = f"later-{next(_names)}"
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": later}
    source = client.queue(**arguments)
    back = m.QueueDeclare(
        queue=later,
        durable=True,
        arguments={
            "x-message-ttl": 200,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": source,
        },
    )
    client.call(back, m.QueueDeclareOk)
    client.publish(b"x", source)
    client.call(m.BasicConsume(queue=source, consumer_tag="c"), m.BasicConsumeOk)
    for count in range(3):
        deliver, properties, body = client.delivery()
        assert (deliver.routing_key, body) == (source, b"x")
        headers: dict[str, Any] = properties.headers or {}
        deaths = headers.get("x-death", [])
        found = [(each["queue"], each["reason"], each["count"]) for each in deaths]
        expected = [(later, "expired", count), (source, "rejected", count)]
        assert found == (expected if count else [])
        client.send(1, m.BasicReject(delivery_tag=deliver.delivery_tag, requeue=False))
