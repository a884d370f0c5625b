"""A query as a process of its own (`copy_app.py`), which a test can kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.clients.kafka_helpers import DEADLINE_S, unique

APP = Path(__file__).with_name("copy_app.py")
WAIT_S = 120.0


@contextmanager
def running(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the query; in the end it is killed with its JVM and workers, at once."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, str(APP), *arguments],
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def committed_count(bootstrap_servers: str, topic: str, partitions: int) -> int:
    """Return how far committed records reach, markers included."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique("watcher"),
            "isolation.level": "read_committed",
        }
    )
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=DEADLINE_S)[1]
            for each in range(partitions)
        )
    finally:
        consumer.close()


def wait_until(
    process: subprocess.Popen[bytes],
    log: Path,
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    count: int,
) -> None:
    """Wait until so many records are committed; fails where the query ends or takes too long."""
    deadline = time.monotonic() + WAIT_S
    while committed_count(bootstrap_servers, topic, partitions) < count:
        assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, f"not {count} records\n{log.read_text()[-4000:]}"
        time.sleep(0.1)
