"""The command line as a process of its own, and projects of the blank template to run with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkaesque.spark.pipelines.templates import copy_template
from tests.clients.kafka_helpers import consume_all

#: A busy machine takes its time to start a Spark.
TIMEOUT_S = 400.0
LOCAL = ("--master", "local[2,2]")
#: Spark gives its Python processes 10 s to start, which beside much else may take a few attempts.
PATIENT = {"spark.sql.pipelines.maxFlowRetryAttempts": "8"}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kafkaesque.cli.app", *words]


def run_command(
    *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in listed]


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that nobody has waited for is none."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@dataclass(kw_only=True)
class Project:
    """A project from topic to topic, with topics of its own."""

    folder: Path
    bootstrap_servers: str
    source: str
    sink: str
    where: tuple[str, ...] = LOCAL
    settings: dict[str, str] = field(default_factory=lambda: dict(PATIENT))

    @classmethod
    def make(cls, folder: Path, bootstrap_servers: str, source: str, sink: str) -> Project:
        copy_template("blank", folder)
        return cls(folder=folder, bootstrap_servers=bootstrap_servers, source=source, sink=sink)

    @property
    def flows_file(self) -> Path:
        return self.folder / "transformations" / "greetings.py"

    def words(self, verb: str, *words: str) -> list[str]:
        settings = {
            "kafkaesque.bootstrap.servers": self.bootstrap_servers,
            "kafkaesque.source.topic": self.source,
            "kafkaesque.sink.topic": self.sink,
            **self.settings,
        }
        confs = [f"--conf={name}={value}" for name, value in settings.items()]
        return ["pipeline", verb, str(self.folder), *self.where, *confs, *words]

    def call(self, verb: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Have it run or checked, to the end."""
        return run_command(*self.words(verb, *words), environment=environment)

    def run(self, *words: str) -> dict[str, dict[str, Any]]:
        """Process what is there, and return what is told of each flow."""
        done = self.call("run", "--json", *words)
        assert done.returncode == 0, done.stderr[-4000:]
        return {flow["name"]: flow for flow in json.loads(done.stdout)["flows"]}

    def status(self) -> dict[str, Any]:
        done = run_command("pipeline", "status", str(self.folder), "--json")
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Have it run while the block does; what it prints is in `log`."""
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                command(*self.words("run", *words)), stdout=log, stderr=log, env=os.environ
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    @property
    def log(self) -> Path:
        return self.folder / "run.log"

    def wait_until(self, process: subprocess.Popen[bytes], is_so: Callable[[], bool]) -> None:
        """Wait for something that the run does; fails where it ends or takes too long."""
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            assert process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.1)

    def written(self) -> Counter[bytes]:
        """Return what is committed to the sink's topic, read by another client."""
        found = consume_all(self.bootstrap_servers, self.sink, isolation_level="read_committed")
        return Counter(message.value() or b"" for message in found)
