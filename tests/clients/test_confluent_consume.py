"""librdkafka (confluent-kafka) as a consumer: positions, offsets by time, waiting, commits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.clients.kafka_helpers import (
    Sent,
    TopicMaker,
    admin_client,
    checked,
    produce,
    read,
    read_for,
    unique,
)
from tests.waiting import DEADLINE_S

#: A Fetch that nobody answers before its time would take longer than anybody waits here.
LONG_WAIT_S = 120
LONG_WAIT = {"fetch_wait_max_ms": LONG_WAIT_S * 1000, "socket_timeout_ms": LONG_WAIT_S * 2000}


@contextmanager
def consumer_of(bootstrap_servers: str, **options: Any) -> Iterator[Consumer]:
    named = {key.replace("_", "."): value for key, value in options.items()}
    defaults = {"group.id": unique("group"), "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **defaults, **named})
    try:
        yield consumer
    finally:
        consumer.close()


def values(messages: list[Any]) -> list[int]:
    return [int(message.value()) for message in messages]


def until_end(consumer: Consumer) -> list[Any]:
    """Return the messages up to the end of the (only) partition."""
    messages: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return messages
        messages += checked([] if message is None else [message])
    raise AssertionError("the end of the partition was not reached")


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 2)])
def test_auto_offset_reset(
    bootstrap_servers: str, make_topic: TopicMaker, reset: str, first: int
) -> None:
    topic = make_topic("reset", partitions=1)
    produce(bootstrap_servers, topic, numbers(0, 2))
    options = {"auto_offset_reset": reset, "enable_partition_eof": True}
    with consumer_of(bootstrap_servers, **options) as consumer:
        consumer.subscribe([topic])
        received = until_end(consumer)
        produce(bootstrap_servers, topic, numbers(2, 4))
        received += until_end(consumer)
        assert values(received) == list(range(first, 4))


def test_watermarks_follow_the_log(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("watermarks", partitions=2)
    with consumer_of(bootstrap_servers) as consumer:
        empty = TopicPartition(topic, 1)
        assert consumer.get_watermark_offsets(empty, timeout=DEADLINE_S) == (0, 0)
        produce(bootstrap_servers, topic, [Sent(value=each, partition=0) for each in numbers(0, 7)])
        full = TopicPartition(topic, 0)
        assert consumer.get_watermark_offsets(full, timeout=DEADLINE_S) == (0, 7)
        assert consumer.get_watermark_offsets(empty, timeout=DEADLINE_S) == (0, 0)


def test_offsets_for_times(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("times", partitions=1)
    base_ms = 1_700_000_000_000
    sent = [Sent(value=b"%d" % i, timestamp_ms=base_ms + 1000 * i) for i in range(50)]
    produce(bootstrap_servers, topic, sent[:25])
    produce(bootstrap_servers, topic, sent[25:], compression_type="lz4", linger_ms=20)
    asked = {0: 0, base_ms: 0, base_ms + 1: 1, base_ms + 7000: 7, base_ms + 30_500: 31}
    with consumer_of(bootstrap_servers) as consumer:
        for timestamp_ms, expected in asked.items():
            query = [TopicPartition(topic, 0, timestamp_ms)]
            (found,) = consumer.offsets_for_times(query, timeout=DEADLINE_S)
            assert found.offset == expected, timestamp_ms
        query = [TopicPartition(topic, 0, base_ms + 1_000_000)]
        (found,) = consumer.offsets_for_times(query, timeout=DEADLINE_S)
        assert found.offset == OFFSET_END


def test_seek_goes_back_and_forth(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("seek", partitions=1)
    produce(bootstrap_servers, topic, numbers(0, 100))
    with consumer_of(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert values(read(consumer, 10)) == list(range(10))
        for position in (90, 3, 50):
            consumer.seek(TopicPartition(topic, 0, position))
            assert values(read(consumer, 5)) == list(range(position, position + 5))


def test_an_assigned_offset_in_the_middle_of_a_batch(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("middle", partitions=1)
    produce(bootstrap_servers, topic, numbers(0, 100), linger_ms=100, compression_type="zstd")
    with consumer_of(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0, 37)])
        assert values(read(consumer, 63)) == list(range(37, 100))


def test_a_position_out_of_range_is_an_error_or_reset(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("range", partitions=1)
    produce(bootstrap_servers, topic, numbers(0, 5))
    with consumer_of(bootstrap_servers, auto_offset_reset="error") as consumer:
        consumer.assign([TopicPartition(topic, 0, 1000)])
        with pytest.raises(KafkaException) as raised:
            read(consumer, 1)
        assert raised.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
    with consumer_of(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0, 1000)])
        assert values(read(consumer, 5)) == list(range(5))


def test_paused_partitions_give_nothing_until_resumed(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("pause", partitions=2)
    sent = [Sent(value=b"%d" % i, partition=i % 2) for i in range(40)]
    with consumer_of(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(2)])
        consumer.pause([TopicPartition(topic, 1)])
        produce(bootstrap_servers, topic, sent)
        assert values(read(consumer, 20)) == list(range(0, 40, 2))
        assert read_for(consumer, 0.5) == []
        consumer.resume([TopicPartition(topic, 1)])
        assert values(read(consumer, 20)) == list(range(1, 40, 2))


def test_end_of_partition_is_seen(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("end", partitions=1)
    produce(bootstrap_servers, topic, numbers(0, 3))
    with consumer_of(bootstrap_servers, enable_partition_eof=True) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert values(read(consumer, 3)) == [0, 1, 2]
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._PARTITION_EOF
        assert message.offset() == 3


def test_a_pattern_subscription_takes_topics_up_as_they_come(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    prefix = unique("pattern")
    first = make_topic(f"{prefix}-a", partitions=1)
    make_topic(f"other-{prefix}", partitions=1)
    options = {"auto_offset_reset": "earliest", "topic_metadata_refresh_interval_ms": 500}
    with consumer_of(bootstrap_servers, **options) as consumer:
        consumer.subscribe([f"^{prefix}-.*"])
        produce(bootstrap_servers, first, numbers(0, 3))
        assert values(read(consumer, 3)) == [0, 1, 2]
        consumer.commit(asynchronous=False)
        second = make_topic(f"{prefix}-b", partitions=1)
        produce(bootstrap_servers, second, numbers(3, 6))
        received = read(consumer, 3)
        assert values(received) == [3, 4, 5]
        assert {each.topic() for each in received} == {second}


def test_fetch_waits_for_min_bytes_up_to_max_wait(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("waits", partitions=1)
    options = {"fetch_min_bytes": 100_000, "fetch_wait_max_ms": 1500}
    with consumer_of(bootstrap_servers, **options) as consumer:
        produce(bootstrap_servers, topic, [b"warm up"])
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        read(consumer, 1)
        # A little comes when the wait is over, not before. (The fetch that finds it may have been
        # under way already, so only half of the wait can be counted upon over two rounds.)
        delays = []
        for _ in range(2):
            start = time.monotonic()
            produce(bootstrap_servers, topic, [b"little"])
            read(consumer, 1)
            delays.append(time.monotonic() - start)
        assert sum(delays) > 1.5
    # Enough comes at once, and not after the wait.
    with consumer_of(bootstrap_servers, fetch_min_bytes=100_000, **LONG_WAIT) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
        assert read_for(consumer, 1.0) == []
        produce(bootstrap_servers, topic, [b"x" * 60_000] * 2)
        read(consumer, 2, seconds=LONG_WAIT_S / 2)


def test_a_waiting_fetch_is_answered_when_a_record_arrives(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("awaited", partitions=1)
    with consumer_of(bootstrap_servers, fetch_min_bytes=1, **LONG_WAIT) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert read_for(consumer, 1.0) == []
        produce(bootstrap_servers, topic, [b"now"])
        read(consumer, 1, seconds=LONG_WAIT_S / 2)


def test_manual_commits_and_their_metadata_are_kept(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("commits", partitions=2)
    produce(bootstrap_servers, topic, [Sent(value=each, partition=0) for each in numbers(0, 10)])
    group = unique("group")
    with consumer_of(bootstrap_servers, group_id=group) as consumer:
        mark = TopicPartition(topic, 0, 4, "from here, größer", 0)
        (done,) = consumer.commit(offsets=[mark], asynchronous=False)
        assert done.error is None
    with consumer_of(bootstrap_servers, group_id=group) as consumer:
        both = [TopicPartition(topic, each) for each in range(2)]
        first, second = consumer.committed(both, timeout=DEADLINE_S)
        assert (first.offset, first.metadata) == (4, "from here, größer")
        assert second.offset == OFFSET_INVALID
        consumer.subscribe([topic])
        assert values(read(consumer, 6)) == list(range(4, 10))
        consumer.commit(asynchronous=False)
        (first,) = consumer.committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)
        assert first.offset == 10


def test_auto_commit_on_close_lets_the_next_member_go_on(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("auto-commit", partitions=1)
    produce(bootstrap_servers, topic, numbers(0, 10))
    options = {"group_id": unique("group"), "enable_auto_commit": True}
    for first, end in ((0, 10), (10, 20)):
        with consumer_of(bootstrap_servers, auto_offset_reset="earliest", **options) as consumer:
            consumer.subscribe([topic])
            assert values(read(consumer, 10)) == list(range(first, end))
        produce(bootstrap_servers, topic, numbers(end, end + 10))


def test_an_offset_commit_beyond_the_metadata_limit_is_refused(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("metadata", partitions=1)
    with consumer_of(bootstrap_servers) as consumer:
        mark = TopicPartition(topic, 0, 1, "x" * 5000)
        with pytest.raises(KafkaException) as raised:
            consumer.commit(offsets=[mark], asynchronous=False)
        assert raised.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE


def test_many_partitions_are_read_with_small_fetches(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("many", partitions=30)
    sent = [Sent(value=b"%d" % i, partition=i % 30) for i in range(3000)]
    produce(bootstrap_servers, topic, sent)
    options = {"max_partition_fetch_bytes": 500, "fetch_max_bytes": 2000, "message_max_bytes": 2000}
    with consumer_of(bootstrap_servers, **options) as consumer:
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(30)])
        received = read(consumer, 3000)
    for partition in range(30):
        inside = [message for message in received if message.partition() == partition]
        assert values(inside) == list(range(partition, 3000, 30))


def test_a_consumer_reads_on_after_records_before_it_were_deleted(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("deleted", partitions=1)
    produce(bootstrap_servers, topic, numbers(0, 20))
    admin = admin_client(bootstrap_servers)
    (future,) = admin.delete_records([TopicPartition(topic, 0, 12)]).values()
    assert future.result().low_watermark == 12
    with consumer_of(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0, 3)])
        assert values(read(consumer, 8)) == list(range(12, 20))
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S)
        assert (low, high) == (12, 20)
