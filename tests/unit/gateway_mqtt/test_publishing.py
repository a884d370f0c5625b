"""PUBLISH and SUBSCRIBE of clients whose sessions end with their connections."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import Ground, new_name


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_reaches_a_subscriber(ground: Ground, version: Version, qos: int) -> None:
    topic = new_name("rooms/")
    subscriber = ground.client(new_name(), version=version)
    assert subscriber.subscribe(topic, qos=qos) == (R(qos),)
    publisher = ground.client(new_name(), version=version)
    assert publisher.publish(topic, b"21.5", qos) is R.SUCCESS
    found = subscriber.message()
    assert (found.topic, found.payload, found.qos) == (topic, b"21.5", qos)
    assert (found.dup, found.retain) == (False, False)


@pytest.mark.parametrize(
    ("published", "granted", "got"), [(2, 1, 1), (1, 2, 1), (1, 0, 0), (0, 2, 0)]
)
def test_a_message_has_the_lower_quality_of_both(
    ground: Ground, published: int, granted: int, got: int
) -> None:
    topic = new_name("rooms/")
    client = ground.client(new_name())
    client.subscribe(topic, qos=granted)
    client.publish(topic, b"x", published)
    assert client.message().qos == got


def test_messages_come_in_the_order_in_which_they_were_sent(ground: Ground) -> None:
    topic = new_name("rooms/")
    subscriber, publisher = ground.client(new_name()), ground.client(new_name())
    subscriber.subscribe(topic, qos=1)
    packets = [
        p.Publish(topic=topic, payload=b"%d" % number, qos=1, packet_id=number)
        for number in range(1, 31)
    ]
    publisher.send(*packets)
    ids = [publisher.expect(p.Puback).packet_id for _ in packets]
    assert ids == list(range(1, 31))
    assert subscriber.payloads(30) == [each.payload for each in packets]


def test_messages_of_all_kinds_that_come_together_keep_their_order(ground: Ground) -> None:
    # Those of a session's queue, and of one name and QoS 1, go on together.
    base = new_name("rooms/")
    subscriber, publisher = ground.session(new_name()), ground.client(new_name())
    subscriber.subscribe(f"{base}/#", qos=1)
    for name in "ab":
        publisher.publish(f"{base}/{name}", b"before")
    assert subscriber.payloads(2) == [b"before"] * 2
    said = Properties(content_type="text/plain")
    kinds = [("a", 1), ("a", 1), ("a", 0), ("b", 1), ("b", 1), ("a", 2), ("a", 1), ("a", 1)]
    packets = [
        p.Publish(topic=f"{base}/{name}", payload=b"%d" % at, qos=qos, packet_id=at if qos else 0)
        for at, (name, qos) in enumerate(kinds, 1)
    ]
    others = [
        p.Publish(topic=f"{base}/a", payload=b"9", qos=1, packet_id=9, retain=True),
        p.Publish(topic=f"{base}/a", payload=b"10", qos=1, packet_id=10, properties=said),
        p.Publish(topic=f"{base}/a", payload=b"11", qos=1, packet_id=11),
    ]
    publisher.send(*packets, *others)
    publisher.ground.wait(500)
    publisher.find(p.Puback)
    answers = [each for each in publisher.waiting if isinstance(each, p.Puback | p.Pubrec)]
    assert [each.packet_id for each in answers] == [1, 2, *range(4, 12)]
    assert isinstance(answers[4], p.Pubrec)
    assert subscriber.payloads(11) == [each.payload for each in (*packets, *others)]


def test_a_publisher_is_told_that_nobody_listens(ground: Ground) -> None:
    client = ground.client(new_name())
    assert client.publish(new_name("nobody/")) is R.NO_MATCHING_SUBSCRIBERS
    older = ground.client(new_name(), version=Version.V3_1_1)
    assert older.publish(new_name("nobody/")) is R.SUCCESS


def test_what_is_subscribed_is_there_for_what_the_same_client_sends_next(ground: Ground) -> None:
    topic = new_name("rooms/")
    client = ground.client(new_name())
    wanted = (p.Subscription(topic_filter=topic, qos=1),)
    client.send(
        p.Subscribe(packet_id=1, subscriptions=wanted),
        p.Publish(topic=topic, payload=b"x", qos=1, packet_id=2),
    )
    assert client.message().payload == b"x"


@pytest.mark.parametrize(
    ("topic_filter", "topics", "others"),
    [
        ("{}/+/c", ["{}/b/c", "{}//c"], ["{}/c", "{}/b/c/d"]),
        ("{}/#", ["{}", "{}/b", "{}/b/c"], ["{}b"]),
        ("{}/b", ["{}/b"], ["{}/b/", "{}/B"]),
        ("{}/b.c/*", ["{}/b.c/*"], ["{}/b/c/*", "{}/b.c/d"]),
    ],
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_filters(
    ground: Ground, topic_filter: str, topics: list[str], others: list[str], is_kept: bool
) -> None:
    root = new_name("root")
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    client.subscribe(topic_filter.format(root))
    publisher = ground.client(new_name())
    for each in [*others, *topics]:
        publisher.publish(each.format(root), each.encode())
    assert client.payloads(len(topics)) == [each.encode() for each in topics]
    assert client.is_silent(100)


@pytest.mark.parametrize("is_kept", [False, True])
def test_wildcards_pass_over_names_with_a_dollar(ground: Ground, is_kept: bool) -> None:
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    client.subscribe("#", "+/status")
    publisher = ground.client(new_name())
    publisher.publish("$own/status", b"hidden")
    publisher.publish("own/status", b"shown")
    assert client.message().payload == b"shown"
    assert client.is_silent(100)
    client.unsubscribe("#", "+/status")


@pytest.mark.parametrize("is_kept", [False, True])
def test_overlapping_subscriptions_give_one_copy_with_all_identifiers(
    ground: Ground, is_kept: bool
) -> None:
    root = new_name("root")
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    client.subscribe(f"{root}/#", qos=0, identifier=7)
    client.subscribe(f"{root}/+", qos=2, identifier=9)
    client.subscribe(f"{root}/b", qos=1)
    ground.client(new_name()).publish(f"{root}/b", b"x", 2)
    found = client.message()
    assert found.qos == 2
    assert sorted(found.properties.subscription_identifiers) == [7, 9]
    assert client.is_silent(100)


@pytest.mark.parametrize("is_kept", [False, True])
def test_no_local_and_retain_as_published(ground: Ground, is_kept: bool) -> None:
    topic = new_name("rooms/")
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    client.subscribe(
        p.Subscription(topic_filter=topic, qos=1, no_local=True, retain_as_published=True)
    )
    client.publish(topic, b"own")
    publisher = ground.client(new_name())
    publisher.publish(topic, b"other", retain=True)
    found = client.message()
    assert (found.payload, found.retain) == (b"other", True)
    assert client.is_silent(100)
    publisher.publish(topic, b"", retain=True)


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_is_unsubscribed_is_not_delivered(ground: Ground, is_kept: bool) -> None:
    root = new_name("root")
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    client.subscribe(f"{root}/a", f"{root}/b")
    reasons = client.unsubscribe(f"{root}/a", f"{root}/c", f"{root}/#/a")
    assert reasons == (R.SUCCESS, R.NO_SUBSCRIPTION_EXISTED, R.TOPIC_FILTER_INVALID)
    publisher = ground.client(new_name())
    publisher.publish(f"{root}/a", b"a")
    publisher.publish(f"{root}/b", b"b")
    assert client.payloads(1) == [b"b"]
    assert client.is_silent(100)


@pytest.mark.parametrize("is_kept", [False, True])
def test_properties_come_as_they_were_sent(ground: Ground, is_kept: bool) -> None:
    topic = new_name("rooms/")
    client = ground.session(new_name()) if is_kept else ground.client(new_name())
    client.subscribe(topic)
    said = Properties(
        payload_format_indicator=1,
        message_expiry_interval_s=60,
        content_type="text/plain",
        response_topic="answers/a.b",
        correlation_data=b"\x00\xff",
        user_properties=(("b", "1"), ("a", "2"), ("b", "3")),
    )
    ground.client(new_name()).publish(topic, b"x", properties=said)
    assert client.message().properties == said
    older = ground.client(new_name(), version=Version.V3_1_1)
    older.subscribe(topic)
    ground.client(new_name()).publish(topic, b"y", properties=said)
    assert older.message().payload == b"y"


def test_a_message_that_is_too_large_for_a_client_is_not_sent_to_it(ground: Ground) -> None:
    topic = new_name("rooms/")
    client = ground.client(new_name(), properties=Properties(maximum_packet_size_bytes=100))
    client.subscribe(topic)
    publisher = ground.client(new_name())
    publisher.publish(topic, bytes(200))
    publisher.publish(topic, b"small")
    assert client.message().payload == b"small"


@pytest.mark.parametrize("is_kept", [False, True])
def test_no_more_is_sent_than_the_client_takes(ground: Ground, is_kept: bool) -> None:
    topic = new_name("rooms/")
    client = ground.client(
        new_name(), expiry_s=60 if is_kept else 0, properties=Properties(receive_maximum=2)
    )
    client.subscribe(topic)
    publisher = ground.client(new_name())
    for number in range(5):
        publisher.publish(topic, b"%d" % number)
    first, second = client.message(acknowledge=False), client.message(acknowledge=False)
    assert client.is_silent(200)
    client.acknowledge(second)
    third = client.message(acknowledge=False)
    assert third.payload == b"2"
    assert client.is_silent(200)
    client.acknowledge(first)
    client.acknowledge(third)
    assert client.payloads(2) == [b"3", b"4"]


def test_topic_aliases_in_both_directions(ground: Ground) -> None:
    topic = new_name("rooms/")
    client = ground.client(new_name(), properties=Properties(topic_alias_maximum=1))
    client.subscribe(topic)
    publisher = ground.client(new_name())
    assert publisher.connack.properties.topic_alias_maximum
    publisher.publish(topic, b"1", properties=Properties(topic_alias=1))
    publisher.publish("", b"2", properties=Properties(topic_alias=1))
    first, second = client.message(), client.message()
    assert (first.topic, first.properties.topic_alias) == (topic, 1)
    assert (second.topic, second.properties.topic_alias, second.payload) == ("", 1, b"2")


def test_a_repeat_of_quality_2_is_answered_and_not_delivered_again(ground: Ground) -> None:
    topic = new_name("rooms/")
    subscriber, publisher = ground.client(new_name()), ground.client(new_name())
    subscriber.subscribe(topic)
    packet = p.Publish(topic=topic, payload=b"x", qos=2, packet_id=9)
    publisher.send(packet)
    assert publisher.expect(p.Pubrec).reason is R.SUCCESS
    publisher.send(packet, packet)
    for _ in range(2):
        assert publisher.expect(p.Pubrec).packet_id == 9
    publisher.send(p.Pubrel(packet_id=9))
    assert publisher.expect(p.Pubcomp).reason is R.SUCCESS
    publisher.send(p.Pubrel(packet_id=9))
    assert publisher.expect(p.Pubcomp).reason is R.PACKET_ID_NOT_FOUND
    assert subscriber.message().payload == b"x"
    assert subscriber.is_silent(100)
    # The id is free: the next message with it is another one.
    publisher.send(packet)
    assert subscriber.message().payload == b"x"


def test_what_a_client_does_not_read_is_dropped_and_counted(ground: Ground) -> None:
    topic = new_name("rooms/")
    client = ground.client(new_name())
    client.subscribe(topic, qos=0)
    client.client.link.pause_reading()
    publisher = ground.client(new_name())
    activity = ground.cluster.brokers[ground.cluster.names[0]].doors.activity
    before = activity.client_drops.get("mqtt", 0)
    for _ in range(60):
        publisher.publish(topic, bytes(100_000), 1)
    dropped = activity.client_drops["mqtt"] - before
    assert dropped > 0
    client.client.link.resume_reading()
    got = 0
    while not client.is_silent(200):
        client.message()
        got += 1
    assert got + dropped == 60
