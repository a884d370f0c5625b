"""librdkafka (confluent-kafka) in groups whose partitions the coordinator assigns (KIP-848)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import NewPartitions

from bench.processes import ask_metadata
from kafkaesque.broker.metadata.topic_names import OFFSETS_TOPIC
from kafkaesque.model.coordinator_partition import coordinator_partition
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, admin_client, unique
from tests.clients.test_confluent_groups import (
    Member,
    expect_strangers_are_refused,
    group_of,
    let_die_beside,
    returned_in_time,
    send,
    shares,
    wait_for_shares,
    wait_for_values,
)
from tests.waiting import DEADLINE_S, eventually

#: The coordinator says how often members speak: in tests, often.
OPTIONS = {
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    if os.environ.get("KAFKAESQUE_TEST_BOOTSTRAP"):
        pytest.skip("a broker of this cluster is killed")
    directory = tmp_path_factory.mktemp("consumer-protocol")
    with KafkaesqueCluster(brokers=3, directory=directory, options=OPTIONS) as cluster:
        yield cluster


@pytest.fixture
def servers(cluster: KafkaesqueCluster) -> str:
    return cluster.bootstrap_servers


@pytest.fixture
def new_topic(servers: str) -> TopicMaker:
    return TopicMaker(servers)


def member_of(servers: str, group: str, topic: str, **options: object) -> Member:
    return Member(servers, group, topic, group_protocol="consumer", **options)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_the_partitions_as_they_come_and_go(
    servers: str, new_topic: TopicMaker, assignor: str
) -> None:
    topic, group = new_topic("shared", partitions=4), unique("group")
    options = {"group_remote_assignor": assignor}
    first = member_of(servers, group, topic, **options)
    with group_of(first):
        wait_for_shares([first], [4])
        send(servers, topic, 0, 100)
        second = member_of(servers, group, topic, **options)
        with group_of(second):
            wait_for_shares([first, second], [2, 2])
            send(servers, topic, 100, 200)
            wait_for_values([first, second], 200)
        wait_for_shares([first], [4])
        send(servers, topic, 200, 300)
        wait_for_values([first], 300 - len(second.values))
    # Whoever got a partition went on where the other one had committed.
    assert sorted(first.values + second.values) == list(range(300))


def test_a_member_keeps_what_it_is_not_asked_to_give(servers: str, new_topic: TopicMaker) -> None:
    topic, group = new_topic("kept", partitions=4), unique("group")
    first = member_of(servers, group, topic)
    with group_of(first):
        wait_for_shares([first], [4])
        second = member_of(servers, group, topic)
        with group_of(second):
            wait_for_shares([first, second], [2, 2])
            assert sum(len(each) for each in first.given) == 4
            taken = sorted(each for partitions in first.taken for each in partitions)
            given = sorted(each for partitions in second.given for each in partitions)
            assert taken == given


def test_who_comes_and_goes_does_not_stop_the_others(servers: str, new_topic: TopicMaker) -> None:
    topic, group = new_topic("unstopped", partitions=6), unique("group")
    stays, hangs = (member_of(servers, group, topic) for _ in range(2))
    with group_of(stays, hangs):
        wait_for_shares([stays, hangs], [3, 3])
        stays.taken.clear()
        hangs.taken.clear()
        with group_of(comes := member_of(servers, group, topic)):
            # `hangs` is asked to give a partition up, and does not: where members wait for each
            # other, everybody would wait for it now.
            wait_for_shares([stays, comes], [2, 1])
            kept = stays.partitions
            send(servers, topic, 0, 60, partitions=6)
            eventually(lambda: _reads(stays, range(60), kept), "what is in its partitions")
        send(servers, topic, 60, 120, partitions=6)
        eventually(lambda: _reads(stays, range(120), kept), "what comes when the guest has gone")
        assert [len(each) for each in stays.taken] == [1]
        assert not kept & {*stays.taken[0]}, "what it kept was never taken from it"
        assert hangs.taken == []
        wait_for_shares([stays, hangs], [3, 3])


def _reads(member: Member, sent: range, partitions: set[int]) -> bool:
    """Poll, and say whether the member has all of some partitions, of six."""
    member.poll()
    return {value for value in sent if value % 6 in partitions} <= set(member.values)


def test_a_group_goes_on_where_it_stopped(servers: str, new_topic: TopicMaker) -> None:
    topic, group = new_topic("goes-on", partitions=4), unique("group")
    send(servers, topic, 0, 40)
    first = member_of(servers, group, topic)
    with group_of(first):
        wait_for_values([first], 40)
    send(servers, topic, 40, 80)
    second = member_of(servers, group, topic)
    with group_of(second):
        wait_for_values([second], 40)
        assert sorted(second.values) == list(range(40, 80))


def test_a_static_member_that_returns_in_time_disturbs_nobody(
    servers: str, new_topic: TopicMaker
) -> None:
    topic, group = new_topic("static", partitions=4), unique("group")

    def make(instance: str) -> Member:
        return member_of(servers, group, topic, group_instance_id=instance)

    with returned_in_time(make):
        pass


def test_a_member_that_dies_is_dropped_after_its_session_timeout(
    servers: str, new_topic: TopicMaker
) -> None:
    topic, group = new_topic("dies", partitions=2), unique("group")
    stays = member_of(servers, group, topic)
    config = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": "consumer",
    }
    let_die_beside(stays, topic, config)


def test_more_members_than_partitions_leaves_some_without(
    servers: str, new_topic: TopicMaker
) -> None:
    topic, group = new_topic("crowd", partitions=2), unique("group")
    members = [member_of(servers, group, topic) for _ in range(3)]
    with group_of(*members):
        eventually(lambda: sorted(shares(members)) == [0, 1, 1], "two at work, one idle")
        busy = next(member for member in members if member.partitions)
        busy.consumer.unsubscribe()
        others = [member for member in members if member is not busy]
        eventually(lambda: shares([busy, *others]) == [0, 1, 1], "the idle one to step in")


def test_a_group_sees_partitions_that_are_added(servers: str, new_topic: TopicMaker) -> None:
    topic, group = new_topic("grows", partitions=1), unique("group")
    admin = admin_client(servers)
    member = member_of(servers, group, topic)
    with group_of(member):
        wait_for_shares([member], [1])
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
        wait_for_shares([member], [3])


def test_a_member_subscribes_by_an_expression(servers: str, new_topic: TopicMaker) -> None:
    prefix, group = unique("expression"), unique("group")
    first = new_topic(prefix, partitions=2)
    new_topic(unique("other"), partitions=2)
    member = member_of(servers, group, f"^{prefix}-.*")

    def consumed() -> list[tuple[str, int]]:
        member.poll()
        return sorted((each.topic, each.partition) for each in member.consumer.assignment())

    with group_of(member):
        eventually(lambda: consumed() == [(first, 0), (first, 1)], "what matches")
        second = new_topic(prefix, partitions=1)
        expected = sorted([(first, 0), (first, 1), (second, 0)])
        eventually(lambda: consumed() == expected, "what matches later, too")


def test_a_commit_of_somebody_who_is_no_member_is_refused(
    servers: str, new_topic: TopicMaker
) -> None:
    topic, group = new_topic("stranger", partitions=1), unique("group")
    expect_strangers_are_refused(member_of(servers, group, topic), servers, group, topic)


def test_a_group_is_described_with_what_its_members_have_and_are_to_have(
    servers: str, new_topic: TopicMaker
) -> None:
    topic, group = new_topic("described", partitions=2), unique("group")
    admin = admin_client(servers)

    def described() -> Any:
        return admin.describe_consumer_groups([group], request_timeout=DEADLINE_S)[group].result()

    member = member_of(servers, group, topic, client_id="the-client")
    with group_of(member):
        wait_for_shares([member], [2])
        live = described()
        assert (live.state, live.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
        assert live.partition_assignor == "uniform"
        (only,) = live.members
        assert only.client_id == "the-client"
        for assignment in (only.assignment, only.target_assignment):
            found = sorted((each.topic, each.partition) for each in assignment.topic_partitions)
            assert found == [(topic, 0), (topic, 1)]
    eventually(lambda: described().state == ConsumerGroupState.EMPTY, "the group to be empty")


def test_groups_are_listed_with_their_type_and_can_be_deleted(
    servers: str, new_topic: TopicMaker
) -> None:
    topic, group = new_topic("listed", partitions=1), unique("group")
    admin = admin_client(servers)

    def listed() -> dict[str, ConsumerGroupState]:
        found = admin.list_consumer_groups(
            types={ConsumerGroupType.CONSUMER}, request_timeout=DEADLINE_S
        ).result()
        assert not found.errors
        return {each.group_id: each.state for each in found.valid}

    member = member_of(servers, group, topic)
    with group_of(member):
        wait_for_shares([member], [1])
        assert listed()[group] == ConsumerGroupState.STABLE
        with pytest.raises(KafkaException) as raised:
            admin.delete_consumer_groups([group])[group].result()
        assert raised.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    eventually(lambda: listed()[group] == ConsumerGroupState.EMPTY, "the member to be gone")
    admin.delete_consumer_groups([group])[group].result()
    assert group not in listed()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_member_by_member_and_back(
    servers: str, new_topic: TopicMaker, strategy: str
) -> None:
    topic, group = new_topic("migrates", partitions=4), unique("group")
    admin = admin_client(servers)

    def kind() -> Any:
        found = admin.list_consumer_groups(request_timeout=DEADLINE_S).result().valid
        return next(each.type for each in found if each.group_id == group)

    options = {"partition_assignment_strategy": strategy}
    old = Member(servers, group, topic, **options)
    with group_of(old):
        wait_for_shares([old], [4])
        send(servers, topic, 0, 100)
        wait_for_values([old], 100)
        assert kind() == ConsumerGroupType.CLASSIC
        new = member_of(servers, group, topic)
        with group_of(new):
            wait_for_shares([old, new], [2, 2])
            assert kind() == ConsumerGroupType.CONSUMER
            send(servers, topic, 100, 200)
            wait_for_values([old, new], 200)
            late = Member(servers, group, topic, **options)
            with group_of(late):
                eventually(lambda: sorted(shares([old, new, late])) == [1, 1, 2], "three shares")
            wait_for_shares([old, new], [2, 2])
        wait_for_shares([old], [4])
        assert kind() == ConsumerGroupType.CLASSIC
        send(servers, topic, 200, 300)

        def has_all() -> bool:
            old.poll()
            return {*old.values, *new.values, *late.values} == set(range(300))

        # Some twice, perhaps: whose generation has ended cannot commit what it has just read.
        eventually(has_all, "everything")


def test_a_group_survives_the_loss_of_its_coordinator(
    cluster: KafkaesqueCluster, servers: str, new_topic: TopicMaker
) -> None:
    topic, group = new_topic("survives", partitions=4), unique("group")
    members = [member_of(servers, group, topic) for _ in range(2)]
    with group_of(*members):
        wait_for_shares(members, [2, 2])
        send(servers, topic, 0, 100)
        wait_for_values(members, 100)
        given = [len(member.given) for member in members]
        victim = cluster.brokers[_coordinator(cluster, group)]
        victim.kill()
        try:
            send(servers, topic, 100, 200)
            wait_for_values(members, 200)
            wait_for_shares(members, [2, 2])
        finally:
            victim.start()
            cluster.wait_until_ready()
        assert sorted({*members[0].values, *members[1].values}) == list(range(200))
        assert [len(member.given) for member in members] == given, "nothing was moved"


def _coordinator(cluster: KafkaesqueCluster, group: str) -> int:
    """Return the position of the broker that coordinates a group."""
    leaders = ask_metadata(cluster.brokers[0].port, [OFFSETS_TOPIC], DEADLINE_S).leaders
    return leaders[OFFSETS_TOPIC, coordinator_partition(group, len(leaders))] - 1
