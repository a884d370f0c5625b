"""What the sink stands on: one transaction per task, its marker, and the fence."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record
from kafkaesque.spark.batch_sender import BatchSender
from kafkaesque.spark.cluster import Cluster, ClusterOptions
from kafkaesque.spark.cluster_options import parse_cluster
from kafkaesque.spark.errors import Fenced, Refused
from kafkaesque.spark.options import OptionReader
from kafkaesque.spark.transaction import Marker, Transaction
from tests.clients.kafka_helpers import TopicMaker, consume

TIMEOUT_MS = 60_000


@pytest.fixture
def options(bootstrap_servers: str) -> ClusterOptions:
    return parse_cluster(OptionReader({"kafka.bootstrap.servers": bootstrap_servers}))


@pytest.fixture
def brokers(options: ClusterOptions) -> Iterator[Cluster]:
    with Cluster(options) as cluster:
        yield cluster


@pytest.fixture
def others(options: ClusterOptions) -> Iterator[Cluster]:
    with Cluster(options) as cluster:
        yield cluster


@pytest.fixture
def name() -> str:
    return f"spark-sink-{uuid.uuid4().hex}-0"


def put(cluster: Cluster, transaction: Transaction, topic: str, value: bytes) -> None:
    batch = BatchOptions(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    transaction.add([(topic, 0)])
    sender = BatchSender(cluster, transaction.transactional_id)
    sender.send({(topic, 0): encode_batch([Record(0, 1, None, value)], batch)})
    sender.finish()


def test_the_marker_is_there_with_the_records_and_not_without(
    brokers: Cluster, make_topic: TopicMaker, bootstrap_servers: str, name: str
) -> None:
    topic = make_topic(partitions=1)
    first = Transaction(brokers, name, TIMEOUT_MS)
    assert first.open() is None
    put(brokers, first, topic, b"first")
    first.abort()
    second = Transaction(brokers, name, TIMEOUT_MS)
    assert second.open() is None
    put(brokers, second, topic, b"second")
    second.send_marker(Marker(7, 1, 6))
    second.commit()
    assert Transaction(brokers, name, TIMEOUT_MS).open() == Marker(7, 1, 6)
    found = consume(bootstrap_servers, topic, 1, isolation_level="read_committed", at_rest_s=0.5)
    assert [message.value() for message in found] == [b"second"]


def test_who_comes_later_fences_who_was_before_and_takes_back_its_records(
    brokers: Cluster, others: Cluster, make_topic: TopicMaker, bootstrap_servers: str, name: str
) -> None:
    topic = make_topic(partitions=1)
    zombie, successor = (Transaction(each, name, TIMEOUT_MS) for each in (brokers, others))
    zombie.open()
    put(brokers, zombie, topic, b"zombie")
    assert successor.open() is None
    with pytest.raises(Fenced):  # noqa: PT012 - either may be the first to be told
        zombie.send_marker(Marker(0, 1, 6))
        zombie.commit()
    with pytest.raises(Fenced):
        put(brokers, zombie, topic, b"more")
    put(others, successor, topic, b"successor")
    successor.send_marker(Marker(0, 1, 9))
    successor.commit()
    found = consume(bootstrap_servers, topic, 1, isolation_level="read_committed", at_rest_s=0.5)
    assert [message.value() for message in found] == [b"successor"]


def test_a_marker_that_is_on_its_way_is_taken_back_with_the_records(
    brokers: Cluster, make_topic: TopicMaker, bootstrap_servers: str, name: str
) -> None:
    topic = make_topic(partitions=1)
    for _ in range(5):
        transaction = Transaction(brokers, name, TIMEOUT_MS)
        assert transaction.open() is None
        put(brokers, transaction, topic, b"never")
        transaction.send_marker(Marker(4, 1, 5))
        transaction.abort()
    assert Transaction(brokers, name, TIMEOUT_MS).open() is None
    assert not brokers.is_waiting
    assert not consume(bootstrap_servers, topic, 0, isolation_level="read_committed", at_rest_s=0.5)


def test_a_transaction_to_which_only_the_group_was_added_is_ended(
    brokers: Cluster, make_topic: TopicMaker, name: str
) -> None:
    topic = make_topic(partitions=1)
    transaction = Transaction(brokers, name, TIMEOUT_MS)
    transaction.open()
    with pytest.raises(Refused):
        transaction.add([(f"{topic}-that-is-not-there", 0)])
    transaction.abort()
    assert not brokers.is_waiting
    assert Transaction(brokers, name, TIMEOUT_MS).open() is None


def test_a_commit_that_is_repeated_commits_once(
    brokers: Cluster, make_topic: TopicMaker, bootstrap_servers: str, name: str
) -> None:
    topic = make_topic(partitions=1)
    transaction = Transaction(brokers, name, TIMEOUT_MS)
    transaction.open()
    put(brokers, transaction, topic, b"value")
    transaction.send_marker(Marker(3, 1, 5))
    transaction.commit()
    # As after an answer that was lost: the same words over another connection.
    brokers.close()
    transaction._end(is_commit=True)
    assert Transaction(brokers, name, TIMEOUT_MS).open() == Marker(3, 1, 5)
    assert len(consume(bootstrap_servers, topic, 1, at_rest_s=0.5)) == 1


def test_partitions_may_join_while_batches_are_under_way(
    brokers: Cluster, make_topic: TopicMaker, bootstrap_servers: str, name: str
) -> None:
    topic = make_topic(partitions=6)
    transaction = Transaction(brokers, name, TIMEOUT_MS)
    transaction.open()
    sender = BatchSender(brokers, name)
    for partition in range(6):
        batch = BatchOptions(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        transaction.add([(topic, partition)])
        sender.send({(topic, partition): encode_batch([Record(0, 1, None, b"x")], batch)})
    sender.finish()
    transaction.send_marker(Marker(0, 6, 6))
    transaction.commit()
    found = consume(bootstrap_servers, topic, 6, isolation_level="read_committed")
    assert {message.partition() for message in found} == set(range(6))
