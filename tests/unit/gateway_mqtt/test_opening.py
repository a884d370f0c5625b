"""CONNECT, keep-alive, the end of connections, and what is wrong."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.mqtt import subscribing
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import Ground, MqttClient, new_name


def test_a_client_without_an_id_is_given_one(ground: Ground) -> None:
    first, second = ground.client(), ground.client()
    names = [each.connack.properties.assigned_client_identifier for each in (first, second)]
    assert all(names)
    assert names[0] != names[1]
    assert names[0] != ground.client(new_name()).connack.properties.assigned_client_identifier
    kept = ground.client(expiry_s=60)
    assert kept.connack.properties.assigned_client_identifier
    older = MqttClient(ground, version=Version.V3_1_1)
    wanted = p.Connect(version=Version.V3_1_1, clean_start=False)
    assert older.connect(wanted).reason is R.CLIENT_ID_NOT_VALID


def test_what_a_client_is_told(ground: Ground) -> None:
    said = ground.client(new_name()).connack.properties
    assert (said.receive_maximum, said.topic_alias_maximum) == (32, 16)
    assert said.maximum_packet_size_bytes == 1024 * 1024
    assert said.server_keep_alive_s == 1_800
    assert said.maximum_qos is None
    assert ground.client(new_name(), keep_alive_s=30).connack.properties.server_keep_alive_s is None


@pytest.mark.parametrize("version", list(Version))
def test_silence_ends_a_connection(ground: Ground, version: Version) -> None:
    silent = ground.client(new_name(), version=version, keep_alive_s=4)
    alive = ground.client(new_name(), version=version, keep_alive_s=4)
    for _ in range(4):
        ground.wait(2_000)
        alive.send(p.Pingreq())
        alive.expect(p.Pingresp)
    assert silent.client.is_closed
    assert silent.ends() is (R.KEEP_ALIVE_TIMEOUT if version is Version.V5 else None)
    assert not alive.client.is_closed


def test_who_says_nothing_is_hung_up_on(ground: Ground) -> None:
    client = MqttClient(ground)
    ground.wait(9_000)
    assert not client.client.is_closed
    ground.wait(2_000)
    assert client.client.is_closed


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (p.Connect(client_id="again"), R.PROTOCOL_ERROR),
        (
            p.Publish(
                topic="a", payload=b"", qos=1, packet_id=1, properties=Properties(topic_alias=17)
            ),
            R.TOPIC_ALIAS_INVALID,
        ),
        (p.Puback(packet_id=0x7F00), None),
        (p.Auth(reason=R.REAUTHENTICATE), R.PROTOCOL_ERROR),
        (
            p.Subscribe(
                packet_id=1,
                subscriptions=(p.Subscription(topic_filter="$share/g/a", no_local=True),),
            ),
            R.PROTOCOL_ERROR,
        ),
    ],
)
def test_mistakes_end_the_connection(ground: Ground, sent: p.Packet, reason: R | None) -> None:
    client = ground.client(new_name())
    client.send(sent)
    if reason is None:
        client.send(p.Pingreq())
        client.expect(p.Pingresp)
    else:
        assert client.ends() is reason


def test_a_packet_that_is_too_large(ground: Ground) -> None:
    client = ground.client(new_name())
    client.send(p.Publish(topic="a", payload=bytes(1024 * 1024)))
    assert client.ends() is R.PACKET_TOO_LARGE


def test_another_method_of_authentication_is_refused(ground: Ground) -> None:
    client = MqttClient(ground)
    connack = client.connect(
        p.Connect(client_id=new_name(), properties=Properties(authentication_method="OTHER"))
    )
    assert connack.reason is R.BAD_AUTHENTICATION_METHOD


def test_filters_and_names_that_are_wrong_are_refused_one_by_one(ground: Ground) -> None:
    client = ground.client(new_name())
    deep = "/".join("x" * 33)
    assert client.subscribe("a/#/b", deep, "good/+") == (
        R.TOPIC_FILTER_INVALID,
        R.TOPIC_FILTER_INVALID,
        R.GRANTED_QOS_2,
    )
    assert client.publish(deep) is R.TOPIC_NAME_INVALID
    assert client.publish("$SYS/broker/load") is R.NOT_AUTHORIZED
    older = ground.client(new_name(), version=Version.V3_1_1)
    assert older.subscribe("a/#/b", "good/+", qos=1) == (R.UNSPECIFIED_ERROR, R.GRANTED_QOS_1)


def test_too_many_subscriptions_are_refused(ground: Ground) -> None:
    client = ground.client(new_name())
    for first in range(0, 1_000, 100):
        reasons = client.subscribe(*(f"many/{first + n}" for n in range(100)))
        assert set(reasons) == {R.GRANTED_QOS_2}
    assert client.subscribe("many/more", "many/1") == (R.QUOTA_EXCEEDED, R.GRANTED_QOS_2)


@pytest.mark.parametrize("prefix", ["", "$share/g/"])
def test_the_bound_of_subscriptions_holds_within_one_packet(
    monkeypatch: pytest.MonkeyPatch, ground: Ground, prefix: str
) -> None:
    monkeypatch.setattr(subscribing, "SUBSCRIPTIONS_MAX", 3)
    client = ground.session(new_name(), 1)
    # None of them is kept yet when the last is looked at.
    reasons = client.subscribe(*(f"{prefix}many/{n}" for n in range(5)), qos=1)
    assert reasons == (R.GRANTED_QOS_1,) * 3 + (R.QUOTA_EXCEEDED,) * 2
    client.unsubscribe(f"{prefix}many/0")
    filters = (f"{prefix}many/{n}" for n in (1, 5, 6))
    assert client.subscribe(*filters, qos=1) == (
        R.GRANTED_QOS_1,
        R.GRANTED_QOS_1,
        R.QUOTA_EXCEEDED,
    )


@pytest.mark.parametrize("version", list(Version))
def test_who_has_too_much_under_way_is_hung_up_on(ground: Ground, version: Version) -> None:
    client = ground.client(new_name(), version=version)
    topic, is_v5 = new_name("rooms/"), version is Version.V5
    for number in range(1, 32 if is_v5 else 100):
        client.send(p.Publish(topic=topic, payload=b"x", qos=2, packet_id=number))
        client.expect(p.Pubrec)
    # What is released makes room.
    client.send(p.Pubrel(packet_id=1))
    client.expect(p.Pubcomp)
    last = 33 if is_v5 else 101
    for number in range(last - 1, last + 1):
        client.send(p.Publish(topic=topic, payload=b"x", qos=2, packet_id=number))
        client.expect(p.Pubrec)
    client.send(p.Publish(topic=topic, payload=b"x", qos=2, packet_id=last + 1))
    assert client.ends() is (R.RECEIVE_MAXIMUM_EXCEEDED if is_v5 else None)


def test_a_filter_that_stands_twice_counts_as_it_stands_last(ground: Ground) -> None:
    topic = new_name("rooms/")
    client = ground.session(new_name())
    first = p.Subscription(topic_filter=topic, qos=2)
    last = p.Subscription(topic_filter=topic, qos=0)
    assert client.subscribe(first, last) == (R.GRANTED_QOS_2, R.SUCCESS)
    client.publish(topic, b"x", 2)
    assert client.message().qos == 0
    client.unsubscribe(topic)
    client.publish(topic, b"y", 2)
    assert client.is_silent(100)


def test_a_broker_that_stops_says_so() -> None:
    ground = Ground(seed=11)
    client = ground.client(new_name())
    older = ground.client(new_name(), version=Version.V3_1_1)
    broker = ground.cluster.names[0]
    ground.cluster.restart(ground.cluster._machines[broker])
    assert client.ends() is R.SERVER_SHUTTING_DOWN
    assert older.ends() is None
