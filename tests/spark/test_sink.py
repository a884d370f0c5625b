"""Tables and streams into topics: everything arrives, once, where its row says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from kafkaesque.model.murmur2 import partition_for_key
from tests.clients.kafka_helpers import Sent, TopicMaker, consume, produce, unique

Writer = Callable[..., None]
Streamer = Callable[..., Any]
GUARANTEES = ("exactly-once", "at-least-once")


def committed(bootstrap_servers: str, topic: str, count: int) -> list[Message]:
    return consume(bootstrap_servers, topic, count, at_rest_s=0.5, isolation_level="read_committed")


def sorted_values(messages: list[Message]) -> list[bytes]:
    return sorted(message.value() or b"" for message in messages)


@pytest.fixture
def write(bootstrap_servers: str) -> Writer:
    def save(table: Any, **options: str) -> None:
        writer = table.write.format("kafkaesque").mode("append").options(**options)
        writer.option("kafka.bootstrap.servers", bootstrap_servers).save()

    return save


def copy(
    table: Any, bootstrap_servers: str, topic: str, checkpoint: Path, mode: str = "append"
) -> Any:
    """Run a query that writes what is available to a topic, and return it."""
    writer = table.writeStream.format("kafkaesque").option("topic", topic).outputMode(mode)
    writer = writer.option("kafka.bootstrap.servers", bootstrap_servers)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_table_arrives_where_its_keys_belong(
    spark: Any, write: Writer, make_topic: TopicMaker, bootstrap_servers: str, guarantee: str
) -> None:
    topic = make_topic(partitions=3)
    table = spark.range(1000).selectExpr(
        "if(id % 10 = 0, null, cast(id AS string)) AS key", "concat('value ', id) AS value"
    )
    write(table, topic=topic, deliveryGuarantee=guarantee)
    found = committed(bootstrap_servers, topic, 1000)
    assert Counter(message.value() for message in found) == Counter(
        b"value %d" % number for number in range(1000)
    )
    keyed = [(key, message.partition()) for message in found if (key := message.key()) is not None]
    assert len(keyed) == 900
    assert all(partition == partition_for_key(key, 3) for key, partition in keyed)


def test_rows_say_topic_partition_and_headers(
    spark: Any, write: Writer, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topics = [make_topic(partitions=2), make_topic(partitions=2)]
    rows = [
        (topics[0], 1, b"a", None, [("h", b"1"), ("h", None)]),
        (topics[1], 0, b"b", b"k", None),
        (topics[0], None, None, b"k", []),
    ]
    schema = (
        "topic STRING, partition INT, value BINARY, key BINARY,"
        " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )
    write(spark.createDataFrame(rows, schema))
    first = {m.value(): m for m in committed(bootstrap_servers, topics[0], 2)}
    (second,) = committed(bootstrap_servers, topics[1], 1)
    assert first[b"a"].partition() == 1
    assert first[b"a"].headers() == [("h", b"1"), ("h", None)]
    assert (first[None].key(), first[None].partition()) == (b"k", partition_for_key(b"k", 2))
    assert (second.value(), second.key(), second.partition()) == (b"b", b"k", 0)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_batches_are_compressed(
    spark: Any, write: Writer, make_topic: TopicMaker, bootstrap_servers: str, codec: str
) -> None:
    topic = make_topic(partitions=1)
    options = {"kafka.compression.type": codec, "kafka.batch.size": "5000"}
    write(spark.range(3000).selectExpr("cast(id AS string) AS value"), topic=topic, **options)
    assert len(committed(bootstrap_servers, topic, 3000)) == 3000


def test_a_micro_batch_that_is_repeated_is_skipped(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=2), make_topic(partitions=2)
    sent = [Sent(value=b"%d" % row, partition=row % 2) for row in range(200)]
    produce(bootstrap_servers, source, sent)
    options = {"subscribe": source, "startingOffsets": "earliest"}
    for _ in range(2):
        copy(stream(**options), bootstrap_servers, sink, tmp_path)
        # As if the driver had died before Spark noted that the micro-batch is done.
        (tmp_path / "commits" / "0").unlink()
        (tmp_path / "commits" / ".0.crc").unlink(missing_ok=True)
    found = committed(bootstrap_servers, sink, 200)
    assert sorted_values(found) == sorted(b"%d" % row for row in range(200))


def test_after_a_failure_only_tasks_that_had_not_committed_write(
    spark: Any, stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    from pyspark.sql.functions import udf

    source, sink = make_topic(partitions=2), make_topic(partitions=1)
    sent = [Sent(value=b"%d" % row, partition=row % 2) for row in range(100)]
    produce(bootstrap_servers, source, sent)
    repaired = str(tmp_path / "repaired")

    def fail_in_partition_1(partition: int, value: bytes) -> bytes:
        import os

        if partition == 1 and bytes(value) == b"77" and not os.path.exists(repaired):
            raise ValueError("a poor row")
        return value

    check = udf(fail_in_partition_1, "binary", useArrow=False)
    # So few rows would be one task's.
    options = {"subscribe": source, "startingOffsets": "earliest", "minPartitions": "2"}
    table = stream(**options).select(check("partition", "value").alias("value"))
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(Exception, match="a poor row"):
        copy(table, bootstrap_servers, sink, checkpoint)
    half = committed(bootstrap_servers, sink, 50)
    assert sorted_values(half) == sorted(b"%d" % row for row in range(0, 100, 2))
    Path(repaired).touch()
    copy(table, bootstrap_servers, sink, checkpoint)
    found = committed(bootstrap_servers, sink, 100)
    assert sorted_values(found) == sorted(b"%d" % row for row in range(100))


def test_in_complete_mode_the_whole_result_is_appended(
    stream: Streamer, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=1), make_topic(partitions=1)
    counts = stream(subscribe=source, startingOffsets="earliest").groupBy("key").count()
    table = counts.selectExpr("key", "cast(count AS string) AS value")
    produce(bootstrap_servers, source, [Sent(value=b"x", key=b"a"), Sent(value=b"x", key=b"b")])
    copy(table, bootstrap_servers, sink, tmp_path, mode="complete")
    produce(bootstrap_servers, source, [Sent(value=b"x", key=b"a")])
    copy(table, bootstrap_servers, sink, tmp_path, mode="complete")
    found = committed(bootstrap_servers, sink, 4)
    assert sorted((m.key() or b"", m.value() or b"") for m in found) == [
        (b"a", b"1"),
        (b"a", b"2"),
        (b"b", b"1"),
        (b"b", b"1"),
    ]


def test_a_table_that_is_written_again_under_its_number_is_skipped(
    spark: Any, write: Writer, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic, name = make_topic(partitions=2), unique("application")
    table = spark.range(50).selectExpr("cast(id AS string) AS value")
    for number in ("7", "7", "6", "8"):
        write(table, topic=topic, txnAppId=name, txnVersion=number)
    found = Counter(sorted_values(committed(bootstrap_servers, topic, 100)))
    assert found == Counter({b"%d" % row: 2 for row in range(50)})
    # Each topic has numbers of its own.
    other = make_topic(partitions=2)
    write(table, topic=other, txnAppId=name, txnVersion="8")
    assert len(committed(bootstrap_servers, other, 50)) == 50
    with pytest.raises(Exception, match="now it is given 40 of"):
        write(table.limit(40).coalesce(1), topic=topic, txnAppId=name, txnVersion="8")


def test_a_topic_is_not_overwritten(
    spark: Any, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    table = spark.range(1).selectExpr("cast(id AS string) AS value")
    writer = table.write.format("kafkaesque").mode("overwrite").option("topic", make_topic())
    with pytest.raises(Exception, match="a topic cannot be overwritten, only appended to"):
        writer.option("kafka.bootstrap.servers", bootstrap_servers).save()
