"""The pipeline `flights` on what was published: Spark's result, and whether it is the data's."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.local_broker import end_with_parent
from kafkaesque.cli.quickstart.delays import delays_of
from kafkaesque.cli.quickstart.flights import (
    Flights,
    end_of_data,
    hour_of,
    read_airlines,
    read_weather,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

    from kafkaesque.cli.kafka import Connection

TEMPLATE = "flights"
RESULTS = "delays"
#: Partitions and options of the topics beside that of the flights.
TOPICS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "weather": (3, {}),
    "airlines": (1, {"cleanup.policy": "compact"}),
    RESULTS: (3, {}),
    "delays.unreadable": (1, {}),
}
#: How the pipeline calls topics whose names have a dot.
_SETTINGS: Mapping[str, str] = {"delays.unreadable": "kafkaesque.unreadable.topic"}
#: The pipeline's delay of the watermark, the last hour itself, and one more.
DATA_END_AFTER = timedelta(days=2, hours=2)
#: A JVM that lives for a minute has no use for what its better compiler would do in the next one:
#: without it the run takes a third less of the processors' time.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
FLUSH_TIMEOUT_S = 30.0
READ_TIMEOUT_S = 30.0
BATCH_MAX = 5000
POLL_S = 0.2
STOP_TIMEOUT_S = 15.0
LAST_LINES = 10
TIME_OF_DAY = re.compile(r"^\d\d:\d\d:\d\d ")


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayFindings:
    """Delays per carrier and hour, as Spark wrote them and as they are."""

    expected: int
    equal: int
    #: Written for an hour without flights, or once more.
    unexpected: int

    @property
    def is_right(self) -> bool:
        return self.equal == self.expected and not self.unexpected


class DelaysPipeline:
    """A project made of the template, run as a process; it ends with us, whatever happens to us."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._last_lines: list[str] = []

    def start(self, bootstrap: str, prefix: str = "") -> None:
        """Have Spark process what is in the topics, whose names begin with the prefix."""
        from kafkaesque.spark.pipelines.templates import copy_template

        project = self._directory / TEMPLATE
        copy_template(TEMPLATE, project)
        temporary = self._directory / "spark"
        temporary.mkdir()
        names = ("flights", *TOPICS)
        settings = {
            "kafkaesque.bootstrap.servers": bootstrap,
            **{_SETTINGS.get(name, f"kafkaesque.{name}.topic"): prefix + name for name in names},
            "kafkaesque.delays.group": f"{prefix}delays",
            "spark.local.dir": str(temporary),
            "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Djava.io.tmpdir={temporary}",
        }
        command = [sys.executable, "-m", "kafkaesque.cli.app", "pipeline", "run", str(project)]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def new_lines(self) -> Iterator[str]:
        """Yield what the run has told since the last time."""
        while True:
            try:
                yield self._lines.get_nowait()
            except Empty:
                return

    def has_ended(self) -> bool:
        """Whether everything is processed.

        Raises:
            CommandFailed: it ended without that.
        """
        if self._process is None or self._process.poll() is None:
            return False
        if self._process.returncode:
            tail = "\n  ".join(self._last_lines) or "it said nothing"
            raise CommandFailed(f"the pipeline '{TEMPLATE}' failed:\n  {tail}")
        return True

    def kill(self) -> None:
        """End it, and its Spark with it."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stderr is None:
            return
        with process.stderr as lines:
            for line in lines:
                text = TIME_OF_DAY.sub("", line.decode(errors="replace").rstrip())
                self._last_lines = [*self._last_lines[1 - LAST_LINES :], text]
                self._lines.put(text)


def publish_tables(
    connection: "Connection", topic: str, flights: Flights, prefix: str = ""
) -> None:
    """Publish the weather and the airlines' names, and at last the end of the flights.

    The prefix is of the topics' names beside the one that is named.

    Raises:
        CommandFailed: something was not acknowledged.
    """
    producer = connection.producer({"enable.idempotence": True, "acks": "all", "linger.ms": 5})
    refused: list[str] = []

    def on_delivery(error: Any, _: "Message") -> None:
        if error is not None:
            refused.append(error.name())

    for name, records in (("weather", read_weather()), ("airlines", read_airlines())):
        for key, value in records:
            producer.produce(prefix + name, value, key, on_delivery=on_delivery)
            producer.poll(0)
    last = max(map(hour_of, flights.values))
    producer.produce(topic, end_of_data(last + DATA_END_AFTER), on_delivery=on_delivery)
    left = producer.flush(FLUSH_TIMEOUT_S)
    if refused or left:
        raise CommandFailed(f"messages were not acknowledged: {', '.join(set(refused)) or left}")


def expected_delays(flights: Flights) -> dict[str, dict[str, Any]]:
    """Return what Spark must find, computed without it."""
    return delays_of(flights.values, (line for _, line in read_weather()), read_airlines())


def check_delays(
    connection: "Connection", expected: Mapping[str, Any], prefix: str = ""
) -> DelayFindings:
    """Read the results, those of committed transactions, and compare them.

    Raises:
        CommandFailed: they cannot be read to their end in time.
    """
    found: dict[str, Any] = {}
    unexpected = 0
    for message in _read_all(connection, prefix + RESULTS, TOPICS[RESULTS][0]):
        key = (message.key() or b"").decode()
        unexpected += key in found or key not in expected
        found[key] = json.loads(message.value() or b"null")
    equal = sum(found.get(key) == delays for key, delays in expected.items())
    return DelayFindings(expected=len(expected), equal=equal, unexpected=unexpected)


def _read_all(connection: "Connection", topic: str, partitions: int) -> Iterator["Message"]:
    from confluent_kafka import KafkaError, TopicPartition

    consumer = connection.consumer(
        {
            "group.id": "quickstart-check",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    at_end: set[int] = set()
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while len(at_end) < partitions:
            if time.monotonic() > deadline:
                raise CommandFailed(f"topic {topic} was not read in time", exit_code=TIMED_OUT)
            for message in consumer.consume(BATCH_MAX, POLL_S):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition() or 0)
    finally:
        consumer.close()
