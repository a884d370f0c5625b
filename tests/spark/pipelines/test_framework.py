"""Projects are run once and continuously, killed and run again: each result is there once."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.cli.exit_codes import INTERRUPTED, OK
from kafkaesque.spark.pipelines.run_record import is_locked
from tests.clients.kafka_helpers import Sent, TopicMaker, produce
from tests.spark.pipelines.commands import Project, children_of, is_running
from tests.waiting import eventually

PARTITIONS = 3
#: A run ends within seconds of Ctrl-C where nothing else keeps the machine busy.
STOPPED_S_MAX = 240
WORDS, COUNTS = "spark_catalog.default.words", "spark_catalog.default.counts"
FIRST = "spark_catalog.default.first"
VIEWS = """
@dp.temporary_view
def heard() -> DataFrame:
    return (
        spark.readStream.format("kafkaesque")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source_topic)
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.materialized_view
def first() -> DataFrame:
    return (
        spark.read.format("kafkaesque")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source_topic)
        .option("where", "partition = 1 and offset < 3")
        .option("endingOffsets", "latest")
        .load()
        .selectExpr("cast(value AS string) AS word")
    )
"""
SQL = """
-- Tables; the names have a ; and the word AS in comments and texts only.
CREATE STREAMING TABLE words COMMENT 'as they came; all' AS
SELECT CAST(value AS STRING) AS word, `partition`, `offset` FROM STREAM heard;

CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS rows, count(DISTINCT word) AS words FROM words
"""


@pytest.fixture
def project(tmp_path: Path, make_topic: TopicMaker, bootstrap_servers: str) -> Project:
    source, sink = make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)
    return Project.make(tmp_path / "project", bootstrap_servers, source, sink)


def publish(project: Project, numbers: range) -> None:
    sent = [Sent(value=b"word %d" % each, partition=each % PARTITIONS) for each in numbers]
    produce(project.bootstrap_servers, project.source, sent)


def results(numbers: range) -> Counter[bytes]:
    return Counter(b"WORD %d" % each for each in numbers)


def rows_of(project: Project, table: str) -> list[dict[str, Any]]:
    """Read a table's files as the list of its micro-batches has them, or all where it has none."""
    import pyarrow.parquet

    folder = project.folder / "storage" / "warehouse" / table
    log = folder / "_spark_metadata"
    if log.is_dir():
        batches = sorted(
            (path for path in log.iterdir() if path.name.isdigit()), key=lambda p: p.name
        )
        lines = [line for batch in batches for line in batch.read_text().splitlines()[1:]]
        files = [Path(json.loads(line)["path"].removeprefix("file://")) for line in lines]
    else:
        files = sorted(folder.glob("*.parquet"))
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


@pytest.mark.timeout(600)
def test_a_triggered_run_writes_what_was_published_and_ends(project: Project) -> None:
    publish(project, range(100))
    flows = project.run()
    assert flows["shout"]["state"] == "completed"
    assert (flows["shout"]["rows_in"], flows["shout"]["lag"]) == (100, 0)
    assert project.written() == results(range(100))
    assert not is_locked(project.folder / "storage")


@pytest.mark.timeout(1500)
def test_each_run_goes_on_where_the_last_one_of_either_kind_stopped(project: Project) -> None:
    project.flows_file.write_text(project.flows_file.read_text() + VIEWS)
    (project.flows_file.parent / "tables.sql").write_text(SQL)
    publish(project, range(100))

    flows = project.run()
    assert {name: flow["state"] for name, flow in flows.items()} == dict.fromkeys(
        ("shout", WORDS, COUNTS, FIRST), "completed"
    )
    first = sorted(row["word"] for row in rows_of(project, "first"))
    assert first == ["word 1", "word 4", "word 7"]
    assert (flows["shout"]["rows_in"], flows["shout"]["rows_out"]) == (100, 100)
    assert (flows["shout"]["lag"], flows[WORDS]["rows_in"]) == (0, 100)
    assert flows["shout"]["batch_ms"] > 0
    assert project.written() == results(range(100))

    publish(project, range(100, 130))
    status = project.status()
    assert (status["kind"], status["state"]) == ("triggered", "completed")
    assert {flow["name"]: flow["lag_now"] for flow in status["flows"]}["shout"] == 30

    flows = project.run()
    assert (flows["shout"]["rows_in"], flows[WORDS]["rows_in"]) == (30, 30)
    assert rows_of(project, "counts") == [{"rows": 130, "words": 130}]

    publish(project, range(130, 170))
    _run_on_and_publish(project)
    assert project.written() == results(range(200))
    words = Counter(row["word"] for row in rows_of(project, "words"))
    assert words == Counter(f"word {each}" for each in range(200))

    publish(project, range(200, 210))
    flows = project.run()
    assert (flows["shout"]["rows_in"], flows[WORDS]["rows_in"]) == (10, 10)
    assert project.written() == results(range(210))
    assert rows_of(project, "counts") == [{"rows": 210, "words": 210}]


def _run_on_and_publish(project: Project) -> None:
    """Run it continuously over 130 to 169, then 170 to 199, which come while it runs."""
    with project.running("--continuous", "--views-every", "5s", "--trigger", "200ms") as process:
        project.wait_until(process, lambda: _rows_in(project) == {"shout": 40, WORDS: 40})
        publish(project, range(170, 200))
        project.wait_until(process, lambda: _rows_in(project) == {"shout": 70, WORDS: 70})
        project.wait_until(
            process, lambda: rows_of(project, "counts") == [{"rows": 200, "words": 200}]
        )
        status = project.status()
        assert (status["kind"], status["state"]) == ("continuous", "running")
        assert status["before"]["kind"] == "triggered"
        (spark,) = children_of(process.pid)
        refused = project.call("run")
        assert refused.returncode == 1
        assert f"is under way already (process {process.pid})" in refused.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == OK
    assert not is_running(spark)
    said = project.log.read_text()
    assert "shout: running, 1 batch, the last in" in said
    assert "Traceback" not in said
    assert project.status()["state"] == "stopped"


def _rows_in(project: Project) -> dict[str, int]:
    flows = project.status()["flows"]
    return {each["name"]: each["rows_in"] for each in flows if each["name"] in ("shout", WORDS)}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["triggered", "continuous"])
def test_killed_in_the_midst_and_run_again(project: Project, mode: str) -> None:
    source = '.option("startingOffsets", "earliest")'
    text = project.flows_file.read_text()
    project.flows_file.write_text(
        text.replace(source, f'{source}.option("maxOffsetsPerTrigger", "30")')
    )
    publish(project, range(3000))
    words = ("--continuous", "--trigger", "0s") if mode == "continuous" else ()
    commits = project.folder / "storage" / "_checkpoints" / "shouted" / "shout" / "0" / "commits"
    with project.running(*words) as process:
        project.wait_until(process, lambda: commits.is_dir() and len(list(commits.iterdir())) > 4)
        (spark,) = children_of(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        eventually(lambda: not is_running(spark), "Spark ends with whoever started it", seconds=90)
    assert 0 < len(project.written()) < 3000
    assert project.status()["state"] == "died"
    flows = project.run()
    assert 0 < flows["shout"]["rows_in"] < 3000
    assert project.written() == results(range(3000))


# A minute: Spark starts twice. `scripts/test` has the next one instead.
@pytest.mark.extended
@pytest.mark.timeout(900)
def test_ctrl_c_ends_a_triggered_run_and_the_next_one_goes_on(project: Project) -> None:
    source = '.option("startingOffsets", "earliest")'
    text = project.flows_file.read_text()
    project.flows_file.write_text(
        text.replace(source, f'{source}.option("maxOffsetsPerTrigger", "6")')
    )
    publish(project, range(600))
    with project.running() as process:
        running = re.compile(r"shout: running, \d+ batch")
        project.wait_until(process, lambda: bool(running.search(project.log.read_text())))
        process.send_signal(signal.SIGINT)
        assert process.wait(STOPPED_S_MAX) == INTERRUPTED
    assert "the next one continues from there" in project.log.read_text()
    assert not is_locked(project.folder / "storage")
    assert project.status()["state"] == "stopped"
    text = project.flows_file.read_text()
    project.flows_file.write_text(
        text.replace('"maxOffsetsPerTrigger", "6"', '"minPartitions", "1"')
    )
    project.run()
    assert project.written() == results(range(600))


@pytest.mark.timeout(600)
def test_ctrl_c_while_spark_starts(project: Project) -> None:
    out = project.folder / "storage" / "spark.out"
    with project.running() as process:
        # The file is there just before the process that writes it.
        project.wait_until(process, lambda: out.is_file() and children_of(process.pid) != [])
        (spark,) = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(STOPPED_S_MAX) == INTERRUPTED
    assert "error: the run was stopped before its end" in project.log.read_text()
    assert "Traceback" not in project.log.read_text()
    assert not is_running(spark)
    # What its start script had begun ends a moment later; the next run waits for that.
    eventually(lambda: not is_locked(project.folder / "storage"), "the lock is free", seconds=10)
