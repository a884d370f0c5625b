"""Wills: published once or never."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import Ground, MqttClient, new_name


def will(topic: str, delay_s: int | None = None) -> p.Will:
    properties = NO_PROPERTIES if delay_s is None else Properties(will_delay_interval_s=delay_s)
    return p.Will(topic=topic, payload=b"gone", qos=1, properties=properties)


@pytest.mark.parametrize("version", list(Version))
def test_a_client_that_vanishes_has_its_will_done(ground: Ground, version: Version) -> None:
    topic = new_name("status/")
    heir = ground.client(new_name())
    heir.subscribe(topic)
    ground.client(new_name(), version=version, will=will(topic)).vanish()
    assert heir.message().payload == b"gone"
    assert heir.is_silent(1_000)


@pytest.mark.parametrize(
    ("reason", "is_done"), [(R.SUCCESS, False), (R.DISCONNECT_WITH_WILL, True)]
)
def test_a_farewell_cancels_it_unless_it_says_otherwise(
    ground: Ground, reason: R, is_done: bool
) -> None:
    topic = new_name("status/")
    heir = ground.client(new_name())
    heir.subscribe(topic)
    ground.client(new_name(), will=will(topic)).disconnect(reason)
    assert heir.is_silent(500) is not is_done


def test_silence_has_it_done(ground: Ground) -> None:
    topic = new_name("status/")
    heir = ground.client(new_name())
    heir.subscribe(topic)
    ground.client(new_name(), will=will(topic), keep_alive_s=2)
    assert heir.message().payload == b"gone"


def test_a_mistake_has_it_done(ground: Ground) -> None:
    topic = new_name("status/")
    heir = ground.client(new_name())
    heir.subscribe(topic)
    client = ground.client(new_name(), will=will(topic))
    client.send(p.Connect(client_id="again"))
    assert client.ends() is R.PROTOCOL_ERROR
    assert heir.message().payload == b"gone"


def test_a_will_waits_and_is_cancelled_by_who_comes_back(ground: Ground) -> None:
    me, topic = new_name(), new_name("status/")
    heir = ground.client(new_name())
    heir.subscribe(topic)
    ground.client(me, expiry_s=60, will=will(topic, 10)).vanish()
    ground.wait(5_000)
    back = ground.client(me, clean=False, expiry_s=60)
    assert back.connack.session_present
    assert heir.is_silent(20_000)
    # The session ends with a clean start, and what it has left is done.
    back.disconnect()
    ground.client(me, clean=False, expiry_s=60, will=will(topic, 10)).vanish()
    ground.wait(5_000)
    ground.client(me, clean=True, expiry_s=60)
    assert heir.message().payload == b"gone"
    assert heir.is_silent(20_000)


def test_a_will_waits_no_longer_than_the_session_is_kept(ground: Ground) -> None:
    topic = new_name("status/")
    heir = ground.client(new_name())
    heir.subscribe(topic)
    ground.client(new_name(), expiry_s=3, will=will(topic, 1_000)).vanish()
    assert heir.is_silent(2_000)
    ground.wait(2_000)
    assert heir.message().payload == b"gone"


def test_who_is_taken_over_from_has_its_will_done(ground: Ground) -> None:
    me, topic = new_name(), new_name("status/")
    heir = ground.client(new_name())
    heir.subscribe(topic)
    old = ground.client(me, will=will(topic))
    ground.client(me)
    assert old.ends() is R.SESSION_TAKEN_OVER
    assert heir.message().payload == b"gone"


def test_a_will_for_no_topic_is_refused(ground: Ground) -> None:
    deep = "/".join("x" * 33)
    for topic, reason in ((deep, R.TOPIC_NAME_INVALID), ("$SYS/x", R.NOT_AUTHORIZED)):
        connack = MqttClient(ground).connect(p.Connect(client_id=new_name(), will=will(topic)))
        assert connack.reason is reason
