"""What stands, beside RabbitMQ: connections that do nothing, and messages that nobody takes."""

from __future__ import annotations

import resource
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.amqp_clients import ClientError, run_c
from bench.amqp_sides import OURS, RABBITMQ, Side
from bench.processes import rss_bytes, rss_peak_bytes
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.frames import METHOD, PROTOCOL_HEADER, write_frame
from kafkaesque.protocols.amqp.method_codec import write_method

MIB: Final = 1024 * 1024
#: What the first connections bring into memory is not their own.
WARM_UP: Final = 100
TIMEOUT_S: Final = 30.0
#: Memory is looked at once nothing has been done for so long.
REST_S: Final = 5.0
PRODUCERS: Final = 4
PARTS: Final = 10
#: The backlog is published within so long.
BACKLOG_S_MAX: Final = 1_800.0
_CREDENTIALS: Final = b"\0guest\0guest"
_FRAME_HEAD_BYTES: Final = 7
_FRAME_BYTES_MAX: Final = 131_072


class Idle:
    """A connection with one channel, which asks for nothing more."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        # What is written in two steps is not held back until the first is acknowledged.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(PROTOCOL_HEADER)
        self._expect(m.ConnectionStart)
        self._send(0, m.ConnectionStartOk(mechanism="PLAIN", response=_CREDENTIALS))
        self._expect(m.ConnectionTune)
        # No heartbeats: a connection costs what it is.
        tuned = m.ConnectionTuneOk(channel_max=2047, frame_max=_FRAME_BYTES_MAX)
        self._send(0, tuned)
        self._send(0, m.ConnectionOpen())
        self._expect(m.ConnectionOpenOk)
        self._send(1, m.ChannelOpen())
        self._expect(m.ChannelOpenOk)

    def _send(self, channel: int, method: m.Method) -> None:
        self._socket.sendall(write_frame(METHOD, channel, write_method(method)))

    def _expect(self, kind: type[m.Method]) -> None:
        head = self._read(_FRAME_HEAD_BYTES)
        payload = self._read(int.from_bytes(head[3:7]) + 1)
        found = (int.from_bytes(payload[:2]), int.from_bytes(payload[2:4]))
        if head[0] != METHOD or found != (kind.class_id, kind.method_id):
            raise ClientError(f"{kind.__name__} was expected, and {found} came")

    def _read(self, count: int) -> bytes:
        raw = self._socket.recv(count, socket.MSG_WAITALL)
        if len(raw) < count:
            raise ClientError("the broker has closed a connection")
        return raw

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def measure_connections(at: Sequence[Side], count: int) -> None:
    """Open connections with a channel each, and print what each takes of the broker's memory.

    Raises:
        ClientError: one cannot be opened.
    """
    _allow_files(count + 1_000)
    costs: dict[str, float] = {}
    for side in at:
        with (
            tempfile.TemporaryDirectory(prefix="bench-amqp-") as directory,
            side.run(Path(directory), 1) as brokers,
        ):
            broker = brokers.nodes[0]
            connections = [Idle(broker.port) for _ in range(WARM_UP)]
            try:
                time.sleep(REST_S)
                before, begun_s = rss_bytes(broker.pid), time.monotonic()
                connections += [Idle(broker.port) for _ in range(count)]
                took_s = time.monotonic() - begun_s
                time.sleep(REST_S)
                after = rss_bytes(broker.pid)
            finally:
                for each in connections:
                    each.close()
        costs[side.name] = (after - before) / count
        print(
            f"{count:,} connections with a channel, {side.name}: {before / MIB:.0f} MiB before, "
            f"{after / MIB:.0f} MiB with them, {costs[side.name] / 1024:.1f} KiB each, "
            f"opened in {1e6 * took_s / count:,.0f} us",
            flush=True,
        )
    if len(costs) == 2:
        print(f"  ratio of memory {costs[OURS] / costs[RABBITMQ]:.2f} (lower is better)")


def _allow_files(count: int) -> None:
    """Let this process, and the brokers that it starts, open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise ClientError(f"{count:,} files are needed, and {hard:,} allowed (ulimit -n)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def measure_backlog(at: Sequence[Side], count: int) -> None:
    """Publish messages that nobody takes; print the rate of each tenth, and the memory.

    Raises:
        ClientError: the load failed.
    """
    for side in at:
        with (
            tempfile.TemporaryDirectory(prefix="bench-amqp-") as directory,
            side.run(Path(directory), 1) as brokers,
            _looking_at(brokers.nodes[0].pid) as seen,
        ):
            broker = brokers.nodes[0]
            found = run_c(
                broker.port,
                lambda: None,
                BACKLOG_S_MAX,
                name="backlog",
                producers=PRODUCERS,
                consumers=0,
                messages=count,
            )
            peak = rss_peak_bytes(broker.pid)
        parts = [found[f"part_{number}_s"] for number in range(1, PARTS + 1)]
        seconds = found["seconds"]
        memory = [
            seen[min(len(seen) - 1, len(seen) * tenth // PARTS)] for tenth in range(PARTS + 1)
        ]
        print(
            f"{count:,} messages, and nobody takes them, {side.name}: {count / seconds:,.0f}/s\n"
            f"  messages/s by tenths: {' '.join(f'{each:,.0f}' for each in parts)}\n"
            f"  MiB by tenths: {' '.join(f'{each / MIB:.0f}' for each in memory)}; "
            f"most {peak / MIB:.0f}",
            flush=True,
        )


@contextmanager
def _looking_at(pid: int) -> Iterator[list[int]]:
    """Look at a process's memory a few times a second; yield what was seen."""
    seen = [rss_bytes(pid)]
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(0.2):
            seen.append(rss_bytes(pid))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
