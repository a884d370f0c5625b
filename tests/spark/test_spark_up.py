"""`kafkaesque spark up`: a real cluster from the installed package, which leaves nothing running.

It runs on the Java that the extra brings, as where the system has none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.cli.exit_codes import FAILED, OK
from kafkaesque.spark.java import make_java_home
from tests.clients.kafka_helpers import Sent, TopicMaker, consume, produce
from tests.spark.pipelines.commands import Project, children_of, command, is_running, run_command
from tests.spark.query_process import WAIT_S, running, wait_until
from tests.waiting import eventually

WORKERS = 2
PARTITIONS = 3
RECORDS = 900
EXECUTORS = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}


@dataclass(kw_only=True)
class Up:
    """The command and what it has said."""

    process: subprocess.Popen[str]
    said: IO[str]
    ready: dict[str, Any]
    logs: Path

    @property
    def pids(self) -> list[int]:
        found: list[int] = list(self.ready["pids"].values())
        return found


@contextmanager
def up(folder: Path) -> Iterator[Up]:
    (port,) = unused_ports(1)
    words = ("--workers", str(WORKERS), "--port", str(port), "--logs", str(folder / "logs"))
    process = subprocess.Popen(
        command("spark", "up", *words, "--json"),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAVA_HOME": str(make_java_home(folder / "java"))},
    )
    said = process.stdout
    assert said is not None
    try:
        line = said.readline()
        assert line, "it ended before it was ready"
        yield Up(process=process, said=said, ready=json.loads(line), logs=folder / "logs")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        said.close()


@pytest.fixture(scope="module")
def cluster_of_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A cluster that tests share; Ctrl-C ends it in the end, and nothing is left running."""
    with up(tmp_path_factory.mktemp("up")) as cluster:
        assert cluster.ready["event"] == "ready"
        yield cluster
        pids = [each for pid in cluster.pids for each in [pid, *children_of(pid)]]
        cluster.process.send_signal(signal.SIGINT)
        assert cluster.process.wait(60) == OK
        assert json.loads(cluster.said.read()) == {"event": "stopped"}
        assert not [pid for pid in pids if is_running(pid)]


@dataclass(frozen=True, kw_only=True)
class Topics:
    """From one to the other."""

    source: str
    sink: str


@pytest.fixture
def topics(make_topic: TopicMaker, bootstrap_servers: str) -> Topics:
    source, sink = make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)
    sent = [Sent(value=b"word %d" % each, partition=each % PARTITIONS) for each in range(RECORDS)]
    produce(bootstrap_servers, source, sent)
    return Topics(source=source, sink=sink)


def check_copies(bootstrap_servers: str, sink: str) -> None:
    found = consume(bootstrap_servers, sink, RECORDS, isolation_level="read_committed", at_rest_s=2)
    assert Counter(message.value() for message in found) == Counter(
        b"copy of word %d" % each for each in range(RECORDS)
    )


@pytest.mark.timeout(600)
def test_a_batch_query_on_its_workers(
    cluster_of_spark: Up, topics: Topics, bootstrap_servers: str, tmp_path: Path
) -> None:
    log = tmp_path / "query.log"
    arguments = [bootstrap_servers, topics.source, topics.sink, cluster_of_spark.ready["master"]]
    with running(arguments, log, "tests.spark.batch_app") as process:
        assert process.wait(WAIT_S) == 0, log.read_text()[-4000:]
    check_copies(bootstrap_servers, topics.sink)


@pytest.mark.timeout(600)
def test_a_stream_on_its_workers_is_killed_and_run_again(
    cluster_of_spark: Up, topics: Topics, bootstrap_servers: str, tmp_path: Path
) -> None:
    log = tmp_path / "query.log"
    places = (bootstrap_servers, topics.source, topics.sink, str(tmp_path / "checkpoint"))
    arguments = [*places, cluster_of_spark.ready["master"]]
    with running(arguments, log) as process:
        wait_until(process, log, bootstrap_servers, topics.sink, PARTITIONS, 1)
    with running(arguments, log) as process:
        wait_until(process, log, bootstrap_servers, topics.sink, PARTITIONS, RECORDS)
        check_copies(bootstrap_servers, topics.sink)


@pytest.mark.timeout(1200)
def test_a_pipeline_runs_on_its_workers(
    cluster_of_spark: Up, topics: Topics, bootstrap_servers: str, tmp_path: Path
) -> None:
    project = Project.make(tmp_path / "project", bootstrap_servers, topics.source, topics.sink)
    project.where = ("--master", cluster_of_spark.ready["master"])
    project.settings |= EXECUTORS
    flows = project.run()
    assert (flows["shout"]["rows_in"], flows["shout"]["rows_out"]) == (RECORDS, RECORDS)
    assert project.written() == Counter(b"WORD %d" % each for each in range(RECORDS))
    for number in range(1, WORKERS + 1):
        folder = cluster_of_spark.logs / f"worker-{number}"
        assert list(folder.glob("app-*/*/stderr")), f"worker {number} had no executor"
    _refuse_a_python_that_lacks_kafkaesque(project, tmp_path)


def _refuse_a_python_that_lacks_kafkaesque(project: Project, folder: Path) -> None:
    """The executors' Python is asked, not the driver's."""
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={folder / "old"}:$PYTHONPATH exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    (folder / "old" / "kafkaesque").mkdir(parents=True)
    (folder / "old" / "kafkaesque" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    project.settings["spark.pyspark.python"] = str(python)
    done = project.call("run")
    assert "error: the Python of Spark's workers has kafkaesque 0.0.1, and this is" in done.stderr
    assert done.returncode == FAILED


@pytest.mark.timeout(600)
def test_its_workers_end_with_it_when_it_is_killed(tmp_path: Path) -> None:
    with up(tmp_path) as cluster:
        pids = cluster.pids
        assert len(pids) == 1 + WORKERS
        assert all(is_running(pid) for pid in pids)
        cluster.process.kill()
        cluster.process.wait()
        eventually(lambda: not any(map(is_running, pids)), "all processes are gone")


def test_a_port_that_is_taken(bootstrap_servers: str) -> None:
    port = bootstrap_servers.partition(",")[0].rpartition(":")[2]
    done = run_command("spark", "up", "--port", port)
    assert done.stderr == f"error: port {port} of 127.0.0.1 is taken: choose another by --port\n"
    assert done.returncode == FAILED
