"""kafkajs: a client in JavaScript, its own protocol code and its own group code."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.kafka_helpers import TopicMaker, consume, produce, unique
from tests.clients.node_client import missing, run_node
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")


def call_admin(bootstrap_servers: str, *calls: tuple[Any, ...]) -> list[Any]:
    result: list[Any] = run_node("admin", bootstrap_servers, calls=calls)
    return result


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_each_acks_setting_delivers(
    bootstrap_servers: str, make_topic: TopicMaker, acks: int
) -> None:
    topic = make_topic("js-acks", partitions=1)
    messages = [{"value": str(i)} for i in range(100)]
    run_node("produce", bootstrap_servers, topic=topic, acks=acks, messages=messages, batch=10)
    received = consume(bootstrap_servers, topic, 100)
    assert [each.value() for each in received] == [b"%d" % i for i in range(100)]


def test_an_idempotent_producer_writes_once_and_in_order(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("js-idempotent", partitions=1)
    messages = [{"value": str(i)} for i in range(200)]
    options = {"idempotent": True, "batch": 10, "messages": messages}
    answers = run_node("produce", bootstrap_servers, topic=topic, **options)
    assert [int(each["baseOffset"]) for each in answers] == list(range(0, 200, 10))
    received = consume(bootstrap_servers, topic, 200, at_rest_s=0.2)
    assert [each.value() for each in received] == [b"%d" % i for i in range(200)]


def test_a_message_over_the_limit_is_refused(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("js-large", partitions=1, max_message_bytes="20000")
    run_node("produce", bootstrap_servers, topic=topic, messages=[{"value": "x" * 19_000}])
    with pytest.raises(AssertionError, match="MESSAGE_TOO_LARGE"):
        run_node("produce", bootstrap_servers, topic=topic, messages=[{"value": "x" * 21_000}])
    assert len(consume(bootstrap_servers, topic, 1, at_rest_s=0.2)) == 1


def test_members_share_the_partitions_as_they_come_and_go(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("js-group", partitions=4)
    found = run_node("group", bootstrap_servers, topic=topic, group=unique("group"))
    assert sorted(found["alone"]) == sorted(found["again"]) == [0, 1, 2, 3]
    assert sorted(found["together"][0] + found["together"][1]) == [0, 1, 2, 3]
    assert set(found["values"]) == set(range(120))


def test_positions_pauses_and_commits(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic, group = make_topic("js-positions", partitions=1), unique("group")
    produce(bootstrap_servers, topic, [b"%d" % i for i in range(30)])
    found = run_node("positions", bootstrap_servers, topic=topic, group=group, count=30)
    assert found["first"] == list(range(30))
    assert found["sought"] == [27, 28, 29]
    assert found["paused"] == []
    assert found["resumed"] == [1000]
    (offsets,) = call_admin(bootstrap_servers, ("fetchOffsets", {"groupId": group}))
    assert offsets[0]["partitions"][0]["metadata"] in (None, "", "two")


def test_topics_are_administered(bootstrap_servers: str) -> None:
    topic = unique("js-admin")
    new = {
        "topic": topic,
        "numPartitions": 2,
        "replicationFactor": 3,
        "configEntries": [{"name": "retention.ms", "value": "1234567"}],
    }
    resource = {"type": 2, "name": topic, "configNames": ["retention.ms"]}
    created, again, cluster = call_admin(
        bootstrap_servers,
        ("createTopics", {"topics": [new]}),
        ("createTopics", {"topics": [new]}),
        ("describeCluster",),
    )
    assert (created, again) == (True, False)
    assert len(cluster["brokers"]) == 3
    assert cluster["clusterId"]

    def partitions() -> int:
        metadata = ("fetchTopicMetadata", {"topics": [topic]})
        (answer,) = call_admin(bootstrap_servers, metadata)
        return 0 if "error" in answer else len(answer["topics"][0]["partitions"])

    eventually(lambda: partitions() == 2, "two partitions")
    configs, grown, listed = call_admin(
        bootstrap_servers,
        ("describeConfigs", {"resources": [resource], "includeSynonyms": False}),
        ("createPartitions", {"topicPartitions": [{"topic": topic, "count": 4}]}),
        ("listTopics",),
    )
    (entry,) = configs["resources"][0]["configEntries"]
    assert (entry["configName"], entry["configValue"]) == ("retention.ms", "1234567")
    assert grown is None
    assert topic in listed
    eventually(lambda: partitions() == 4, "four partitions")
    call_admin(bootstrap_servers, ("deleteTopics", {"topics": [topic]}))
    eventually(lambda: partitions() == 0, "its end")


def test_offsets_records_and_groups_are_administered(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("js-offsets", partitions=1), unique("group")
    base_ms = 1_700_000_000_000
    messages = [{"value": str(i), "timestamp": str(base_ms + 1000 * i)} for i in range(10)]
    run_node("produce", bootstrap_servers, topic=topic, messages=messages, batch=1)
    mark = {"groupId": group, "topic": topic, "partitions": [{"partition": 0, "offset": "6"}]}
    deletion = {"topic": topic, "partitions": [{"partition": 0, "offset": "4"}]}
    offsets, by_time, _, _, committed, groups, described, deleted = call_admin(
        bootstrap_servers,
        ("fetchTopicOffsets", topic),
        ("fetchTopicOffsetsByTimestamp", topic, base_ms + 6500),
        ("deleteTopicRecords", deletion),
        ("setOffsets", mark),
        ("fetchOffsets", {"groupId": group, "topics": [topic]}),
        ("listGroups",),
        ("describeGroups", [group]),
        ("deleteGroups", [group]),
    )
    assert (offsets[0]["low"], offsets[0]["high"]) == ("0", "10")
    assert by_time == [{"partition": 0, "offset": "7"}]
    assert committed[0]["partitions"][0]["offset"] == "6"
    assert group in [each["groupId"] for each in groups["groups"]]
    assert described["groups"][0]["state"] == "Empty"
    assert deleted == [{"groupId": group, "errorCode": 0}]
    (low,) = call_admin(bootstrap_servers, ("fetchTopicOffsets", topic))
    assert low[0]["low"] == "4"
