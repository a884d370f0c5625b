"""What the compaction of a topic does to whoever produces to the same broker meanwhile.

    .venv/bin/python -m bench.compaction_beside [MiB of input]

One broker. A compacted topic is written of which one record in ten is live, while compaction is
switched off. Then a producer is measured on another topic: alone, and from the moment at which
compaction is switched on. The broker's loop and the worker process share the machine's cores with
the load, so what it says depends on how many of them there are.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
WAIT_S_MAX = 600
OPTIONS = {"log.cleaner.backoff.ms": "100", "log.cleaner.enable": "false"}


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

    def measure(self, mode: str | None) -> str:
        """Compact a table, beside a load if one is named; return a row."""
        segment_bytes = str(SEGMENT_MIB * MIB)
        with self.topic(cleanup_policy="compact", segment_bytes=segment_bytes) as table:
            self.fill(table)
            before = self.used(table)
            alone: dict[str, float] = {}
            beside: dict[str, float] = {}
            with self.topic(segment_bytes=segment_bytes) as other:
                if mode is not None:
                    alone = self.load(mode, other).result()
                load = None if mode is None else self.load(mode, other)
                seconds = self.compact(table, before)
                if load is not None:
                    beside = load.result()
            left = self.used(table)
        row = f"| {mode or 'nothing'} | {before / MIB:,.0f} | {left / MIB:,.0f} | {seconds:.1f} |"
        return f"{row} {before / seconds / 1e6:,.0f} | {_figures(alone)} | {_figures(beside)} |"

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


def _figures(found: dict[str, float]) -> str:
    if "p50_ms" in found:
        return f"p50 {found['p50_ms']:.2f}, p99 {found['p99_ms']:.2f} ms"
    if found:
        return ", ".join(f"{key} {value:,.1f}" for key, value in found.items())
    return ""


def main() -> None:
    """Measure and print a table."""
    size = int(sys.argv[1] if len(sys.argv) > 1 else INPUT_MIB) * MIB
    sys.stdout.write(
        f"{size / MIB:,.0f} MiB, {LIVE_PART:.0%} of it live; beside it {SECONDS} s of: {RATE:,} "
        "messages/s of 100 B (latency), or as many of 1 KB as it takes (produce)\n\n"
        "| beside | before, MiB | after | seconds | MB/s | alone | beside compaction |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    with (
        tempfile.TemporaryDirectory() as directory,
        Kafkaesque(1, options=OPTIONS, directory=Path(directory)) as cluster,
    ):
        bench = Bench(cluster, size)
        for mode in (None, "latency", "produce"):
            sys.stdout.write(bench.measure(mode) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
