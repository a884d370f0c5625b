"""A table with the option `where` has just what Spark's own `where` leaves of one without it."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import pyarrow
import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType, _parse_datatype_string

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.column_builder import ColumnBuilder
from kafkaesque.model.records import Record
from kafkaesque.spark import subscription
from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.data_source import KafkaesqueDataSource
from kafkaesque.spark.intervals import among, at_least, at_most
from kafkaesque.spark.log_offsets import list_offsets
from kafkaesque.spark.offsets import Offsets
from kafkaesque.spark.ranges import OffsetRange
from kafkaesque.spark.source import RangePartition
from kafkaesque.spark.tables import arrow_schema, read_tables
from kafkaesque.spark.where import Where
from tests.clients.kafka_helpers import Sent, TopicMaker, produce, unique
from tests.waiting import DEADLINE_S

Reader = Callable[..., Any]

START_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
START_US = 1000 * START_MS
PARTITIONS = 3
#: Batches of a partition, each of so many records.
BATCHES, RECORDS = 6, 10
TIMES_MS = 40
#: Of each table.
CONDITIONS = 20


@pytest.fixture(scope="module")
def mixed(topic_maker: TopicMaker, bootstrap_servers: str) -> str:
    """A topic whose timestamps go back and forth, also over its batches; every third is aborted."""
    topic = topic_maker("mixed", partitions=PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": unique("mixed")}
    )
    producer.init_transactions(DEADLINE_S)
    dice = random.Random(5)
    for batch in range(BATCHES):
        producer.begin_transaction()
        for record in range(RECORDS):
            for partition in range(PARTITIONS):
                time_ms = START_MS + dice.randrange(5 * batch, TIMES_MS)
                value = b"%d-%d-%d" % (partition, batch, record)
                producer.produce(topic, value, partition=partition, timestamp=time_ms)
        producer.flush(DEADLINE_S)
        if batch % 3 == 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    return topic


def a_time(dice: random.Random) -> str:
    """Return a time at about those of the records, or far away."""
    at_us = dice.randrange(-2000, 1000 * TIMES_MS + 2000, 500)
    seconds, fraction = divmod(20_000_000 + at_us, 1_000_000)
    near = f"'2023-11-14 22:13:{seconds:02}.{fraction:06}Z'"
    return dice.choice([near] * 8 + ["'1969-01-01 00:00:00Z'", "'2999-01-01 00:00:00+01:00'"])


def a_partition(dice: random.Random) -> str:
    return str(dice.randrange(-1, PARTITIONS + 1))


def an_offset(dice: random.Random) -> str:
    return str(dice.choice([*range(-2, 70, 3), *range(8, 24), 10**9, 2**63 - 1]))


def a_comparison(dice: random.Random) -> str:
    column = dice.choice(["partition", "offset", "timestamp", "timestamp"])
    literal = partial({"partition": a_partition, "offset": an_offset}.get(column, a_time), dice)
    match dice.randrange(5):
        case 0:
            return f"{column} {dice.choice(['', 'not '])}between {literal()} and {literal()}"
        case 1:
            few = ", ".join(literal() for _ in range(dice.randrange(1, 12)))
            return f"{column} {dice.choice(['', 'not '])}in ({few})"
        case 2:
            return f"{column} {dice.choice(['!=', '='])} {literal()}"
        case _:
            return f"{column} {dice.choice(['<', '<=', '>', '>='])} {literal()}"


#: With each, the table is another one; in turn.
OTHER_OPTIONS: list[dict[str, Any]] = [
    {},
    {"columns": "value"},
    {"minPartitions": "8", "columns": "timestamp,value"},
    {"maxRecordsPerPartition": "7", "includeHeaders": "true"},
    {"kafka.isolation.level": "read_uncommitted", "columns": "value,offset"},
    {"startingOffsets": {"0": 15, "1": -2, "2": 40}, "endingOffsets": {"0": 50, "1": 33, "2": -1}},
    {"startingTimestamp": str(START_MS + 12)},
]


class Fetched:
    """What a table's reader asks, plans and decodes; Spark only reads the schema."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        #: Batches of the last table that were decoded, and its offsets that were planned.
        self.decoded = 0
        self.planned: Counter[int] = Counter()
        #: Partitions whose leaders were asked for its offsets.
        self.asked: set[int] = set()
        append = ColumnBuilder.append

        def counting(*args: Any, **named: Any) -> None:
            self.decoded += 1
            append(*args, **named)

        def noting(cluster: Cluster, wanted: Offsets, **named: Any) -> Offsets:
            self.asked |= {partition for _, partition in wanted}
            return list_offsets(cluster, wanted, **named)

        monkeypatch.setattr(ColumnBuilder, "append", counting)
        monkeypatch.setattr(subscription, "list_offsets", noting)

    def table(self, topic: str, where: str, **more: str) -> Any:
        """Return the rows as Arrow's table, as the tasks have them."""
        self.decoded = 0
        self.planned.clear()
        self.asked.clear()
        options = {"kafka.bootstrap.servers": self._servers, "subscribe": topic, "where": where}
        source = KafkaesqueDataSource({**options, **more})
        schema = _parse_datatype_string(source.schema())
        assert isinstance(schema, StructType)
        reader = source.reader(schema)
        found: list[Any] = []
        for task in reader.partitions():
            assert isinstance(task, RangePartition)
            for each in task.wanted:
                self.planned[each.partition] += each.size
            found += reader.read(task)
        assert all(batch.num_rows for batch in found)
        names = [field.name for field in schema.fields]
        return pyarrow.Table.from_batches(found, arrow_schema(names))

    def read(self, topic: str, where: str, **more: str) -> tuple[dict[int, int], list[int]]:
        """Return how many offsets of each partition are read, and the rows' offsets."""
        table = self.table(topic, where, columns="offset", **more)
        return dict(self.planned), sorted(table.column("offset").to_pylist())


@pytest.fixture
def fetched(spark: Any, monkeypatch: pytest.MonkeyPatch, bootstrap_servers: str) -> Fetched:
    return Fetched(monkeypatch, bootstrap_servers)


def test_a_condition_leaves_what_sparks_own_leaves(
    read: Reader, mixed: str, fetched: Fetched
) -> None:
    dice = random.Random(2026)
    conditions = {
        number: [
            " and ".join(a_comparison(dice) for _ in range(dice.randrange(1, 4)))
            for _ in range(CONDITIONS)
        ]
        for number in range(len(OTHER_OPTIONS))
    }
    tables, options = [], []
    for number, other in enumerate(OTHER_OPTIONS):
        given = {
            name: json.dumps({mixed: value}) if isinstance(value, dict) else value
            for name, value in other.items()
        }
        options.append(dict(given))
        given.pop("columns", None)
        met = [f"({condition}) AS c{at}" for at, condition in enumerate(conditions[number])]
        rows = read(subscribe=mixed, **given)
        tables.append(rows.selectExpr("value", f"{number} AS n", *met))
    wanted: dict[tuple[int, int], Counter[bytes]] = defaultdict(Counter)
    for row in reduce(lambda one, two: one.union(two), tables).collect():
        for at in range(CONDITIONS):
            wanted[row.n, at][bytes(row.value)] += row[f"c{at}"]
    assert sum(bool(+each) for each in wanted.values()) > len(wanted) / 2
    for (number, at), values in wanted.items():
        condition = conditions[number][at]
        found = fetched.table(mixed, condition, **options[number])
        assert Counter(found.column("value").to_pylist()) == +values, (condition, options[number])


def test_all_uses_of_a_table_have_the_same_records(spark: Any, read: Reader, mixed: str) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    try:
        condition = "partition in (0, 2) and offset between 3 and 14"
        options = {"subscribe": mixed, "includeHeaders": "true", "minPartitions": "4"}
        table, every = read(where=condition, **options), read(**options)
        uses = table.where("partition = 0").union(table.where("partition = 2")).union(table)
        wanted = sorted(every.where(condition).collect() * 2)
        assert len(wanted) > 0
        assert sorted(uses.collect()) == wanted
    finally:
        spark.conf.set(name, before)


def test_only_what_can_match_is_fetched_and_decoded(
    make_topic: TopicMaker, bootstrap_servers: str, fetched: Fetched
) -> None:
    topic = make_topic(partitions=2)
    for batch in (0, 2, 1, 3):
        first_ms = START_MS + 100 * batch
        sent = [
            Sent(value=b"v", partition=part, timestamp_ms=first_ms + at)
            for at in (5, 0, 9)
            for part in range(2)
        ]
        produce(bootstrap_servers, topic, sent, linger_ms=200)
    # In each partition the times 5, 0, 9, 205, 200, 209, 105, 100, 109, 305, 300, 309.
    assert fetched.read(topic, "partition = 1 and offset < 8") == ({1: 8}, list(range(8)))
    assert fetched.asked == {1}
    assert fetched.read(topic, "partition > 1") == ({}, [])
    assert fetched.asked == set()
    assert fetched.read(topic, "partition = 0 and offset in (0, 7, 11)")[1] == [0, 7, 11]
    assert fetched.decoded == 3
    assert fetched.read(topic, "offset >= 9 and partition=0 and offset < 99") == (
        {0: 3},
        [9, 10, 11],
    )
    late = f"partition = 0 and timestamp >= {START_MS + 105}"
    assert fetched.read(topic, late) == ({0: 9}, [3, 4, 5, 6, 8, 9, 10, 11])
    assert fetched.read(topic, f"{late} and timestamp < {START_MS + 107}") == ({0: 9}, [6])
    early = f"partition = 0 and timestamp <= {START_MS + 100}"
    assert fetched.read(topic, early) == ({0: 12}, [0, 1, 2, 7])
    assert fetched.read(topic, f"partition = 0 and timestamp >= {START_MS + 209}")[1] == [
        5,
        9,
        10,
        11,
    ]
    assert fetched.decoded == 2
    assert fetched.read(topic, f"timestamp > {START_MS + 309}") == ({}, [])
    assert fetched.read(topic, f"timestamp > {START_MS} and timestamp < {START_MS}") == ({}, [])
    # Of partitions that are left out nothing is asked; the other options name them as ever.
    for option, at, left in (
        ("startingOffsets", 4, range(4, 12)),
        ("startingOffsetsByTimestamp", START_MS + 200, range(3, 12)),
        ("endingOffsets", 4, range(4)),
        ("endingOffsetsByTimestamp", START_MS + 200, range(3)),
    ):
        named = {option: json.dumps({topic: {"0": at, "1": 2**62}})}
        found = fetched.read(topic, f"partition = 0 and timestamp >= {START_MS}", **named)
        assert found == ({0: len(left)}, list(left))
        assert fetched.asked == {0}


def test_records_with_the_brokers_time_have_that_of_their_batch(
    read: Reader, make_topic: TopicMaker, bootstrap_servers: str, fetched: Fetched
) -> None:
    topic = make_topic(partitions=1, message_timestamp_type="LogAppendTime")
    for _ in range(3):
        sent = [Sent(value=b"v", timestamp_ms=START_MS + at) for at in range(2)]
        produce(bootstrap_servers, topic, sent, linger_ms=200)
    times = [row[0] for row in read(subscribe=topic).selectExpr("unix_millis(timestamp)").collect()]
    wanted = [at for at in range(6) if times[at] == times[2]]
    assert fetched.read(topic, f"timestamp = {times[2]}")[1] == wanted
    assert fetched.decoded == len(wanted) // 2
    assert fetched.read(topic, f"timestamp < {times[0]}")[1] == []
    assert fetched.decoded == 0
    assert fetched.read(topic, f"timestamp < {START_MS + 9}")[1] == []


@pytest.mark.parametrize(
    ("options", "times_ms"),
    [
        # As compaction leaves it: with gaps, and with a base timestamp that is later than all.
        (BatchOptions(delete_horizon_ms=START_MS + 9999, base_offset=0, last_offset=99), [5, 9, 1]),
        (BatchOptions(), [2**62, 5, 2**63 - 1]),
        (BatchOptions(), [-1, -1, -1]),
        (BatchOptions(), [-(2**62), -(2**62), -(2**62)]),
        (BatchOptions(append_time_ms=START_MS), [5, 9, 1]),
        (BatchOptions(append_time_ms=2**62), [5, 9, 1]),
    ],
    ids=["compacted", "late", "unset", "early", "brokers", "brokers-late"],
)
def test_whatever_times_a_batch_has_a_row_is_there_if_its_time_is_wanted(
    options: BatchOptions, times_ms: list[int]
) -> None:
    rows = [Record(10 * at, time, None, b"v") for at, time in enumerate(times_ms)]
    log = memoryview(encode_batch(rows, options))
    batches = [(log, each, 0) for each in scan_batches(log).batches]
    wanted = OffsetRange("topic", 0, 0, 100)

    def read(where: Where) -> list[tuple[int, int]]:
        found = pyarrow.Table.from_batches(
            read_tables(batches, ("offset", "timestamp"), wanted, where=where),
            arrow_schema(("offset", "timestamp")),
        )
        columns = found.column("offset"), found.column("timestamp").cast(pyarrow.int64())
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    every = read(Where())
    assert [offset for offset, _ in every] == [0, 10, 20]
    for edge in {time for _, time in every}:
        pair = among([edge - 1, edge])
        for numbers in (pair, among([edge]), ~among([edge]), at_least(edge), at_most(edge - 1)):
            assert read(Where(timestamp=numbers)) == [each for each in every if each[1] in numbers]
            where = Where(timestamp=numbers, offset=among([0, 20]))
            assert read(where) == [each for each in read(Where(timestamp=numbers)) if each[0] != 10]


def test_what_is_not_understood_is_told_when_the_table_is_loaded(read: Reader, mixed: str) -> None:
    with pytest.raises(AnalysisException, match="the option where does not understand 'value'"):
        read(subscribe=mixed, where="value = 5")
