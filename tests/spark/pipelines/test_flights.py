"""The pipeline `flights`: what it writes is what plain Python computes from the same data, exactly.

With messages that come twice, late and too late, a partition that is slower than the others and one
that is idle, lines that are none, and a `kill -9` in the middle.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.cli.quickstart.delays import delays_of
from kafkaesque.cli.quickstart.delays_pipeline import JAVA_OPTIONS
from kafkaesque.cli.quickstart.flights import (
    end_of_data,
    hour_of,
    read_airlines,
    read_flights,
    read_weather,
)
from kafkaesque.spark.pipelines.templates import copy_template
from tests.clients.kafka_helpers import Sent, TopicMaker, consume, consume_all, produce

WATERMARK_DELAY = timedelta(days=2)
#: One is slower than the others, one has no record until the data ends.
PARTITIONS, SLOW, IDLE = (0, 1, 2), 2, 3
FLOW = "delays_per_carrier_and_hour"
NO_FLIGHT, NO_WEATHER = b"no flight", b"EWR,2013,1,1,hot,NA"
#: Its hour would make all that comes after it late.
NO_TIME = b"EWR,2999,1,1,5,39,28,64,260,12,NA,0,1012,10,2999-01-01T10:00:00Z"
RUN_TIMEOUT_S = 300.0
SPARK_SETTINGS = {"spark.driver.extraJavaOptions": JAVA_OPTIONS}


@dataclass(kw_only=True)
class Pipeline:
    """A project made of the template, with topics of its own."""

    folder: Path
    bootstrap_servers: str
    topics: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.folder / "run.log"

    def command(self, **settings: str) -> list[str]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        words = ["pipeline", "run", str(self.folder), "--master", "local[2]", "--json"]
        for name, value in {**self.settings, **SPARK_SETTINGS, **named}.items():
            words += ["--conf", f"{name}={value}"]
        return [sys.executable, "-m", "kafkaesque.cli.app", *words]

    def run(self, **settings: str) -> dict[str, Any]:
        """Process what is there, and return what is told of the flow of the delays."""
        done = subprocess.run(
            self.command(**settings),
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        flows = {flow["name"]: flow for flow in json.loads(done.stdout)["flows"]}
        found: dict[str, Any] = flows[FLOW]
        return found

    def run_and_kill(self, is_time: Callable[[], bool]) -> None:
        """Run it, and kill it with its JVM and workers at once, a moment after it is time to."""
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, start_new_session=True
            )
        try:
            deadline = time.monotonic() + RUN_TIMEOUT_S
            while not is_time():
                assert process.poll() is None, self.log.read_text()[-4000:]
                assert time.monotonic() < deadline, self.log.read_text()[-4000:]
                time.sleep(0.02)
            time.sleep(random.uniform(0.0, 1.0))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def has_begun(self, batch: int) -> bool:
        return (self._checkpoint / "offsets" / str(batch)).exists()

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "storage" / "_checkpoints" / "delays" / FLOW / "0"

    def publish(self, topic: str, *records: Sent | bytes) -> None:
        produce(self.bootstrap_servers, self.topics[topic], records, linger_ms=50)

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the delays by their keys; each is there once."""
        messages = consume_all(
            self.bootstrap_servers, self.topics["delays"], isolation_level="read_committed"
        )
        keys = Counter((message.key() or b"").decode() for message in messages)
        assert max(keys.values(), default=1) == 1, keys.most_common(3)
        return {
            (message.key() or b"").decode(): json.loads(message.value() or b"")
            for message in messages
        }


@pytest.fixture
def pipeline(tmp_path: Path, make_topic: TopicMaker, bootstrap_servers: str) -> Pipeline:
    folder = tmp_path / "flights"
    copy_template("flights", folder)
    topics = {
        "flights": make_topic("flights", partitions=1 + len(PARTITIONS)),
        "weather": make_topic("weather", partitions=1 + len(PARTITIONS)),
        "airlines": make_topic("airlines", partitions=1, cleanup_policy="compact"),
        "delays": make_topic("delays", partitions=2),
        "unreadable": make_topic("unreadable", partitions=1),
    }
    settings = {f"kafkaesque.{name}.topic": topic for name, topic in topics.items()}
    settings["kafkaesque.bootstrap.servers"] = bootstrap_servers
    return Pipeline(
        folder=folder, bootstrap_servers=bootstrap_servers, topics=topics, settings=settings
    )


def with_hour(line: bytes, number: str, hour: datetime) -> bytes:
    """Return the same flight as a new one, in another hour."""
    fields = line.decode().split(",")
    return ",".join([number, *fields[1:-1], hour.strftime("%Y-%m-%dT%H:%M:%SZ")]).encode()


class Data:
    """Eleven days, of which six come first; the rest waits for the second part of the test."""

    def __init__(self) -> None:
        self.flights = read_flights(9500).values
        first_day = hour_of(self.flights[0])
        self.split = first_day + timedelta(days=6)
        self.slow_split = self.split - timedelta(hours=47)
        last = max(map(hour_of, self.flights))
        # An airport without its observations of a day: flights that have no weather.
        self.weather = [
            line
            for _, line in read_weather()
            if hour_of(line) <= last and not (line.startswith(b"JFK") and hour_of(line).day == 3)
        ]
        self.airlines = read_airlines()
        self.end = last + WATERMARK_DELAY + timedelta(hours=2)
        self._dice = random.Random(2013)

    def partition_of(self, line: bytes) -> int:
        return PARTITIONS[int(line.partition(b",")[0]) % 3]

    def is_first(self, line: bytes) -> bool:
        is_slow = self.partition_of(line) == SLOW
        return hour_of(line) < (self.slow_split if is_slow else self.split)

    def sent(self, lines: list[bytes]) -> Iterator[Sent]:
        """Send each, and every seventh once more, to whatever partition but the idle one."""
        for number, line in enumerate(lines):
            yield Sent(value=line, partition=self.partition_of(line))
            if number % 7 == 0:
                yield Sent(value=line, partition=self._dice.choice(PARTITIONS))


def closed_hours(expected: dict[str, Any], watermark: datetime) -> dict[str, Any]:
    """Return what may be written at a watermark."""
    return {
        key: delays
        for key, delays in expected.items()
        if datetime.fromisoformat(delays["hour"]) + timedelta(hours=1) <= watermark
    }


@pytest.mark.timeout(1500)
def test_what_is_written_is_what_the_data_say(pipeline: Pipeline) -> None:
    data = Data()
    first = [line for line in data.flights if data.is_first(line)]
    rest = [line for line in data.flights if not data.is_first(line)]
    first_weather = [line for line in data.weather if hour_of(line) < data.split]
    rest_weather = [line for line in data.weather if hour_of(line) >= data.split]
    pipeline.publish("airlines", *[Sent(key=key, value=b"old name") for key, _ in data.airlines])
    pipeline.publish("airlines", *[Sent(key=key, value=name) for key, name in data.airlines])
    pipeline.publish("weather", *first_weather, *first_weather[::5], NO_WEATHER, NO_TIME)
    pipeline.publish("flights", *data.sent(first), Sent(value=NO_FLIGHT, key=b"who", partition=1))
    pipeline.run_and_kill(lambda: pipeline.has_begun(1))
    pipeline.run()

    # What is open stays so: no hour is written whose flights may still come.
    watermark = max(map(hour_of, [*first, *first_weather])) - WATERMARK_DELAY
    expected = delays_of(data.flights, data.weather, data.airlines)
    closed = closed_hours(expected, watermark)
    assert len(closed) > 300
    assert pipeline.results() == closed

    # The slow partition's rest is nearly as late as it may be; what is later does not count.
    too_late = [
        with_hour(first[0], "late 1", watermark),
        with_hour(first[1], "late 2", watermark - timedelta(days=3)),
    ]
    in_time = [with_hour(first[2], "late 3", watermark + timedelta(hours=1))]
    assert min(map(hour_of, rest)) - watermark < timedelta(hours=6)
    pipeline.publish("weather", *rest_weather, *first_weather[::50])
    pipeline.publish("flights", *data.sent(rest), *data.sent(first[::10]))
    for line in (*too_late, *in_time, end_of_data(data.end)):
        pipeline.publish("flights", Sent(value=line, partition=IDLE))
    pipeline.run_and_kill(lambda: pipeline.has_begun(2))
    pipeline.run()
    expected = delays_of([*data.flights, *in_time], data.weather, data.airlines)
    assert pipeline.results() == expected
    assert not pipeline.run()["rows_out"]
    assert pipeline.results() == expected

    aside = consume(pipeline.bootstrap_servers, pipeline.topics["unreadable"], 3, at_rest_s=1.0)
    kept = {message.value(): (message.key(), dict(message.headers() or [])) for message in aside}
    assert len(aside) == 3
    assert set(kept) == {NO_FLIGHT, NO_WEATHER, NO_TIME}
    key, headers = kept[NO_FLIGHT]
    assert key == b"who"
    assert headers["topic"] == pipeline.topics["flights"].encode()
    assert (headers["partition"], set(headers)) == (b"1", {"topic", "partition", "offset"})


@pytest.mark.timeout(900)
def test_the_quickstart_ends_with_it_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkaesque.cli.quickstart", "--flights", "3000"]
    done = subprocess.run(
        [*command, "--rate", "1000"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=2 * RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = dict(row.split("\t") for row in done.stdout.splitlines() if row.count("\t") == 1)
    count = len(delays_of(read_flights(3000).values, [], []))
    words = f"{count:,} of {count:,} as computed directly ("
    assert table["delays by Spark, per carrier and hour"].startswith(words)
    assert list(tmp_path.iterdir()) == []
