"""What TLS costs a broker: `python -m bench.tls`.

One broker with listeners in the clear and with TLS 1.3 (P-256); rounds alternate between them, so
that all meet the same machine. Processor time is the broker's alone, of one core: a busy machine
changes it less than it changes rates.

- produce, fetch: bulk with librdkafka, records of 1 KB
- small: ApiVersions, one at a time, over a blocking socket
- handshakes: connect, shake hands, hang up; also with a client certificate
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic

from bench import bulk
from bench.processes import BrokerProcess, wait_until_ready
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.server.authority import Authority

READY_S = 60.0
RECORD_BYTES = 1_000
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How clients come in."""

    name: str
    port: int
    tls: ssl.SSLContext | None
    librdkafka: dict[str, str]

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """Of librdkafka."""
        return {"bootstrap.servers": self.servers, **self.librdkafka}

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock if self.tls is None else self.tls.wrap_socket(sock, server_hostname="localhost")


@contextmanager
def running(home: Path) -> Iterator[tuple[BrokerProcess, list[Way]]]:
    """Run a broker; yield it and the ways to it: in the clear, TLS, TLS with a certificate."""
    authority = Authority.create(home / "ca", "bench")
    authority.issue_broker(1, ("localhost", "127.0.0.1"))
    authority.issue_user("load")
    clear, tls, mutual, peer = unused_ports(4)
    own = home / "ca" / "broker-1"
    (home / "broker.toml").write_text(
        f'[broker]\nid = 1\ncluster.id = "bench"\ndata = "{home}/data"\nkafka.port = {clear}\n'
        f'peer.port = {peer}\ntext.port = 0\nadmin.port = 0\nlog.level = "error"\n'
        f'[tls]\ncertificate = "{own}.pem"\nkey = "{own}.key"\nca = "{home}/ca/ca.pem"\n'
        f'[[listener]]\nname = "secure"\nport = {tls}\ntls = true\n'
        f'[[listener]]\nname = "mutual"\nport = {mutual}\ntls.client.auth = "required"\n'
    )
    import sys

    command = [sys.executable, "-m", "kafkaesque.server", "--config", str(home / "broker.toml")]
    broker = BrokerProcess(command, log_path=home / "log", port=clear)
    broker.start()
    try:
        wait_until_ready(broker, brokers=1, timeout_s=READY_S)
        yield broker, _ways(home / "ca", clear, tls, mutual)
    finally:
        broker.stop()


def _ways(ca: Path, clear: int, tls: int, mutual: int) -> list[Way]:
    anybody = ssl.create_default_context(cafile=str(ca / "ca.pem"))
    somebody = ssl.create_default_context(cafile=str(ca / "ca.pem"))
    somebody.load_cert_chain(ca / "load.pem", ca / "load.key")
    trust = {"security.protocol": "ssl", "ssl.ca.location": str(ca / "ca.pem")}
    return [
        Way(name="clear", port=clear, tls=None, librdkafka={}),
        Way(name="TLS", port=tls, tls=anybody, librdkafka=trust),
        Way(name="mutual TLS", port=mutual, tls=somebody, librdkafka={}),
    ]


def produce(way: Way, topic: str, megabytes: int) -> None:
    """Send records in bulk, and wait until all are acknowledged."""
    value = os.urandom(RECORD_BYTES)
    bulk.produce(way.settings, topic, value, megabytes * 1_000_000 // RECORD_BYTES)


def fetch(way: Way, topic: str, megabytes: int) -> None:
    """Read so much from the beginning."""
    bulk.fetch(way.settings, topic, megabytes * 1_000_000 // RECORD_BYTES)


def ask(way: Way, count: int) -> list[float]:
    """Ask one thing after the other on one connection; return how long each took, in seconds."""
    times: list[float] = []
    with way.connect() as sock:
        for _ in range(count):
            begun = time.perf_counter()
            sock.sendall(_API_VERSIONS)
            (length,) = struct.unpack(">i", _receive(sock, 4))
            _receive(sock, length)
            times.append(time.perf_counter() - begun)
    return times


def _receive(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = sock.recv(length - len(data))
        if not piece:
            raise ConnectionError("the broker has hung up")
        data += piece
    return data


def connect(way: Way, count: int) -> None:
    """Connect, ask one thing, and hang up."""
    for _ in range(count):
        ask(way, 1)


@dataclass(slots=True)
class Cost:
    """What rounds of one kind took."""

    cpu_s: list[float]
    wall_s: list[float]


def measured(broker: BrokerProcess, work: Callable[[], object], cost: Cost) -> None:
    """Do it, and add what it took."""
    cpu, wall = broker.cpu_seconds(), time.monotonic()
    work()
    cost.wall_s.append(time.monotonic() - wall)
    cost.cpu_s.append(broker.cpu_seconds() - cpu)


def run(rounds: int, megabytes: int, requests: int, connections: int) -> None:
    """Measure all of it and print a table."""
    costs: dict[tuple[str, str], Cost] = {}
    times: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-tls-") as folder,
        running(Path(folder)) as (
            broker,
            ways,
        ),
    ):
        admin = AdminClient({"bootstrap.servers": ways[0].servers})
        for number in range(rounds):
            # Who comes first is not always the same.
            for way in ways if number % 2 else ways[::-1]:
                topic = f"t-{number}-{way.port}"
                admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_TIMEOUT_S)
                jobs: list[tuple[str, Callable[[], object]]] = [
                    ("connect", lambda way=way: connect(way, connections)),  # type: ignore[misc]
                    ("small", lambda way=way: times.setdefault(way.name, []).extend(  # type: ignore[misc]
                        ask(way, requests))),
                ]  # fmt: skip
                if way.name != "mutual TLS":
                    jobs += [
                        ("produce", lambda w=way, t=topic: produce(w, t, megabytes)),  # type: ignore[misc]
                        ("fetch", lambda w=way, t=topic: fetch(w, t, megabytes)),  # type: ignore[misc]
                    ]
                for what, work in jobs:
                    measured(broker, work, costs.setdefault((what, way.name), Cost([], [])))
    _print(costs, times, megabytes, requests, connections)


def _print(
    costs: dict[tuple[str, str], Cost],
    times: dict[str, list[float]],
    megabytes: int,
    requests: int,
    connections: int,
) -> None:
    print(f"{'what':10}{'way':12}{'a second':>12}{'broker CPU':>16}")
    units = {
        "produce": (megabytes, "MB", 1_000, "ms/GB", 1_000),
        "fetch": (megabytes, "MB", 1_000, "ms/GB", 1_000),
        "small": (requests, "", 1, "us each", 1_000_000),
        "connect": (connections, "", 1, "us each", 1_000_000),
    }
    for (what, way), cost in sorted(costs.items()):
        amount, unit, per, label, scale = units[what]
        rate = amount / median(cost.wall_s)
        cpu = median(cost.cpu_s) / amount * per * scale
        print(f"{what:10}{way:12}{rate:>9.0f} {unit:2}{cpu:>9.0f} {label}")
    for way, found in times.items():
        found.sort()
        middle, late = found[len(found) // 2], found[len(found) * 99 // 100]
        print(f"{'small':10}{way:12}p50 {middle * 1e6:.0f} us, p99 {late * 1e6:.0f} us")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=1_000)
    given = parser.parse_args(arguments)
    run(given.rounds, given.megabytes, given.requests, given.connections)


if __name__ == "__main__":
    main()
