"""What the compaction of a topic does to whoever produces to the same broker meanwhile.

    .venv/bin/python -m bench.compaction_beside [MiB of input] [rounds]

One broker. In each round a compacted topic is written of which one record in ten is live, while
compaction is switched off. Then a producer is measured on a topic of its own: from the moment at
which compaction is switched on, and without it, the one or the other first in turns. Before each,
the device has written what it was given: otherwise the second always pays for the first. Single
rounds differ by a quarter even without compaction, so only medians say something. The broker's loop
and the worker process share the machine's cores with the load: it depends on how many there are.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.load import Load
from bench.ours import Kafkaesque

MIB = 1024 * 1024
INPUT_MIB = 1024
RECORD_BYTES = 1000
LIVE_PART = 0.1
SEGMENT_MIB = 64
#: The load beside: a rate that leaves the broker time, and as much as goes.
RATE = 5_000
SECONDS = 5
ROUNDS = 5
WAIT_S_MAX = 600
OPTIONS = {"log.cleaner.backoff.ms": "100", "log.cleaner.enable": "false"}


class Round(NamedTuple):
    """What was measured in one round: the compaction's speed, and the load's figures."""

    mb_per_s: float
    alone: dict[str, float]
    beside: dict[str, float]


class Bench:
    """A broker, and what is done to it."""

    def __init__(self, cluster: Kafkaesque, size: int) -> None:
        self._cluster = cluster
        self._size = size
        self._servers = cluster.bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": self._servers})
        self._count = 0

    @contextmanager
    def topic(self, **configs: str) -> Iterator[str]:
        """Make a topic, and delete it."""
        self._count += 1
        name = f"topic-{self._count}"
        config = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, 1, 1, config=config)
        self._admin.create_topics([topic])[name].result()
        try:
            yield name
        finally:
            self._admin.delete_topics([name])[name].result()

    def fill(self, topic: str) -> None:
        """Write the table's history."""
        chance = random.Random(1)
        keys = int(self._size / RECORD_BYTES * LIVE_PART)
        value = chance.randbytes(RECORD_BYTES - 16)
        producer = Producer(
            {"bootstrap.servers": self._servers, "queue.buffering.max.kbytes": 65536}
        )
        for _ in range(self._size // RECORD_BYTES):
            key = b"%016d" % chance.randrange(keys)
            while True:
                try:
                    producer.produce(topic, key=key, value=value)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.flush(WAIT_S_MAX)

    def used(self, topic: str) -> int:
        """Return the bytes of a topic's segments."""
        home = self._cluster.brokers[0].log_path.parent / "data" / f"{topic}-0"
        return sum(_size(path) for path in home.glob("*.log"))

    def switch(self, is_on: bool) -> None:
        """Let compaction run, or not."""
        value = "true" if is_on else "false"
        entry = ConfigEntry(
            "log.cleaner.enable", value, incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result()

    def load(self, mode: str, topic: str) -> Load:
        """Begin to produce."""
        options: dict[str, object] = {"seconds": SECONDS}
        if mode == "latency":
            options |= {"size": 100, "rate": RATE, "warmup": RATE, "producer.acks": "all",
                        "producer.linger.ms": 0}  # fmt: skip
        else:
            options |= {"size": 1000, "acks": "all"}
        return Load(mode, self._servers, topic, options)

    def measure(self, mode: str | None, *, is_alone_first: bool) -> Round:
        """Compact a table, beside a load if one is named."""
        segment_bytes = str(SEGMENT_MIB * MIB)
        with self.topic(cleanup_policy="compact", segment_bytes=segment_bytes) as table:
            self.fill(table)
            before = self.used(table)
            alone = self.measure_alone(mode) if mode and is_alone_first else {}
            beside: dict[str, float] = {}
            with self.topic(segment_bytes=segment_bytes) as other:
                os.sync()
                load = None if mode is None else self.load(mode, other)
                seconds = self.compact(table, before)
                if load is not None:
                    beside = load.result()
        if mode and not is_alone_first:
            alone = self.measure_alone(mode)
        return Round(before / seconds / 1e6, alone, beside)

    def measure_alone(self, mode: str) -> dict[str, float]:
        """Run a load, and nothing beside it."""
        with self.topic(segment_bytes=str(SEGMENT_MIB * MIB)) as topic:
            os.sync()
            return self.load(mode, topic).result()

    def compact(self, table: str, before: int) -> float:
        """Let compaction run until the table is small; return the seconds."""
        begun = time.monotonic()
        self.switch(True)
        while self.used(table) > before * 2 * LIVE_PART + SEGMENT_MIB * MIB:
            if time.monotonic() - begun > WAIT_S_MAX:
                raise TimeoutError("it is not compacted")
            time.sleep(0.05)
        seconds = time.monotonic() - begun
        self.switch(False)
        return seconds


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # It has just been replaced.


def _row(mode: str | None, figure: str, found: Sequence[Round]) -> str:
    speed = f"| {mode or 'nothing'} | {median(each.mb_per_s for each in found):,.0f} |"
    if mode is None:
        return speed + " - | - | - |"
    alone = median(each.alone[figure] for each in found)
    beside = median(each.beside[figure] for each in found)
    ratios = [each.beside[figure] / each.alone[figure] for each in found]
    spread = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"{speed} {figure} {alone:,.2f} | {beside:,.2f} | {spread} |"


def main() -> None:
    """Measure and print a table."""
    size = int(sys.argv[1] if len(sys.argv) > 1 else INPUT_MIB) * MIB
    rounds = int(sys.argv[2] if len(sys.argv) > 2 else ROUNDS)
    sys.stdout.write(
        f"{size / MIB:,.0f} MiB, {LIVE_PART:.0%} of it live; beside it {SECONDS} s of: {RATE:,} "
        "messages/s of 100 B (latency), or as many of 1 KB as it takes (produce); medians of "
        f"{rounds} rounds\n\n"
        "| beside | compacted, MB/s | alone | beside compaction | ratio |\n|---|---|---|---|---|\n"
    )
    figures = {None: "", "latency": "p99_ms", "produce": "messages"}
    with (
        tempfile.TemporaryDirectory() as directory,
        Kafkaesque(1, options=OPTIONS, directory=Path(directory)) as cluster,
    ):
        bench = Bench(cluster, size)
        for mode, figure in figures.items():
            found = [bench.measure(mode, is_alone_first=at % 2 == 0) for at in range(rounds)]
            sys.stdout.write(_row(mode, figure, found) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
