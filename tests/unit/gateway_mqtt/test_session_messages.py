"""A message that several sessions want is kept once, until none of them wants it any more."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.doors import session_messages
from kafkaesque.broker.metadata.cluster_state import PartitionState, QueueState
from kafkaesque.broker.metadata.internal_topics import SESSION_MESSAGES_CONFIGS
from kafkaesque.broker.metadata.topic_names import SESSION_MESSAGES_TOPIC
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.requests.commands import (
    ChangeConfig,
    ConfigChange,
    ControllerCommand,
    CreateTopic,
    DeleteTopic,
)
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.broker.requests.queue_requests import AskQueue
from kafkaesque.broker.upkeep import session_messages as trimming
from kafkaesque.gateway.mqtt.sessions import queue_name_of
from kafkaesque.model.errors import InvalidConfig, InvalidTopic
from kafkaesque.model.ids import GroupId
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from tests.unit.gateway_amqp.kit import AmqpClient
from tests.unit.gateway_mqtt.kit import Ground, MqttClient, new_name

BODY = b"0123456789" * 1_000


@pytest.fixture
def ground() -> Ground:
    return Ground(brokers=1)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """Have what nobody wants given up soon; return after how long."""
    monkeypatch.setattr(trimming, "MARGIN_MS", 5_000)
    monkeypatch.setattr(trimming, "ROUND_MS", 1_000)
    return 10_000


def sessions(ground: Ground, names: Sequence[str], topic: str) -> list[MqttClient]:
    """Clients with sessions that have subscribed, and a topic that is there for them."""
    found = [ground.session(each) for each in names]
    for each in found:
        each.subscribe(topic, qos=1)
    if len(names) > 1:
        # Copies are what they get until the topic is there.
        ground.client().publish(topic.replace("#", "first"), b"first")
        ground.loop.run_until(lambda: bool(logs(ground)), 10_000)
        assert [each.message().payload for each in found] == [b"first"] * len(names)
    return found


def two() -> list[str]:
    return [new_name("session"), new_name("session")]


def broker(ground: Ground) -> Broker:
    return next(iter(ground.cluster.brokers.values()))


def logs(ground: Ground) -> list[Partition]:
    """Return the partitions of the topic, as their leader has them."""
    here = broker(ground)
    topic = here.state.topics.get(SESSION_MESSAGES_TOPIC)
    found = [] if topic is None else [here.partitions.get(each.group) for each in topic.partitions]
    return [each for each in found if each is not None and each.is_leader]


def kept(ground: Ground) -> int:
    """Return how many messages the topic has."""
    return sum(each.high_watermark - each.log_start_offset for each in logs(ground))


def queue_of(ground: Ground, client_id: str) -> QueueState:
    """Return a session's queue."""
    queues = broker(ground).state.queues.values()
    (queue,) = (each for each in queues if each.queue.name == queue_name_of(client_id))
    return queue


def leader_of(ground: Ground, group: GroupId) -> int:
    """Return the number of the broker that leads a partition."""
    for number, name in enumerate(ground.cluster.names, 1):
        found = ground.cluster.brokers[name].partitions.get(group)
        if found is not None and found.is_leader:
            return number
    raise AssertionError("nobody leads it")


def partition_of(topic: str) -> int:
    """Return in which partition messages of a name are."""
    return partition_for_key(topic.replace("/", ".").encode(), session_messages.PARTITIONS)


def dies(partition: PartitionState, brokers: Collection[int]) -> bool:
    """Tell whether a partition has no majority without some brokers."""
    return 2 * len(set(partition.replicas) - set(brokers)) <= len(partition.replicas)


def queue_bytes(ground: Ground, client_id: str) -> int:
    """Return what a session's own log takes."""
    partition = broker(ground).partitions.get(queue_of(ground, client_id).partitions[0].group)
    assert partition is not None
    return partition.log.size_bytes


def publish_at_once(ground: Ground, names: Sequence[str]) -> None:
    """Publish a message to each name, which is its payload, and wait for all answers."""
    publisher = ground.client()
    publisher.send(
        *(
            p.Publish(topic=name, payload=name.encode(), qos=1, packet_id=number)
            for number, name in enumerate(names, 1)
        )
    )
    answers = [publisher.expect(p.Puback) for _ in names]
    assert [each.packet_id for each in answers] == list(range(1, len(names) + 1))
    assert not any(each.reason.is_error for each in answers)


def submit(ground: Ground, *commands: ControllerCommand) -> list[object]:
    """Have the controller carry out commands; return what it says of each."""
    done: list[object] = []
    for command in commands:
        broker(ground).controller_client.submit(command, 5_000, done.append)
    ground.loop.run_until(lambda: len(done) == len(commands), 10_000)
    return done


def test_two_sessions_refer_to_one_message(ground: Ground) -> None:
    names = two()
    for each in sessions(ground, names, "plant/#"):
        each.disconnect()
    publisher = ground.client()
    said = Properties(user_properties=(("unit", "C"), ("unit", "F")), content_type="text/plain")
    before = kept(ground)
    assert publisher.publish("plant/7", BODY, properties=said) is ReasonCode.SUCCESS
    assert kept(ground) == before + 1
    for name in names:
        assert queue_bytes(ground, name) < len(BODY) // 2
        client = ground.session(name)
        found = client.message()
        assert (found.topic, found.payload, found.qos) == ("plant/7", BODY, 1)
        assert found.properties.user_properties == said.user_properties
        assert found.properties.content_type == "text/plain"
        client.disconnect()


def test_a_message_for_one_session_stands_in_its_queue(ground: Ground) -> None:
    (one,) = sessions(ground, [new_name("session")], "alone/#")
    ground.client().publish("alone/1", BODY)
    ground.wait(2_000)
    assert one.message().payload == BODY
    assert SESSION_MESSAGES_TOPIC not in broker(ground).state.topics


def test_a_message_that_is_too_large_is_copied(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_messages, "MESSAGE_BYTES_MAX", 100)
    both = sessions(ground, two(), "large")
    before = kept(ground)
    ground.client().publish("large", BODY)
    assert [each.message().payload for each in both] == [BODY, BODY]
    assert kept(ground) == before


def test_a_message_for_one_session_does_not_overtake_one_for_two(ground: Ground) -> None:
    one, other = sessions(ground, two(), "order/#")
    one.subscribe("own/#", qos=1)
    names = ["order/1", "own/1", "order/2", "own/2", "own/3", "order/3"]
    publish_at_once(ground, names)
    assert one.payloads(6) == [name.encode() for name in names]
    assert other.payloads(3) == [b"order/1", b"order/2", b"order/3"]


def test_a_queue_of_amqp_gets_in_order_what_sessions_have_too(ground: Ground) -> None:
    one, _ = sessions(ground, two(), "order/#")
    one.subscribe("own/#", qos=1)
    amqp = AmqpClient(ground, ground.cluster.names[0])  # type: ignore[arg-type]
    amqp.open()
    queue = amqp.queue()
    for key in ("order.#", "own.#", "none.#"):
        amqp.call(m.QueueBind(queue=queue, exchange="amq.topic", routing_key=key), m.QueueBindOk)
    names = ["order/1", "own/1", "order/2", "own/2", "none/1", "order/3"]
    publish_at_once(ground, names)
    assert [amqp.get(queue)[2] for _ in names] == [name.encode() for name in names]


def test_an_encrypted_session_gets_its_copies_in_order() -> None:
    ground = Ground(is_encrypted=True)
    names = [*two(), new_name("session")]
    *_, third = sessions(ground, names, "order/#")
    third.subscribe("own/#", qos=1)
    queue, sealed = queue_name_of(names[2]), dict[str, str | None](encryption="aes256-gcm")
    clear = ConfigChange(name="encryption", value="none")
    submit(
        ground,
        ChangeQueue(vhost="/", name=queue, changes=sealed),
        ChangeConfig(topic=SESSION_MESSAGES_TOPIC, changes=[clear]),
    )
    names = ["order/1", "own/1", "order/2", "own/2", "order/3"]
    publish_at_once(ground, names)
    assert third.payloads(5) == [name.encode() for name in names]


def test_messages_that_come_together_are_kept_once_and_in_order(ground: Ground) -> None:
    both = sessions(ground, two(), "many/#")
    publisher, before = ground.client(), kept(ground)
    bodies = [b"%d" % number for number in range(20)]
    publisher.send(
        *(
            p.Publish(topic="many/1", payload=body, qos=1, packet_id=number)
            for number, body in enumerate(bodies, 1)
        )
    )
    assert [each.payloads(20) for each in both] == [bodies, bodies]
    assert kept(ground) == before + 20
    assert [publisher.expect(p.Puback).packet_id for _ in bodies] == list(range(1, 21))


def test_what_no_session_wants_is_given_up(ground: Ground, short: int) -> None:
    both = sessions(ground, two(), "soon/#")
    publisher = ground.client()
    for number in range(5):
        publisher.publish(f"soon/{number}", BODY)
    assert kept(ground) == 5
    assert [len(each.payloads(5)) for each in both] == [5, 5]
    ground.wait(2 * short)
    assert kept(ground) == 0
    publisher.publish("soon/again", BODY)
    assert [each.message().payload for each in both] == [BODY, BODY]


def test_what_one_session_has_not_settled_stays(ground: Ground, short: int) -> None:
    names = two()
    quick, slow = sessions(ground, names, "late/#")
    slow.disconnect()
    publisher = ground.client()
    for number in range(5):
        publisher.publish("late/1", b"%d" % number)
    assert len(quick.payloads(5)) == 5
    ground.wait(3 * short)
    assert kept(ground) == 5
    back = ground.session(names[1])
    assert back.connack.session_present
    assert back.payloads(5) == [b"%d" % number for number in range(5)]


def test_sessions_have_copies_while_a_partition_has_no_leader() -> None:
    """Else all sessions would wait for what goes there, whatever else they want."""
    ground = Ground(brokers=5)
    names = ["one", "other"]
    both = sessions(ground, names, "part/#")
    topic = broker(ground).state.topics[SESSION_MESSAGES_TOPIC]
    queues = [queue_of(ground, each).partitions[0] for each in names]
    dead = next(
        set(pair)
        for pair in itertools.combinations(range(2, 6), 2)
        if any(dies(each, pair) for each in topic.partitions)
        if not any(dies(each, pair) for each in queues)
    )
    for each in dead:
        ground.kill(each)
    number = next(at for at, each in enumerate(topic.partitions) if dies(each, dead))
    name = next(each for each in map("part/{}".format, range(100)) if partition_of(each) == number)
    begun_ms = ground.env.clock.now_ms()
    publish_at_once(ground, [name, "part/other", name])
    assert ground.env.clock.now_ms() < begun_ms + 5_000
    expected = [name.encode(), b"part/other", name.encode()]
    assert [each.payloads(3) for each in both] == [expected, expected]


def test_what_waits_stays_though_clocks_are_a_day_apart(short: int) -> None:
    """One broker's clock is behind, by which a message came, and one ahead, by which it waits."""
    ground = Ground(brokers=3)
    names = ["quick", "away"]
    quick, away = sessions(ground, names, "late/#")
    away.disconnect()
    topic = broker(ground).state.topics[SESSION_MESSAGES_TOPIC]
    waits = leader_of(ground, queue_of(ground, names[1]).partitions[0].group)
    led = [leader_of(ground, each.group) for each in topic.partitions]
    name = next(
        each for each in map("late/{}".format, range(100)) if led[partition_of(each)] != waits
    )
    (comes,) = {1, 2, 3} - {waits, led[partition_of(name)]}
    for number, days in ((waits, 1), (comes, -1)):
        machine = ground.cluster._machines[ground.cluster.names[number - 1]]
        machine.oscillator.jump_wall(days * 86_400_000)
    ground.client(broker=comes).publish(name, BODY)
    assert quick.message().payload == BODY
    ground.wait(2 * short)
    assert ground.session(names[1]).message().payload == BODY


def test_it_is_said_that_a_message_is_given_up_whose_body_is_gone(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = two()
    for each in sessions(ground, names, "gone/#"):
        each.disconnect()
    ground.client().publish("gone/1", BODY)
    here = broker(ground)
    for log in logs(ground):
        here.partitions.advance_start(log, log.high_watermark)
    ground.wait(1_000)
    said: list[str] = []
    monkeypatch.setattr(here.queue_hosts._parts.reports, "warning", said.append)
    back = ground.session(names[0])
    assert back.is_silent(2_000)
    what = "gives up 1 message: the log that has the bodies does not have them any more"
    assert said == [f"queue '{queue_name_of(names[0])}' {what}"]
    ground.client().publish("gone/2", b"later")
    assert back.message().payload == b"later"


def test_nothing_is_given_up_while_a_session_does_not_answer(
    ground: Ground, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = sessions(ground, two(), "deaf/#")
    ground.client().publish("deaf/1", BODY)
    assert [each.message().payload for each in both] == [BODY, BODY]
    asked = 0

    def refuse(*arguments: object) -> None:
        nonlocal asked
        asked += 1
        on_counted = arguments[3]
        assert callable(on_counted)
        on_counted(InvalidTopic("not now"))

    ground.wait(100)
    calls = broker(ground).queue_calls
    with monkeypatch.context() as patch:
        patch.setattr(type(calls), "ask", lambda _, *arguments: refuse(*arguments))
        ground.wait(2 * short)
        assert asked > 2
        assert kept(ground) == 1
    ground.wait(2 * short)
    assert kept(ground) == 0


def test_nothing_is_given_up_by_old_news_of_which_sessions_there_are(
    ground: Ground, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = sessions(ground, two(), "news/#")
    ground.client().publish("news/1", BODY)
    assert [each.message().payload for each in both] == [BODY, BODY]
    metadata = type(broker(ground).metadata)
    with monkeypatch.context() as patch:
        patch.setattr(metadata, "when_current", lambda _, __, on_done: on_done(False))
        ground.wait(2 * short)
        assert kept(ground) == 1
    ground.wait(2 * short)
    assert kept(ground) == 0


def test_sessions_are_asked_only_for_what_could_go(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming, "ROUND_MS", 1_000)
    both = sessions(ground, two(), "young/#")
    ground.client().publish("young/1", BODY)
    assert [each.message().payload for each in both] == [BODY, BODY]
    asked: list[object] = []
    calls = type(broker(ground).queue_calls)
    ask = calls.ask

    def note(*arguments: Any) -> None:
        asked.append(arguments[1])
        ask(*arguments)

    monkeypatch.setattr(calls, "ask", note)
    ground.wait(3_000)
    assert not any(isinstance(each, AskQueue) and each.is_committed is True for each in asked)


def test_the_topic_keeps_what_sessions_want_whoever_makes_it(ground: Ground) -> None:
    submit(ground, CreateTopic(name=SESSION_MESSAGES_TOPIC, partition_count=1))
    configs = broker(ground).state.topics[SESSION_MESSAGES_TOPIC].configs
    assert configs == SESSION_MESSAGES_CONFIGS
    both = sessions(ground, two(), "hand/#")
    assert kept(ground) == 1
    ground.client().publish("hand/1", BODY)
    assert [each.message().payload for each in both] == [BODY, BODY]
    assert kept(ground) == 2


def test_nobody_deletes_the_topic_or_has_it_compacted(ground: Ground) -> None:
    sessions(ground, two(), "own/#")
    topic_id = broker(ground).state.topics[SESSION_MESSAGES_TOPIC].topic_id
    change = ConfigChange(name="cleanup.policy", value="compact")
    deleted, changed = submit(
        ground,
        DeleteTopic(name=SESSION_MESSAGES_TOPIC, topic_id=topic_id),
        ChangeConfig(topic=SESSION_MESSAGES_TOPIC, changes=[change]),
    )
    assert isinstance(deleted, InvalidTopic)
    assert isinstance(changed, InvalidConfig)


def test_whoever_makes_the_topic_nothing_of_it_is_compacted(ground: Ground) -> None:
    def make(**configs: str) -> ControllerCommand:
        return CreateTopic(
            name=SESSION_MESSAGES_TOPIC,
            partition_count=1,
            replication_factor=1,
            configs={name.replace("_", "."): value for name, value in configs.items()},
        )

    refused, _ = submit(ground, make(cleanup_policy="compact"), make())
    assert isinstance(refused, InvalidConfig)
    state = broker(ground).state
    ground.loop.run_until(lambda: SESSION_MESSAGES_TOPIC in state.topics, 10_000)
    assert state.topics[SESSION_MESSAGES_TOPIC].configs["cleanup.policy"] == "delete"
