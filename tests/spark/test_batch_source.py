"""Topics as tables: what was produced is what Spark reads, within the bounds that were given."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.clients.kafka_helpers import CODECS, Sent, TopicMaker, produce, unique
from tests.waiting import DEADLINE_S

Reader = Callable[..., Any]

START_MS = 1_700_000_000_000
HEADERS: list[tuple[str, bytes | None]] = [("name", b"1"), ("name", None), ("ü", b"")]


def values(table: Any) -> list[bytes]:
    return sorted(bytes(row.value) for row in table.select("value").collect())


@pytest.fixture(scope="module")
def numbers(topic_maker: TopicMaker, bootstrap_servers: str) -> str:
    """A topic with ten records in each of two partitions, a second apart."""
    topic = topic_maker("numbers", partitions=2)
    produce(
        bootstrap_servers,
        topic,
        [
            Sent(value=b"%d-%d" % (part, row), partition=part, timestamp_ms=START_MS + row * 1000)
            for part in range(2)
            for row in range(10)
        ],
    )
    return topic


def test_records_come_with_all_that_they_have(
    read: Reader, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    sent = [
        Sent(value=b"first", key=b"key", headers=HEADERS, timestamp_ms=START_MS),
        Sent(value=None, key=b"", timestamp_ms=START_MS + 1),
        Sent(value=b"", key=None, timestamp_ms=START_MS + 2),
    ]
    produce(bootstrap_servers, topic, sent)
    table = read(subscribe=topic, includeHeaders="true")
    found = table.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("offset").collect()
    assert [(row.key, row.value) for row in found] == [
        (b"key", b"first"),
        (b"", None),
        (None, b""),
    ]
    assert [row.ms for row in found] == [each.timestamp_ms for each in sent]
    assert [(row.topic, row.partition, row.offset) for row in found] == [
        (topic, 0, offset) for offset in range(3)
    ]
    assert [row.timestampType for row in found] == [0, 0, 0]
    assert [(header.key, header.value) for header in found[0].headers] == HEADERS
    assert found[1].headers is None


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(
    read: Reader, make_topic: TopicMaker, bootstrap_servers: str, codec: str
) -> None:
    topic = make_topic(partitions=1)
    sent = [b"value %d" % number * 5 for number in range(2000)]
    produce(bootstrap_servers, topic, sent, compression_codec=codec, linger_ms=50)
    assert values(read(subscribe=topic, columns="value")) == sorted(sent)


def test_log_append_times_are_told(
    read: Reader, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1, message_timestamp_type="LogAppendTime")
    produce(bootstrap_servers, topic, [Sent(value=b"x", timestamp_ms=START_MS)])
    (row,) = read(subscribe=topic).selectExpr("timestampType", "unix_millis(timestamp)").collect()
    assert row[0] == 1
    assert row[1] > START_MS


BOUNDS = [
    ({}, 0, 10),
    ({"startingOffsets": {"0": 3, "1": 4}}, (3, 4), 10),
    ({"startingOffsets": {"0": -2, "1": 9}}, (0, 9), 10),
    ({"startingOffsets": {"0": 2, "1": 2}, "endingOffsets": {"0": 3, "1": -1}}, 2, (3, 10)),
    ({"startingTimestamp": START_MS + 3500}, 4, 10),
    ({"startingTimestamp": START_MS + 1000, "endingTimestamp": START_MS + 3000}, 1, 3),
    ({"startingOffsetsByTimestamp": {"0": START_MS, "1": START_MS + 8000}}, (0, 8), 10),
    ({"endingOffsetsByTimestamp": {"0": START_MS + 1, "1": START_MS + 90_000}}, 0, (1, 10)),
]


@pytest.mark.parametrize("case", BOUNDS, ids=[f"case-{number}" for number in range(len(BOUNDS))])
def test_only_what_lies_between_the_bounds_is_read(
    read: Reader, numbers: str, case: tuple[dict[str, Any], Any, Any]
) -> None:
    options, starts, ends = case
    given = {
        name: json.dumps({numbers: value}) if isinstance(value, dict) else str(value)
        for name, value in options.items()
    }
    starts = starts if isinstance(starts, tuple) else (starts, starts)
    ends = ends if isinstance(ends, tuple) else (ends, ends)
    wanted = [
        b"%d-%d" % (part, row) for part in range(2) for row in range(starts[part], ends[part])
    ]
    assert values(read(subscribe=numbers, **given)) == sorted(wanted)


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({}, 2),
        ({"minPartitions": "6"}, 6),
        ({"maxRecordsPerPartition": "3"}, 8),
        ({"maxRecordsPerPartition": "100", "minPartitions": "1"}, 2),
    ],
    ids=["plain", "more", "smaller", "enough"],
)
def test_tasks_share_the_records(
    read: Reader, numbers: str, options: dict[str, str], tasks: int
) -> None:
    table = read(subscribe=numbers, **options)
    assert table.rdd.getNumPartitions() == tasks
    assert len(values(table)) == 20
    assert len(set(values(table))) == 20


def test_topics_by_pattern_and_partitions_by_name(
    read: Reader, topic_maker: TopicMaker, bootstrap_servers: str
) -> None:
    prefix = unique("pattern")
    topics = [topic_maker(f"{prefix}-{letter}", partitions=2) for letter in "ab"]
    for topic in topics:
        produce(bootstrap_servers, topic, [Sent(value=topic.encode(), partition=1)])
    found = values(read(subscribePattern=f"{prefix}-[ab].*"))
    assert found == sorted(topic.encode() for topic in topics)
    assert values(read(subscribe=",".join(topics))) == found
    assert values(read(assign=json.dumps({topics[0]: [1]}))) == [topics[0].encode()]
    assert values(read(assign=json.dumps({topics[0]: [0]}))) == []


def test_only_the_columns_that_are_wanted(read: Reader, numbers: str) -> None:
    table = read(subscribe=numbers, columns="offset, VALUE")
    assert table.columns == ["offset", "value"]
    assert table.agg({"offset": "sum"}).collect()[0][0] == 90


def test_aborted_and_open_transactions_are_not_read(
    read: Reader, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": unique("writer")}
    )
    producer.init_transactions(DEADLINE_S)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(DEADLINE_S)
        if number % 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(DEADLINE_S)
    try:
        assert values(read(subscribe=topic)) == [b"0", b"2", b"4"]
        everything = read(subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"})
        assert len(values(everything)) == 7
    finally:
        producer.abort_transaction(DEADLINE_S)


def test_an_empty_topic_is_an_empty_table(read: Reader, make_topic: TopicMaker) -> None:
    assert read(subscribe=make_topic()).count() == 0


def test_uses_of_a_table_do_not_take_rows_from_each_other(
    spark: Any, read: Reader, numbers: str
) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    try:
        table = read(subscribe=numbers)
        zero, one = (table.where(f"partition = {each}") for each in (0, 1))
        wanted = [[b"%d-%d" % (each, row) for row in range(10)] for each in (0, 1)]
        assert values(zero.union(one)) == wanted[0] + wanted[1]
        assert [values(zero), values(one)] == wanted
        assert values(table.union(one)) == sorted(wanted[0] + 2 * wanted[1])
    finally:
        spark.conf.set(name, before)


def test_options_keep_records_from_being_fetched(read: Reader, numbers: str) -> None:
    found = read(
        assign=json.dumps({numbers: [1]}),
        startingTimestamp="1700000003000",
        endingOffsets=json.dumps({numbers: {"1": 8}}),
    )
    assert values(found) == [b"1-%d" % row for row in range(3, 8)]
    assert found.rdd.getNumPartitions() == 1
