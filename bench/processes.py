"""Broker processes on this machine: free ports, start, kill, memory, and "does it answer yet".

The probe speaks just enough of the Kafka protocol (Metadata v1, ListOffsets v1, DescribeCluster v0)
over a plain socket to see readiness without the start-up cost of a client library, so that start-up
and recovery times are those of the broker.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.wire import Answer, exchange, write_text

PROBE_INTERVAL_S = 0.005
STOP_TIMEOUT_S = 60.0
LOG_TAIL_BYTES = 4000

_METADATA, _METADATA_VERSION = 3, 1
_LIST_OFFSETS, _LIST_OFFSETS_VERSION = 2, 1
_DESCRIBE_CLUSTER, _DESCRIBE_CLUSTER_VERSION = 60, 0
_LATEST = -1
_NO_TAGS = b"\0"


class BrokerNotReadyError(RuntimeError):
    """A broker ended, or did not answer in time; the message holds the end of its log."""


_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Runs in the child: a run that is killed, too, leaves no broker behind (Linux)."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def allow_files(count: int) -> None:
    """Let this process and those that it starts have so many files.

    Raises:
        SystemExit: the machine does not allow it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SystemExit(f"{count} files are needed, and {hard} allowed: ulimit -n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process now (VmRSS of /proc)."""
    return _status_bytes(pid, "VmRSS:")


def rss_peak_bytes(pid: int) -> int:
    """Return the highest resident memory of a process so far (VmHWM of /proc)."""
    return _status_bytes(pid, "VmHWM:")


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise BrokerNotReadyError(f"/proc/{pid}/status has no {field}")


class BrokerProcess:
    """One broker as a child process; it can be killed and started again on the same data."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_path: Path,
        port: int,
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
        popen: type[subprocess.Popen[bytes]] = subprocess.Popen,
    ) -> None:
        self.command = list(command)
        self._popen = popen
        self.log_path = log_path
        self.port = port
        self._environment = {**os.environ, **(environment or {})}
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BrokerNotReadyError("the broker has not been started")
        return self._process.pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; returns at once, before the broker serves anything.

        It ends when the thread that has started it does, however that ends: start brokers from a
        thread that outlives them.
        """
        if self.is_running():
            raise BrokerNotReadyError(f"the broker at {self.address} runs already")
        with self.log_path.open("ab") as log:
            self._process = self._popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._directory,
                # Its own session: Ctrl-C in the terminal reaches us, and we stop it in order.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def kill(self) -> None:
        """End the process with SIGKILL and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """End the process with SIGTERM, with SIGKILL if that takes too long.

        Returns its exit code (of a signal the negative number), None if it was never started.
        """
        self._end(signal.SIGTERM)
        return None if self._process is None else self._process.returncode

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)

    def rss_bytes(self) -> int:
        """Return the resident memory of the process now."""
        return rss_bytes(self.pid)

    def rss_peak_bytes(self) -> int:
        """Return the highest resident memory of the process so far."""
        return rss_peak_bytes(self.pid)

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has used since its start."""
        return cpu_seconds(self.pid)

    def log_tail(self) -> str:
        if not self.log_path.exists():
            return "(no log)"
        return self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def raise_if_ended(self) -> None:
        if not self.is_running():
            raise BrokerNotReadyError(
                f"the broker at {self.address} ended; the end of its log:\n{self.log_tail()}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What one broker says about its cluster: brokers by id, and the leader of each partition."""

    brokers: dict[int, str]
    controller: int
    leaders: dict[tuple[str, int], int]


def _ask(port: int, api: int, version: int, body: bytes, timeout_s: float) -> Answer:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        return exchange(connection, api, version, body, "probe", 1)


def ask_metadata(port: int, topics: Sequence[str] = (), timeout_s: float = 2.0) -> ClusterView:
    """Ask one broker for the cluster and the given topics; raises OSError when it cannot answer."""
    body = struct.pack(">i", len(topics)) + b"".join(write_text(topic) for topic in topics)
    answer = _ask(port, _METADATA, _METADATA_VERSION, body, timeout_s)
    brokers = {}
    for _ in range(answer.number("i")):
        node, host, node_port = answer.number("i"), answer.text(), answer.number("i")
        answer.text()
        brokers[node] = f"{host}:{node_port}"
    controller = answer.number("i")
    leaders = {}
    for _ in range(answer.number("i")):
        answer.number("h")
        topic = answer.text()
        answer.number("b")
        for _ in range(answer.number("i")):
            answer.number("h")
            partition, leader = answer.number("i"), answer.number("i")
            for _ in range(2):
                for _ in range(answer.number("i")):
                    answer.number("i")
            leaders[topic, partition] = leader
    return ClusterView(brokers=brokers, controller=controller, leaders=leaders)


def ask_alive(port: int, timeout_s: float = 2.0) -> list[int]:
    """Ask one broker which brokers are alive: Metadata lists those that were just lost, too."""
    body = _NO_TAGS + b"\0" + _NO_TAGS
    answer = _ask(port, _DESCRIBE_CLUSTER, _DESCRIBE_CLUSTER_VERSION, body, timeout_s)
    answer.number("B"), answer.number("i")  # the header's tags; how long it was throttled
    error = answer.number("h")
    if error:
        raise ConnectionError(f"DescribeCluster: error {error}")
    answer.compact_text(), answer.compact_text(), answer.number("i")  # what is wrong; the cluster
    alive = []
    for _ in range(answer.count()):
        alive.append(answer.number("i"))
        answer.compact_text(), answer.number("i"), answer.compact_text(), answer.number("B")
    return alive


def ask_end_offset(port: int, topic: str, partition: int, timeout_s: float = 2.0) -> int:
    """Ask a partition's leader for its end offset; raises OSError when it does not serve it."""
    body = (
        struct.pack(">ii", -1, 1) + write_text(topic) + struct.pack(">iiq", 1, partition, _LATEST)
    )
    answer = _ask(port, _LIST_OFFSETS, _LIST_OFFSETS_VERSION, body, timeout_s)
    answer.number("i"), answer.text(), answer.number("i"), answer.number("i")
    error = answer.number("h")
    if error:
        raise ConnectionError(f"{topic}-{partition}: error {error}")
    answer.number("q")
    return answer.number("q")


def wait_until_ready(broker: BrokerProcess, *, brokers: int, timeout_s: float) -> float:
    """Wait until the broker hears of `brokers` brokers and a controller; return monotonic seconds.

    Raises:
        BrokerNotReadyError: it ended, or the time is over.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        broker.raise_if_ended()
        try:
            view = ask_metadata(broker.port)
            if len(view.brokers) >= brokers and view.controller >= 0:
                if brokers == 1 or len(ask_alive(broker.port)) >= brokers:
                    return time.monotonic()
        except (OSError, struct.error):
            pass
        time.sleep(PROBE_INTERVAL_S)
    raise BrokerNotReadyError(
        f"the broker at {broker.address} was not ready after {timeout_s:.0f} s; "
        f"the end of its log:\n{broker.log_tail()}"
    )


def wait_until_serving(
    broker: BrokerProcess, topic: str, end_offsets: dict[int, int], *, timeout_s: float
) -> float:
    """Wait until the broker serves these end offsets by partition; return monotonic seconds.

    Raises:
        BrokerNotReadyError: it ended, or the time is over.
    """
    deadline = time.monotonic() + timeout_s
    missing = dict(end_offsets)
    while time.monotonic() < deadline:
        broker.raise_if_ended()
        try:
            for partition, expected in list(missing.items()):
                if ask_end_offset(broker.port, topic, partition) >= expected:
                    del missing[partition]
            if not missing:
                return time.monotonic()
        except (OSError, struct.error):
            pass
        time.sleep(PROBE_INTERVAL_S)
    raise BrokerNotReadyError(f"{topic}: partitions {sorted(missing)} not served in time")
