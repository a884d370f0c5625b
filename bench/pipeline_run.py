"""What a run of a pipeline costs beside its work: start, check, first micro-batch, stop.

    .venv/bin/python -m bench.pipeline_run [--rounds 3]

The blank template between two topics of three brokers, with ten messages for each run, `local[2]`.
Needs the extra spark, and nothing else at work on the machine.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bench.ours import Kafkaesque
from bench.run import machine
from tests.clients.kafka_helpers import TopicMaker, produce, read
from tests.spark.pipelines.commands import TIMEOUT_S, Project

MESSAGES = 10


class Seconds:
    """What the parts took, one figure per round."""

    def __init__(self) -> None:
        self.of: defaultdict[str, list[float]] = defaultdict(list)

    @contextmanager
    def of_part(self, part: str) -> Iterator[None]:
        """Keep what the block takes."""
        began = time.monotonic()
        yield
        self.of[part].append(time.monotonic() - began)
        print(f"{part}: {self.of[part][-1]:.1f} s", file=sys.stderr, flush=True)


def measure_round(project: Project, written: Consumer, seconds: Seconds) -> None:
    """Check the project, run it once, and run it on and on until something is written."""
    with seconds.of_part("dry-run: start, check, stop"):
        done = project.call("dry-run")
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-4000:])
    messages = [b"hello"] * MESSAGES
    produce(project.bootstrap_servers, project.source, messages)
    with seconds.of_part("run: start, check, micro-batch, stop"):
        project.run()
    read(written, MESSAGES, seconds=TIMEOUT_S)
    produce(project.bootstrap_servers, project.source, messages)
    began = time.monotonic()
    with project.running("--continuous") as run:
        read(written, MESSAGES, seconds=TIMEOUT_S)
        seconds.of["run --continuous: until its first records are written"].append(
            time.monotonic() - began
        )
        with seconds.of_part("run --continuous: from Ctrl-C to its end"):
            run.send_signal(signal.SIGINT)
            run.wait(TIMEOUT_S)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    os.environ["PYSPARK_PYTHON"] = sys.executable
    seconds = Seconds()
    with Kafkaesque(brokers=3) as cluster, tempfile.TemporaryDirectory() as folder:
        servers = cluster.bootstrap_servers
        make_topic = TopicMaker(servers)
        source, sink = make_topic(partitions=1), make_topic(partitions=1)
        project = Project.make(Path(folder, "project"), servers, source, sink)
        reader = {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
        written = Consumer({**reader, "isolation.level": "read_committed"})
        written.assign([TopicPartition(sink, 0, 0)])
        try:
            for _ in range(rounds):
                measure_round(project, written, seconds)
        finally:
            written.close()
    print(", ".join(f"{name} {value}" for name, value in machine().items() if value))
    print(f"\n| part | s, median of {rounds} |\n| --- | --- |")
    for part, figures in seconds.of.items():
        print(f"| {part} | {statistics.median(figures):.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
