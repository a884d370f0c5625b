"""Shared subscriptions: each message is for one of the members."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import Ground, MqttClient, new_name


@pytest.fixture
def three() -> Ground:
    return Ground(seed=4, brokers=3)


def drain(ground: Ground, *clients: MqttClient) -> list[list[bytes]]:
    """Return what each client is sent until nothing more comes."""
    found: list[list[bytes]] = [[] for _ in clients]
    is_silent = False
    while not is_silent:
        is_silent = True
        for client, seen in zip(clients, found, strict=True):
            if not client.is_silent(100):
                is_silent = False
                seen.append(client.message().payload)
    return found


@pytest.mark.parametrize("version", list(Version))
def test_members_at_different_brokers_share_the_messages(three: Ground, version: Version) -> None:
    root, group = new_name("root"), new_name("group")
    members = [three.client(new_name(), broker, version=version) for broker in (1, 2)]
    for each in members:
        assert each.subscribe(f"$share/{group}/{root}/+", qos=1) == (R.GRANTED_QOS_1,)
    alone = three.client(new_name(), 3)
    alone.subscribe(f"$share/{new_name()}/{root}/#", qos=1)
    publisher = three.client(new_name(), 3)
    for number in range(20):
        publisher.publish(f"{root}/{number}", b"%d" % number)
    first, second, others = drain(three, *members, alone)
    expected = sorted(b"%d" % number for number in range(20))
    assert sorted(first + second) == sorted(others) == expected
    assert first
    assert second


def test_quality_2_is_not_granted(three: Ground) -> None:
    topic = new_name("rooms/")
    client = three.client(new_name())
    assert client.subscribe(f"$share/g/{topic}", qos=2, identifier=3) == (R.GRANTED_QOS_1,)
    client.publish(topic, b"x", 2)
    found = client.message()
    assert (found.qos, found.properties.subscription_identifiers) == (1, (3,))


def test_what_a_member_did_not_acknowledge_comes_to_another_one(three: Ground) -> None:
    topic, group = new_name("rooms/"), new_name("group")
    first, second = three.client(new_name(), 1), three.client(new_name(), 2)
    first.subscribe(f"$share/{group}/{topic}", qos=1)
    three.client(new_name(), 3).publish(topic, b"x")
    assert first.message(acknowledge=False).payload == b"x"
    second.subscribe(f"$share/{group}/{topic}", qos=1)
    first.vanish()
    assert second.message().payload == b"x"


def test_a_refusal_discards_a_message(three: Ground) -> None:
    topic, group = new_name("rooms/"), new_name("group")
    first, second = three.client(new_name(), 1), three.client(new_name(), 2)
    first.subscribe(f"$share/{group}/{topic}", qos=1)
    three.client(new_name(), 3).publish(topic, b"x")
    found = first.message(acknowledge=False)
    first.send(p.Puback(packet_id=found.packet_id, reason=R.UNSPECIFIED_ERROR))
    second.subscribe(f"$share/{group}/{topic}", qos=1)
    first.vanish()
    assert second.is_silent(500)


def test_a_session_is_a_member_again_when_it_is_resumed(three: Ground) -> None:
    me, topic, group = new_name(), new_name("rooms/"), new_name("group")
    client = three.session(me, 1)
    client.subscribe(f"$share/{group}/{topic}", qos=1, identifier=9)
    client.disconnect()
    three.client(new_name(), 3).publish(topic, b"meanwhile")
    back = three.session(me, 2)
    found = back.message()
    assert (found.payload, found.properties.subscription_identifiers) == (b"meanwhile", (9,))
    assert back.unsubscribe(f"$share/{group}/{topic}") == (R.SUCCESS,)
    back.disconnect()
    three.client(new_name(), 3).publish(topic, b"later")
    assert three.session(me, 2).is_silent(300)


def test_retained_messages_are_not_sent(three: Ground) -> None:
    topic = new_name("rooms/")
    client = three.client(new_name())
    client.publish(topic, b"x", retain=True)
    client.subscribe(f"$share/g/{topic}", qos=1)
    assert client.is_silent(300)
    client.publish(topic, b"", retain=True)


def test_wrong_shares_are_refused(three: Ground) -> None:
    client = three.client(new_name())
    deep = "/".join("x" * 200 for _ in range(2))
    assert client.subscribe("$share/g", "$share/+/a", "$share//a", f"$share/g/{deep}") == (
        R.TOPIC_FILTER_INVALID,
        R.TOPIC_FILTER_INVALID,
        R.TOPIC_FILTER_INVALID,
        R.UNSPECIFIED_ERROR,
    )


def test_a_share_that_nobody_uses_is_deleted(three: Ground) -> None:
    topic, group = new_name("rooms/"), new_name("group")
    client = three.client(new_name())
    client.subscribe(f"$share/{group}/{topic}")
    client.disconnect()
    broker = three.cluster.brokers[three.cluster.names[0]]
    name = QueueName(DEFAULT_VHOST, f"mqtt.share.{group}/{topic}")
    assert name in broker.doors.cluster.state.queues
    three.wait(80_000)
    assert name not in broker.doors.cluster.state.queues
