"""On a standalone cluster: a master and two workers, one of which is killed in the midst."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.spark.java import ensure_java
from tests.clients.kafka_helpers import Sent, TopicMaker, consume, produce
from tests.spark.query_process import running, wait_until
from tests.waiting import eventually

RECORDS = 3000
PARTITIONS = 3


class Standalone:
    """A master and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._folder = folder
        self._class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.port, self._ui = unused_ports(2)
        self.url = f"spark://127.0.0.1:{self.port}"

    def _start(self, name: str, *words: str) -> None:
        package = "org.apache.spark.deploy"
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            self.processes.append(
                subprocess.Popen(
                    [self._class, f"{package}.{words[0]}", *words[1:]],
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
                )
            )

    def start(self, workers: int) -> None:
        self._start(
            "master",
            "master.Master",
            *("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self._ui)),
        )
        for number in range(workers):
            work = str(self._folder / f"work-{number}")
            sizes = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", work)
            self._start(f"worker-{number}", "worker.Worker", *sizes, self.url)
        log = self._folder / "master.log"
        eventually(
            lambda: log.read_text().count("Registering worker") == workers,
            "all workers registered",
            seconds=90,
        )

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    ensure_java()
    cluster = Standalone(tmp_path)
    try:
        cluster.start(workers=2)
        yield cluster
    finally:
        cluster.close()


def test_a_worker_is_killed_and_each_record_arrives_once(
    standalone: Standalone, make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)
    sent = [Sent(value=b"%d" % n, partition=n % PARTITIONS) for n in range(RECORDS)]
    produce(bootstrap_servers, source, sent)
    log = tmp_path / "query.log"
    arguments = [bootstrap_servers, source, sink, str(tmp_path / "checkpoint"), standalone.url]
    with running(arguments, log) as process:
        wait_until(process, log, bootstrap_servers, sink, PARTITIONS, 1)
        # The worker's executor dies with it: it is of its process group, or misses its worker.
        os.killpg(standalone.processes[-1].pid, signal.SIGKILL)
        wait_until(process, log, bootstrap_servers, sink, PARTITIONS, RECORDS)
        found = consume(
            bootstrap_servers, sink, RECORDS, isolation_level="read_committed", at_rest_s=3.0
        )
    assert Counter(message.value() for message in found) == Counter(
        b"copy of %d" % number for number in range(RECORDS)
    )
