"""Exactly once through kills: driver, workers and brokers die, and each record arrives once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import DEADLINE_S, Sent, TopicMaker, consume, produce, unique

APP = Path(__file__).with_name("copy_app.py")
RECORDS = 6000
PARTITIONS = 3
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
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.getcwd()},
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def committed_count(bootstrap_servers: str, topic: str) -> int:
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
            for each in range(PARTITIONS)
        )
    finally:
        consumer.close()


def wait_until(
    process: subprocess.Popen[bytes], log: Path, bootstrap_servers: str, topic: str, count: int
) -> None:
    deadline = time.monotonic() + WAIT_S
    while committed_count(bootstrap_servers, topic) < count:
        assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, f"not {count} records\n{log.read_text()[-4000:]}"
        time.sleep(0.1)


def test_each_record_arrives_once_whatever_is_killed(tmp_path: Path) -> None:
    dice = random.Random(7)
    log = tmp_path / "query.log"
    with KafkaesqueCluster(brokers=3, directory=tmp_path) as brokers:
        addresses = brokers.bootstrap_servers
        make = TopicMaker(addresses)
        source, sink = make(partitions=PARTITIONS), make(partitions=PARTITIONS)
        produce(
            addresses,
            source,
            [
                Sent(value=b"%d" % n, key=b"%d" % n if n % 2 else None, partition=n % PARTITIONS)
                for n in range(RECORDS)
            ],
        )
        arguments = [addresses, source, sink, str(tmp_path / "checkpoint")]
        for round_number in range(3):
            before = committed_count(addresses, sink)
            with running(arguments, log) as process:
                wait_until(process, log, addresses, sink, before + 1)
                if round_number == 1:
                    broker = dice.choice(brokers.brokers)
                    broker.kill()
                    time.sleep(dice.uniform(0.1, 1.0))
                    broker.start()
                    brokers.wait_until_ready()
                time.sleep(dice.uniform(0.0, 0.6))
        assert committed_count(addresses, sink) < RECORDS, "the kills came too late"
        with running(arguments, log) as process:
            wait_until(process, log, addresses, sink, RECORDS)
            messages = consume(
                addresses, sink, RECORDS, isolation_level="read_committed", at_rest_s=3.0
            )
    found = Counter(message.value() for message in messages)
    assert found == Counter(b"copy of %d" % number for number in range(RECORDS))
