"""A queue's leader dies: what has a receipt comes, what was acknowledged does not come again."""

from __future__ import annotations

import pytest

from tests.unit.gateway_amqp.test_failover import leader_of
from tests.unit.gateway_stomp.kit import Ground, StompClient


def drain(client: StompClient, count: int, seen: list[bytes]) -> None:
    """Receive and acknowledge until so many different messages have come."""
    while len(set(seen)) < count:
        message = client.message()
        seen.append(message.body)
        client.ack(message)


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_dies_under_a_sender_and_a_subscriber(seed: int) -> None:
    ground = Ground(seed=200 + seed, brokers=3)
    queue = ground.amqp().queue()
    leader = leader_of(ground, queue)
    here, there = (number for number in (1, 2, 3) if number != leader)
    sender, subscriber = ground.stomp(here), ground.stomp(there)
    subscriber.subscribe(f"/queue/{queue}", ack="client-individual", prefetch_count="10")
    seen: list[bytes] = []
    for number in range(40):
        headers = {"destination": f"/queue/{queue}", "receipt": str(number)}
        sender.send("SEND", headers, b"%d" % number)
        if number == 20:
            drain(subscriber, 5, seen)
            ground.kill(leader)
    committed: set[bytes] = set()
    while len(committed) < 40:
        answer = sender.next()
        if answer.command == "ERROR":
            # Of one nobody knows whether it is committed: the client has to send it again.
            break
        assert answer.command == "RECEIPT", answer
        # In the order of the frames.
        assert answer.get("receipt-id") == str(len(committed))
        committed.add(b"%d" % len(committed))
    while not committed <= set(seen):
        drain(subscriber, len(set(seen)) + 1, seen)
    ground.wait(20_000)
    while not subscriber.silent(100):
        message = subscriber.message()
        seen.append(message.body)
        subscriber.ack(message)
    ground.wait(70_000)
    assert ground.amqp(here).count(queue) == (0, 1)


def test_a_gateway_dies_and_its_messages_come_elsewhere() -> None:
    ground = Ground(seed=42, brokers=3)
    queue = ground.amqp().queue()
    leader = leader_of(ground, queue)
    gateway, other = (number for number in (1, 2, 3) if number != leader)
    sender = ground.stomp(other)
    for number in range(5):
        sender.publish(f"/queue/{queue}", b"%d" % number)
    lost = ground.stomp(gateway)
    lost.subscribe(f"/queue/{queue}", ack="client")
    lost.subscribe("/topic/a", "topic")
    first = lost.message()
    lost.ack(first)
    ground.wait(1_000)
    ground.kill(gateway)
    again = ground.stomp(other)
    again.subscribe(f"/queue/{queue}")
    assert [again.message().body for _ in range(4)] == [b"1", b"2", b"3", b"4"]


def test_a_subscription_of_a_topic_outlives_its_queues_leader() -> None:
    ground = Ground(seed=43, brokers=3)
    subscriber, sender = ground.stomp(1), ground.stomp(1)
    subscriber.subscribe("/topic/a", ack="client")
    broker = ground.cluster.brokers[ground.cluster.names[0]]
    (name,) = (each.name for each in broker.state.queues if each.name.startswith("amq.gen-"))
    leader = leader_of(ground, name)
    sender.publish("/topic/a", b"1")
    assert leader != 1, "choose another seed"
    ground.kill(leader)
    # What is on its way while a leader dies may have to be sent again.
    ground.loop.run_until(lambda: leader_of(ground, name) != leader, 60_000)
    sender.publish("/topic/a", b"2")
    bodies = [subscriber.message().body, subscriber.message().body]
    assert bodies == [b"1", b"2"]
