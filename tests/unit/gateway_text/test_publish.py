"""PUBS, SUBS and TOPICS on a running broker."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.topic_names import OFFSETS_TOPIC
from kafkaesque.model.murmur2 import partition_for_key
from tests.unit.gateway_text.person import Person, TextCluster


def test_a_message_is_in_the_log_when_it_is_answered(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    assert person.ok(f"PUBS {topic} UA1545 is late") == f"{topic} 0 0"
    shown = '{"Header": {"from": "EWR", "via": null}, "Key": 7, "Body": {"delay": 11}}'
    assert person.ok(f"PUBS {topic} {shown}") == f"{topic} 0 1"
    first, second = cluster.records(topic)
    assert (first.key, first.value, first.headers) == (None, b"UA1545 is late", ())
    assert (second.key, second.value) == (b"7", b'{"delay":11}')
    assert second.headers == (("from", b"EWR"), ("via", None))
    now_ms = cluster.live.broker.env.clock.wall_ms()
    assert now_ms - 60_000 < first.timestamp_ms <= now_ms


def test_a_key_finds_its_partition_as_with_kafkas_clients(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic, 7)
    for key in ("UA1545", "é", "", "7", '"'):
        message = '{"Key": %s, "Body": "x"}' % ('"\\""' if key == '"' else f'"{key}"')
        answered = person.ok(f"PUBS {topic} {message}")
        assert answered.split()[1] == str(partition_for_key(key.encode(), 7))
    # murmur2 of "21" as Kafka's own tests have it.
    assert person.ok(f'PUBS {topic} {{"Key": 21, "Body": "x"}}').split()[1] == str(
        (-973932308 & 0x7FFFFFFF) % 7
    )


def test_without_a_key_partitions_take_turns(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic, 3)
    partitions = [int(person.ok(f"PUBS {topic} {n}").split()[1]) for n in range(6)]
    assert partitions == [0, 1, 2, 0, 1, 2]


def test_a_topic_comes_into_being_by_being_written_to(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    assert person.ok(f"PUBS {topic} hello") == f"{topic} 0 0"
    assert f"{topic} partitions=1 replicas=1" in [
        " ".join(line.split()) for line in person.say("TOPICS")
    ]


def test_the_brokers_own_topics_are_not_listed(cluster: TextCluster, person: Person) -> None:
    if OFFSETS_TOPIC not in cluster.live.broker.state.topics:
        cluster.live.create_topic(OFFSETS_TOPIC, 1)
    *lines, end = person.say("TOPICS")
    assert not [line for line in lines if line.startswith("__")]
    assert end.startswith(f"OK {len(lines)} topic")


def test_no_topic_comes_into_being_where_that_is_switched_off(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    options = cluster.live.broker.options.values
    before = options["auto.create.topics.enable"]
    options["auto.create.topics.enable"] = False
    try:
        assert person.error(f"PUBS {topic} hello").startswith(f"there is no topic '{topic}'")
    finally:
        options["auto.create.topics.enable"] = before
    assert topic not in cluster.live.broker.state.topics


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("__consumer_offsets", "internal to the brokers"),
        ("no/such/name", "characters other"),
        ("__cluster_metadata", "the controllers' own log"),
        ("n" * 250, "at most 249"),
        ("..", "cannot be called"),
    ],
)
def test_topics_that_cannot_be_written_to(person: Person, name: str, what: str) -> None:
    assert what in person.error(f"PUBS {name} hello")


def test_a_name_that_is_too_like_another_is_refused_by_the_controller(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(f"{topic}.a")
    assert "was not created" in person.error(f"PUBS {topic}_a hello")


def test_a_message_that_is_too_large_is_not_there(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic, configs={"max.message.bytes": "1000"})
    assert "the message is not in" in person.error(f"PUBS {topic} {'x' * 2000}")
    assert person.ok(f"PUBS {topic} small") == f"{topic} 0 0"


def test_a_subscription_id_needs_its_topic_and_partitions(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    assert "there is no topic" in person.error(f"SUBS {topic} readers")
    cluster.live.create_topic(topic, 3)
    assert person.ok(f"SUBS {topic} readers").startswith("readers/all/")
    assert person.ok(f"SUBS {topic} readers 2,0").startswith("readers/0,2/")
    wrong = person.error(f"SUBS {topic} readers 1-4")
    assert wrong.startswith(f"topic '{topic}' has partitions 0 to 2, not 3-4")
