"""`kafkaesque group` against a cluster: how far groups are behind, and sending them elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkaesque.model.sink_markers import sink_id
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from tests.clients.kafka_helpers import Sent, TopicMaker, admin_client, produce, unique
from tests.clients.raw_transactions import Raw, RawProducer, settled
from tests.clients.test_cli import Cli, cli
from tests.clients.test_confluent_groups import Member, group_of, wait_for_shares
from tests.waiting import DEADLINE_S, eventually

__all__ = ["cli"]

HOUR_MS = 3_600_000
#: What a slow machine may make of no time at all.
SOON_MS = HOUR_MS // 2


def commit(bootstrap_servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets by partition as somebody who manages partitions by himself."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    try:
        named = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        consumer.commit(offsets=named, asynchronous=False)
    finally:
        consumer.close()


def delete_before(bootstrap_servers: str, place: TopicPartition) -> None:
    admin = admin_client(bootstrap_servers)
    for each in admin.delete_records([place]).values():
        each.result(DEADLINE_S)


def lag_rows(cli: Cli, group: str, *words: str) -> dict[int, dict[str, Any]]:
    """Return what `group describe` says of each partition."""
    found = cli("group", "describe", group, "--json", *words).document["partitions"]
    return {row["partition"]: row for row in found}


def test_a_group_goes_on_where_it_was(cli: Cli, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=1), unique("readers")
    cli("publish", topic, text="".join(f"{n}\n" for n in range(10)))
    words = ["consume", topic, "--group", group, "--from-beginning"]
    assert cli(*words, "--max", "4").output.split() == ["0", "1", "2", "3"]

    described = cli("group", "describe", group, "--json").document
    assert (described["state"], described["members"]) == ("empty", 0)
    assert described["lag_messages"] == 6
    (row,) = described["partitions"]
    assert (row["topic"], row["committed"], row["start"], row["end"]) == (topic, 4, 0, 10)
    assert row["lag_messages"] == 6
    assert described["lag_ms"] == row["lag_ms"] < SOON_MS
    rows = cli("group", "describe", group).rows
    assert ["lag", "6"] in rows
    (printed,) = [each for each in rows if each[0] == topic]
    assert (printed[:6], printed[7:]) == ([topic, "0", "4", "0", "10", "6"], ["-", "-", "-"])
    assert 0 <= float(printed[6]) < SOON_MS / 1000
    assert [group, "empty", "classic", "consumers"] in cli("group", "list").rows

    assert cli(*words, "--until-end").output.split() == ["4", "5", "6", "7", "8", "9"]
    described = cli("group", "describe", group, "--json").document
    assert (described["lag_messages"], described["lag_ms"]) == (0, 0)


def test_a_lag_is_as_long_as_the_oldest_unread_message_is_old(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic, group = make_topic(partitions=3), unique("readers")
    now_ms = int(time.time() * 1000)
    times = [now_ms - hours * HOUR_MS for hours in (5, 4, 3)]
    for partition in (0, 1, 2):
        records = [Sent(value=b"v", partition=partition, timestamp_ms=each) for each in times]
        produce(bootstrap_servers, topic, records)
    # In the midst of a batch, at its end, and before what is deleted below.
    commit(bootstrap_servers, group, topic, {0: 1, 1: 3, 2: 0})
    delete_before(bootstrap_servers, TopicPartition(topic, 2, 2))

    rows = lag_rows(cli, group)
    assert [rows[number]["lag_messages"] for number in (0, 1, 2)] == [2, 0, 1]
    assert rows[0]["oldest_unread_ms"] == times[1]
    assert 4 * HOUR_MS <= rows[0]["lag_ms"] < 4 * HOUR_MS + SOON_MS
    assert (rows[1]["lag_ms"], rows[1]["oldest_unread_ms"]) == (0, None)
    assert (rows[2]["committed"], rows[2]["start"]) == (0, 2)
    assert rows[2]["oldest_unread_ms"] == times[2]
    described = cli("group", "describe", group, "--json").document
    assert described["lag_messages"] == 3
    assert 4 * HOUR_MS <= described["lag_ms"] < 4 * HOUR_MS + SOON_MS


def test_a_lag_is_told_by_the_brokers_clock_where_they_stamp_messages(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1, message_timestamp_type="LogAppendTime")
    group = unique("readers")
    produce(bootstrap_servers, topic, [Sent(value=b"v", timestamp_ms=1)])
    commit(bootstrap_servers, group, topic, {0: 0})
    assert 0 <= lag_rows(cli, group)[0]["lag_ms"] < SOON_MS


def test_a_lag_without_what_members_do_not_get_of_transactions(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic, group = make_topic(partitions=1), unique("readers")
    committed_only = ("--isolation", "read_committed")
    with Raw(bootstrap_servers) as raw:
        producer = RawProducer(raw, unique("lag"))
        settled(producer.init)
        settled(lambda: max(producer.add({topic: [0]})))
        settled(lambda: producer.send(topic, 0, b"open"))
        commit(bootstrap_servers, group, topic, {0: 0})
        assert lag_rows(cli, group)[0]["lag_messages"] == 1
        row = lag_rows(cli, group, *committed_only)[0]
        assert (row["end"], row["lag_messages"], row["lag_ms"]) == (0, 0, 0)
        settled(lambda: producer.end(is_commit=False))
    eventually(lambda: lag_rows(cli, group, *committed_only)[0]["end"] == 2, "the marker behind it")
    row = lag_rows(cli, group, *committed_only)[0]
    assert (row["lag_messages"], row["lag_ms"], row["oldest_unread_ms"]) == (2, 0, None)
    assert lag_rows(cli, group)[0]["oldest_unread_ms"] is not None


def committed(cli: Cli, group: str) -> list[int]:
    rows = cli("group", "describe", group, "--json").document["partitions"]
    return [row["committed"] for row in rows]


@pytest.mark.extended
def test_a_group_is_sent_elsewhere(cli: Cli, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=2), unique("readers")
    for partition in ("0", "1"):
        lines = [{"value": "v", "timestamp_ms": 1_000_000 + n * 1000} for n in range(10)]
        text = "".join(json.dumps(each) + "\n" for each in lines)
        cli("publish", topic, "--format", "json", "--partition", partition, text=text)
    reset = ["group", "reset-offsets", group, "--topic"]

    planned = cli(*reset, topic, "--to", "latest")
    assert planned.rows[1:] == [[topic, "0", "-", "10"], [topic, "1", "-", "10"]]
    assert "Nothing was changed" in planned.errors
    assert f"group {group} does not exist, and is created then" in planned.errors
    cli("group", "describe", group, code=1)

    def after(*words: str) -> list[int]:
        cli(*reset, *words, "--execute")
        return committed(cli, group)

    assert after(topic, "--to", "latest") == [10, 10]
    assert after(f"{topic}:1", "--to", "earliest") == [10, 0]
    assert after(topic, "--shift", "-3") == [7, 0]
    assert after(topic, "--to", "5") == [5, 5]
    assert after(topic, "--shift", "99") == [10, 10]
    assert after(topic, "--to", "1970-01-01T00:16:42+00:00") == [2, 2]
    assert after(topic, "--to", "-1") == [9, 9]

    cli("group", "delete", group)
    cli("group", "describe", group, code=1)


def test_a_group_is_sent_back_by_some_time_in_all_its_topics(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topics, group = sorted(make_topic(partitions=2) for _ in range(2)), unique("readers")
    now_ms = int(time.time() * 1000)
    for topic in topics:
        records = [
            Sent(value=b"v", partition=0, timestamp_ms=now_ms - hours * HOUR_MS)
            for hours in (3, 2, 1, 0)
        ]
        produce(bootstrap_servers, topic, records)
        commit(bootstrap_servers, group, topic, {0: 4})
    reset = ["group", "reset-offsets", group, "--all-topics", "--json"]

    def planned(*words: str) -> list[tuple[str, int, int | None, int]]:
        rows = cli(*reset, *words).document["partitions"]
        found = [(row["topic"], row["partition"], row["before"], row["after"]) for row in rows]
        return sorted(found)

    first, second = topics
    assert planned("--to", "PT2H30M") == [
        (first, 0, 4, 1),
        (first, 1, None, 0),
        (second, 0, 4, 1),
        (second, 1, None, 0),
    ]
    delete_before(bootstrap_servers, TopicPartition(first, 0, 4))
    commit(bootstrap_servers, group, first, {0: 1})
    # What was never begun has no place that it could keep, and what is deleted is none.
    assert planned("--to", "current") == [(first, 0, 1, 4), (second, 0, 4, 4)]
    nobody = cli("group", "reset-offsets", unique("g"), "--all-topics", "--to", "1", code=1)
    assert "has committed no offsets" in nobody.errors


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_at_work_is_left_alone(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str, protocol: str
) -> None:
    topic, group = make_topic(partitions=1), unique("readers")
    produce(bootstrap_servers, topic, [b"v"])
    commit(bootstrap_servers, group, topic, {0: 1})
    reset = ["group", "reset-offsets", group, "-t", topic, "--to", "0"]
    member = Member(bootstrap_servers, group, topic, group_protocol=protocol)
    with group_of(member):
        wait_for_shares([member], [1])
        described = cli("group", "describe", group, "--json").document
        assert (described["state"], described["members"]) == ("stable", 1)
        assert described["protocol"] == protocol
        assert described["partitions"][0]["client"] == "rdkafka"
        assert "when the group has no members; it has 1 now" in cli(*reset).errors
        refused = cli(*reset, "--execute", code=1)
        assert "has 1 active member" in refused.errors
        assert "stop its consumers first" in refused.errors
        assert committed(cli, group) == [1]
        assert "active members" in cli("group", "delete", group, code=1).errors
    eventually(
        lambda: cli("group", "describe", group, "--json").document["members"] == 0,
        "the member to be gone",
        seconds=DEADLINE_S,
    )
    cli(*reset, "--execute")
    assert committed(cli, group) == [0]


def join_raw(raw: Raw, group: str, member: str, topic: str) -> int:
    """Joins as a consumer that the coordinator assigns partitions to; returns its epoch."""
    request = ConsumerGroupHeartbeatRequest(
        group, member, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[topic]
    )
    port = raw.coordinator(group, kind=0)
    answer = raw.ask(port, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    assert answer.error_code == 0, answer
    return int(answer.member_epoch)


def leave_raw(raw: Raw, group: str, member: str) -> None:
    request = ConsumerGroupHeartbeatRequest(group, member, -1)
    raw.ask(raw.coordinator(group, kind=0), ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)


def test_a_group_whose_partitions_are_on_their_way_is_there_with_its_members(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic, group = make_topic(partitions=4), unique("readers")
    cli("publish", topic, "a", "b", "c", "-p", "0")
    members = [f"member-{number}-of-{group}" for number in (1, 2)]
    with Raw(bootstrap_servers) as raw:
        try:
            for member in members:
                # The first one is to give two partitions up, and never says that it has.
                join_raw(raw, group, member, topic)
            described = cli("group", "describe", group, "--json").document
            assert (described["state"], described["protocol"]) == ("reconciling", "consumer")
            assert described["members"] == 2
            # Where it would begin is not known: it has committed nothing.
            assert (described["lag_messages"], described["lag_ms"]) == (None, None)
            rows = {row["partition"]: row for row in described["partitions"]}
            assert {row["member"] for row in rows.values()} == {members[0]}
            assert [group, "reconciling", "consumer", "consumers"] in cli("group", "list").rows
            reset = ["group", "reset-offsets", group, "-t", topic, "--to", "0", "--execute"]
            assert "has 2 active members" in cli(*reset, code=1).errors
        finally:
            for member in members:
                leave_raw(raw, group, member)


def test_a_group_that_is_deleted_is_told_beside_one_that_does_not_exist(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic, group, nobody = make_topic(partitions=1), unique("readers"), unique("nobody")
    commit(bootstrap_servers, group, topic, {0: 0})
    done = cli("group", "delete", group, nobody, code=1)
    assert done.output == f"deleted {group}\n"
    assert f"group {nobody} does not exist" in done.errors
    assert group not in cli("group", "list").output


@pytest.mark.extended
def test_the_marker_of_a_spark_sink_is_no_group_of_consumers(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    """It looks like a group that is behind and has no members; without it rows are doubled."""
    topic = make_topic(partitions=1)
    marker, named_alike = sink_id(unique("query"), 0), sink_id(unique("readers"), 7)
    produce(bootstrap_servers, topic, [b"v"] * 9)
    with Raw(bootstrap_servers) as raw:
        write_marker(RawProducer(raw, marker), marker, topic, batch_number=3)
    listed = {each["group"]: each["kind"] for each in cli("group", "list", "--json").document}
    assert listed[marker] == "sink-marker"
    assert "group-lags" not in doctor_names(cli, marker)

    described = cli("group", "describe", marker, "--json").document
    assert described["batches"] == [{"topic": topic, "partition": 0, "batch": 3}]
    assert "lag_messages" not in described
    assert [topic, "0", "3"] in cli("group", "describe", marker).rows
    for words in (
        ["delete", marker],
        ["reset-offsets", marker, "--all-topics", "--to", "latest", "--execute"],
    ):
        errors = cli("group", *words, code=1).errors
        assert "exactly-once Spark sink" in errors
        assert "a second time" in errors
    assert cli("group", "describe", marker, "--json").document == described

    # Whatever its name is, a group that has had members is theirs.
    member = Member(bootstrap_servers, named_alike, topic)
    with group_of(member):
        wait_for_shares([member], [1])
    commit(bootstrap_servers, named_alike, topic, {0: 1})
    listed = {each["group"]: each["kind"] for each in cli("group", "list", "--json").document}
    assert listed[named_alike] == "consumers"

    assert cli("group", "delete", marker, "--allow-duplicates").output == f"deleted {marker}\n"
    cli("group", "describe", marker, code=1)


def write_marker(task: RawProducer, marker: str, topic: str, batch_number: int) -> None:
    """Commit a transaction that says which micro-batch a task wrote, as the sink's tasks do."""
    offsets = {(topic, 0): batch_number}
    for request in (
        task.init,
        lambda: task.add_offsets(marker),
        lambda: task.commit_offsets(marker, offsets)[0],
        lambda: task.end(is_commit=True),
    ):
        assert settled(request) is ErrorCode.NONE


def doctor_names(cli: Cli, name: str) -> list[str]:
    """Return the checks of which a finding is about that name."""
    found = cli("doctor", "--lag", "0", "--json", code=1).document["findings"]
    return [each["check"] for each in found if name in each["names"]]
