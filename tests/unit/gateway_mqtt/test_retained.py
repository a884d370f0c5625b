"""Retained messages: the last one of a name, for who subscribes later."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.mqtt import retained_feed
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import Ground, new_name


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("is_kept", [False, True])
def test_who_subscribes_later_gets_the_last_one(
    ground: Ground, version: Version, is_kept: bool
) -> None:
    root = new_name("root")
    publisher = ground.client(new_name(), version=version)
    assert publisher.publish(f"{root}/a", b"old", retain=True) is R.SUCCESS
    publisher.publish(f"{root}/a", b"new", retain=True)
    publisher.publish(f"{root}/b", b"not kept")
    publisher.publish(f"{root}/c", b"c", 2, retain=True)
    client = ground.client(new_name(), version=version, clean=not is_kept)
    client.subscribe(f"{root}/+", qos=1, identifier=5 if version is Version.V5 else 0)
    found = [client.message(), client.message()]
    assert sorted((each.topic, each.payload, each.qos) for each in found) == [
        (f"{root}/a", b"new", 1),
        (f"{root}/c", b"c", 1),
    ]
    assert all(each.retain for each in found)
    if version is Version.V5:
        assert all(each.properties.subscription_identifiers == (5,) for each in found)
    # What is published now is not marked.
    publisher.publish(f"{root}/a", b"newest", retain=True)
    assert (client.message().retain, client.is_silent(100)) == (False, True)


def test_an_empty_message_clears_the_name_and_is_delivered(ground: Ground) -> None:
    topic = new_name("rooms/")
    publisher, now = ground.client(new_name()), ground.client(new_name())
    publisher.publish(topic, b"x", retain=True)
    now.subscribe(topic)
    assert now.message().payload == b"x"
    publisher.publish(topic, b"", retain=True)
    assert now.message().payload == b""
    later = ground.client(new_name())
    later.subscribe(topic)
    assert later.is_silent(200)


def test_who_subscribes_again_and_again_and_answers_nothing(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits to be sent has a bound, and the last of each filter is sent."""
    monkeypatch.setattr(retained_feed, "SUBSCRIPTIONS_MAX", 2)
    first, second = new_name("rooms/"), new_name("rooms/")
    publisher = ground.client(new_name())
    for topic in (first, second):
        publisher.publish(topic, b"x", retain=True)
    client = ground.client(new_name(), properties=Properties(receive_maximum=1))
    for number in range(20):
        client.subscribe(first, qos=1, identifier=number + 1)
    client.subscribe(second, qos=1)
    found = []
    while not client.is_silent(100):
        found.append(client.message())
    assert len(found) <= 6
    assert [each.topic for each in found[-2:]] == [first, second]
    assert found[-2].properties.subscription_identifiers == (20,)


@pytest.mark.parametrize(("handling", "first", "again"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
@pytest.mark.parametrize("is_kept", [False, True])
def test_retain_handling(
    ground: Ground, handling: int, first: int, again: int, is_kept: bool
) -> None:
    topic = new_name("rooms/")
    ground.client(new_name()).publish(topic, b"x", retain=True)
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    wanted = p.Subscription(topic_filter=topic, qos=1, retain_handling=handling)
    for count in (first, again):
        client.subscribe(wanted)
        assert client.payloads(count) == [b"x"] * count
        assert client.is_silent(100)


def test_a_resumed_session_gets_no_retained_messages(ground: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = ground.session(me)
    client.subscribe(topic)
    client.disconnect()
    back = ground.session(me)
    ground.client(new_name()).publish(topic, b"x", retain=True)
    assert back.message().retain is False
    back.disconnect()
    assert ground.session(me).is_silent(200)


def test_many_come_page_by_page_within_the_clients_window(ground: Ground) -> None:
    root = new_name("root")
    publisher = ground.client(new_name())
    for number in range(600):
        publisher.publish(f"{root}/{number}", b"%d" % number, 0, retain=True)
    publisher.publish(f"{root}/last", b"600", retain=True)
    client = ground.client(new_name(), properties=Properties(receive_maximum=7))
    client.subscribe(f"{root}/#", qos=1)
    seen = [int(each) for each in client.payloads(601)]
    assert sorted(seen) == list(range(601))
    assert client.is_silent(100)


def test_a_will_can_be_retained(ground: Ground) -> None:
    topic = new_name("status/")
    ground.client(
        new_name(), will=p.Will(topic=topic, payload=b"gone", qos=1, retain=True)
    ).vanish()
    client = ground.client(new_name())
    client.subscribe(topic)
    found = client.message()
    assert (found.payload, found.retain) == (b"gone", True)
