"""CONS on a running broker, and what it leaves with the group."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.gateway.text import consuming
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.kafka.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.protocols.kafka.messages.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaesque.protocols.kafka.messages.sync_group_request import SyncGroupRequest
from tests.unit.gateway_text.person import Person, TextCluster, way_on


def publish(person: Person, topic: str, bodies: range, key: str | None = None) -> None:
    """Publish numbers, all at once."""
    start = "" if key is None else f'"Key": "{key}", '
    person.type("".join(f'PUBS {topic} {{{start}"Body": {n}}}\n' for n in bodies))
    for _ in bodies:
        (line,) = person.answer()
        assert line.startswith("OK "), line


def committed(cluster: TextCluster, group: str, topic: str, partitions: list[int]) -> list[int]:
    """What Kafka's clients are told about a group."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=partitions)]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])

    def is_there(answer: Any) -> bool:
        return bool(answer.groups[0].error_code == 0)

    (found,) = cluster.live.ask_until(request, is_there, 9).groups
    return [each.committed_offset for each in found.topics[0].partitions]


def test_messages_from_an_offset_on(cluster: TextCluster, person: Person, topic: str) -> None:
    cluster.live.create_topic(topic)
    publish(person, topic, range(5))
    subscription = person.ok(f"SUBS {topic} readers")
    everything = [(0, n, n) for n in range(5)]
    found, last = person.consume(f"CONS {topic} {subscription} earliest")
    assert found == everything
    assert way_on(last) == f"CONS {topic} {subscription} 5"
    assert person.consume(f"CONS {topic} {subscription} 3")[0] == everything[3:]
    assert person.consume(f"CONS {topic} {subscription} 0:4")[0] == everything[4:]
    found, last = person.consume(f"CONS {topic} {subscription} latest")
    assert found == []
    assert way_on(last) == f"CONS {topic} {subscription} 5"
    publish(person, topic, range(5, 6))
    assert person.consume(way_on(last))[0] == [(0, 5, 5)]


def test_beyond_the_end_there_is_nothing_yet(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    subscription = person.ok(f"SUBS {topic} readers")
    found, last = person.consume(f"CONS {topic} {subscription} 2")
    assert (found, way_on(last)) == ([], f"CONS {topic} {subscription} 2")
    publish(person, topic, range(4))
    assert person.consume(way_on(last))[0] == [(0, 2, 2), (0, 3, 3)]


def delete_records(cluster: TextCluster, topic: str, offset: int) -> None:
    wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
    (answer,) = cluster.live.ask(DeleteRecordsRequest([wanted], 5_000)).topics
    assert answer.partitions[0].error_code == 0


def test_what_is_gone_is_passed_over(cluster: TextCluster, person: Person, topic: str) -> None:
    cluster.live.create_topic(topic)
    publish(person, topic, range(5))
    subscription = person.ok(f"SUBS {topic} gone")
    person.consume(f"CONS {topic} {subscription} next")
    delete_records(cluster, topic, 3)
    left = [(0, 3, 3), (0, 4, 4)]
    for start in ("earliest", "0", "2", "3"):
        assert person.consume(f"CONS {topic} {subscription} {start}")[0] == left
    publish(person, topic, range(5, 8))
    delete_records(cluster, topic, 6)
    assert person.consume(f"CONS {topic} {subscription} next")[0] == [(0, 6, 6), (0, 7, 7)]


def test_next_goes_on_where_the_group_is(cluster: TextCluster, person: Person, topic: str) -> None:
    cluster.live.create_topic(topic, 2)
    publish(person, topic, range(4))
    subscription = person.ok(f"SUBS {topic} {topic}-group")
    ask = f"CONS {topic} {subscription} next"
    found, last = person.consume(ask)
    assert sorted(body for _, _, body in found) == [0, 1, 2, 3]
    assert way_on(last) == ask
    assert committed(cluster, f"{topic}-group", topic, [0, 1]) == [2, 2]
    assert person.consume(ask)[0] == []
    publish(person, topic, range(4, 5))
    # Another connection, as the same group.
    assert [body for _, _, body in cluster.person().consume(ask)[0]] == [4]
    assert sum(committed(cluster, f"{topic}-group", topic, [0, 1])) == 5


def test_other_places_leave_the_group_where_it_is(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    publish(person, topic, range(3))
    subscription = person.ok(f"SUBS {topic} {topic}-group")
    for start in ("earliest", "0", "latest", "0:1"):
        person.consume(f"CONS {topic} {subscription} {start}")
    assert committed(cluster, f"{topic}-group", topic, [0]) == [-1]


def test_a_group_with_members_is_shown_messages_and_left_alone(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    publish(person, topic, range(2))
    group = f"{topic}-group"
    committed(cluster, group, topic, [0])
    request = JoinGroupRequest(
        group, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    joined = cluster.live.ask(request, 3)
    assert joined.error_code == 0
    sync = SyncGroupRequest(group, joined.generation_id, joined.member_id)
    assert cluster.live.ask(sync, 3).error_code == 0
    subscription = person.ok(f"SUBS {topic} {group}")
    found, last = person.consume(f"CONS {topic} {subscription} next")
    assert len(found) == 2
    assert "offsets are not committed" in last
    assert "has members" in last
    assert way_on(last) == f"CONS {topic} {subscription} 2"
    assert committed(cluster, group, topic, [0]) == [-1]


def test_a_namesake_of_a_deleted_topic_begins_anew(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    publish(person, topic, range(3))
    subscription = person.ok(f"SUBS {topic} {topic}-group")
    ask = f"CONS {topic} {subscription} next"
    person.consume(ask)
    cluster.live.ask(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=5_000))
    cluster.live.wait(lambda: topic not in cluster.live.broker.state.topics, "the topic is gone")
    assert "there is no topic" in person.error(ask)
    cluster.live.create_topic(topic)
    publish(person, topic, range(7, 8))
    assert person.consume(ask)[0] == [(0, 0, 7)]


def test_one_answer_is_bounded_and_says_how_to_go_on(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic, 3)
    for key in ("a", "b", "c", "d", "e"):
        publish(person, topic, range(50), key)
    subscription = person.ok(f"SUBS {topic} readers")
    ask, seen = f"CONS {topic} {subscription} earliest", []
    while True:
        found, last = person.consume(ask)
        if not found:
            break
        assert len(found) <= consuming.MESSAGES_MAX
        seen += [(partition, offset) for partition, offset, _ in found]
        ask = way_on(last)
    assert len(seen) == 250
    assert sorted(set(seen)) == sorted(seen)
    assert ask == f"CONS {topic} {subscription} " + ask.split()[-1]


def test_a_busy_partition_does_not_hide_the_others(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic, 2)
    publish(person, topic, range(150), "a")
    busy = int(person.ok(f'PUBS {topic} {{"Key": "a", "Body": 150}}').split()[1])
    other = next(
        key
        for key in "bcdefgh"
        if int(person.ok(f'PUBS {topic} {{"Key": "{key}", "Body": "x"}}').split()[1]) != busy
    )
    assert other
    subscription = person.ok(f"SUBS {topic} {topic}-group")
    for start in ("next", "earliest"):
        found, _ = person.consume(f"CONS {topic} {subscription} {start}")
        assert len(found) == consuming.MESSAGES_MAX
        assert {partition for partition, _, _ in found} == {0, 1}


def test_large_messages_are_bounded_by_their_bytes(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    for _ in range(5):
        person.ok(f"PUBS {topic} {'x' * 400_000}")
    subscription = person.ok(f"SUBS {topic} readers")
    found, last = person.consume(f"CONS {topic} {subscription} earliest")
    assert len(found) == 2
    found, last = person.consume(way_on(last))
    assert len(found) == 2
    assert len(person.consume(way_on(last))[0]) == 1


def test_only_the_partitions_that_are_subscribed_to(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic, 4)
    publish(person, topic, range(8))
    subscription = person.ok(f"SUBS {topic} readers 1,3")
    found, _ = person.consume(f"CONS {topic} {subscription} earliest")
    assert [partition for partition, _, _ in found] == [1, 1, 3, 3]
    found, _ = person.consume(f"CONS {topic} {subscription} 3:1")
    assert [(partition, offset) for partition, offset, _ in found] == [(3, 1)]
    wrong = person.error(f"CONS {topic} {subscription} 0:0,2:0,3:0")
    assert wrong.startswith("the subscription does not have partition 0,2")


def test_a_topic_may_get_more_partitions(cluster: TextCluster, person: Person, topic: str) -> None:
    cluster.live.create_topic(topic, 2)
    some = person.ok(f"SUBS {topic} readers 1")
    cluster.live.ask(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=5_000))
    cluster.live.wait(lambda: topic not in cluster.live.broker.state.topics, "the topic is gone")
    cluster.live.create_topic(topic, 1)
    assert "has partitions 0 to 0, not 1" in person.error(f"CONS {topic} {some} next")


def test_what_kafka_clients_write_is_shown(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    cluster.live.produce(topic, timestamps_ms=[1_700_000_000_123, -1, 5])
    subscription = person.ok(f"SUBS {topic} readers")
    lines = person.say(f"CONS {topic} {subscription} 1")
    assert lines[:-1] == [
        'MSG 0 1 - {"Body":"value"}',
        'MSG 0 2 1970-01-01T00:00:00.005Z {"Body":"value"}',
    ]


@pytest.mark.parametrize("node", [1, 2, 3])
def test_every_broker_answers_everybody(trio: TextCluster, node: int) -> None:
    topic = f"everywhere{node}"
    trio.live.create_topic(topic, 3, 3)
    person = trio.person(node=node)
    publish(person, topic, range(9))
    subscription = person.ok(f"SUBS {topic} {topic}-group")
    leaders = {trio.live.leader(topic, index) for index in range(3)}
    assert len(leaders) > 1
    for other in (1, 2, 3):
        found, _ = trio.person(node=other).consume(f"CONS {topic} {subscription} earliest")
        assert sorted(body for _, _, body in found) == list(range(9))
    found, last = trio.person(node=node).consume(f"CONS {topic} {subscription} next")
    assert len(found) == 9
    assert "not committed" not in last
    elsewhere = trio.person(node=node % 3 + 1)
    assert elsewhere.consume(f"CONS {topic} {subscription} next")[0] == []


def test_a_partition_without_a_leader_does_not_hide_the_others(
    trio: TextCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "TIMEOUT_MS", 300)
    topic = "halfway"
    trio.live.create_topic(topic, 2, 1)
    person = trio.person()
    publish(person, topic, range(4))
    subscription = person.ok(f"SUBS {topic} readers")
    leaders = trio.live.broker.leaders
    lost = trio.live.broker.state.partition(TopicPartition(topic, 1)).group
    report = leaders._reports.pop(lost)
    found, last = person.consume(f"CONS {topic} {subscription} earliest")
    assert [partition for partition, _, _ in found] == [0, 0]
    assert "not read: 1: " in last
    assert way_on(last) == f"CONS {topic} {subscription} 2"
    only_lost = person.ok(f"SUBS {topic} readers 1")
    wrong = person.error(f"CONS {topic} {only_lost} earliest")
    assert wrong.startswith("halfway-1 cannot be read")
    leaders._reports[lost] = report
    assert len(person.consume(f"CONS {topic} {only_lost} earliest")[0]) == 2
