"""A standalone cluster of Spark on this machine, for trying it: a master, workers, from PySpark.

Every process is in a session of its own, ends with whoever started it, and takes its executors with
it: Spark's executors end when their worker is gone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.java import ensure_java
from kafkaesque.spark.pipelines.connect_server import die_with_parent
from kafkaesque.spark.pipelines.spark_home import spark_home

HOST = "127.0.0.1"
MASTER = "master"
_PACKAGE = "org.apache.spark.deploy"
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 2.0
_POLL_S = 0.1
_LOG_TAIL_LINES = 5
_DAEMON_MEMORY = "512m"


class SparkFailed(ConnectorError):
    """A process of the cluster could not be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that ended by itself."""

    name: str
    exit_code: int
    log_path: Path


class StandaloneCluster:
    """The processes; logs and what executors keep are in `folder`."""

    def __init__(
        self, folder: Path, *, workers: int, cores: int, memory: str, port: int, ui_port: int
    ) -> None:
        self.folder = folder
        self.url = f"spark://{HOST}:{port}"
        self.ui_url = f"http://{HOST}:{ui_port}"
        self._workers = workers
        self._sizes = ("--cores", str(cores), "--memory", memory)
        self._ports = ("--port", str(port), "--webui-port", str(ui_port))
        self._port = port
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all processes and wait until the master knows all workers.

        Raises:
            ConnectorError: there is no Java, the port is taken, or a process ended.
        """
        ensure_java()
        _require_free(self._port)
        self._start(MASTER, "master.Master", ("--host", HOST, *self._ports))
        for number in range(1, self._workers + 1):
            work = ("--work-dir", str(self.folder / f"worker-{number}"))
            words = ("--host", HOST, "--webui-port", "0", *self._sizes, *work, self.url)
            self._start(f"worker-{number}", "worker.Worker", words)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self._count_alive() < self._workers:
            ended = self.ended()
            if ended:
                raise SparkFailed(_story(ended[0]))
            if time.monotonic() > deadline:
                seconds = f"{_START_TIMEOUT_S:g} s"
                raise SparkFailed(f"not all workers have come within {seconds}: {self.folder}")
            time.sleep(_POLL_S)

    def ended(self) -> list[Ended]:
        """Return the processes that are gone, and forget them."""
        gone = {
            name: process.returncode
            for name, process in self._processes.items()
            if process.poll() is not None
        }
        for name in gone:
            del self._processes[name]
        return [
            Ended(name=name, exit_code=code, log_path=self._log_path(name))
            for name, code in gone.items()
        ]

    @property
    def names(self) -> list[str]:
        """The processes that run, as far as is known."""
        return list(self._processes)

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def stop(self) -> None:
        """End all processes, workers first, and what is left of them with force."""
        for process in reversed(self._processes.values()):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            # Executors are in the group of their worker.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        self._processes.clear()

    def _start(self, name: str, main: str, words: Sequence[str]) -> None:
        with self._log_path(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [str(spark_home() / "bin" / "spark-class"), f"{_PACKAGE}.{main}", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
                env={
                    **os.environ,
                    "SPARK_LOCAL_IP": HOST,
                    "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
                    "SPARK_HOME": str(spark_home()),
                },
            )

    def _log_path(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _count_alive(self) -> int:
        try:
            with urlopen(f"{self.ui_url}/json/", timeout=_ANSWER_TIMEOUT_S) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError, KeyError):
            return 0


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise SparkFailed(f"port {port} of {HOST} is taken: choose another by --port") from None


def _story(ended: Ended) -> str:
    lines = ended.log_path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    words = " / ".join(line.strip() for line in lines) or "without a word"
    return f"{ended.name} ended with exit code {ended.exit_code}: {words}"
