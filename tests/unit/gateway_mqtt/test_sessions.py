"""Sessions that are kept: what waits for a client, wherever it comes back."""

from __future__ import annotations

from collections import Counter

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import PATIENCE_MS, Ground, MqttClient, new_name


@pytest.fixture
def three() -> Ground:
    return Ground(seed=3, brokers=3)


def has_queue(ground: Ground, client_id: str) -> bool:
    broker = ground.cluster.brokers[min(ground.cluster.brokers)]
    name = QueueName(DEFAULT_VHOST, f"mqtt.session.{client_id}")
    return name in broker.doors.cluster.state.queues


@pytest.mark.parametrize("version", list(Version))
def test_what_is_published_meanwhile_waits(three: Ground, version: Version) -> None:
    me, topic = new_name(), new_name("rooms/")
    expiry_s = 60 if version is Version.V5 else None
    client = three.client(me, 1, version=version, clean=False, expiry_s=expiry_s)
    assert not client.connack.session_present
    client.subscribe(topic, qos=1)
    client.disconnect()
    publisher = three.client(new_name(), 2)
    for number in range(3):
        assert publisher.publish(topic, b"%d" % number) is R.SUCCESS
    back = three.client(me, 3, version=version, clean=False, expiry_s=expiry_s)
    assert back.connack.session_present
    assert back.payloads(3) == [b"0", b"1", b"2"]
    # What was acknowledged does not come again.
    back.disconnect()
    again = three.client(me, 1, version=version, clean=False, expiry_s=expiry_s)
    assert again.connack.session_present
    assert again.is_silent(300)


def test_a_client_of_3_1_1_resumes_a_session_with_subscription_identifiers(three: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = three.client(me, 1, clean=False, expiry_s=60)
    wanted = p.Subscription(topic_filter=topic, qos=1)
    said = Properties(subscription_identifiers=(5,))
    client.send(p.Subscribe(packet_id=1, subscriptions=(wanted,), properties=said))
    client.expect(p.Suback)
    client.disconnect()
    three.client(new_name(), 2).publish(topic, b"body")
    back = three.client(me, 1, version=Version.V3_1_1, clean=False)
    assert back.message().payload == b"body"


def test_what_was_not_acknowledged_comes_again_with_its_packet_id(three: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = three.session(me, 1)
    client.subscribe(topic)
    publisher = three.client(new_name(), 2)
    publisher.publish(topic, b"first")
    publisher.publish(topic, b"second")
    first = client.message(acknowledge=False)
    second = client.message(acknowledge=False)
    assert (first.dup, second.dup) == (False, False)
    client.acknowledge(second)
    three.wait(100)
    client.vanish()
    back = three.session(me, 2)
    found = back.message()
    assert (found.payload, found.dup, found.packet_id) == (b"first", True, first.packet_id)
    assert back.is_silent(200)


def test_what_was_never_sent_is_not_marked_as_sent_before(three: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    takes_one = Properties(receive_maximum=1)
    client = three.client(me, clean=False, expiry_s=60, properties=takes_one)
    client.subscribe(topic)
    publisher = three.client(new_name(), 2)
    publisher.publish(topic, b"first")
    publisher.publish(topic, b"second")
    assert client.message(acknowledge=False).payload == b"first"
    client.vanish()
    back = three.session(me, 2)
    assert [(each.payload, each.dup) for each in (back.message(), back.message())] == [
        (b"first", True),
        (b"second", False),
    ]


def test_a_new_connection_takes_over_from_the_one_at_another_broker(three: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    old = three.session(me, 1)
    old.subscribe(topic)
    new = three.session(me, 2)
    assert new.connack.session_present
    assert old.ends() is R.SESSION_TAKEN_OVER
    three.client(new_name(), 3).publish(topic, b"x")
    assert new.message().payload == b"x"


@pytest.mark.parametrize("expiry_s", [0, 60])
@pytest.mark.parametrize("is_full", [False, True], ids=["waiting", "full"])
def test_a_clean_start_takes_over_from_the_one_at_another_broker(
    three: Ground, expiry_s: int, is_full: bool
) -> None:
    me, topic = new_name(), new_name("rooms/")
    takes_one = Properties(receive_maximum=1)
    old = three.client(me, 1, clean=False, expiry_s=60, properties=takes_one)
    old.subscribe(topic, qos=1)
    if is_full:
        # It asks for nothing more while its client has not acknowledged this one.
        three.client(new_name(), 3).publish(topic, b"old")
        old.message(acknowledge=False)
    new = three.client(me, 2, expiry_s=expiry_s)
    assert not new.connack.session_present
    assert old.ends() is R.SESSION_TAKEN_OVER
    new.subscribe(topic, qos=1)
    three.client(new_name(), 3).publish(topic, b"new")
    assert new.message().payload == b"new"


def test_a_clean_start_does_not_wait_for_a_broker_that_is_gone(three: Ground) -> None:
    me = new_name()
    three.session(me, 1)
    three.kill(1)
    three.wait(20_000)
    before_ms = three.env.clock.now_ms()
    assert not three.client(me, 2, expiry_s=60).connack.session_present
    assert three.env.clock.now_ms() - before_ms < 1_000


def test_a_new_connection_takes_over_at_the_same_broker(three: Ground) -> None:
    me = new_name()
    old = three.client(me)
    three.client(me)
    assert old.ends() is R.SESSION_TAKEN_OVER


def test_a_clean_start_forgets_the_session(three: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = three.session(me)
    client.subscribe(topic)
    client.disconnect()
    three.client(new_name(), 2).publish(topic, b"old")
    clean = three.session(me, 2, clean=True)
    assert not clean.connack.session_present
    three.client(new_name(), 3).publish(topic, b"new")
    assert clean.is_silent(300)
    clean.disconnect()
    three.client(me, 3)
    three.loop.run_until(lambda: not has_queue(three, me), 10_000)


def test_a_session_that_nobody_resumes_is_deleted(three: Ground) -> None:
    short, long = new_name(), new_name()
    for name, expiry_s in ((short, 70), (long, 700)):
        three.client(name, clean=False, expiry_s=expiry_s).disconnect()
    three.wait(50_000)
    assert has_queue(three, short)
    three.wait(60_000)
    assert not has_queue(three, short)
    assert has_queue(three, long)


def restart_every(ground: Ground, ms: int, times: int) -> None:
    """Let a broker that runs alone work for so long, and start it again, so often."""
    machine = ground.cluster._machines[ground.cluster.names[0]]
    for _ in range(times):
        ground.wait(ms)
        ground.cluster.restart(machine)
        ground.loop.run_until(lambda: ground.cluster.is_back(machine), PATIENCE_MS)


def test_a_session_ends_though_no_leader_lasts_for_as_long_as_it_is_kept() -> None:
    ground, me, late = Ground(), new_name(), new_name()
    for name in (me, late):
        ground.client(name, clean=False, expiry_s=1_000).disconnect()
    restart_every(ground, 220_000, 4)
    assert has_queue(ground, me)
    # Who comes back has all of the time once more, if his broker ends right after that, too.
    ground.client(late, clean=False, expiry_s=1_000).disconnect()
    restart_every(ground, 1_000, 1)
    ground.wait(250_000)
    assert not has_queue(ground, me)
    assert has_queue(ground, late)
    restart_every(ground, 200_000, 3)
    assert ground.client(late, clean=False, expiry_s=1_000).connack.session_present


def test_a_session_that_is_in_use_is_not_deleted(three: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = three.client(me, clean=False, expiry_s=1)
    client.subscribe(topic)
    three.wait(90_000)
    three.client(new_name(), 2).publish(topic, b"x")
    assert client.message().payload == b"x"


def test_the_time_begins_when_a_client_leaves_that_could_take_no_more() -> None:
    ground, me, topic = Ground(), new_name(), new_name("rooms/")
    takes_one = Properties(receive_maximum=1)
    client = ground.client(me, clean=False, expiry_s=100, properties=takes_one)
    client.subscribe(topic, qos=1)
    ground.client(new_name()).publish(topic, b"x")
    client.message(acknowledge=False)
    ground.wait(110_000)
    client.disconnect()
    ground.wait(90_000)
    assert has_queue(ground, me)
    ground.wait(20_000)
    assert not has_queue(ground, me)


def test_a_disconnect_can_end_a_session_or_keep_it_for_longer(three: Ground) -> None:
    me = new_name()
    client = three.session(me)
    client.send(p.Disconnect(properties=Properties(session_expiry_interval_s=0)))
    three.loop.run_until(lambda: not has_queue(three, me), 10_000)
    assert not three.session(me).connack.session_present
    other = new_name()
    client = three.client(other, clean=False, expiry_s=1)
    client.send(p.Disconnect(properties=Properties(session_expiry_interval_s=7_000)))
    three.wait(70_000)
    assert three.session(other).connack.session_present


def test_a_longer_expiry_than_a_week_is_not_granted(three: Ground) -> None:
    client = three.client(new_name(), clean=False, expiry_s=2**32 - 1)
    assert client.connack.properties.session_expiry_interval_s == 7 * 24 * 3_600
    assert three.session(new_name()).connack.properties.session_expiry_interval_s is None


def test_a_subscription_that_is_made_again_counts_with_its_new_options(three: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = three.session(me)
    client.subscribe(topic, qos=2, identifier=1)
    client.subscribe(topic, qos=1, identifier=2)
    client.disconnect()
    back = three.session(me, 2)
    three.client(new_name(), 3).publish(topic, b"x", 2)
    found = back.message()
    assert (found.qos, found.properties.subscription_identifiers) == (1, (2,))
    back.unsubscribe(topic)
    back.disconnect()
    three.client(new_name(), 3).publish(topic, b"y")
    assert three.session(me).is_silent(300)


def test_the_expiry_of_a_message_counts_while_it_waits(three: Ground) -> None:
    me, topic = new_name(), new_name("rooms/")
    client = three.session(me)
    client.subscribe(topic)
    client.disconnect()
    publisher = three.client(new_name(), 2)
    publisher.publish(topic, b"short", properties=Properties(message_expiry_interval_s=2))
    publisher.publish(topic, b"long", properties=Properties(message_expiry_interval_s=60))
    three.wait(10_000)
    found = three.session(me).message()
    assert found.payload == b"long"
    assert found.properties.message_expiry_interval_s in range(45, 51)


def test_a_long_filter_is_kept_as_it_is(three: Ground) -> None:
    me, topic = new_name(), new_name("x" * 150) + "/" + "y" * 150
    client = three.session(me)
    client.subscribe(topic)
    client.disconnect()
    publisher = three.client(new_name(), 2)
    publisher.publish(topic + "z", b"other")
    publisher.publish(topic, b"mine")
    back = three.session(me)
    assert back.message().payload == b"mine"
    assert back.is_silent(200)


def test_a_client_id_that_is_too_long_cannot_have_a_session(three: Ground) -> None:
    client = three.client("x" * 250)
    client.disconnect()
    refused = MqttClient(three).connect(
        p.Connect(client_id="x" * 250, properties=Properties(session_expiry_interval_s=5))
    )
    assert refused.reason is R.CLIENT_ID_NOT_VALID


@pytest.mark.parametrize("leads", [True, False])
def test_a_session_survives_its_broker(leads: bool) -> None:
    ground = Ground(seed=5, brokers=3)
    me, topic = new_name(), new_name("rooms/")
    ids = [each + 1 for each in range(3)]
    client = ground.session(me, 1)
    client.subscribe(topic)
    broker = ground.cluster.brokers[ground.cluster.names[0]]
    queue = broker.doors.cluster.state.queues[QueueName(DEFAULT_VHOST, f"mqtt.session.{me}")]
    leader = int(broker.doors.cluster.leaders.leader(queue.partitions[0].group) or 0)
    at = next(each for each in ids if (each == leader) is leads)
    client.disconnect()
    client = ground.session(me, at)
    other = next(each for each in ids if each != at)
    publisher = ground.client(new_name(), other)
    for number in range(20):
        assert publisher.publish(topic, b"%d" % number) is R.SUCCESS
    seen = client.payloads(5)
    ground.wait(100)
    ground.kill(at)
    repeated: set[bytes] = set()
    for number in range(20, 30):
        publisher = _publish_again(ground, publisher, other, topic, b"%d" % number, repeated)
    back = ground.session(me, other)
    assert back.connack.session_present
    while b"29" not in seen:
        seen += back.payloads(1)
    while not back.is_silent(300):
        seen += back.payloads(1)
    assert sorted(set(map(int, seen))) == list(range(30))
    # What was acknowledged does not come again, and what was published once comes once.
    twice = Counter(seen) - Counter(set(seen))
    assert set(twice) <= repeated
    assert set(twice.values()) <= {1}


def _publish_again(
    ground: Ground,
    publisher: MqttClient,
    broker: int,
    topic: str,
    payload: bytes,
    repeated: set[bytes],
) -> MqttClient:
    """Publish; where the broker cannot say whether it is kept, and hangs up, do so once more.

    Adds what was published twice to `repeated`.
    """
    publisher.send(p.Publish(topic=topic, payload=payload, qos=1, packet_id=60_000))
    ground.loop.run_until(
        lambda: publisher.find(p.Puback) is not None or publisher.client.is_closed, PATIENCE_MS
    )
    if publisher.find(p.Puback) is not None:
        assert publisher.expect(p.Puback).reason is R.SUCCESS
        return publisher
    assert publisher.expect(p.Disconnect).reason is R.SERVER_BUSY
    repeated.add(payload)
    again = ground.client(new_name(), broker)
    assert again.publish(topic, payload) is R.SUCCESS
    return again
