"""Measures our Spark connector beside Spark's own, on the same brokers and topics, in turns.

    scripts/bench-spark                    everything, as docs/performance.md shows it
    scripts/bench-spark --quick            one round of fewer rows
    scripts/bench-spark --only source      one measure: source, stream, sink, micro-batch
    scripts/bench-spark --peer none        ours alone

One cluster of three brokers of ours and one Spark `local[2]`, all on this machine; a ratio is the
median over the rounds of ours divided by the peer's in the same round. Beside the rates stands the
processor time, which says more where other work runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.apache_kafka import SPARK_CONNECTOR_VERSION
from bench.contest import topic_of
from bench.load import run_load
from bench.maven import PeerUnavailableError
from bench.ours import Kafkaesque
from bench.processor_time import tree_seconds
from bench.run import machine
from bench.spark_peer import spark_connector_class_path
from kafkaesque.spark.java import ensure_java

OURS, PEER, RATE = "kafkaesque", "kafka", "rate"
VALUE_BYTES = 100
PARTITIONS = 6
BROKERS = 3
FILL_SECONDS = 300
MICRO_BATCHES, MICRO_BATCHES_SKIPPED = 25, 5
QUERY_TIMEOUT_S = 300
TRICKLE_S, TRICKLE_RECORDS = 0.1, 10


@dataclass(slots=True)
class Line:
    """One case's figures, one per round, of each side."""

    measure: str
    case: str
    unit: str
    higher_is_better: bool = True
    figures: dict[str, list[float]] = field(default_factory=dict)

    def median(self, side: str) -> float | None:
        found = self.figures.get(side)
        return statistics.median(found) if found else None

    def ratio(self, side: str, other: str) -> float | None:
        """Return the median over the rounds of one side divided by the other."""
        pairs = zip(self.figures.get(side, ()), self.figures.get(other, ()), strict=False)
        ratios = [mine / theirs for mine, theirs in pairs if theirs]
        return statistics.median(ratios) if ratios else None


class Bench:
    """The cluster, the Spark, and the figures so far."""

    def __init__(self, cluster: Kafkaesque, spark: Any, arguments: argparse.Namespace) -> None:
        self.cluster = cluster
        self.spark = spark
        self.rounds: int = arguments.rounds
        self.rows: int = arguments.rows
        self.sides = [OURS] if arguments.peer == "none" else [OURS, PEER]
        self.lines: dict[tuple[str, str, str], Line] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="bench-spark-", dir=arguments.data)

    def close(self) -> None:
        """Remove the checkpoints."""
        self._folder.cleanup()

    def checkpoint(self) -> str:
        """Return a folder for a query that has none yet."""
        return tempfile.mkdtemp(dir=self._folder.name)

    def options(self, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.cluster.bootstrap_servers, **more}

    def take_turns(self, cases: Mapping[str, Callable[[], float]], note: Noter) -> None:
        """Run each case once for warming up, then in each round, in an order that changes."""
        for run in cases.values():
            run()
        for number in range(self.rounds):
            names = list(cases)
            for name in names if number % 2 == 0 else reversed(names):
                before = self._processor_seconds()
                figure = cases[name]()
                spark_s, brokers_s = (
                    now - then for now, then in zip(self._processor_seconds(), before, strict=True)
                )
                note(name, figure, spark_s, brokers_s)

    def _processor_seconds(self) -> tuple[float, float]:
        """Return what Spark, and what the brokers have used."""
        brokers = sum(tree_seconds(broker.pid) for broker in self.cluster.brokers)
        return tree_seconds(os.getpid()) - brokers, brokers

    def record(self, line: Line, side: str, figure: float) -> None:
        """Keep a figure."""
        line = self.lines.setdefault((line.measure, line.case, line.unit), line)
        line.figures.setdefault(side, []).append(figure)
        text = f"{line.measure}, {line.case}: {side} {figure:,.2f} {line.unit}"
        print(text, file=sys.stderr, flush=True)


Noter = Callable[[str, float, float, float], None]


def rates_noter(bench: Bench, measure: str, case: str, rows: int) -> Noter:
    """Return what notes seconds as rows a second, and the processor time."""

    def note(side: str, seconds: float, spark_s: float, brokers_s: float) -> None:
        bench.record(Line(measure, case, "M rows/s"), side, rows / seconds / 1e6)
        for who, used in (("Spark", spark_s), ("brokers", brokers_s)):
            line = Line(measure, f"{case}; {who}", "processor s/M rows", higher_is_better=False)
            bench.record(line, side, used * 1e6 / rows)

    return note


def timed(run: Callable[[], object]) -> float:
    """Return the seconds that it takes."""
    began = time.monotonic()
    run()
    return time.monotonic() - began


@contextmanager
def full_topic(bench: Bench) -> Iterator[str]:
    """A topic with the rows that are read, as librdkafka writes them."""
    with topic_of(bench.cluster, partitions=PARTITIONS, sync=False) as topic:
        run_load(
            "produce",
            bench.cluster.bootstrap_servers,
            topic,
            size=VALUE_BYTES,
            seconds=FILL_SECONDS,
            bytes=bench.rows * VALUE_BYTES,
        )
        yield topic


def measure_source(bench: Bench) -> None:
    """Read a topic into nothing, as a table."""
    with full_topic(bench) as topic:

        def read(side: str, *columns: str) -> float:
            reader = bench.spark.read.format(side).options(**bench.options(subscribe=topic))
            if columns and side == OURS:
                reader = reader.option("columns", ",".join(columns))
            table = reader.load().select(*columns or "*")
            return timed(table.write.format("noop").mode("overwrite").save)

        for case, columns in (("all columns", ()), ("key and value", ("key", "value"))):
            cases = {side: partial(read, side, *columns) for side in bench.sides}
            bench.take_turns(cases, rates_noter(bench, "source, batch", case, bench.rows))


def measure_stream(bench: Bench) -> None:
    """Read a topic into nothing, as a stream of what is available."""
    with full_topic(bench) as topic:

        def read(side: str) -> float:
            options = bench.options(subscribe=topic, startingOffsets="earliest")
            table = bench.spark.readStream.format(side).options(**options).load()
            writer = table.writeStream.format("noop").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", bench.checkpoint())
            return timed(lambda: writer.start().awaitTermination(QUERY_TIMEOUT_S))

        cases = {side: partial(read, side) for side in bench.sides}
        note = rates_noter(bench, "source, stream", "availableNow, all columns", bench.rows)
        bench.take_turns(cases, note)


AT_LEAST_ONCE = f"{OURS}, at least once"


def measure_sink(bench: Bench) -> None:
    """Write rows that Spark makes up, as a table; to the disk's sync and without."""
    rows = bench.rows // 3
    table = bench.spark.range(0, rows, 1, 2).selectExpr(
        "cast(cast(id AS string) AS binary) AS key",
        f"cast(lpad(cast(id AS string), {VALUE_BYTES}, 'v') AS binary) AS value",
    )
    for sync in (False, True):
        with topic_of(bench.cluster, partitions=PARTITIONS, sync=sync) as topic:

            def write(side: str, name: str = topic, **more: str) -> float:
                writer = table.write.format(side).mode("append")
                return timed(writer.options(**bench.options(topic=name, **more)).save)

            cases = {
                OURS: partial(write, OURS),
                AT_LEAST_ONCE: partial(write, OURS, deliveryGuarantee="at-least-once"),
            }
            if PEER in bench.sides:
                cases[PEER] = partial(write, PEER)
            case = f"batch, keys, {'sync' if sync else 'no sync'}"
            bench.take_turns(cases, rates_noter(bench, "sink", case, rows))


class Trickle:
    """Writes a few records all the time."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers})
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Trickle:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.flush()

    def _run(self) -> None:
        while not self._is_over.wait(TRICKLE_S):
            for _ in range(TRICKLE_RECORDS):
                self._producer.produce(self._topic, b"v" * VALUE_BYTES)
            self._producer.poll(0)


def measure_micro_batches(bench: Bench) -> None:
    """Compare what a micro-batch of a few rows takes, triggered each second, with `rate`'s."""
    servers = bench.cluster.bootstrap_servers
    line = Line("micro-batch", "of 100 rows, median", "ms", higher_is_better=False)
    more = Line("micro-batch", "more than `rate`'s", "ms", higher_is_better=False)
    sides = [RATE, *bench.sides]
    with (
        topic_of(bench.cluster, partitions=PARTITIONS, sync=False) as topic,
        Trickle(servers, topic),
    ):

        def run(side: str, count: int) -> dict[str, float]:
            options = {"rowsPerSecond": "100"} if side == RATE else bench.options(subscribe=topic)
            return _medians(_micro_batches(bench, side, options, count))

        # The JVM is faster from query to query: none of the sides is to have that for itself.
        for side in sides:
            run(side, MICRO_BATCHES_SKIPPED)
        for number in range(bench.rounds):
            found = {
                side: run(side, MICRO_BATCHES)
                for side in (sides if number % 2 == 0 else reversed(sides))
            }
            for side in sides:
                bench.record(line, side, found[side]["triggerExecution"])
                if side != RATE:
                    difference = found[side]["triggerExecution"] - found[RATE]["triggerExecution"]
                    bench.record(more, side, difference)
                for part, figure in sorted(found[side].items()):
                    print(f"  {side} {part}: {figure:g} ms", file=sys.stderr)


def _medians(durations: list[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each part."""
    names = {name for each in durations for name in each}
    return {name: statistics.median(each.get(name, 0) for each in durations) for name in names}


def _micro_batches(
    bench: Bench, side: str, options: Mapping[str, str], count: int
) -> list[Mapping[str, float]]:
    """Return what the parts of a query's micro-batches took; the first ones are left out."""
    table = bench.spark.readStream.format(side).options(**options).load()
    writer = table.writeStream.format("noop").trigger(processingTime="1 second")
    query = writer.option("checkpointLocation", bench.checkpoint()).start()
    found: dict[int, Mapping[str, float]] = {}
    deadline = time.monotonic() + QUERY_TIMEOUT_S
    try:
        while len(found) < count + MICRO_BATCHES_SKIPPED and time.monotonic() < deadline:
            query.awaitTermination(0.5)  # raises what the query failed with
            for progress in query.recentProgress:
                if progress["numInputRows"]:
                    found[progress["batchId"]] = progress["durationMs"]
    finally:
        query.stop()
    counted = [found[number] for number in sorted(found)][MICRO_BATCHES_SKIPPED:]
    if not counted:
        raise RuntimeError(f"{side}: no micro-batch with rows in {QUERY_TIMEOUT_S} s")
    return counted


MEASURES = {
    "source": measure_source,
    "stream": measure_stream,
    "sink": measure_sink,
    "micro-batch": measure_micro_batches,
}


def start_spark(class_path: str | None) -> Any:
    """Return a Spark of two cores in this process and its JVM."""
    from pyspark.sql import SparkSession

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("kafkaesque-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
    )
    if class_path is not None:
        builder = builder.config("spark.driver.extraClassPath", class_path)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def markdown(bench: Bench) -> str:
    """Return the figures as a table, with what they were made on."""
    import pyspark

    about = {**machine(), "spark": pyspark.__version__, "peer": SPARK_CONNECTOR_VERSION}
    sides = list(dict.fromkeys(side for line in bench.lines.values() for side in line.figures))
    head = ["measure", "case", "unit", *sides, "ratio", "better"]
    rows = [head, ["---"] * len(head)]
    for line in bench.lines.values():
        ratio = line.ratio(OURS, PEER)
        figures = [line.median(side) for side in sides]
        rows.append(
            [
                line.measure,
                line.case,
                line.unit,
                *("-" if each is None else f"{each:,.2f}" for each in figures),
                "-" if ratio is None else f"{ratio:.2f}",
                "higher" if line.higher_is_better else "lower",
            ]
        )
    return "\n".join(
        [
            ", ".join(f"{name} {value}" for name, value in about.items() if value),
            "",
            f"Medians of {bench.rounds} round(s) of {bench.rows:,} rows.",
            "",
            *("| " + " | ".join(row) + " |" for row in rows),
            "",
        ]
    )


def read_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench-spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=list(MEASURES), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one round, fewer rows")
    parser.add_argument("--rounds", type=int, help="runs of each case and side (5; quick: 1)")
    parser.add_argument("--rows", type=int, help="rows of the topic that is read (6,000,000)")
    parser.add_argument("--peer", choices=["spark", "none"], default="spark")
    parser.add_argument("--data", type=Path, help="where brokers keep their data for the run")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 5)
    arguments.rows = arguments.rows or (1_500_000 if arguments.quick else 6_000_000)
    return arguments


def main() -> int:
    """Measure what the options ask for."""
    arguments = read_arguments()
    class_path = None
    if arguments.peer != "none":
        try:
            class_path = spark_connector_class_path()
        except PeerUnavailableError as error:
            print(f"{error}\nMeasuring without it.", file=sys.stderr)
            arguments.peer = "none"
    with Kafkaesque(brokers=BROKERS, directory=arguments.data) as cluster:
        spark = start_spark(class_path)
        bench = Bench(cluster, spark, arguments)
        try:
            for name in arguments.only or MEASURES:
                MEASURES[name](bench)
        except KeyboardInterrupt:
            print("ended before everything was measured", file=sys.stderr)
        finally:
            bench.close()
            spark.stop()
    print(markdown(bench))
    if arguments.json is not None:
        found = [{**vars_of(line)} for line in bench.lines.values()]
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def vars_of(line: Line) -> dict[str, Any]:
    """Return a line as plain data."""
    return {
        "measure": line.measure,
        "case": line.case,
        "unit": line.unit,
        "higher_is_better": line.higher_is_better,
        "figures": line.figures,
        "ratio": line.ratio(OURS, PEER),
    }


if __name__ == "__main__":
    sys.exit(main())
