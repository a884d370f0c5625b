"""A broker on this machine as a real process: its start, its end, and what others do to it.

It is `python -m kafkaesque.server --config DIR/broker-N.toml`; it logs to DIR/broker-N.log and
keeps its data in DIR/broker-N. A thread reads the line that says it is ready and waits for its end;
both come to the caller through a queue of events. A broker ends with its starter, even when that is
killed. One that ended and that somebody else started again is ours as soon as `look` finds it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Final

from kafkaesque.cli.broker_ports import BrokerPorts
from kafkaesque.cli.directory_holder import DirectoryHolder
from kafkaesque.server.options import SERVER_OPTIONS
from kafkaesque.server.tls_settings import TLS_OPTIONS

LOG_TAIL_LINES = 8
LOG_TAIL_BYTES = 4096
_PR_SET_PDEATHSIG = 1
#: What may be the same for all brokers of a local cluster, and has no option of `up`.
FOR_ALL: Final = frozenset(("tracing.endpoint",))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReady:
    """A broker serves its clients."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEnded:
    """A broker's process is gone; a negative exit code is the signal that ended it.

    The exit code of one that somebody else had started is not known: None.
    """

    broker: int
    pid: int
    exit_code: int | None

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.exit_code is None:
            return "ended"
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        return f"was killed by {signal.Signals(-self.exit_code).name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRestarted:
    """Somebody else has started a broker again that had ended."""

    broker: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """Somebody wants the whole to end."""

    number: int


Event = BrokerReady | BrokerEnded | BrokerRestarted | Signalled


class Broker:
    """One broker's files and process."""

    def __init__(self, number: int, directory: Path, ports: BrokerPorts, host: str) -> None:
        self.number = number
        self.ports = ports
        self.address = f"{host}:{ports.kafka}"
        self.config_path = directory / f"broker-{number}.toml"
        self.log_path = directory / f"broker-{number}.log"
        self.data = directory / f"broker-{number}"
        self.is_stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        #: The process that somebody else started after ours had ended.
        self._other: DirectoryHolder | None = None

    @property
    def pid(self) -> int:
        """The process id of our last start; 0 before the first."""
        return self._process.pid if self._process else 0

    def is_running(self) -> bool:
        return self._is_ours_running() or self.is_restarted()

    def is_restarted(self) -> bool:
        """Whether a process runs that somebody else started, as of the last `look`."""
        return self._other is not None and self._other.is_running()

    def _is_ours_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def look(self) -> "BrokerRestarted | BrokerEnded | None":
        """Return what others have done to the broker since the last look, after ours had ended."""
        if self._process is None or self._is_ours_running():
            return None
        other = self._other
        if other is None:
            self._other = DirectoryHolder.find(self.data)
            if self._other is not None:
                return BrokerRestarted(broker=self.number, pid=self._other.pid)
        elif not other.is_running():
            self.close()
            return BrokerEnded(broker=self.number, pid=other.pid, exit_code=None)
        return None

    def close(self) -> None:
        """Have nothing to do with a process any more that somebody else started."""
        if self._other is not None:
            self._other.close()
            self._other = None

    def start(self, events: "SimpleQueue[Event]") -> None:
        """Start the process; `events` gets its BrokerReady and its BrokerEnded."""
        self.is_stopping = False
        with self.log_path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "kafkaesque.server", "--config", str(self.config_path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=broker_environment(),
                # Ctrl-C in the terminal comes to us, and we stop the brokers in order.
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self._process = process
        Thread(target=_watch, args=(self.number, process, events), daemon=True).start()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it is there."""
        if not self.is_running():
            return
        self.is_stopping = True
        if self._other is not None:
            self._other.signal(number)
        elif self._process is not None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Return whether the process is gone, at the latest after the timeout."""
        if self._other is not None:
            return self._other.wait(timeout_s)
        try:
            if self._process is not None:
                self._process.wait(max(0.0, timeout_s))
        except subprocess.TimeoutExpired:
            return False
        return True

    def log_tail(self) -> list[str]:
        """Return the last lines of the log."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                return log.read().decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        except OSError:
            return []


def variable_of(name: str) -> str:
    """Return the environment variable of a server option."""
    return "KAFKAESQUE_" + name.upper().replace(".", "_")


def broker_environment() -> dict[str, str]:
    """Return our environment without what would give all brokers one id, port or directory."""
    names = set(SERVER_OPTIONS.names()) - FOR_ALL
    words = [*names, *(f"tls.{name}" for name in TLS_OPTIONS.names())]
    own = {variable_of(word) for word in words}
    return {name: value for name, value in os.environ.items() if name not in own}


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """In the child: be told to stop when whoever started it dies."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _watch(number: int, process: "subprocess.Popen[bytes]", events: "SimpleQueue[Event]") -> None:
    if process.stdout is not None:
        with process.stdout as lines:
            for line in lines:
                if _says_ready(line):
                    events.put(BrokerReady(broker=number))
    events.put(BrokerEnded(broker=number, pid=process.pid, exit_code=process.wait()))


def _says_ready(line: bytes) -> bool:
    try:
        document = json.loads(line)
    except ValueError:
        return False
    return isinstance(document, dict) and "ready" in document
