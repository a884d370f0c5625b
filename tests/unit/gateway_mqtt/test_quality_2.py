"""QoS 2 of sessions that are kept: once, though the connection, or the broker, ends at any step."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from kafkaesque.routing.live_message import LiveMessage
from kafkaesque.routing.names import MQTT
from tests.unit.gateway_mqtt.kit import Ground, MqttClient, new_name


@pytest.fixture
def three() -> Ground:
    return Ground(seed=6, brokers=3)


def left(ground: Ground, client_id: str) -> int:
    """How many messages and notes the queue of a session holds."""
    broker = ground.cluster.brokers[ground.cluster.names[2]]
    name = QueueName(DEFAULT_VHOST, f"mqtt.session.{client_id}")
    queue = broker.doors.cluster.state.queues[name]
    counts: list[q.QueueCounts | RequestRefused] = []
    request = q.AskQueue(log_id=queue.topic_id)
    broker.doors.queues.ask(request, q.QueueCounts, 10_000, counts.append)
    ground.loop.run_until(lambda: bool(counts), 10_000)
    found = counts[0]
    assert isinstance(found, q.QueueCounts)
    return found.ready + found.in_flight


def is_empty(ground: Ground, client_id: str) -> None:
    ground.wait(500)
    assert left(ground, client_id) == 0


class Pair:
    """A publisher and a subscriber, both with sessions that are kept."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.topic = new_name("rooms/")
        self.me, self.other = new_name("me"), new_name("other")
        self.subscriber = ground.session(self.other, 2)
        self.subscriber.subscribe(self.topic)
        self.packet = p.Publish(topic=self.topic, payload=b"x", qos=2, packet_id=7)

    def publisher(self, broker: int = 1) -> MqttClient:
        return self.ground.session(self.me, broker)


@pytest.mark.parametrize("goes", [True, False])
def test_a_publish_that_is_repeated_elsewhere_is_delivered_once(three: Ground, goes: bool) -> None:
    pair = Pair(three)
    client = pair.publisher(1)
    client.send(pair.packet)
    assert client.expect(p.Pubrec).reason is R.SUCCESS
    # Nothing is published before it is released.
    assert pair.subscriber.is_silent(200)
    if goes:
        client.vanish()
    back = pair.publisher(3)
    back.send(p.Publish(topic=pair.topic, payload=b"x", qos=2, packet_id=7, dup=True))
    assert back.expect(p.Pubrec).packet_id == 7
    back.send(p.Pubrel(packet_id=7))
    assert back.expect(p.Pubcomp).reason is R.SUCCESS
    assert pair.subscriber.message().payload == b"x"
    assert pair.subscriber.is_silent(300)
    # The id is free.
    back.send(p.Publish(topic=pair.topic, payload=b"y", qos=2, packet_id=7))
    back.expect(p.Pubrec)
    back.send(p.Pubrel(packet_id=7))
    back.expect(p.Pubcomp)
    assert pair.subscriber.message().payload == b"y"
    is_empty(three, pair.me)
    is_empty(three, pair.other)


def test_a_release_that_is_repeated_elsewhere_is_answered(three: Ground) -> None:
    pair = Pair(three)
    client = pair.publisher(1)
    client.send(pair.packet)
    client.expect(p.Pubrec)
    client.send(p.Pubrel(packet_id=7))
    assert pair.subscriber.message().payload == b"x"
    client.expect(p.Pubcomp)
    client.vanish()
    back = pair.publisher(2)
    back.send(p.Pubrel(packet_id=7))
    assert back.expect(p.Pubcomp).reason is R.PACKET_ID_NOT_FOUND
    assert pair.subscriber.is_silent(300)
    is_empty(three, pair.me)


def test_a_release_is_carried_out_by_whoever_the_client_comes_back_to(three: Ground) -> None:
    pair = Pair(three)
    client = pair.publisher(1)
    client.send(pair.packet)
    client.expect(p.Pubrec)
    client.vanish()
    back = pair.publisher(2)
    back.send(p.Pubrel(packet_id=7))
    assert back.expect(p.Pubcomp).reason is R.SUCCESS
    assert pair.subscriber.message().payload == b"x"
    is_empty(three, pair.me)


def test_what_was_not_received_comes_again(three: Ground) -> None:
    pair = Pair(three)
    publisher = pair.publisher(1)
    publisher.publish(pair.topic, b"x", 2)
    first = pair.subscriber.message(acknowledge=False)
    pair.subscriber.vanish()
    back = three.session(pair.other, 3)
    again = back.message(acknowledge=False)
    assert (again.packet_id, again.dup, again.qos) == (first.packet_id, True, 2)
    back.acknowledge(again)
    is_empty(three, pair.other)


def test_what_was_received_is_not_sent_again_and_its_release_is(three: Ground) -> None:
    pair = Pair(three)
    pair.publisher(1).publish(pair.topic, b"x", 2)
    found = pair.subscriber.message(acknowledge=False)
    pair.subscriber.send(p.Pubrec(packet_id=found.packet_id))
    assert pair.subscriber.expect(p.Pubrel).packet_id == found.packet_id
    pair.subscriber.vanish()
    back = three.session(pair.other, 3)
    assert back.expect(p.Pubrel).packet_id == found.packet_id
    assert back.is_silent(300)
    # Once more: it was still not completed.
    back.vanish()
    last = three.session(pair.other, 1)
    assert last.expect(p.Pubrel).packet_id == found.packet_id
    last.send(p.Pubcomp(packet_id=found.packet_id))
    is_empty(three, pair.other)
    last.vanish()
    assert three.session(pair.other, 2).is_silent(300)


@pytest.mark.parametrize("step", range(8))
def test_a_broker_that_dies_at_any_moment(step: int) -> None:
    ground = Ground(seed=20 + step, brokers=3)
    pair = Pair(ground)
    client = pair.publisher(1)
    client.send(pair.packet)
    client.expect(p.Pubrec)
    client.send(p.Pubrel(packet_id=7))
    # Between the release and its answer, a little later each time.
    until_ns = ground.loop.now_ns + step * 400_000
    ground.loop.run_until(lambda: ground.loop.now_ns >= until_ns, 1_000)
    ground.kill(1)
    back = pair.publisher(3)
    back.send(p.Pubrel(packet_id=7))
    back.expect(p.Pubcomp)
    assert pair.subscriber.message().payload == b"x"
    assert pair.subscriber.is_silent(1_000)
    is_empty(ground, pair.me)


def test_notes_are_read_though_the_client_answers_nothing(three: Ground) -> None:
    topic, me = new_name("rooms/"), new_name()
    client = three.session(me)
    client.subscribe(topic, qos=1)
    publisher = three.client(new_name(), 2)
    for number in range(200):
        publisher.publish(topic, b"%d" % number)
    # Its window is full, and stays so.
    while not client.is_silent(100):
        client.message(acknowledge=False)
    for _ in range(3):
        assert client.publish(new_name("elsewhere/"), b"x", 2) is R.SUCCESS
    assert left(three, me) == 200


def test_who_does_not_know_the_secret_writes_no_notes(three: Ground) -> None:
    topic, me = new_name("rooms/"), new_name()
    client = three.session(me)
    client.subscribe(topic)
    forged = LiveMessage(
        key=MQTT.key_of(topic), body=b"x", headers=(("mqtt.note", b" released 5 1"),)
    )
    three.cluster.brokers[three.cluster.names[0]].doors.live.publish(forged)
    assert client.message().payload == b"x"
