"""Batches that come late, over a connection that their client has given up: none gets into a log.

The client keeps its epoch from one transaction to the next, as all do that do not know KIP-890, and
goes on over other connections. ADR 6 says why nothing more than this is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from kafkaesque.protocols.kafka.error_codes import ErrorCode
from tests.clients.kafka_helpers import TopicMaker
from tests.clients.raw_transactions import Raw, RawProducer, settled
from tests.clients.transactional_clients import read_all
from tests.waiting import eventually

E = ErrorCode
#: Batches that a partition remembers of each producer.
REMEMBERED = 5


@pytest.fixture
def topic(topic_maker: TopicMaker) -> str:
    return topic_maker("late", partitions=1)


@pytest.fixture
def older(bootstrap_servers: str) -> Iterator[Raw]:
    """Connections that were opened first."""
    with Raw(bootstrap_servers) as made:
        for port in made.ports:
            made.connect(port)
        yield made


@pytest.fixture
def producer(older: Raw, bootstrap_servers: str, topic: str) -> Iterator[RawProducer]:
    """One whose first transaction is committed, and whose second has the partition."""
    with Raw(bootstrap_servers) as newer:
        made = RawProducer(newer)
        assert settled(made.init) is E.NONE
        assert settled(lambda: made.add({topic: [0]})[0]) is E.NONE
        assert settled(lambda: made.send(topic, 0, b"first")) is E.NONE
        assert settled(lambda: made.end(is_commit=True)) is E.NONE
        assert settled(lambda: made.add({topic: [0]})[0]) is E.NONE
        yield made


def late(producer: RawProducer, older: Raw, topic: str, sequence: int, value: bytes) -> ErrorCode:
    """Send a batch over the older connections."""
    newer, producer.raw = producer.raw, older
    try:
        return settled(lambda: producer.send(topic, 0, value, base_sequence=sequence))
    finally:
        producer.raw = newer


def ends_with(
    producer: RawProducer, bootstrap_servers: str, topic: str, values: list[bytes]
) -> None:
    assert settled(lambda: producer.end(is_commit=True)) is E.NONE
    eventually(lambda: read_all(bootstrap_servers, topic) == {0: values}, "the second commit")
    assert read_all(bootstrap_servers, topic, is_committed=False) == {0: values}


def test_a_repeated_batch_that_comes_before_the_next_transaction_s_first(
    bootstrap_servers: str, producer: RawProducer, older: Raw, topic: str
) -> None:
    # It is there already; but nobody who has ended a transaction waits for its batches.
    assert late(producer, older, topic, 0, b"first") is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert settled(lambda: producer.send(topic, 0, b"second")) is E.NONE
    ends_with(producer, bootstrap_servers, topic, [b"first", b"second"])


@pytest.mark.parametrize("batches", [1, REMEMBERED])
def test_a_repeated_batch_that_comes_after_batches_of_the_next_transaction(
    bootstrap_servers: str, producer: RawProducer, older: Raw, topic: str, batches: int
) -> None:
    values = [b"%d" % n for n in range(batches)]
    for value in values:
        assert settled(partial(producer.send, topic, 0, value)) is E.NONE
    assert late(producer, older, topic, 0, b"first") is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    ends_with(producer, bootstrap_servers, topic, [b"first", *values])


def test_a_batch_that_overtakes_the_one_before_it(
    bootstrap_servers: str, producer: RawProducer, older: Raw, topic: str
) -> None:
    assert late(producer, older, topic, 2, b"third") is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert settled(lambda: producer.send(topic, 0, b"second")) is E.NONE
    ends_with(producer, bootstrap_servers, topic, [b"first", b"second"])


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
def test_a_batch_of_an_aborted_transaction_whose_client_has_gone_on_with_a_new_epoch(
    bootstrap_servers: str, producer: RawProducer, older: Raw, topic: str, is_written: bool
) -> None:
    """What clients do (KIP-360) that abort without knowing what became of a batch."""
    before = producer.epoch
    assert settled(lambda: producer.end(is_commit=False)) is E.NONE
    present = {"producer_id": producer.producer_id, "epoch": before}
    assert settled(lambda: producer.init(**present)) is E.NONE
    assert producer.epoch > before
    assert settled(lambda: producer.add({topic: [0]})[0]) is E.NONE
    if is_written:
        assert settled(lambda: producer.send(topic, 0, b"second")) is E.NONE
    now, producer.epoch = producer.epoch, before
    assert late(producer, older, topic, 1, b"aborted") is E.INVALID_PRODUCER_EPOCH
    producer.epoch = now
    if not is_written:
        assert settled(lambda: producer.send(topic, 0, b"second")) is E.NONE
    ends_with(producer, bootstrap_servers, topic, [b"first", b"second"])
