"""The pipeline `archive`: tables that hold what the topics hold, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from deltalake import DeltaTable

from kafkaesque.spark.lakehouse.backfill import Backfill, start_backfill
from kafkaesque.spark.lakehouse.commit_log import read_commit_info
from kafkaesque.spark.lakehouse.compaction import compact
from kafkaesque.spark.lakehouse.table import open_table, recorded_offsets
from kafkaesque.spark.lakehouse.vacuum import vacuum
from kafkaesque.spark.pipelines.templates import copy_template
from tests.clients.kafka_helpers import Sent, TopicMaker, consume, produce
from tests.spark.pipelines.command import pipeline
from tests.spark.query_process import committed_count, running
from tests.spark.table_helpers import data_files

PARTITIONS = 3
WAIT_S = 280.0
#: Messages are of three days.
FIRST = datetime(2024, 4, 30, 23, 0, tzinfo=UTC)
#: Topic, partition, offset, time, key, value, headers.
Row = tuple[Any, ...]


def sent(count: int, start: int = 0) -> list[Sent]:
    """Return messages of all kinds: without key, without value, with headers."""
    return [
        Sent(
            value=None if number % 7 == 3 else b"value %d" % number,
            key=b"key %d" % (number % 50) if number % 3 else None,
            headers=[("number", b"%d" % number), ("none", None)] if number % 5 == 0 else None,
            timestamp_ms=int((FIRST + timedelta(minutes=3 * number)).timestamp() * 1000),
            partition=number % PARTITIONS,
        )
        for number in range(start, start + count)
    ]


def row_of(message: Message, topic: str | None = None) -> Row:
    place = (topic or str(message.topic()), message.partition(), message.offset())
    headers: Any = message.headers() or ()
    content = (message.key(), message.value(), tuple((name, value) for name, value in headers))
    return (*place, message.timestamp()[1], *content)


def in_topic(bootstrap_servers: str, topic: str, count: int) -> Counter[Row]:
    found = consume(
        bootstrap_servers, topic, count, isolation_level="read_committed", at_rest_s=0.5
    )
    return Counter(map(row_of, found))


def in_table(table: Path, version: int | None = None) -> Counter[Row]:
    """Return a table's rows as delta-rs reads them, without our own reader and without Spark."""
    found = DeltaTable(table, version=version).to_pyarrow_table()
    return Counter(map(row_of_table, found.to_pylist()))


def row_of_table(row: dict[str, Any]) -> Row:
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    time_ms = round(row["timestamp"].timestamp() * 1000)
    return (
        *(row["topic"], row["partition"], row["offset"], time_ms),
        *(row["key"], row["value"], headers),
    )


def archive(
    stream: Callable[..., Any], topics: Iterable[str], table: Path, **options: str
) -> dict[str, Any]:
    """Run a query that archives what is available; return what it says of its last micro-batch."""
    rows = stream(
        subscribe=",".join(topics),
        startingOffsets="earliest",
        includeHeaders="true",
        maxOffsetsPerTrigger="100",
    )
    checkpoint = options.pop("checkpoint", str(table.with_name("checkpoint")))
    query = (
        rows.writeStream.format("lakehouse")
        .options(path=str(table), checkpointLocation=checkpoint, **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return dict(query.lastProgress or {})


def test_the_table_has_what_the_topics_have(
    spark: Any,
    stream: Callable[..., Any],
    make_topic: TopicMaker,
    bootstrap_servers: str,
    tmp_path: Path,
) -> None:
    table, topics = tmp_path / "table", [make_topic(partitions=PARTITIONS) for _ in range(2)]
    for topic in topics:
        produce(bootstrap_servers, topic, sent(300))
    archive(stream, topics, table)
    early = open_table(str(table)).version()
    early_rows = in_table(table)
    produce(bootstrap_servers, topics[0], sent(200, start=300))
    time.sleep(0.01)
    between_ms = time.time_ns() // 1_000_000
    archive(stream, topics, table, compactEvery="2")
    everything = in_topic(bootstrap_servers, topics[0], 500)
    everything += in_topic(bootstrap_servers, topics[1], 300)
    assert in_table(table) == everything
    # The offsets of the snapshot are the topics' ends, in every one they are what is in it.
    newest = open_table(str(table)).version()
    assert recorded_offsets(str(table), newest) == {
        (topic, partition): sum(1 for row in everything if (row[0], row[1]) == (topic, partition))
        for topic in topics
        for partition in range(PARTITIONS)
    }
    kinds = [
        info.words["kafkaesque.kind"]
        for number in range(newest + 1)
        if (info := read_commit_info(str(table), number)) is not None
    ]
    assert "compact" in kinds

    def read(**options: str) -> Counter[Row]:
        found = spark.read.format("lakehouse").options(path=str(table), **options).load()
        return Counter(row_of_table(row.asDict(recursive=True)) for row in found.collect())

    assert read() == everything
    assert read(versionAsOf=str(early)) == early_rows
    assert read(timestampAsOf=str(between_ms)) == early_rows
    assert sum(early_rows.values()) == 600
    first_day = read(endingTimestamp="2024-05-01T00:00:00Z", topics=topics[0])
    assert len(first_day) == 20
    assert all(row[3] < 1_714_521_600_000 for row in first_day)
    in_sql = spark.read.format("lakehouse").load(str(table)).where("date = '2024-04-30'").count()
    assert in_sql == 40


def test_options_keep_files_from_being_opened(
    spark: Any,
    stream: Callable[..., Any],
    make_topic: TopicMaker,
    bootstrap_servers: str,
    tmp_path: Path,
) -> None:
    table, topic = tmp_path / "table", make_topic(partitions=PARTITIONS)
    produce(bootstrap_servers, topic, sent(600))
    archive(stream, [topic], table)
    for path in table.rglob("date=2024-05-02/*.parquet"):
        path.write_bytes(b"not parquet")

    def count(**options: str) -> int:
        rows = spark.read.format("lakehouse").options(path=str(table), **options).load()
        return int(rows.where("partition = 1").count())

    assert count(endingTimestamp="2024-05-02") == 167
    assert count(topics="another") == 0
    with pytest.raises(Exception, match="cannot be read"):
        count()


def die(arguments: list[str], log: Path) -> None:
    """Run the query as a process until it kills itself."""
    with running(arguments, log, "tests.spark.archive_app") as process:
        code = process.wait(WAIT_S)
    assert code == -signal.SIGKILL, log.read_text()[-4000:]


def test_each_message_once_when_the_driver_dies_beside_its_commits(
    stream: Callable[..., Any], make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    table, topic = tmp_path / "table", make_topic(partitions=PARTITIONS)
    produce(bootstrap_servers, topic, sent(700))
    log = tmp_path / "query.log"
    arguments = [bootstrap_servers, topic, str(table), str(tmp_path / "checkpoint")]
    die([*arguments, "1", "before"], log)
    # Staged, and nobody sees it.
    lost = data_files(table) - {each.path for each in _files(table)}
    assert lost
    assert sum(in_table(table).values()) == 100
    # The driver knows nothing of this commit: its micro-batch comes again.
    die([*arguments, "3", "after"], log)
    assert sum(in_table(table).values()) == 400
    archive(stream, [topic], table)
    assert in_table(table) == in_topic(bootstrap_servers, topic, 700)
    commits = Counter(
        (info.words.get("kafkaesque.query"), info.words.get("kafkaesque.batch"))
        for number in range(open_table(str(table)).version() + 1)
        if (info := read_commit_info(str(table), number)) is not None
    )
    assert set(commits.values()) == {1}
    # What the dead have left is known to be nobody's, however new it is.
    assert lost <= set(vacuum(str(table)).dead)
    assert data_files(table) == {each.path for each in _files(table)}
    assert in_table(table) == in_topic(bootstrap_servers, topic, 700)


def _files(table: Path) -> list[Any]:
    from kafkaesque.spark.lakehouse.table import file_entries

    return file_entries(open_table(str(table)))


def test_compaction_and_vacuum_beside_a_running_query(
    stream: Callable[..., Any], make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    table, topic = tmp_path / "table", make_topic(partitions=PARTITIONS)
    produce(bootstrap_servers, topic, sent(1500))
    stop, failures, joined = threading.Event(), [], []

    def maintain() -> None:
        while not stop.is_set():
            if (table / "_delta_log").exists():
                try:
                    joined.append(compact(str(table), file_bytes=1 << 27).files_before)
                    vacuum(str(table))
                except Exception as error:
                    failures.append(error)
            time.sleep(0.05)

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        archive(stream, [topic], table)
    finally:
        stop.set()
        thread.join()
    assert failures == []
    assert sum(joined) > 10
    assert in_table(table) == in_topic(bootstrap_servers, topic, 1500)


def test_another_query_of_the_same_topic_is_refused_in_one_sentence(
    stream: Callable[..., Any], make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    table, topic = tmp_path / "table", make_topic(partitions=PARTITIONS)
    produce(bootstrap_servers, topic, sent(30))
    archive(stream, [topic], table)
    with pytest.raises(Exception, match=f"{topic}-0 is archived until offset 10, and query"):
        archive(stream, [topic], table, checkpoint=str(tmp_path / "another"))
    # As it says: from where the table ends it may go on.
    produce(bootstrap_servers, topic, sent(30, start=30))
    ends = recorded_offsets(str(table), open_table(str(table)).version())
    starts = json.dumps({topic: {str(partition): end for (_, partition), end in ends.items()}})
    rows = stream(subscribe=topic, startingOffsets=starts, includeHeaders="true")
    rows.writeStream.format("lakehouse").options(
        path=str(table), checkpointLocation=str(tmp_path / "third")
    ).trigger(availableNow=True).start().awaitTermination()
    assert in_table(table) == in_topic(bootstrap_servers, topic, 60)


def test_a_table_written_by_a_batch_is_written_once(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "table"
    rows = spark.range(100).selectExpr("id", "cast(id % 3 AS string) AS kind")
    for _ in range(2):
        rows.write.format("lakehouse").mode("append").options(
            path=str(table), partitionBy="kind", txnAppId="load", txnVersion="7"
        ).save()
    assert sorted(DeltaTable(table).to_pyarrow_table().column("id").to_pylist()) == list(range(100))
    wider = rows.selectExpr("id + 100 AS id", "kind", "'x' AS more")
    with pytest.raises(Exception, match="lacks the columns more: mergeSchema=true"):
        wider.write.format("lakehouse").mode("append").save(str(table))
    wider.write.format("lakehouse").mode("append").option("mergeSchema", "true").save(str(table))
    found = spark.read.format("lakehouse").load(str(table))
    assert found.where("more IS NULL").count() == found.where("more = 'x'").count() == 100
    with pytest.raises(Exception, match="cannot be overwritten, only appended to"):
        rows.write.format("lakehouse").mode("overwrite").save(str(table))


def test_a_backfill_sends_what_was_archived_as_it_was(
    spark: Any,
    stream: Callable[..., Any],
    make_topic: TopicMaker,
    bootstrap_servers: str,
    tmp_path: Path,
) -> None:
    table, source = tmp_path / "table", make_topic(partitions=PARTITIONS)
    target = make_topic(partitions=PARTITIONS)
    produce(bootstrap_servers, source, sent(600))
    archive(stream, [source], table)
    compact(str(table), file_bytes=1 << 27)

    def fill(request: Backfill) -> None:
        start_backfill(
            spark,
            request,
            name=request.default_name(),
            bootstrap_servers=bootstrap_servers,
            offsets_max=100,
        ).awaitTermination()

    whole = Backfill(path=str(table), topic=source, to_topic=target, cluster_id="x")
    fill(whole)
    # The same request once more sends nothing.
    fill(whole)
    found = consume(bootstrap_servers, target, 600, isolation_level="read_committed", at_rest_s=1)
    assert _without_offsets(map(row_of, found)) == _without_offsets(
        in_topic(bootstrap_servers, source, 600)
    )
    for partition in range(PARTITIONS):
        times = [each.timestamp()[1] for each in found if each.partition() == partition]
        assert times == sorted(times)
    # A range of time, to the partitions of the keys.
    part = make_topic(partitions=5)
    start, end = "2024-05-01T00:00:00+00:00", "2024-05-01T01:00:00+00:00"
    fill(
        Backfill(
            path=str(table),
            topic=source,
            to_topic=part,
            cluster_id="x",
            start=start,
            end=end,
            keeps_partitions=False,
        )
    )
    times_ms = [each.timestamp()[1] for each in consume(bootstrap_servers, part, 20, at_rest_s=1)]
    first_ms = int(datetime.fromisoformat(start).timestamp() * 1000)
    assert sorted(times_ms) == [first_ms + 180_000 * each for each in range(20)]


def _without_offsets(rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    return Counter((row[1], *row[3:]) for row in rows)


def test_a_backfill_that_is_killed_goes_on_where_it_was(
    stream: Callable[..., Any], make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    table, source = tmp_path / "table", make_topic(partitions=PARTITIONS)
    target = make_topic(partitions=PARTITIONS)
    produce(bootstrap_servers, source, sent(400))
    archive(stream, [source], table)
    words = [sys.executable, "-m", "kafkaesque.cli.app", "archive", "backfill", str(table)]
    words += ["--topic", source, "--to", target, "--bootstrap-server", bootstrap_servers]
    words += ["--master", "local[2]", "--batch", "30"]
    log = tmp_path / "backfill.log"
    before = 0
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True)
        try:
            deadline = time.monotonic() + WAIT_S
            # So many that the checkpoint knows of some.
            while (before := committed_count(bootstrap_servers, target, PARTITIONS)) < 100:
                assert process.poll() is None, log.read_text()[-4000:]
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert before < 400, "the kill came too late"
    done = subprocess.run(
        [*words, "--json"], capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert 0 < json.loads(done.stdout)["rows"] < 400
    found = consume(bootstrap_servers, target, 400, isolation_level="read_committed", at_rest_s=1)
    expected = consume(bootstrap_servers, source, 400)
    assert _without_offsets(map(row_of, found)) == _without_offsets(map(row_of, expected))


def test_the_project_archives_what_is_new_with_every_run(
    make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    project, topics = tmp_path / "archive", [make_topic(partitions=PARTITIONS) for _ in range(2)]
    copy_template("archive", project)
    conf = {
        "kafkaesque.bootstrap.servers": bootstrap_servers,
        "kafkaesque.archive.topics": ",".join(topics),
    }
    for start in (0, 50):
        for topic in topics:
            produce(bootstrap_servers, topic, sent(50, start=start))
        done = pipeline("run", project, conf)
        assert done.returncode == 0, done.stderr[-4000:]
    everything: Counter[Row] = Counter()
    for topic in topics:
        everything += in_topic(bootstrap_servers, topic, 100)
    assert in_table(project / "archive") == everything
