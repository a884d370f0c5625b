"""kafka-python: a client in Python with threads, its own protocol code and its own group code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from threading import Event, Thread
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import (
    GroupSubscribedToTopicError,
    InvalidRecordError,
    InvalidReplicationFactorError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
)

from tests.clients.kafka_helpers import TopicMaker, unique
from tests.waiting import DEADLINE_S, eventually

_ELECTION_NOT_NEEDED = 84
_PREFERRED = 0


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","))) as client:
        yield client


def producer_of(bootstrap_servers: str, **options: Any) -> Any:
    return closing(KafkaProducer(bootstrap_servers=bootstrap_servers.split(","), **options))


def consumer_of(bootstrap_servers: str, *topics: str, **options: Any) -> Any:
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    servers = bootstrap_servers.split(",")
    return closing(KafkaConsumer(*topics, bootstrap_servers=servers, **{**defaults, **options}))


def send(bootstrap_servers: str, topic: str, first: int, end: int, **options: Any) -> None:
    with producer_of(bootstrap_servers, **options) as producer:
        partitions = len(producer.partitions_for(topic))
        futures = [
            producer.send(topic, b"%d" % i, partition=i % partitions) for i in range(first, end)
        ]
        for future in futures:
            future.get(DEADLINE_S)


def poll(consumer: KafkaConsumer) -> list[int]:
    """Poll once and return the values of what came."""
    polled = consumer.poll(timeout_ms=50).values()
    return [int(record.value) for records in polled for record in records]


def read(consumer: KafkaConsumer, count: int) -> list[int]:
    values: list[int] = []

    def is_done() -> bool:
        values.extend(poll(consumer))
        return len(values) >= count

    eventually(is_done, f"{count} values")
    return values


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_each_acks_setting_delivers(
    bootstrap_servers: str, make_topic: TopicMaker, acks: int | str
) -> None:
    topic = make_topic("kp-acks", partitions=1)
    send(bootstrap_servers, topic, 0, 200, acks=acks, enable_idempotence=acks == "all")
    with consumer_of(bootstrap_servers, topic) as consumer:
        assert read(consumer, 200) == list(range(200))


def test_headers_nulls_times_and_keys(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("kp-nulls", partitions=1)
    headers = [("a", b"1"), ("a", b"2"), ("b", b"")]
    with producer_of(bootstrap_servers) as producer:
        first = producer.send(topic, b"v", key=b"k", headers=headers, timestamp_ms=1234567)
        second = producer.send(topic, None, key=b"gone")
        assert [each.get(DEADLINE_S).offset for each in (first, second)] == [0, 1]
    with consumer_of(bootstrap_servers, topic) as consumer:
        one, two = next(consumer), next(consumer)
    assert (one.key, one.value, list(one.headers), one.timestamp) == (b"k", b"v", headers, 1234567)
    assert (two.key, two.value, list(two.headers)) == (b"gone", None, [])


def test_each_record_at_fault_is_told_why(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("keyless", partitions=1, cleanup_policy="compact")
    with producer_of(bootstrap_servers, linger_ms=500, enable_idempotence=False) as producer:
        keys = [None if number % 4 == 3 else b"k" for number in range(8)]
        futures = [producer.send(topic, b"v", key) for key in keys]
        producer.flush(DEADLINE_S)
    errors = [future.exception for future in futures]
    at_fault = [isinstance(error, InvalidRecordError) for error in errors]
    assert at_fault == [key is None for key in keys]
    assert "key" in str(errors[3])
    assert "batch" in str(errors[0])


def test_a_message_over_the_limit_is_refused(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("kp-large", partitions=1)
    with producer_of(bootstrap_servers, max_request_size=5_000_000) as producer:
        producer.send(topic, b"x" * 1_048_000).get(DEADLINE_S)
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, b"x" * 1_050_000).get(DEADLINE_S)
    with consumer_of(bootstrap_servers, topic, max_partition_fetch_bytes=100) as consumer:
        assert len(next(consumer).value) == 1_048_000


class Member:
    """A member of a group in a thread of its own: it polls, commits, and leaves at the end.

    Not two members in one thread: with 3.0.12, a member that has joined while nobody waited in its
    poll joins once more at the next one, which makes the other join, so that two whose polls are of
    one length may go on like this for ever.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._ends = Event()
        self._thread = Thread(target=self._run)
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.values: list[int] = []

    def __enter__(self) -> Member:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(self._consumer) as consumer:
            while not self._ends.is_set():
                if values := poll(consumer):
                    consumer.commit()
                self.values.extend(values)
                self.assignment = frozenset(consumer.assignment())


# Not its cooperative assignor: with 3.0.12, also against Apache Kafka, a member stops fetching the
# partitions that it keeps in a rebalance.
@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
)
def test_members_share_the_partitions_as_they_come_and_go(
    bootstrap_servers: str, make_topic: TopicMaker, assignor: type
) -> None:
    topic, group = make_topic("kp-group", partitions=4), unique("group")
    all_partitions = {TopicPartition(topic, partition) for partition in range(4)}

    def member() -> Member:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers.split(","),
            group_id=group,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=[assignor],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        # The client loses a race with itself, and assigns nothing, when it leads its group before
        # it knows the topic: let it ask first.
        assert consumer.partitions_for_topic(topic) == {0, 1, 2, 3}
        return Member(consumer)

    with member() as first:
        eventually(lambda: first.assignment == all_partitions, "all for the first")
        with member() as second:
            eventually(
                lambda: (
                    len(first.assignment) == len(second.assignment) == 2
                    and first.assignment | second.assignment == all_partitions
                ),
                "halves",
            )
            send(bootstrap_servers, topic, 0, 40)
            eventually(lambda: len(first.values) + len(second.values) == 40, "40 values")
        eventually(lambda: first.assignment == all_partitions, "all for the first again")
        send(bootstrap_servers, topic, 40, 60)
        eventually(lambda: len(first.values) + len(second.values) == 60, "60 values")
    assert sorted(first.values + second.values) == list(range(60))


def test_a_static_member_returns_without_a_rebalance(
    bootstrap_servers: str, make_topic: TopicMaker, admin: KafkaAdminClient
) -> None:
    topic, group = make_topic("kp-static", partitions=2), unique("group")
    options = {"group_id": group, "group_instance_id": "the-one"}
    for first in (0, 20):
        with consumer_of(bootstrap_servers, topic, **options) as consumer:
            send(bootstrap_servers, topic, first, first + 20)
            assert sorted(read(consumer, 20)) == list(range(first, first + 20))
            consumer.commit()
    (member,) = admin.describe_groups([group])[group]["members"]
    assert member["group_instance_id"] == "the-one"


def test_positions_seeks_pauses_and_offsets(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("kp-seek", partitions=1)
    partition = TopicPartition(topic, 0)
    send(bootstrap_servers, topic, 0, 50, linger_ms=20)
    with consumer_of(bootstrap_servers) as consumer:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 50}
        consumer.seek(partition, 33)
        assert read(consumer, 17) == list(range(33, 50))
        consumer.seek_to_beginning(partition)
        assert next(consumer).offset == 0
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 50
        consumer.pause(partition)
        send(bootstrap_servers, topic, 50, 53)
        assert poll(consumer) == []
        consumer.resume(partition)
        assert read(consumer, 3) == [50, 51, 52]


def test_offsets_for_times(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("kp-times", partitions=1)
    partition, base_ms = TopicPartition(topic, 0), 1_700_000_000_000
    with producer_of(bootstrap_servers) as producer:
        for i in range(10):
            producer.send(topic, b"%d" % i, timestamp_ms=base_ms + 100 * i).get(DEADLINE_S)
    with consumer_of(bootstrap_servers) as consumer:
        found = consumer.offsets_for_times({partition: base_ms + 450})[partition]
        assert (found.offset, found.timestamp) == (5, base_ms + 500)
        assert consumer.offsets_for_times({partition: base_ms + 901}) == {partition: None}


def test_a_pattern_takes_the_topics_that_match(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    prefix = unique("kp-pattern")
    topics = [make_topic(f"{prefix}-{letter}", partitions=1) for letter in "ab"]
    make_topic(f"other-{prefix}", partitions=1)
    with consumer_of(bootstrap_servers, group_id=unique("group")) as consumer:
        consumer.subscribe(pattern=f"^{prefix}.*")
        for number, topic in enumerate(topics):
            send(bootstrap_servers, topic, number, number + 1)
        assert sorted(read(consumer, 2)) == [0, 1]
        assert consumer.subscription() == set(topics)


def test_topics_are_administered(admin: KafkaAdminClient) -> None:
    topic = unique("kp-admin")
    new = {topic: {"num_partitions": 2, "replication_factor": 3}}
    admin.create_topics(new, wait_for_metadata=True)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(new)
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics({unique("kp-bad"): {"num_partitions": 1, "replication_factor": 9}})

    def described() -> Any:
        return admin.describe_topics([topic])[0]

    eventually(lambda: len(described()["partitions"]) == 2, "two partitions")
    by_id = admin.describe_topic_partitions([topic])["topics"][0]
    assert str(by_id["topic_id"]) == described()["topic_id"]
    assert [each["partition_index"] for each in by_id["partitions"]] == [0, 1]
    admin.create_partitions({topic: 3})
    eventually(lambda: len(described()["partitions"]) == 3, "three partitions")
    admin.delete_topics([topic])
    eventually(lambda: topic not in admin.list_topics(), "its end")


def test_the_cluster_and_its_directories_are_described(
    bootstrap_servers: str, make_topic: TopicMaker, admin: KafkaAdminClient
) -> None:
    topic = make_topic("kp-dirs", partitions=2)
    send(bootstrap_servers, topic, 0, 100)
    cluster = admin.describe_cluster()
    brokers = {each["broker_id"] for each in cluster["brokers"]}
    assert len(brokers) == 3
    assert cluster["controller_id"] in brokers

    def sizes() -> list[tuple[int, int, int]]:
        return [
            (each["broker"], partition["partition_index"], partition["partition_size"])
            for each in admin.describe_log_dirs({topic: [0, 1]})
            for directory in each["log_dirs"]
            for found in directory["topics"]
            for partition in found["partitions"]
        ]

    eventually(lambda: all(size > 0 for *_, size in sizes()), "sizes")
    assert sorted(each[:2] for each in sizes()) == sorted(
        (broker, partition) for broker in brokers for partition in (0, 1)
    )


def test_compressed_batches_stay_compressed_in_the_log(
    bootstrap_servers: str, make_topic: TopicMaker, admin: KafkaAdminClient
) -> None:
    topic = make_topic("kp-size", partitions=1)
    options = {"compression_type": "gzip", "linger_ms": 50, "batch_size": 100_000}
    with producer_of(bootstrap_servers, **options) as producer:
        futures = [producer.send(topic, b"the same again " * 10) for _ in range(1000)]
        for future in futures:
            future.get(DEADLINE_S)
    for broker in admin.describe_log_dirs({topic: [0]}):
        (directory,) = [each for each in broker["log_dirs"] if each["topics"]]
        assert 0 < directory["topics"][0]["partitions"][0]["partition_size"] < 50_000


def test_options_are_altered_and_reset(make_topic: TopicMaker, admin: KafkaAdminClient) -> None:
    topic = make_topic("kp-options", partitions=1, retention_ms="7000")

    def modified() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource("TOPIC", topic)])["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "5000"})])
    eventually(lambda: modified() == {"retention.ms": "5000"}, "the change")
    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": ("DELETE", None)})])
    eventually(lambda: modified() == {}, "the default")
    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "soon"})])
    assert modified() == {}


def test_records_offsets_and_elections(
    bootstrap_servers: str, make_topic: TopicMaker, admin: KafkaAdminClient
) -> None:
    topic = make_topic("kp-records", partitions=1)
    partition = TopicPartition(topic, 0)
    send(bootstrap_servers, topic, 0, 10)
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    for spec, offset in ((OffsetSpec.EARLIEST, 4), (OffsetSpec.LATEST, 10)):
        assert admin.list_partition_offsets({partition: spec})[partition].offset == offset
    answer = admin.elect_leaders(_PREFERRED, {topic: [0]}, raise_errors=False)
    (result,) = answer.replica_election_results
    assert result.partition_result[0].error_code in (0, _ELECTION_NOT_NEEDED)


def test_committed_offsets_are_administered(
    bootstrap_servers: str, make_topic: TopicMaker, admin: KafkaAdminClient
) -> None:
    topic, group = make_topic("kp-offsets", partitions=2), unique("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    send(bootstrap_servers, topic, 0, 10)
    marks = {first: OffsetAndMetadata(1, "one", -1), second: OffsetAndMetadata(2, "two", -1)}
    admin.alter_group_offsets(group, marks)
    assert admin.list_group_offsets(group)[group] == marks
    admin.reset_group_offsets(group, {first: OffsetSpec.LATEST})
    assert admin.list_group_offsets(group)[group][first].offset == 5
    admin.delete_group_offsets(group, [first])
    assert list(admin.list_group_offsets(group)[group]) == [second]
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["members"]) == ("Empty", [])
    assert group in [each["group_id"] for each in admin.list_groups()]
    assert admin.delete_groups([group]) == {group: "OK"}


def test_offsets_in_use_are_not_deleted(
    bootstrap_servers: str, make_topic: TopicMaker, admin: KafkaAdminClient
) -> None:
    topic, group = make_topic("kp-in-use", partitions=1), unique("group")
    with ExitStack() as stack:
        consumer = stack.enter_context(consumer_of(bootstrap_servers, topic, group_id=group))
        send(bootstrap_servers, topic, 0, 5)
        assert len(read(consumer, 5)) == 5
        consumer.commit()
        partition = TopicPartition(topic, 0)
        assert consumer.committed(partition) == 5
        answer = admin.delete_group_offsets(group, [partition])
        assert answer[partition] is GroupSubscribedToTopicError
