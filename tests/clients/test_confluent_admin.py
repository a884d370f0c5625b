"""librdkafka (confluent-kafka) as an administrator: topics, configurations, records, groups."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.clients.kafka_helpers import (
    Sent,
    TopicMaker,
    admin_client,
    await_leaders,
    consume,
    error_of,
    produce,
    unique,
)
from tests.waiting import DEADLINE_S, eventually


@pytest.fixture(scope="module")
def admin(bootstrap_servers: str) -> AdminClient:
    return admin_client(bootstrap_servers)


def only(futures: dict[Any, Future[Any]]) -> Any:
    """Return the result of the only future, or raise its error."""
    (future,) = futures.values()
    return future.result(DEADLINE_S)


def topic_config(admin: AdminClient, topic: str) -> dict[str, Any]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    result: dict[str, Any] = only(admin.describe_configs([resource]))
    return result


def alter(admin: AdminClient, topic: str, *entries: tuple[str, AlterConfigOpType, str]) -> None:
    operations = [
        ConfigEntry(name, value, incremental_operation=operation)
        for name, operation, value in entries
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=operations)
    only(admin.incremental_alter_configs([resource]))


def test_the_cluster_describes_itself(admin: AdminClient, bootstrap_servers: str) -> None:
    cluster = admin.describe_cluster(request_timeout=DEADLINE_S).result()
    addresses = sorted(f"{node.host}:{node.port}" for node in cluster.nodes)
    assert addresses == sorted(bootstrap_servers.split(","))
    assert cluster.controller.id in [node.id for node in cluster.nodes]
    assert cluster.cluster_id
    metadata = admin.list_topics(timeout=DEADLINE_S)
    assert metadata.cluster_id == cluster.cluster_id
    assert sorted(metadata.brokers) == sorted(node.id for node in cluster.nodes)


def test_a_topic_is_created_listed_described_and_deleted(
    admin: AdminClient, bootstrap_servers: str
) -> None:
    topic = unique("created")
    only(admin.create_topics([NewTopic(topic, 6, 3, config={"retention.ms": "1234567"})]))
    await_leaders(bootstrap_servers, topic, 6)
    assert topic in admin.list_topics(timeout=DEADLINE_S).topics
    described = only(admin.describe_topics(TopicCollection([topic])))
    assert described.name == topic
    assert not described.is_internal
    assert [each.id for each in described.partitions] == list(range(6))
    for partition in described.partitions:
        assert len({node.id for node in partition.replicas}) == 3
        assert len(partition.isr) == 3
        assert partition.leader.id in [node.id for node in partition.replicas]
    leaders = [partition.leader.id for partition in described.partitions]
    assert {leaders.count(node) for node in set(leaders)} == {2}, "leaders are spread evenly"
    assert topic_config(admin, topic)["retention.ms"].value == "1234567"
    only(admin.delete_topics([topic]))
    eventually(lambda: topic not in admin.list_topics(timeout=DEADLINE_S).topics, "no topic")
    error = error_of(lambda: only(admin.describe_topics(TopicCollection([topic]))))
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert error_of(lambda: only(admin.delete_topics([topic]))).code() == (
        KafkaError.UNKNOWN_TOPIC_OR_PART
    )


def test_defaults_stand_in_for_partitions_and_replicas(admin: AdminClient) -> None:
    topic = unique("defaults")
    only(admin.create_topics([NewTopic(topic)]))
    eventually(lambda: topic in admin.list_topics(timeout=DEADLINE_S).topics, "the topic")
    assert len(only(admin.describe_topics(TopicCollection([topic]))).partitions) >= 1


def test_a_given_assignment_is_followed(admin: AdminClient, bootstrap_servers: str) -> None:
    topic = unique("assigned")
    nodes = sorted(admin.list_topics(timeout=DEADLINE_S).brokers)
    assignment = [[nodes[2], nodes[0]], [nodes[1], nodes[2]], [nodes[0], nodes[1]]]
    only(admin.create_topics([NewTopic(topic, 3, replica_assignment=assignment)]))
    await_leaders(bootstrap_servers, topic, 3)
    described = only(admin.describe_topics(TopicCollection([topic])))
    replicas = [[node.id for node in each.replicas] for each in described.partitions]
    assert replicas == assignment
    assert [each.leader.id for each in described.partitions] == [each[0] for each in assignment]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("bad name!", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-many-copies", 1, 100), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("unknown-option", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("bad-number", 1, 1, config={"retention.ms": "x"}), KafkaError.INVALID_CONFIG),
        (
            NewTopic("bad-policy", 1, 1, config={"cleanup.policy": "burn"}),
            KafkaError.INVALID_CONFIG,
        ),
        (
            NewTopic("uneven-copies", 2, replica_assignment=[[1], [1, 2]]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            NewTopic("doubled-copy", 1, replica_assignment=[[1, 1]]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            NewTopic("unknown-broker", 1, replica_assignment=[[77]]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
    ids=lambda value: value.topic[:16] if isinstance(value, NewTopic) else str(value),
)
def test_a_topic_that_cannot_be_is_refused(admin: AdminClient, topic: NewTopic, code: int) -> None:
    error = error_of(lambda: only(admin.create_topics([topic])))
    assert error.code() == code
    assert error.str()
    assert topic.topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_a_topic_that_exists_is_not_created_again(
    admin: AdminClient, make_topic: TopicMaker
) -> None:
    topic = make_topic("exists", partitions=1)
    error = error_of(lambda: only(admin.create_topics([NewTopic(topic, 1, 1)])))
    assert error.code() == KafkaError.TOPIC_ALREADY_EXISTS


def test_validation_alone_creates_nothing(admin: AdminClient) -> None:
    topic = unique("validated")
    only(admin.create_topics([NewTopic(topic, 2, 3)], validate_only=True))
    bad = NewTopic(topic, 2, 99)
    error = error_of(lambda: only(admin.create_topics([bad], validate_only=True)))
    assert error.code() == KafkaError.INVALID_REPLICATION_FACTOR
    assert topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_one_bad_topic_does_not_keep_the_others_from_being(admin: AdminClient) -> None:
    good, bad = unique("good"), unique("bad")
    futures = admin.create_topics([NewTopic(bad, 1, 99), NewTopic(good, 1, 3)])
    futures[good].result()
    with pytest.raises(KafkaException):
        futures[bad].result()
    eventually(lambda: good in admin.list_topics(timeout=DEADLINE_S).topics, "the good topic")


def test_a_topic_of_the_same_name_starts_anew(
    admin: AdminClient, bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("again", partitions=1)
    produce(bootstrap_servers, topic, [b"old"] * 5)
    first = only(admin.describe_topics(TopicCollection([topic]))).topic_id
    only(admin.delete_topics([topic]))
    eventually(lambda: topic not in admin.list_topics(timeout=DEADLINE_S).topics, "its end")
    only(admin.create_topics([NewTopic(topic, 1, 3)]))
    reports = produce(bootstrap_servers, topic, [b"new"])
    assert reports[0].offset() == 0
    assert [each.value() for each in consume(bootstrap_servers, topic, 1)] == [b"new"]
    assert str(only(admin.describe_topics(TopicCollection([topic]))).topic_id) != str(first)


def test_partitions_are_added_never_removed(
    admin: AdminClient, bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("grown", partitions=2)
    produce(bootstrap_servers, topic, [Sent(value=b"%d" % i, partition=i % 2) for i in range(10)])

    def grow(name: str, count: int) -> None:
        only(admin.create_partitions([NewPartitions(name, count)]))

    grow(topic, 5)

    def partitions() -> dict[int, Any]:
        return dict(admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions)

    eventually(
        lambda: len(partitions()) == 5 and all(each.leader >= 0 for each in partitions().values()),
        "five partitions with leaders",
    )
    produce(bootstrap_servers, topic, [Sent(value=b"%d" % i, partition=4) for i in range(10, 15)])
    assert len(consume(bootstrap_servers, topic, 15)) == 15
    for count in (5, 1):
        error = error_of(partial(grow, topic, count))
        assert error.code() == KafkaError.INVALID_PARTITIONS
    error = error_of(partial(grow, unique("missing"), 3))
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_topic_options_are_altered_one_by_one(admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic("options", partitions=1, retention_ms="1000000")
    set_, delete = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    append, subtract = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT
    alter(admin, topic, ("segment.bytes", set_, "2097152"), ("cleanup.policy", append, "compact"))
    eventually(lambda: topic_config(admin, topic)["segment.bytes"].value == "2097152", "a change")
    config = topic_config(admin, topic)
    assert config["retention.ms"].value == "1000000"
    assert set(config["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    assert not config["segment.bytes"].is_default
    assert config["max.message.bytes"].is_default
    alter(admin, topic, ("retention.ms", delete, ""), ("cleanup.policy", subtract, "delete"))
    eventually(lambda: topic_config(admin, topic)["cleanup.policy"].value == "compact", "a change")
    assert topic_config(admin, topic)["retention.ms"].value == "604800000"
    for entry in (("no.such.option", set_, "1"), ("segment.bytes", set_, "-5")):
        error = error_of(partial(alter, admin, topic, entry))
        assert error.code() == KafkaError.INVALID_CONFIG
    error = error_of(lambda: alter(admin, unique("missing"), ("retention.ms", set_, "1")))
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_broker_options_can_be_read(admin: AdminClient) -> None:
    for node in admin.list_topics(timeout=DEADLINE_S).brokers:
        resource = ConfigResource(ConfigResource.Type.BROKER, str(node))
        config = only(admin.describe_configs([resource]))
        assert int(config["message.max.bytes"].value) == 1_048_588
        assert config["auto.create.topics.enable"].value in ("true", "false")
    missing = ConfigResource(ConfigResource.Type.TOPIC, unique("missing"))
    error = error_of(lambda: only(admin.describe_configs([missing])))
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_options_of_a_group_are_set_and_read(admin: AdminClient) -> None:
    group, name = unique("group"), "consumer.session.timeout.ms"
    kind = ConfigResource.Type.GROUP

    def set_timeout(value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, group, incremental_configs=[entry])
        only(admin.incremental_alter_configs([resource]))

    set_timeout("50000")

    def is_set() -> bool:
        config = only(admin.describe_configs([ConfigResource(kind, group)]))
        return bool(config[name].value == "50000")

    eventually(is_set, "all brokers show the option")
    assert error_of(lambda: set_timeout("1")).code() == KafkaError.INVALID_CONFIG


def test_records_are_deleted_up_to_an_offset(
    admin: AdminClient, bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("records", partitions=1)
    produce(bootstrap_servers, topic, [b"%d" % i for i in range(20)])

    def delete(offset: int) -> Any:
        return only(admin.delete_records([TopicPartition(topic, 0, offset)]))

    assert delete(5).low_watermark == 5
    assert consume(bootstrap_servers, topic, 15)[0].value() == b"5"
    assert delete(3).low_watermark == 5
    assert error_of(lambda: delete(21)).code() == KafkaError.OFFSET_OUT_OF_RANGE
    assert delete(-1).low_watermark == 20
    assert offset_of(admin, topic, OffsetSpec.earliest()) == 20
    assert produce(bootstrap_servers, topic, [b"next"])[0].offset() == 20


def offset_of(admin: AdminClient, topic: str, spec: OffsetSpec) -> int:
    offset: int = only(admin.list_offsets({TopicPartition(topic, 0): spec})).offset
    return offset


def test_offsets_are_listed_by_every_kind(
    admin: AdminClient, bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("offsets", partitions=1)
    assert offset_of(admin, topic, OffsetSpec.earliest()) == 0
    assert offset_of(admin, topic, OffsetSpec.latest()) == 0
    assert offset_of(admin, topic, OffsetSpec.max_timestamp()) == -1
    base_ms = 1_700_000_000_000
    times = [base_ms + each for each in (1000, 9000, 2000, 9000, 3000)]
    produce(bootstrap_servers, topic, [Sent(value=b"x", timestamp_ms=each) for each in times])
    assert offset_of(admin, topic, OffsetSpec.latest()) == 5
    assert offset_of(admin, topic, OffsetSpec.max_timestamp()) == 1
    assert offset_of(admin, topic, OffsetSpec.for_timestamp(base_ms + 1500)) == 1
    assert offset_of(admin, topic, OffsetSpec.for_timestamp(base_ms + 9001)) == -1


def test_preferred_leaders_need_no_election(admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic("elect", partitions=2)
    partitions = [TopicPartition(topic, each) for each in range(2)]
    result = admin.elect_leaders(ElectionType.PREFERRED, partitions).result()
    codes = {error.code() for error in result.values() if error is not None}
    assert codes <= {KafkaError.ELECTION_NOT_NEEDED}
    missing = TopicPartition(unique("missing"), 0)
    (error,) = admin.elect_leaders(ElectionType.PREFERRED, [missing]).result().values()
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_groups_are_listed_altered_and_deleted(
    admin: AdminClient, bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("group-admin", partitions=2), unique("group")
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    marks = [TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 4)]
    consumer.commit(offsets=marks, asynchronous=False)
    consumer.close()

    def listed(**filters: Any) -> list[str]:
        return [each.group_id for each in admin.list_consumer_groups(**filters).result().valid]

    assert group in listed()
    assert group in listed(states={ConsumerGroupState.EMPTY})
    assert group not in listed(states={ConsumerGroupState.STABLE})
    assert group in listed(types={ConsumerGroupType.CLASSIC})

    def offsets() -> dict[int, int]:
        request = [ConsumerGroupTopicPartitions(group)]
        answer = only(admin.list_consumer_group_offsets(request))
        return {each.partition: each.offset for each in answer.topic_partitions}

    assert offsets() == {0: 3, 1: 4}
    moved = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 9)])]
    only(admin.alter_consumer_group_offsets(moved))
    assert offsets() == {0: 3, 1: 9}
    only(admin.delete_consumer_groups([group]))
    assert group not in listed()
    error = error_of(lambda: only(admin.delete_consumer_groups([group])))
    assert error.code() == KafkaError.GROUP_ID_NOT_FOUND


def test_internal_topics_are_marked(
    admin: AdminClient, bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("internal", partitions=1)
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": unique("group")})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    described = only(admin.describe_topics(TopicCollection(["__consumer_offsets"])))
    assert described.is_internal
    assert topic_config(admin, "__consumer_offsets")["cleanup.policy"].value == "compact"
