"""Share groups with librdkafka's share consumer: each record to one consumer, one by one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, produce
from tests.clients.test_cli import Cli, cli

__all__ = ["cli"]

Make = Callable[..., "ShareConsumer"]
PATIENCE_S = 40.0
ACCEPT, RELEASE, REJECT = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
)


def set_group(bootstrap_servers: str, group: str, **options: str) -> None:
    """Sets options of a group: `share_auto_offset_reset="earliest"`."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in options.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for each in admin.incremental_alter_configs([resource]).values():
        each.result(10)


@pytest.fixture
def group(bootstrap_servers: str, request: pytest.FixtureRequest) -> str:
    name = f"share-{request.node.name}-{time.time_ns()}"
    set_group(bootstrap_servers, name, share_auto_offset_reset="earliest")
    return name


@pytest.fixture
def make(bootstrap_servers: str, group: str) -> Iterator[Make]:
    made: list[Any] = []

    def make_one(topic: str, **config: Any) -> Any:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        consumer.subscribe([topic])
        made.append(consumer)
        return consumer

    yield make_one
    for consumer in made:
        consumer.close()


def poll_until(consumer: Any, count: int, patience_s: float = PATIENCE_S) -> list[Any]:
    """Polls until there are so many records; an error is a failure."""
    found: list[Any] = []
    deadline = time.monotonic() + patience_s
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.poll(1.0):
            assert message.error() is None, message.error()
            found.append(message)
    return found


def poll_for(consumer: Any, seconds: float) -> list[Any]:
    return poll_until(consumer, 1 << 30, seconds)


def place_of(message: Any) -> tuple[int, int]:
    return message.partition(), message.offset()


def test_every_record_goes_to_one_consumer(
    bootstrap_servers: str, make_topic: TopicMaker, make: Make
) -> None:
    topic = make_topic(partitions=3, replication=3)
    first, second = make(topic), make(topic)
    assert poll_for(first, 3) == poll_for(second, 3) == []
    produce(bootstrap_servers, topic, [b"%d" % number for number in range(600)])
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < 600 and time.monotonic() < deadline:
        for consumer in (first, second):
            found += [each for each in consumer.poll(0.5) if each.error() is None]
    assert len(found) == 600
    assert len({place_of(each) for each in found}) == 600
    assert {each.value() for each in found} == {b"%d" % number for number in range(600)}


def test_what_is_released_comes_again_and_what_is_rejected_does_not(
    bootstrap_servers: str, make_topic: TopicMaker, make: Make
) -> None:
    topic = make_topic(partitions=1, replication=3)
    produce(bootstrap_servers, topic, [b"accept", b"release", b"reject"])
    consumer = make(topic, share_acknowledgement_mode="explicit")
    kinds = {b"accept": ACCEPT, b"release": RELEASE, b"reject": REJECT}
    for message in poll_until(consumer, 3):
        consumer.acknowledge(message, kinds[message.value()])
    outcome = consumer.commit_sync(10.0)
    assert set(outcome.values()) == {None}
    (again,) = poll_until(consumer, 1)
    assert again.value() == b"release"
    consumer.acknowledge(again, ACCEPT)
    assert set(consumer.commit_sync(10.0).values()) == {None}
    assert poll_for(consumer, 3) == []


def test_what_a_consumer_leaves_behind_goes_to_another_one(
    bootstrap_servers: str, make_topic: TopicMaker, make: Make
) -> None:
    topic = make_topic(partitions=1, replication=3)
    produce(bootstrap_servers, topic, [b"%d" % number for number in range(10)])
    leaving = make(topic, share_acknowledgement_mode="explicit")
    held = poll_until(leaving, 10)
    assert len(held) == 10
    leaving.close()
    found = poll_until(make(topic), 10)
    assert {place_of(each) for each in found} == {place_of(each) for each in held}


@pytest.mark.extended
def test_the_command_line_shows_sets_back_and_deletes_a_share_group(
    make_topic: TopicMaker, make: Make, group: str, bootstrap_servers: str, cli: Cli
) -> None:
    topic = make_topic(partitions=1, replication=3)
    produce(bootstrap_servers, topic, [b"%d" % number for number in range(5)])
    consumer = make(topic)
    assert len(poll_until(consumer, 5)) == 5
    consumer.commit_sync(10.0)
    listed = {each["group"]: each for each in cli("group", "list", "--json").document}
    assert listed[group]["protocol"] == "share"
    shown = cli("group", "describe", group, "--json").document
    assert shown["lag_messages"] == 0
    assert [each["start"] for each in shown["partitions"]] == [5]
    words = ["group", "reset-offsets", group, "--topic", topic, "--to", "2", "--execute"]
    assert "1 active member" in cli(*words, code=1).errors
    consumer.close()
    changed = cli(*words, "--json").document["partitions"]
    assert [(each["before"], each["after"]) for each in changed] == [(5, 2)]
    assert cli("group", "describe", group, "--json").document["lag_messages"] == 3
    again = poll_until(make(topic), 3)
    assert [each.offset() for each in again] == [2, 3, 4]


def test_killed_leaders_lose_no_record_and_no_acknowledgement(tmp_path: Path) -> None:
    """Each record is accepted once, though brokers die in the midst of it."""
    with KafkaesqueCluster(brokers=3, directory=tmp_path) as cluster:
        servers = cluster.bootstrap_servers
        topic = TopicMaker(servers)(partitions=3, replication=3)
        set_group(servers, "survivors", share_auto_offset_reset="earliest")
        produce(servers, topic, [b"%d" % number for number in range(3_000)])
        accepted: Counter[bytes] = Counter()
        consumer = ShareConsumer(
            {
                "bootstrap.servers": servers,
                "group.id": "survivors",
                "share.acknowledgement.mode": "explicit",
            }
        )
        consumer.subscribe([topic])
        deadline = time.monotonic() + 150
        killed = 0
        while len(accepted) < 3_000 and time.monotonic() < deadline:
            polled = [each for each in consumer.poll(1.0) if each.error() is None]
            for message in polled:
                consumer.acknowledge(message, ACCEPT)
            outcomes = consumer.commit_sync(20.0)
            failed = {each.partition for each, error in outcomes.items() if error is not None}
            accepted.update(
                message.value() or b"" for message in polled if message.partition() not in failed
            )
            if killed < 2 and len(accepted) > 500 * (killed + 1):
                killed += 1
                cluster.brokers[killed].kill()
                cluster.brokers[killed].start()
        consumer.close()
        assert killed == 2
        assert len(accepted) == 3_000
        again = {value: count for value, count in accepted.items() if count > 1}
        assert not again, f"accepted again: {again}"
