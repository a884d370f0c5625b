"""A Spark Connect server of our own, for one run; it ends with whoever started it."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafkaesque.spark.pipelines.errors import RunFailed
from kafkaesque.spark.pipelines.spark_home import make_light_home, spark_home

_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_HOST = "127.0.0.1"
#: A machine that is busy takes its time to start a JVM.
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 15.0
_POLL_S = 0.05
_LOG_TAIL_BYTES = 64 * 1024
_CAUSE = re.compile(r'(Exception in thread "[^"]*"|Caused by:|Error:)\s*([\w.$]+Exception:\s*)?')
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """In the child: be killed when whoever started it dies; Ctrl-C is the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ConnectServer:
    """The process; what it logs is in `log_path`, from anew."""

    def __init__(
        self, *, name: str, master: str, settings: Mapping[str, str], python: str, log_path: Path
    ) -> None:
        self._name = name
        self._master = master
        self._settings = settings
        self._python = python
        self.log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._light_home = log_path.with_name("spark-home")
        self.port = 0

    @property
    def url(self) -> str:
        """The URL for clients of this process; others do not know the token."""
        return f"sc://localhost:{self.port}"

    def start(self, keep_open: Sequence[int] = ()) -> None:
        """Start the process and wait until it listens; it inherits the given files.

        Raises:
            RunFailed: it ended, or does not listen in time.
        """
        self.port = _unused_port()
        shutil.rmtree(self._light_home, ignore_errors=True)
        os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = secrets.token_hex(16)
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                pass_fds=keep_open,
                preexec_fn=die_with_parent,
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._listens():
            if self._process.poll() is not None:
                raise RunFailed(
                    f"Spark did not start on {self._master}: {self.reason()}",
                    f"see {self.log_path}",
                )
            if time.monotonic() > deadline:
                seconds = f"{_START_TIMEOUT_S:g} s"
                raise RunFailed(f"Spark did not start within {seconds}", f"see {self.log_path}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End the process, with force if it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._light_home, ignore_errors=True)

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def reason(self) -> str:
        """Return what the log has as the cause of the end, in one line."""
        found = "it ended without an error message"
        for line in _tail(self.log_path).splitlines():
            words = line.strip()
            if _CAUSE.match(words):
                found = _CAUSE.sub("", words)
            elif "All masters are unresponsive" in words:
                return f"no master answers at {self._master}"
        return found

    def _command(self) -> list[str]:
        words = [str(spark_home() / "bin" / "spark-submit"), "--class", _MAIN]
        words += ["--name", self._name, "--master", self._master]
        forced = {
            "spark.connect.grpc.binding.address": _HOST,
            "spark.connect.grpc.binding.port": str(self.port),
        }
        for name, value in {**self._settings, **forced}.items():
            words += ["--conf", f"{name}={value}"]
        return [*words, "spark-internal"]

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_DRIVER_PYTHON")
        }
        # Another Python may have another PySpark, or none.
        is_ours = self._python == sys.executable
        home = make_light_home(self._light_home) if is_ours else spark_home()
        return {**kept, "PYSPARK_PYTHON": self._python, "SPARK_HOME": str(home)}

    def _listens(self) -> bool:
        try:
            socket.create_connection((_HOST, self.port), _POLL_S).close()
        except OSError:
            return False
        return True


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")
    except OSError:
        return ""
