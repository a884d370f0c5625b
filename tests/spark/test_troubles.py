"""What goes wrong ends with one sentence that says what and where."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql.types import StructType

from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.model.records import decode_batch
from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.data_source import KafkaesqueDataSource
from kafkaesque.spark.errors import DataLoss, Refused, Unavailable, WrongOption
from kafkaesque.spark.partition_reader import BATCH_BYTES_MAX, PartitionReader
from kafkaesque.spark.range_reader import read_ranges
from kafkaesque.spark.ranges import OffsetRange
from kafkaesque.spark.source_options import SourceOptions, parse_source
from kafkaesque.spark.subscription import LogBounds, find_partitions
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import Sent, TopicMaker, admin_client, produce

Maker = Callable[..., tuple[Cluster, SourceOptions]]


@pytest.fixture
def source(bootstrap_servers: str) -> Iterator[Maker]:
    opened: list[Cluster] = []

    def make(**given: str) -> tuple[Cluster, SourceOptions]:
        options = parse_source(
            {"kafka.bootstrap.servers": bootstrap_servers, **given}, is_stream=False
        )
        opened.append(Cluster(options.cluster))
        return opened[-1], options

    yield make
    for cluster in opened:
        cluster.close()


def bounds(cluster: Cluster, options: SourceOptions) -> LogBounds:
    return LogBounds(cluster, options, find_partitions(cluster, options))


def offsets_read(cluster: Cluster, options: SourceOptions, wanted: OffsetRange) -> list[int]:
    reader = PartitionReader(cluster, options, wanted)
    return [
        record.offset
        for answer, batch, first_offset in reader.read()
        for record in decode_batch(answer, BATCH_BYTES_MAX, at=batch.at)
        if record.offset >= first_offset
    ]


def test_topics_and_partitions_that_are_not_there(source: Maker, make_topic: TopicMaker) -> None:
    with pytest.raises(WrongOption, match="there is no topic 'nowhere'"):
        find_partitions(*source(subscribe=f"nowhere,{make_topic()}"))
    topic = make_topic(partitions=2)
    with pytest.raises(WrongOption, match=f"topic '{topic}' has no partition 2"):
        find_partitions(*source(assign=json.dumps({topic: [0, 2]})))
    cluster, options = source(subscribe=topic)
    with pytest.raises(Refused, match="has no partition 7"):
        offsets_read(cluster, options, OffsetRange(topic, 7, 0, 1))


@pytest.mark.parametrize(
    ("option", "offsets", "words"),
    [
        ("startingOffsets", {"0": 0}, "does not name partition .*-1, which is read"),
        ("startingOffsets", {"0": 0, "1": 0, "2": 0}, "names partition .*-2, which is not read"),
        ("startingOffsets", {"0": 6, "1": 0}, "has offsets 0 to 5, not 6"),
        ("startingOffsetsByTimestamp", {"0": 1}, "startingOffsetsByTimestamp does not name"),
        ("endingOffsets", {"1": 1}, "the option endingOffsets does not name partition .*-0"),
        ("endingOffsetsByTimestamp", {"0": 1, "1": 1, "2": 1}, "endingOffsetsByTimestamp names"),
    ],
    ids=["missing", "unknown", "beyond", "missing-time", "missing-end", "unknown-end-time"],
)
def test_offsets_that_do_not_fit_the_topic(
    source: Maker,
    make_topic: TopicMaker,
    bootstrap_servers: str,
    option: str,
    offsets: dict[str, int],
    words: str,
) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap_servers, topic, [Sent(value=b"x", partition=0) for _ in range(5)])
    given = {"subscribe": topic, option: json.dumps({topic: offsets})}
    with pytest.raises((WrongOption, DataLoss), match=words):
        bounds(*source(**given)).ranges()


def test_a_time_after_the_last_record(
    source: Maker, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap_servers, topic, [b"x"])
    given = {"subscribe": topic, "startingTimestamp": str(2**60)}
    with pytest.raises(WrongOption, match="no record as late as the starting time"):
        bounds(*source(**given)).starts()
    late = bounds(*source(**given, startingOffsetsByTimestampStrategy="latest"))
    assert late.starts() == {(topic, 0): 1}


def test_records_that_are_gone_are_lost_data_unless_the_user_says_otherwise(
    source: Maker, make_topic: TopicMaker, bootstrap_servers: str, capsys: Any
) -> None:
    topic = make_topic(partitions=1)
    for number in range(6):
        produce(bootstrap_servers, topic, [b"%d" % number])
    admin = admin_client(bootstrap_servers)
    (gone,) = admin.delete_records([TopicPartition(topic, 0, 4)]).values()
    gone.result()
    wanted = OffsetRange(topic, 0, 1, 6)
    with pytest.raises(DataLoss, match=f"{topic}-0 has no offset 1: it begins at 4"):
        offsets_read(*source(subscribe=topic), wanted)
    assert offsets_read(*source(subscribe=topic, failOnDataLoss="false"), wanted) == [4, 5]
    assert "has no offset 1" in capsys.readouterr().err


def test_of_a_batch_in_which_the_log_begins_only_the_rest_is_read(
    source: Maker, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap_servers, topic, [b"%d" % number for number in range(6)])
    cluster, options = source(subscribe=topic, failOnDataLoss="false")
    wanted = OffsetRange(topic, 0, 1, 6)
    assert (
        len({batch.base_offset for _, batch, _ in PartitionReader(cluster, options, wanted).read()})
        == 1
    )
    admin = admin_client(bootstrap_servers)
    (gone,) = admin.delete_records([TopicPartition(topic, 0, 4)]).values()
    gone.result()
    (table,) = read_ranges(cluster, options, [wanted])
    assert table.column("offset").to_pylist() == [4, 5]


def test_a_range_that_is_read_after_others_is_waited_for_as_long(
    source: Maker, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    timeouts = {"kafka.default.api.timeout.ms": "1500", "kafka.fetch.max.wait.ms": "50"}
    cluster, options = source(subscribe=topic, **timeouts)
    reader = PartitionReader(cluster, options, OffsetRange(topic, 0, 0, 1))
    time.sleep(1.6)
    began = time.monotonic()
    with pytest.raises(DataLoss, match="ends at offset 0, before offset 1"):
        list(reader.read())
    assert time.monotonic() - began >= 1.4


def test_brokers_that_are_away() -> None:
    (port,) = unused_ports(1)
    options = parse_source(
        {
            "kafka.bootstrap.servers": f"127.0.0.1:{port}",
            "subscribe": "topic",
            "kafka.default.api.timeout.ms": "300",
        },
        is_stream=False,
    )
    began = time.monotonic()
    words = f"no broker answers at 127.0.0.1:{port}"
    with Cluster(options.cluster) as cluster, pytest.raises(Unavailable, match=words):
        find_partitions(cluster, options)
    assert time.monotonic() - began < 30


def test_reading_goes_on_when_a_leader_is_killed(tmp_path: Path) -> None:
    with KafkaesqueCluster(brokers=3, directory=tmp_path) as brokers:
        addresses = brokers.bootstrap_servers
        topic = TopicMaker(addresses)(partitions=1)
        for number in range(20):
            produce(addresses, topic, [b"%d" % number * 100])
        options = parse_source(
            {
                "kafka.bootstrap.servers": addresses,
                "subscribe": topic,
                # A batch a fetch: there is much to be asked for when the leader is gone.
                "kafka.max.partition.fetch.bytes": "1",
            },
            is_stream=False,
        )
        with Cluster(options.cluster) as cluster:
            found: list[int] = []
            reader = PartitionReader(cluster, options, OffsetRange(topic, 0, 0, 20))
            for answer, batch, _ in reader.read():
                found += [each.offset for each in decode_batch(answer, 1 << 20, at=batch.at)]
                if len(found) == 5:
                    address = cluster.leader(topic, 0).address
                    (leader,) = [each for each in brokers.brokers if each.address == address]
                    leader.kill()
            assert found == list(range(20))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
        (
            {"subscribe": "t", "colums": "value"},
            "there is no option colums; the nearest is columns",
        ),
    ],
    ids=["topic", "option"],
)
def test_spark_shows_the_sentence(
    spark: Any, bootstrap_servers: str, options: dict[str, str], sentence: str
) -> None:
    reader = spark.read.format("kafkaesque").options(**options)
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as refused:
        reader.option("kafka.bootstrap.servers", bootstrap_servers).load().count()
    assert sentence in str(refused.value)


def test_topics_are_no_tables_of_a_catalog_or_path(spark: Any) -> None:
    options = "OPTIONS ('kafka.bootstrap.servers' '127.0.0.1:1', subscribe 't')"
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW … USING kafkaesque OPTIONS"):
        spark.sql(f"CREATE TABLE t USING kafkaesque {options}")
    view = f"CREATE OR REPLACE TEMPORARY VIEW topics_view USING kafkaesque {options}"
    assert spark.sql(view).columns == []
    reader = spark.read.format("kafkaesque").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(Exception, match="named by the option subscribe, not by a path"):
        reader.load("flights")


@pytest.mark.parametrize(
    ("form", "options", "schema", "words"),
    [
        ("kafkaesque", {"where": "offset = 5"}, None, "the option where is for batch queries"),
        ("lakehouse", {"path": "s3://b/t"}, "value BINARY", "is not on a file system"),
        ("kafkaesque-lines", {"path": "logs"}, "line BINARY", "does not begin with /"),
    ],
    ids=["topics", "tables", "files"],
)
def test_a_stream_that_is_refused_ends_with_the_sentence(
    spark: Any,
    bootstrap_servers: str,
    tmp_path: Path,
    form: str,
    options: dict[str, str],
    schema: str | None,
    words: str,
) -> None:
    reader = spark.readStream.format(form).options(**options)
    if form == "kafkaesque":
        reader = reader.option("kafka.bootstrap.servers", bootstrap_servers)
        reader = reader.option("subscribe", "t")
    table = (reader if schema is None else reader.schema(schema)).load()
    with pytest.raises(Exception, match=words) as refused:
        _run(table, tmp_path / "checkpoint")
    assert words in _last_line(refused.value)


def test_a_stream_that_goes_on_with_wrong_options_ends_with_the_sentence(
    stream: Callable[..., Any], make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    produce(bootstrap_servers, topic, [b"x"])
    _run(stream(subscribe=topic, startingOffsets="earliest"), tmp_path)
    with pytest.raises(Exception, match="a stream has no end") as refused:
        _run(stream(subscribe=topic, endingOffsets="latest"), tmp_path)
    assert "a stream has no end" in _last_line(refused.value)
    # The micro-batch is repeated.
    (tmp_path / "commits" / "0").unlink()
    with pytest.raises(Exception, match="a stream has no end") as refused:
        _run(stream(subscribe=topic, endingOffsets="latest"), tmp_path, available_now=False)
    assert "a stream has no end" in _last_line(refused.value)


def _run(table: Any, checkpoint: Path, *, available_now: bool = True) -> None:
    writer = table.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    if available_now:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination(120)


def _last_line(error: Exception) -> str:
    """Return the last line of Python's report within Spark's."""
    report, _, _ = str(error).partition("\n SQLSTATE")
    return report.splitlines()[-1]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"key": "binary", "value": "string"}, "value string, and the source gives key binary"),
        ({"value": "binary", "key": "binary"}, "has the columns value binary, key binary, and"),
        ({"key": "binary"}, "has the columns key binary, and"),
    ],
    ids=["type", "order", "count"],
)
def test_a_schema_that_does_not_fit(columns: dict[str, str], words: str) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "columns": "key,value"}
    source = KafkaesqueDataSource(options)
    asked = StructType()
    for name, kind in columns.items():
        asked.add(name, kind)
    with pytest.raises(WrongOption, match=words):
        source.reader(asked)
    with pytest.raises(WrongOption, match=words):
        source.streamReader(asked).initialOffset()
