"""Small micro-batches are read where they are planned; larger ones, and troubles, are tasks'."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from confluent_kafka import TopicPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from kafkaesque.spark.data_source import KafkaesqueDataSource
from kafkaesque.spark.prefetching_reader import ROWS_BYTES_MAX, PrefetchingReader
from kafkaesque.spark.source import StreamReader
from tests.clients.kafka_helpers import Sent, TopicMaker, admin_client, produce

_NOBODY = "127.0.0.1:1"
_OPTIONS = {"columns": "value,partition,offset", "startingOffsets": "earliest"}
_SCHEMA = (
    StructType()
    .add("value", BinaryType())
    .add("partition", IntegerType())
    .add("offset", LongType())
)


@contextmanager
def reader_of(bootstrap_servers: str, topic: str, **more: str) -> Iterator[Any]:
    """A reader as Spark has it on its driver."""
    options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic, **_OPTIONS, **more}
    reader = KafkaesqueDataSource(options).streamReader(_SCHEMA)
    try:
        yield reader
    finally:
        reader.stop()


def rows_planned(reader: Any, topic: str, *counts: int) -> list[tuple[Any, ...]] | None:
    """Return what is sent along with the plan of the partitions' first offsets."""
    start = {topic: {str(each): 0 for each in range(len(counts))}}
    end = {topic: {str(each): count for each, count in enumerate(counts)}}
    assert len(reader.partitions(start, end)) == 1
    batches = reader.getCache(start, end)
    if batches is None:
        return None
    table = pyarrow.Table.from_batches(batches)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_few_records_of_many_partitions_come_with_the_plan(
    make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=20)
    sent = [(b"%d-%d" % (each, at), each, at) for each in range(20) for at in range(3)]
    produce(
        bootstrap_servers, topic, [Sent(value=value, partition=part) for value, part, _ in sent]
    )
    with reader_of(bootstrap_servers, topic) as reader:
        for _ in range(2):  # over the same connections
            assert rows_planned(reader, topic, *[3] * 20) == sent
        cut = [row for row in sent if row[2] < 2]
        assert rows_planned(reader, topic, *[2] * 20) == cut


@pytest.mark.parametrize(
    ("size", "count"), [(10, 1001), (ROWS_BYTES_MAX // 4, 5)], ids=["records", "bytes"]
)
def test_many_records_or_bytes_are_left_to_tasks(
    make_topic: TopicMaker, bootstrap_servers: str, size: int, count: int
) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap_servers, topic, [b"v" * size] * count)
    with reader_of(bootstrap_servers, topic) as reader:
        assert rows_planned(reader, topic, count) is None
        first = rows_planned(reader, topic, 2)
        assert first is not None
        assert [offset for _, _, offset in first] == [0, 1]


def test_what_a_few_bytes_decompress_to_is_left_to_tasks(
    make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    value = b"v" * (ROWS_BYTES_MAX * 3 // 4)
    produce(bootstrap_servers, topic, [value, value], compression_type="zstd")
    with reader_of(bootstrap_servers, topic) as reader:
        assert rows_planned(reader, topic, 2) is None


def test_a_cluster_that_is_away_is_left_to_tasks_soon() -> None:
    with reader_of(_NOBODY, "away") as reader:
        began = time.monotonic()
        assert rows_planned(reader, "away", 5) is None
        assert time.monotonic() - began < 20  # tasks try for a minute


@pytest.mark.parametrize(
    "option", ["maxOffsetsPerTrigger", "minBytesPerTrigger", "minPartitions"], ids=str
)
def test_where_micro_batches_are_limited_or_cut_tasks_read(option: str) -> None:
    with reader_of(_NOBODY, "any", **{option: "3"}) as reader:
        assert type(reader) is StreamReader


def test_spark_takes_every_column_from_the_plan(
    stream: Callable[..., Any], make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    value = os.urandom(300)
    headers = [("a", b"1"), ("b", None)]
    sent = [
        Sent(value=None, key=b"k", partition=0, headers=headers),
        Sent(value=value, partition=1),
    ]
    produce(bootstrap_servers, topic, sent)
    found: list[Any] = []
    admin = admin_client(bootstrap_servers)

    def take(rows: Any, _: int) -> None:
        found[:] = rows.collect()
        # From here on a task would find nothing to read.
        ends = [TopicPartition(topic, partition, 1) for partition in range(2)]
        for deleted in admin.delete_records(ends).values():
            deleted.result(30)
        found[:] = rows.collect()

    table = stream(subscribe=topic, startingOffsets="earliest", includeHeaders="true")
    writer = table.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    one, two = sorted(found, key=lambda row: row.partition)
    assert (one.key, one.value, one.topic, one.offset) == (b"k", None, topic, 0)
    assert [(each.key, each.value) for each in one.headers] == headers
    assert (two.key, bytes(two.value), two.headers) == (None, value, None)


def test_copies_for_tasks_know_the_options_alone() -> None:
    with reader_of(_NOBODY, "any") as reader:
        assert isinstance(reader, PrefetchingReader)
        copy = pickle.loads(pickle.dumps(reader))
        assert type(copy) is StreamReader
