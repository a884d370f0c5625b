"""Subscriptions to topics that come together: their queues are made together."""

from __future__ import annotations

from kafkaesque.gateway.queueing.own_queues import GENERATED
from kafkaesque.gateway.stomp.topic_queues import AHEAD_MAX
from kafkaesque.protocols.amqp import methods as m
from tests.unit.gateway_amqp.kit import PATIENCE_MS
from tests.unit.gateway_stomp.kit import Ground, StompClient, new_name

COUNT = 50


def own_queues(ground: Ground) -> int:
    """Return how many queues there are that brokers have named."""
    broker = next(iter(ground.cluster.brokers.values()))
    return sum(name.name.startswith(GENERATED) for name in broker.state.queues)


def subscribe_to_all(client: StompClient, topic: str, first: int = 0, end: int = COUNT) -> None:
    for number in range(first, end):
        said = {"id": f"s{number}", "receipt": f"{number}"}
        client.send("SUBSCRIBE", {"destination": f"/topic/{topic}.{number}", **said})


def test_queues_are_made_together_and_receipts_come_in_order(
    ground: Ground, client: StompClient
) -> None:
    topic, before = new_name(), own_queues(ground)
    subscribe_to_all(client, topic)
    client.receipt("0")
    assert 2 <= own_queues(ground) - before <= AHEAD_MAX + 1
    for number in range(1, COUNT):
        assert client.expect("RECEIPT").get("receipt-id") == f"{number}"
    assert own_queues(ground) - before == COUNT
    for number in range(COUNT):
        client.publish(f"/topic/{topic}.{number}", b"%d" % number)
        message = client.message()
        assert (message.get("subscription"), message.body) == (f"s{number}", b"%d" % number)


def test_what_is_sent_between_two_subscriptions_is_not_for_the_second(client: StompClient) -> None:
    topic = new_name()
    for command, said in (
        ("SUBSCRIBE", {"destination": f"/topic/{topic}.other", "id": "s"}),
        ("SEND", {"destination": f"/topic/{topic}"}),
        ("SUBSCRIBE", {"destination": f"/topic/{topic}", "id": "t"}),
        ("SEND", {"destination": f"/topic/{topic}", "receipt": "all"}),
    ):
        client.send(command, said, command.encode() if command == "SEND" else b"")
    client.receipt("all")
    assert client.message().get("subscription") == "t"
    assert client.silent()


def test_queues_are_made_once_behind_an_exchange_that_was_not_heard_of() -> None:
    """Its SUBSCRIBE has to ask first, and makes its queue after those that follow."""
    ground = Ground(brokers=3)
    amqp, client = ground.amqp(1), ground.stomp(3)
    topic, exchange, before = new_name(), new_name(), own_queues(ground)
    amqp.call(m.ExchangeDeclare(exchange=exchange, type="topic"), m.ExchangeDeclareOk)
    said = {"destination": f"/exchange/{exchange}/k", "id": "x", "receipt": "x"}
    client.send("SUBSCRIBE", said)
    subscribe_to_all(client, topic, end=3)
    for receipt in ("x", "0", "1", "2"):
        client.receipt(receipt)
    ground.wait(1_000)
    assert own_queues(ground) - before == 4


def test_a_mistake_is_told_in_its_turn_and_what_was_made_ahead_goes(
    ground: Ground, client: StompClient
) -> None:
    topic, before = new_name(), own_queues(ground)
    subscribe_to_all(client, topic, end=3)
    client.send("SUBSCRIBE", {"destination": "/exchange/none/k", "id": "x", "receipt": "bad"})
    subscribe_to_all(client, topic, 3)
    for number in range(3):
        client.receipt(f"{number}")
    assert client.error("no exchange 'none'").get("receipt-id") == "bad"
    ground.loop.run_until(lambda: own_queues(ground) == before, PATIENCE_MS)


def test_queues_that_were_begun_go_with_the_connection(ground: Ground, client: StompClient) -> None:
    before = own_queues(ground)
    subscribe_to_all(client, new_name())
    client.receipt("0")
    client.client.link.close()
    ground.wait(2_000)
    assert own_queues(ground) == before
