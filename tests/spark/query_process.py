"""A query as a process of its own (`copy_app`, or another), which a test can kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.kafka_helpers import unique
from tests.waiting import DEADLINE_S

REPO = Path(__file__).parents[2]
WAIT_S = 240.0
#: A partition that is asked for its end is asked again after these.
_PASSING = (KafkaError._UNKNOWN_PARTITION, KafkaError.NOT_LEADER_FOR_PARTITION)


@contextmanager
def running(
    arguments: list[str], log: Path, app: str = "tests.spark.copy_app"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a query's module; in the end it is killed with its JVM and workers, at once."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", app, *arguments],
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd=REPO,
            # Spark's Python processes look for modules there, too.
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPO)},
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def watcher(bootstrap_servers: str) -> Iterator[Consumer]:
    """A consumer that sees what is committed, and nothing else."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique("watcher"),
            "isolation.level": "read_committed",
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def committed_count(bootstrap_servers: str, topic: str, partitions: int) -> int:
    """Return how far committed records reach, markers included."""
    with watcher(bootstrap_servers) as consumer:
        return count_committed(consumer, topic, partitions)


def count_committed(consumer: Consumer, topic: str, partitions: int) -> int:
    """The same by a consumer that is there already."""
    return sum(_end(consumer, TopicPartition(topic, each)) for each in range(partitions))


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """Return where what is committed ends.

    librdkafka, of whose consumers each is new here, says now and then that it does not know a
    partition that is there (confluent-kafka-python's issue 1043), and passes on that a broker
    leads no more: it is asked again then.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            end: int = consumer.get_watermark_offsets(partition, timeout=DEADLINE_S)[1]
            return end
        except KafkaException as raised:
            if raised.args[0].code() not in _PASSING:
                raise
            assert time.monotonic() < deadline, f"no end of {partition}"
            time.sleep(0.1)


def wait_until(
    process: subprocess.Popen[bytes],
    log: Path,
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    count: int,
) -> None:
    """Wait until so many records are committed; fails where the query ends or takes too long."""
    with watcher(bootstrap_servers) as consumer:
        wait_for(process, log, lambda: count_committed(consumer, topic, partitions), count)


def wait_for(
    process: subprocess.Popen[bytes], log: Path, done: Callable[[], int], count: int
) -> None:
    """Wait until so much is done; fails where the query ends or takes too long."""
    deadline = time.monotonic() + WAIT_S
    while done() < count:
        assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, f"not {count} records\n{log.read_text()[-4000:]}"
        time.sleep(0.05)
