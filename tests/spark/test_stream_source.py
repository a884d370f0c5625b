"""Topics as streams: micro-batches without a gap, from where the checkpoint says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kafkaesque.spark.source import StreamReader
from kafkaesque.spark.source_options import parse_source
from kafkaesque.spark.waiting_bytes import waiting_bytes
from tests.clients.kafka_helpers import Sent, TopicMaker, admin_client, produce, unique
from tests.waiting import eventually

Streamer = Callable[..., Any]


class Collected:
    """What a query's micro-batches brought, batch by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}

    def __call__(self, table: Any, number: int) -> None:
        self.batches[number] = [bytes(row.value) for row in table.select("value").collect()]

    @property
    def values(self) -> list[bytes]:
        return sorted(value for batch in self.batches.values() for value in batch)


def run(table: Any, checkpoint: Path, **trigger: Any) -> Collected:
    """Run a query over what is available and return what it brought."""
    found = Collected()
    writer = table.writeStream.foreachBatch(found).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(**trigger or {"availableNow": True}).start()
    query.awaitTermination()
    return found


def send(bootstrap_servers: str, topic: str, count: int, first: int = 0) -> list[bytes]:
    sent = [b"%05d" % number for number in range(first, first + count)]
    produce(bootstrap_servers, topic, sent)
    return sent


def reader_of(bootstrap_servers: str, topic: str, **more: str) -> StreamReader:
    """Return a reader as Spark has it on its driver; it begins at the latest."""
    options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic, **more}
    return StreamReader(parse_source(options, is_stream=True))


def test_a_query_goes_on_where_it_stopped(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    first = send(bootstrap_servers, topic, 500)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert run(stream(**options), tmp_path).values == first
    assert run(stream(**options), tmp_path).values == []
    second = send(bootstrap_servers, topic, 300, 500)
    assert run(stream(**options), tmp_path).values == second


def test_offsets_in_the_checkpoint_are_those_of_sparks_kafka_source(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, [Sent(value=b"x", partition=1) for _ in range(7)])
    run(stream(subscribe=topic, startingOffsets="earliest"), tmp_path)
    last_line = (tmp_path / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(last_line) == {topic: {"0": 0, "1": 7}}


def test_a_limit_holds_for_every_micro_batch(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    sent = send(bootstrap_servers, topic, 1000)
    found = run(
        stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="300"), tmp_path
    )
    assert [len(found.batches[number]) for number in sorted(found.batches)] == [300, 300, 300, 100]
    assert found.values == sent


def test_a_limit_of_bytes_holds_for_every_micro_batch(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    # Neither partition alone says what a record takes.
    small = [Sent(value=b"%04d" % number, partition=0) for number in range(2000)]
    large = [Sent(value=b"%04d" % number * 500, partition=1) for number in range(200)]
    produce(bootstrap_servers, topic, [*small, *large])
    limit = 100_000
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    found = run(stream(**options, maxBytesPerTrigger=str(limit)), tmp_path)
    assert found.values == sorted(bytes(each.value or b"") for each in (*small, *large))
    *full, last = (sum(map(len, found.batches[number])) for number in sorted(found.batches))
    assert len(full) >= 3
    # What is around a value counts, too: 12 bytes of a record.
    assert all(limit * 0.8 < size < limit for size in full)
    assert last < limit


def test_too_few_bytes_wait_until_there_are_enough(
    make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    reader = reader_of(
        bootstrap_servers, topic, startingOffsets="earliest", minBytesPerTrigger="9000"
    )
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    produce(bootstrap_servers, topic, [b"v" * 1000] * 8)
    assert reader.latestOffset(start, limit) == start
    produce(bootstrap_servers, topic, [b"v" * 1000])
    assert reader.latestOffset(start, limit) == {topic: {"0": 9}}
    reader.stop()


def test_what_waits_is_measured_in_the_bytes_that_brokers_keep(
    make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=3)
    # Batches shorter and longer than what is looked at; of partition 2 there is nothing.
    for number in range(3):
        produce(bootstrap_servers, topic, [Sent(value=b"%d" % number * 900, partition=0)] * 10)
        produce(bootstrap_servers, topic, [Sent(value=b"%d" % number * 50_000, partition=1)] * 2)
    reader = reader_of(bootstrap_servers, topic, startingOffsets="earliest")
    (zero, one, two) = ((topic, number) for number in range(3))
    starts, ends = {zero: 0, one: 2, two: 0}, {zero: 30, one: 6, two: 0}
    assert 1 <= waiting_bytes(reader._cluster, starts, ends) / (30 * 900 + 4 * 50_000) < 1.02
    # Offsets that are not there are taken to be like the others.
    gone = {zero: 20, one: 2, two: 100}, {zero: 20, one: 4, two: 101}
    assert 1 <= waiting_bytes(reader._cluster, *gone) / (3 * 50_000) < 1.02
    assert waiting_bytes(reader._cluster, ends, ends) == 0
    reader.stop()


def test_new_records_are_read_while_the_query_runs(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic, found = make_topic(partitions=1), Collected()
    table = stream(subscribe=topic, startingOffsets="earliest")
    writer = table.writeStream.foreachBatch(found).option("checkpointLocation", str(tmp_path))
    sent = send(bootstrap_servers, topic, 10)
    query = writer.trigger(processingTime="200 milliseconds").start()
    try:
        eventually(lambda: found.values == sent, "the first records", seconds=180)
        sent += send(bootstrap_servers, topic, 10, 10)
        eventually(lambda: found.values == sent, "the second records", seconds=180)
    finally:
        query.stop()


def test_where_the_latest_was_is_in_the_checkpoint_before_anything_is_read(
    make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    send(bootstrap_servers, topic, 3)
    reader = reader_of(bootstrap_servers, topic)
    start = reader.initialOffset()
    assert start == {topic: {"0": 3}}
    send(bootstrap_servers, topic, 5, 3)
    assert reader.initialOffset() == start
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.partitions(start, start) == []
    assert reader.latestOffset(start, ReadAllAvailable()) == {topic: {"0": 8}}
    reader.stop()


def test_a_first_micro_batch_that_is_repeated_ends_where_it_did(
    make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    send(bootstrap_servers, topic, 5)
    reader = reader_of(bootstrap_servers, topic)
    logged = {topic: {"0": 3}}
    assert reader.partitions(reader.initialOffset(), logged) == []
    assert reader.latestOffset(logged, ReadAllAvailable()) == {topic: {"0": 5}}
    reader.stop()


def test_records_that_come_between_the_target_and_the_beginning_are_no_loss(
    make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    reader = reader_of(bootstrap_servers, topic)
    reader.prepareForTriggerAvailableNow()
    send(bootstrap_servers, topic, 5)
    start = reader.initialOffset()
    assert start == {topic: {"0": 5}}
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    reader.stop()


def test_a_query_begins_at_the_latest_while_records_come(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic, found, is_over = make_topic(partitions=1), Collected(), threading.Event()
    send(bootstrap_servers, topic, 1)
    sent: list[bytes] = []

    def send_on() -> None:
        while not is_over.wait(0.02):
            sent.extend(send(bootstrap_servers, topic, 1, 1 + len(sent)))

    writer = stream(subscribe=topic).writeStream.foreachBatch(found)
    writer = writer.option("checkpointLocation", str(tmp_path))
    with ThreadPoolExecutor(1) as sender:
        under_way = sender.submit(send_on)
        query = writer.trigger(processingTime="100 milliseconds").start()
        try:
            eventually(lambda: query.exception() or len(found.batches) > 3, "records", seconds=180)
        finally:
            is_over.set()
            under_way.result()
        assert query.exception() is None
        eventually(lambda: found.values[-1:] == sent[-1:], "the last record", seconds=180)
        query.stop()
    begun = json.loads((tmp_path / "offsets" / "0").read_text().splitlines()[-1])[topic]["0"]
    assert found.values == sent[begun - 1 :]


def test_nothing_that_comes_after_the_latest_is_left_out(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    send(bootstrap_servers, topic, 3)
    table = stream(subscribe=topic)
    assert run(table, tmp_path).values == []
    sent = send(bootstrap_servers, topic, 4, 3)
    assert run(table, tmp_path).values == sent


def test_new_partitions_are_read_from_their_beginning(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    sent = send(bootstrap_servers, topic, 10)
    assert run(stream(**options), tmp_path).values == sent
    admin = admin_client(bootstrap_servers)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result()

    def is_there() -> bool:
        partitions = admin.list_topics(topic).topics[topic].partitions.values()
        return [each.leader >= 0 for each in partitions] == [True, True]

    eventually(is_there, "a leader of the new partition")
    produce(bootstrap_servers, topic, [Sent(value=b"new", partition=1)])
    assert run(stream(**options), tmp_path).values == [b"new"]


def test_too_little_waits_until_there_is_enough(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic, found = make_topic(partitions=1), Collected()
    table = stream(
        subscribe=topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger="20",
        maxTriggerDelay="10m",
    )
    first = send(bootstrap_servers, topic, 15)
    writer = table.writeStream.foreachBatch(found).option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        eventually(lambda: bool(query.recentProgress), "the first look at the topic", seconds=180)
        assert found.values == []
        second = send(bootstrap_servers, topic, 15, 15)
        eventually(lambda: found.values == first + second, "enough records", seconds=180)
        assert sorted(map(len, found.batches.values()))[:-1] == [0] * (len(found.batches) - 1)
    finally:
        query.stop()


def test_progress_is_committed_to_the_group(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic, group = make_topic(partitions=1), unique("spark")
    send(bootstrap_servers, topic, 25)
    run(
        stream(subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": group}),
        tmp_path,
    )
    admin = admin_client(bootstrap_servers)
    wanted = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(wanted)[group].result()
    assert [(each.topic, each.partition, each.offset) for each in found.topic_partitions] == [
        (topic, 0, 25)
    ]
