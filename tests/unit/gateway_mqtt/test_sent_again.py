"""What a session was sent and has not acknowledged comes again as it was, whatever has changed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafkaesque.gateway.mqtt.journal import Journal
from kafkaesque.gateway.mqtt.sent_as import SentAs
from kafkaesque.model.errors import OverBound
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import Ground, MqttClient, new_name
from tests.unit.gateway_mqtt.test_quality_2 import is_empty, left


@pytest.fixture
def three() -> Ground:
    return Ground(seed=8, brokers=3)


def seen(found: p.Publish) -> tuple[object, ...]:
    """All that is the same each time."""
    identifiers = found.properties.subscription_identifiers
    return found.packet_id, found.topic, found.payload, found.qos, found.retain, identifiers


def comes_again(client: MqttClient, first: p.Publish) -> None:
    again = client.message(acknowledge=False)
    assert (seen(again), again.dup) == (seen(first), True)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_retained_message_comes_again(three: Ground, qos: int) -> None:
    me, topic = new_name(), new_name("rooms/")
    three.client(new_name(), 2).publish(topic, b"x", qos, retain=True)
    client = three.session(me)
    client.subscribe(topic, qos=2, identifier=7)
    first = client.message(acknowledge=False)
    assert seen(first)[2:] == (b"x", qos, True, (7,))
    assert not first.dup
    client.unsubscribe(topic)
    client.vanish()
    second = three.session(me, 2)
    comes_again(second, first)
    second.vanish()
    three.kill(2)
    third = three.session(me, 3)
    comes_again(third, first)
    third.acknowledge(first)
    assert third.is_silent(200)
    is_empty(three, me)


def test_retained_messages_are_kept_though_their_client_leaves_at_once(three: Ground) -> None:
    me, root = new_name(), new_name("root")
    publisher = three.client(new_name(), 2)
    for number in range(300):
        publisher.publish(f"{root}/{number}", b"%d" % number, number % 2, retain=True)
    publisher.publish(f"{root}/big", b"x" * 1_000_000, retain=True)
    publisher.publish(f"{root}/large", b"y" * 1_000_000, retain=True)
    client = three.session(me)
    client.subscribe(f"{root}/#", qos=1)
    client.vanish()
    three.wait(2_000)
    back = three.session(me, 3)
    found = [back.message() for _ in range(152)]
    assert all(each.retain and each.qos == 1 for each in found)
    numbers = {each.topic.removeprefix(f"{root}/") for each in found}
    assert numbers == {str(each) for each in range(1, 300, 2)} | {"big", "large"}
    assert back.is_silent(200)
    is_empty(three, me)


def test_a_session_ends_while_retained_messages_are_put_into_it() -> None:
    ground, root = Ground(seed=8), new_name("root")
    publisher = ground.client(new_name())
    for number in range(3):
        publisher.publish(f"{root}/{number}", b"x" * 1_000_000, 1, retain=True)
    client = ground.session(new_name())
    wanted = p.Subscription(topic_filter=f"{root}/#", qos=1)
    client.send(p.Subscribe(packet_id=1, subscriptions=(wanted,)))
    client.expect(p.Suback)
    client.send(p.Disconnect(properties=Properties(session_expiry_interval_s=0)))
    ground.wait(1_000)
    # The broker is there.
    publisher.publish(root, b"x")


@pytest.mark.parametrize("is_resumed", [False, True])
def test_what_was_sent_comes_again_without_its_subscription(
    three: Ground, is_resumed: bool
) -> None:
    me, root = new_name(), new_name("root")
    client = three.session(me)
    client.subscribe(f"{root}/+", qos=1, identifier=7)
    publisher = three.client(new_name(), 2)
    for number in range(3):
        publisher.publish(f"{root}/{number}", b"%d" % number, 2)
    first, second, last = (client.message(acknowledge=False) for _ in range(3))
    assert [each.qos for each in (first, second, last)] == [1, 1, 1]
    if is_resumed:
        client.vanish()
        client = three.session(me)
        for each in (first, second, last):
            comes_again(client, each)
    assert client.unsubscribe(f"{root}/+") == (R.SUCCESS,)
    publisher.publish(f"{root}/after", b"x", 2)
    client.acknowledge(second)
    three.wait(100)
    client.vanish()
    back = three.session(me, 3)
    comes_again(back, first)
    comes_again(back, last)
    back.acknowledge(first)
    three.wait(100)
    back.vanish()
    # The note that says how outlives any number of connections.
    third = three.session(me, 2)
    comes_again(third, last)
    third.acknowledge(last)
    assert third.is_silent(200)
    is_empty(three, me)


@pytest.mark.parametrize("again", ["{}", "{}/#"])
def test_what_was_sent_keeps_its_quality(three: Ground, again: str) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = three.session(me)
    client.subscribe(topic, qos=1)
    publisher = three.client(new_name(), 2)
    publisher.publish(topic, b"first", 2)
    first = client.message(acknowledge=False)
    client.subscribe(again.format(topic), qos=2, identifier=3)
    publisher.publish(topic, b"second", 2)
    second = client.message(acknowledge=False)
    assert (first.qos, second.qos) == (1, 2)
    client.vanish()
    back = three.session(me, 2)
    comes_again(back, first)
    comes_again(back, second)
    back.acknowledge(first)
    back.acknowledge(second)
    is_empty(three, me)


def test_filters_of_one_packet_wait_for_a_note_that_is_about_both(
    three: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, root = new_name(), new_name("root")
    client = three.session(me)
    client.subscribe(f"{root}/+", f"{root}/a", qos=1)
    three.client(new_name(), 2).publish(f"{root}/a", b"x", 2)
    first = client.message(acknowledge=False)
    put = Journal._put

    def refuse(journal: Journal, kind: str, *more: Any) -> None:
        if kind == "sent":
            journal._link.shared.clock.call_later(50, lambda: more[-1](OverBound("full")))
        else:
            put(journal, kind, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_put", refuse)
        assert all(each.is_error for each in client.unsubscribe(f"{root}/+", f"{root}/a"))
    assert client.unsubscribe(f"{root}/+", f"{root}/a") == (R.SUCCESS, R.SUCCESS)
    client.vanish()
    back = three.session(me, 3)
    comes_again(back, first)
    back.acknowledge(first)
    is_empty(three, me)


@pytest.mark.parametrize("is_new", [False, True])
def test_what_cannot_be_noted_leaves_the_subscription_as_it_was(
    three: Ground, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    me, topic = new_name(), new_name("rooms/")
    client, publisher = three.session(me), three.client(new_name(), 2)
    if not is_new:
        client.subscribe(topic, qos=0, identifier=1)
    keep, calls = Journal.keep_as_sent, itertools.count()

    def keep_once(journal: Journal, find: Any, on_done: Any) -> None:
        if next(calls):
            on_done(OverBound("full"))
        else:
            keep(journal, find, on_done)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep_as_sent", keep_once)
        assert client.subscribe(topic, qos=2, identifier=2) == (R.QUOTA_EXCEEDED,)
    client.vanish()
    client = three.session(me)
    publisher.publish(topic, b"x", 2)
    if is_new:
        assert client.is_silent(200)
    else:
        assert seen(client.message())[3:] == (0, False, (1,))
        # No binding is left of the one that was refused.
        assert client.unsubscribe(topic) == (R.SUCCESS,)
    client.vanish()
    client = three.session(me)
    publisher.publish(topic, b"x", 2)
    assert client.is_silent(200)
    assert client.unsubscribe(topic) == (R.NO_SUBSCRIPTION_EXISTED,)


def test_a_note_ends_though_its_messages_are_gone(
    three: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = three.session(me)
    client.subscribe(topic, qos=1)
    three.client(new_name(), 2).publish(topic, b"x")
    first = client.message(acknowledge=False)
    client.unsubscribe(topic)
    with monkeypatch.context() as patch:
        # As if the broker had died between the end of the message and that of the note.
        patch.setattr(SentAs, "_maybe_end", lambda _: None)
        client.acknowledge(first)
        three.wait(200)
    assert left(three, me) == 1
    client.vanish()
    assert three.session(me, 2).is_silent(200)
    is_empty(three, me)
