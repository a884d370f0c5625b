"""librdkafka (confluent-kafka) in consumer groups whose members come and go."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions

from tests.clients.kafka_helpers import (
    Sent,
    TopicMaker,
    admin_client,
    checked,
    doomed_member,
    produce,
    unique,
)
from tests.waiting import DEADLINE_S, eventually


class Member:
    """A group member that notes what it is given, what is taken from it and what it reads."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str, **options: Any) -> None:
        named = {key.replace("_", "."): value for key, value in options.items()}
        is_classic = named.get("group.protocol") != "consumer"
        # In the new protocol it is the coordinator that says these.
        times = {"heartbeat.interval.ms": 300, "session.timeout.ms": 30_000} if is_classic else {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                **times,
                **named,
            }
        )
        self.values: list[int] = []
        self.given: list[list[int]] = []
        self.taken: list[list[int]] = []
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.given.append([each.partition for each in partitions])

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.taken.append([each.partition for each in partitions])

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def poll(self) -> None:
        for message in checked(self.consumer.consume(100, 0.05)):
            self.values.append(int(message.value() or b""))

    def close(self) -> None:
        self.consumer.close()


@contextmanager
def group_of(*members: Member) -> Iterator[None]:
    try:
        yield
    finally:
        for member in members:
            member.close()


def shares(members: Iterable[Member]) -> list[int]:
    """Poll each member once, and return how many partitions each has."""
    result = []
    for member in members:
        member.poll()
        result.append(len(member.partitions))
    return result


def wait_for_shares(members: list[Member], expected: list[int]) -> None:
    def is_reached() -> bool:
        if shares(members) != expected:
            return False
        partitions = [each for member in members for each in member.partitions]
        return len(partitions) == len(set(partitions))

    eventually(is_reached, f"a split of {expected}")


def wait_for_values(members: list[Member], count: int) -> None:
    def is_reached() -> bool:
        shares(members)
        return sum(len(member.values) for member in members) >= count

    eventually(is_reached, f"{count} values")


def expect_strangers_are_refused(member: Member, servers: str, group: str, topic: str) -> None:
    """A commit of somebody who is no member is refused while the group has one."""
    with group_of(member):
        wait_for_shares([member], [1])
        stranger = Consumer({"bootstrap.servers": servers, "group.id": group})
        try:
            with pytest.raises(KafkaException) as raised:
                stranger.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            assert raised.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
        finally:
            stranger.close()


@contextmanager
def returned_in_time(make: Callable[[str], Member]) -> Iterator[list[Member]]:
    """Yield two static members, of whom one was away for a moment, and nobody noticed."""
    stays = make("stays")
    with group_of(stays):
        leaves = make("leaves")
        with group_of(leaves):
            wait_for_shares([stays, leaves], [2, 2])
            before = leaves.partitions
            rebalances = len(stays.given)
        returned = make("leaves")
        with group_of(returned):
            wait_for_shares([stays, returned], [2, 2])
            assert returned.partitions == before
            assert len(stays.given) == rebalances
            yield [stays, returned]


def let_die_beside(stays: Member, topic: str, config: dict[str, Any]) -> None:
    """Have a member of two come and die, and wait until the other has all again."""
    with group_of(stays):
        wait_for_shares([stays], [2])
        with doomed_member(topic, config):
            wait_for_shares([stays], [1])
        killed_at = time.monotonic()
        wait_for_shares([stays], [2])
        # Not at once, and not after the 45 s that are the default.
        assert 1.0 < time.monotonic() - killed_at < 40.0


def send(bootstrap_servers: str, topic: str, first: int, end: int, partitions: int = 4) -> None:
    records = [Sent(value=b"%d" % i, partition=i % partitions) for i in range(first, end)]
    produce(bootstrap_servers, topic, records)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_as_they_come_and_go(
    bootstrap_servers: str, make_topic: TopicMaker, strategy: str
) -> None:
    topic, group = make_topic("group", partitions=4), unique("group")
    options = {"partition_assignment_strategy": strategy}
    first = Member(bootstrap_servers, group, topic, **options)
    with group_of(first):
        wait_for_shares([first], [4])
        send(bootstrap_servers, topic, 0, 100)
        wait_for_values([first], 100)
        second = Member(bootstrap_servers, group, topic, **options)
        with group_of(second):
            wait_for_shares([first, second], [2, 2])
            send(bootstrap_servers, topic, 100, 200)
            wait_for_values([first, second], 200)
        wait_for_shares([first], [4])
        send(bootstrap_servers, topic, 200, 300)
        wait_for_values([first], 300 - len(second.values))
    read = Counter(first.values + second.values)
    assert sorted(read) == list(range(300))
    assert set(read.values()) == {1}


def test_a_cooperative_member_keeps_what_it_is_not_asked_to_give(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("cooperative", partitions=4), unique("group")
    options = {"partition_assignment_strategy": "cooperative-sticky"}
    first = Member(bootstrap_servers, group, topic, **options)
    with group_of(first):
        wait_for_shares([first], [4])
        second = Member(bootstrap_servers, group, topic, **options)
        with group_of(second):
            wait_for_shares([first, second], [2, 2])
            assert [len(each) for each in first.taken] == [2]
            assert sum(len(each) for each in first.given) == 4
            given = [each for partitions in second.given for each in partitions]
            assert sorted(given) == sorted(first.taken[0])


def test_a_static_member_that_returns_in_time_disturbs_nobody(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("static", partitions=4), unique("group")

    def make(instance: str) -> Member:
        return Member(bootstrap_servers, group, topic, group_instance_id=instance)

    with returned_in_time(make) as members:
        send(bootstrap_servers, topic, 0, 40)
        wait_for_values(members, 40)


def test_a_second_member_of_the_same_instance_id_fences_the_first(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("fenced", partitions=2), unique("group")
    first = Member(bootstrap_servers, group, topic, group_instance_id="same")
    with group_of(first):
        wait_for_shares([first], [2])
        second = Member(bootstrap_servers, group, topic, group_instance_id="same")
        with group_of(second):
            errors: list[KafkaError] = []

            def is_fenced() -> bool:
                second.poll()
                try:
                    first.poll()
                except KafkaException as raised:
                    errors.append(raised.args[0])
                return bool(errors)

            eventually(is_fenced, "the first member to be fenced")
            assert errors[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
            eventually(lambda: shares([second]) == [2], "the second member to have all")


@pytest.mark.extended
def test_a_member_that_dies_is_dropped_after_its_session_timeout(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("dies", partitions=2), unique("group")
    stays = Member(bootstrap_servers, group, topic)
    config = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 300,
    }
    let_die_beside(stays, topic, config)


def test_groups_are_described_while_they_live_and_after(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("described", partitions=2), unique("group")
    admin = admin_client(bootstrap_servers)

    def described() -> Any:
        return admin.describe_consumer_groups([group], request_timeout=DEADLINE_S)[group].result()

    member = Member(bootstrap_servers, group, topic, client_id="the-client")
    with group_of(member):
        wait_for_shares([member], [2])
        live = described()
        assert live.state == ConsumerGroupState.STABLE
        assert live.partition_assignor == "range"
        assert len(live.members) == 1
        assert live.members[0].client_id == "the-client"
        assert live.members[0].host in ("/127.0.0.1", "127.0.0.1")
        assigned = live.members[0].assignment.topic_partitions
        assert sorted((each.topic, each.partition) for each in assigned) == [(topic, 0), (topic, 1)]
        assert live.coordinator.id in admin.list_topics(timeout=DEADLINE_S).brokers
        with pytest.raises(KafkaException) as raised:
            admin.delete_consumer_groups([group])[group].result()
        assert raised.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
        send(bootstrap_servers, topic, 0, 10, partitions=2)
        wait_for_values([member], 10)
    empty = described()
    assert empty.state == ConsumerGroupState.EMPTY
    assert empty.members == []


def test_groups_on_two_topics_and_many_groups_on_one(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("many-groups", partitions=4)
    send(bootstrap_servers, topic, 0, 50)
    members = [Member(bootstrap_servers, unique("group"), topic) for _ in range(5)]
    with group_of(*members):
        wait_for_values(members, 250)
        for member in members:
            assert sorted(member.values) == list(range(50))


def test_more_members_than_partitions_leaves_some_without(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("crowd", partitions=2), unique("group")
    members = [Member(bootstrap_servers, group, topic) for _ in range(3)]
    with group_of(*members):
        eventually(lambda: sorted(shares(members)) == [0, 1, 1], "two at work, one idle")
        busy = next(member for member in members if member.partitions)
        busy.consumer.unsubscribe()
        others = [member for member in members if member is not busy]
        eventually(lambda: shares([busy, *others]) == [0, 1, 1], "the idle one to step in")


def test_a_group_sees_partitions_that_are_added(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    admin = admin_client(bootstrap_servers)
    topic, group = make_topic("grows", partitions=1), unique("group")
    options = {"topic_metadata_refresh_interval_ms": 500}
    member = Member(bootstrap_servers, group, topic, **options)
    with group_of(member):
        wait_for_shares([member], [1])
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
        wait_for_shares([member], [3])


def test_a_commit_of_a_member_that_is_no_longer_one_is_refused(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("stranger", partitions=1), unique("group")
    member = Member(bootstrap_servers, group, topic)
    expect_strangers_are_refused(member, bootstrap_servers, group, topic)
