"""Topics, exchanges, durable subscriptions, temporary queues, and names that are wrong."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.gateway.stomp.destinations import (
    Destination,
    Kind,
    read_destination,
    write_destination,
)
from kafkaesque.protocols.amqp import methods as m
from tests.unit.gateway_stomp.kit import Ground, StompClient, new_name


def queues(ground: Ground) -> set[str]:
    """Return the names of all queues."""
    broker = next(iter(ground.cluster.brokers.values()))
    return {name.name for name in broker.state.queues if name.vhost == "/"}


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("/queue/a", Destination(Kind.QUEUE, "a")),
        ("/queue/a%2Fb%25", Destination(Kind.QUEUE, "a/b%")),
        ("/amq/queue/a", Destination(Kind.KNOWN_QUEUE, "a")),
        ("/reply-queue/a", Destination(Kind.KNOWN_QUEUE, "a")),
        ("/temp-queue/a", Destination(Kind.TEMPORARY, "a")),
        ("/topic/a.*.#", Destination(Kind.EXCHANGE, "a.*.#", "amq.topic")),
        ("/exchange/e", Destination(Kind.EXCHANGE, "", "e")),
        ("/exchange/e/k.l", Destination(Kind.EXCHANGE, "k.l", "e")),
    ],
)
def test_destinations(text: str, destination: Destination) -> None:
    assert read_destination(text) == destination


@pytest.mark.parametrize(
    ("exchange", "key", "text"),
    [
        ("", "a/b%", "/queue/a%2Fb%25"),
        ("", "amq.gen-x", "/amq/queue/amq.gen-x"),
        ("amq.topic", "a.b", "/topic/a.b"),
        ("e/f", "k", "/exchange/e%2Ff/k"),
        ("e", "", "/exchange/e"),
    ],
)
def test_where_a_message_was_published(exchange: str, key: str, text: str) -> None:
    assert write_destination(exchange, key) == text
    found = read_destination(text)
    assert (found.exchange, found.name) == (exchange, key)


@pytest.mark.parametrize(
    ("destination", "error"),
    [
        ("queue", "there is no destination 'queue': write /queue/NAME"),
        ("/dsub/x", "there is no destination"),
        ("/queue/", "has an empty name"),
        ("/exchange//k", "has an empty name"),
        ("/queue/a/b", "write / within a name as %2F"),
        ("/queue/" + "a" * 256, "at most 255 bytes"),
        ("/exchange/absent/k", "no exchange 'absent'"),
        ("/amq/queue/absent", "there is no queue 'absent'"),
    ],
)
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_destinations_that_are_wrong(
    client: StompClient, command: str, destination: str, error: str
) -> None:
    client.send(command, {"destination": destination, "id": "1", "receipt": "r"})
    assert client.error(error).get("receipt-id") == "r"


# -- topics


def test_a_topic_reaches_all_that_subscribe_before(ground: Ground) -> None:
    first, second = ground.stomp(), ground.stomp()
    first.subscribe("/topic/stocks.*.usd")
    second.subscribe("/topic/stocks.#")
    sender = ground.stomp()
    sender.publish("/topic/stocks.acme.usd", b"a")
    sender.publish("/topic/stocks.acme.eur", b"b")
    message = first.message()
    assert (message.body, message.get("destination")) == (b"a", "/topic/stocks.acme.usd")
    assert first.silent()
    assert [second.message().body, second.message().body] == [b"a", b"b"]


def test_a_topic_reaches_who_has_just_subscribed_elsewhere() -> None:
    ground = Ground(seed=7, brokers=3)
    subscriber, sender = ground.stomp(1), ground.stomp(3)
    name = new_name()
    subscriber.subscribe(f"/topic/{name}")
    sender.publish(f"/topic/{name}", b"a")
    assert subscriber.message().body == b"a"


def test_a_topic_without_subscribers_forgets(client: StompClient) -> None:
    client.publish("/topic/nobody.here", b"a")
    client.subscribe("/topic/nobody.here")
    assert client.silent()


def test_a_subscriptions_queue_goes_with_it(ground: Ground) -> None:
    before = queues(ground)
    client = ground.stomp()
    client.subscribe("/topic/a", "1")
    client.subscribe("/topic/a", "2")
    assert len(queues(ground) - before) == 2
    client.call("UNSUBSCRIBE", {"id": "1"})
    ground.wait(500)
    assert len(queues(ground) - before) == 1
    client.close()
    ground.wait(500)
    assert queues(ground) <= before


def test_a_selector_chooses_among_messages(client: StompClient) -> None:
    client.subscribe("/topic/prices", selector="kind = 'share' AND JMSPriority > 3")
    for kind, priority in (("share", "4"), ("bond", "4"), ("share", "3")):
        client.publish(
            "/topic/prices", kind.encode() + priority.encode(), kind=kind, priority=priority
        )
    assert client.message().body == b"share4"
    assert client.silent()


def test_a_selector_that_is_none_is_refused(client: StompClient) -> None:
    client.send("SUBSCRIBE", {"destination": "/topic/a", "id": "1", "selector": "AND ="})
    client.error("x-filter")


def test_a_selector_is_for_topics(client: StompClient) -> None:
    client.send("SUBSCRIBE", {"destination": "/queue/a", "id": "1", "selector": "a = 'b'"})
    client.error("by /topic or /exchange")


def test_an_exchange_is_named_with_a_key(ground: Ground, client: StompClient) -> None:
    amqp = ground.amqp()
    amqp.call(
        m.ExchangeDeclare(exchange="orders", type="direct", durable=True), m.ExchangeDeclareOk
    )
    client.subscribe("/exchange/orders/new")
    client.publish("/exchange/orders/new", b"a")
    client.publish("/exchange/orders/old", b"b")
    message = client.message()
    assert (message.body, message.get("destination")) == (b"a", "/exchange/orders/new")
    assert client.silent()
    amqp.publish(b"c", "new", exchange="orders")
    assert client.message().body == b"c"


# -- durable subscriptions

DURABLE = [
    {"durable": "true", "auto-delete": "false"},
    {"persistent": "true"},
    {"activemq.subscriptionName": "prices"},
]


@pytest.mark.parametrize("headers", DURABLE)
def test_a_durable_subscription_keeps_messages(ground: Ground, headers: dict[str, str]) -> None:
    topic = f"/topic/{new_name()}"
    first = ground.stomp(headers={"client-id": "me"})
    first.call("SUBSCRIBE", {"destination": topic, "id": "prices", "ack": "client", **headers})
    first.publish(topic, b"a")
    first.ack(first.message())
    first.call("DISCONNECT", {})
    sender = ground.stomp()
    sender.publish(topic, b"b")
    again = ground.stomp(headers={"client-id": "me"})
    again.call("SUBSCRIBE", {"destination": topic, "id": "prices", "ack": "auto", **headers})
    message = again.message()
    assert (message.body, message.get("destination")) == (b"b", topic)
    again.call("UNSUBSCRIBE", {"id": "prices", **headers})
    ground.wait(500)
    assert "stomp.me.prices" not in queues(ground)


def test_a_durable_subscription_may_be_opened_in_another_way(ground: Ground) -> None:
    before, after = f"/topic/{new_name()}", f"/topic/{new_name()}"
    durable = {"id": "moved", "durable": "true"}
    client = ground.stomp()
    client.call("SUBSCRIBE", {"destination": before, **durable})
    client.call("UNSUBSCRIBE", {"id": "moved"})
    client.call("SUBSCRIBE", {"destination": after, "selector": "a = '1'", **durable})
    client.publish(before, b"before", a="1")
    client.publish(after, b"no", a="2")
    client.publish(after, b"yes", a="1")
    assert client.message().body == b"yes"
    assert client.silent()


def test_clients_have_durable_subscriptions_of_their_own(ground: Ground) -> None:
    topic = f"/topic/{new_name()}"
    clients = [ground.stomp(headers={"client-id": name}) for name in ("a.b", "c")]
    for each in clients:
        each.call("SUBSCRIBE", {"destination": topic, "id": "x", "durable": "true"})
    assert {"stomp.a%2Eb.x", "stomp.c.x"} <= queues(ground)
    clients[0].publish(topic, b"a")
    assert [each.message().body for each in clients] == [b"a", b"a"]


# -- temporary queues


@pytest.mark.parametrize("is_subscribed", [True, False])
def test_a_request_is_answered(ground: Ground, is_subscribed: bool) -> None:
    name = new_name()
    server, client = ground.stomp(), ground.stomp()
    server.subscribe(f"/queue/{name}")
    if is_subscribed:
        client.subscribe("/temp-queue/answers", "mine")
    client.publish(
        f"/queue/{name}", b"question", reply_to="/temp-queue/answers", correlation_id="7"
    )
    question = server.message()
    assert question.get("correlation-id") == "7"
    reply_to = question.get("reply-to") or ""
    assert reply_to.startswith("/amq/queue/amq.rabbitmq.reply-to.")
    server.publish(reply_to, b"answer", correlation_id="7")
    answer = client.message()
    assert (answer.body, answer.get("correlation-id")) == (b"answer", "7")
    assert answer.get("subscription") == ("mine" if is_subscribed else "/temp-queue/answers")
    # Nobody else can listen there.
    server.send("SUBSCRIBE", {"destination": reply_to, "id": "thief"})
    server.error("belongs to another connection")
    client.close()
    ground.wait(500)
    late = ground.stomp()
    late.send("SEND", {"destination": reply_to}, b"late")
    late.error("there is no queue")


def test_subscribing_to_answers_ends_what_was_subscribed_for_the_client(ground: Ground) -> None:
    client, name = ground.stomp(), new_name()
    client.publish(f"/queue/{name}", b"a", reply_to="/temp-queue/x")
    client.subscribe("/temp-queue/x", "mine")
    client.publish("/temp-queue/x", b"answer")
    assert client.message().get("subscription") == "mine"
    assert client.silent()
    client.publish("/temp-queue/x", b"more")
    assert client.message().get("subscription") == "mine"


def test_amqp_answers_a_request_of_stomp(ground: Ground, client: StompClient) -> None:
    amqp = ground.amqp()
    queue = amqp.queue()
    client.publish(f"/queue/{queue}", b"question", reply_to="/temp-queue/x")
    _, properties, _ = amqp.get(queue, no_ack=True)
    amqp.publish(b"answer", properties.reply_to or "")
    assert client.message().body == b"answer"


def test_a_reply_queue_of_ones_own_keeps_its_name(ground: Ground, client: StompClient) -> None:
    amqp = ground.amqp()
    queue = amqp.queue()
    client.publish(f"/queue/{queue}", b"a", reply_to="/queue/answers")
    client.publish(f"/queue/{queue}", b"b", reply_to="/topic/answers")
    client.subscribe(f"/queue/{queue}", ack="client")
    assert client.message().get("reply-to") == "/queue/answers"
    assert client.message().get("reply-to") == "/topic/answers"


# -- how a queue is made


def test_headers_say_how_a_queue_is_made(ground: Ground, client: StompClient) -> None:
    name = new_name()
    arguments = {"x-message-ttl": "60000", "x-single-active-consumer": "true"}
    client.call("SUBSCRIBE", {"destination": f"/queue/{name}", "id": "1", **arguments})
    broker = next(iter(ground.cluster.brokers.values()))
    options = broker.state.queues[QueueName("/", name)].options
    assert options["message.ttl.ms"] == "60000"
    assert options["sharing"] == "single-active"


def test_a_queue_that_cannot_be_made_is_refused(client: StompClient) -> None:
    client.send("SEND", {"destination": f"/queue/{new_name()}", "x-message-ttl": "soon"})
    client.error("invalid arg 'x-message-ttl'")


def test_an_exclusive_queue_goes_with_its_connection(ground: Ground) -> None:
    client, name = ground.stomp(), new_name()
    client.call("SUBSCRIBE", {"destination": f"/queue/{name}", "id": "1", "exclusive": "true"})
    other = ground.stomp()
    other.publish(f"/queue/{name}", b"a")
    assert client.message().body == b"a"
    other.send("SUBSCRIBE", {"destination": f"/queue/{name}", "id": "1"})
    other.error("belongs to another connection")
    client.close()
    ground.wait(500)
    assert name not in queues(ground)
