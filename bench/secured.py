"""TLS and log-ins side by side with Apache Kafka: `python -m bench.secured`.

A broker of ours and one of Apache Kafka, each with a listener for SASL_SSL with SCRAM-SHA-512 and a
certificate of the same authority (P-256). Rounds alternate between them, so that both meet the same
machine, after one that is not counted; each ratio is the median of those of the rounds. Above 1
ours is better.

- produce, fetch: bulk with librdkafka, records of 1 KB, acks=all
- one by one: a record of 1 KB is acknowledged before the next is sent
- small: ApiVersions, one at a time, over a blocking socket that has logged in
- handshakes: connect, shake hands, hang up
- log-ins: connect, shake hands, log in, hang up

Topics are written from the page cache on both sides; with --sync, synced before acknowledged.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench import bulk
from bench.apache_kafka import SERVER_VERSION
from bench.maven import PeerUnavailableError
from bench.ours import Kafkaesque
from bench.processes import BrokerProcess
from bench.secured_peer import SecuredKafka
from kafkaesque.access.secret import Secret
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.client.log_in import LogIn, log_in_steps
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.server.authority import Authority
from tests.clients.cluster import CLUSTER_ID

SKIPPED: Final = 3
RECORD_BYTES: Final = 1_000
_HOST: Final = "127.0.0.1"
_HOSTS: Final = ("localhost", _HOST)
_USER, _PASSWORD = "bench", "a password of the bench"
_TIMEOUT_S: Final = 120.0
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
OURS, PEER = "ours", f"Apache Kafka {SERVER_VERSION}"


@dataclass(slots=True)
class Way:
    """One broker, and what it has done."""

    name: str
    #: Of the listener in the clear, for what is prepared.
    clear: str
    port: int
    ca: Path
    broker: BrokerProcess
    topic_options: Mapping[str, str]
    #: By what was done: operations a second, one for each round.
    rates: dict[str, list[float]] = field(default_factory=dict)
    #: The same: seconds of the broker's processor for each.
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    #: Seconds that each request took, of all rounds.
    times: dict[str, list[float]] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"{_HOST}:{self.port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": _USER,
            "sasl.password": _PASSWORD,
        }

    def forget(self) -> None:
        """What was measured so far was for warming up."""
        self.rates.clear()
        self.cpu_s.clear()
        self.times.clear()

    def measure(self, what: str, count: int, work: Callable[[], object]) -> None:
        """Do it, and note how often it was done in a second."""
        cpu, begun = self.broker.cpu_seconds(), time.perf_counter()
        work()
        took = time.perf_counter() - begun
        self.rates.setdefault(what, []).append(count / took)
        self.cpu_s.setdefault(what, []).append((self.broker.cpu_seconds() - cpu) / count)


# -- brokers


class SecuredOurs(Kafkaesque):
    """A broker that has a listener for SASL_SSL with a log-in beside the one in the clear."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        super().__init__(brokers=1, directory=directory)
        (self.secured_port,) = unused_ports(1)
        authority.issue_broker(1, _HOSTS)
        own = authority.directory / "broker-1"
        secret = directory / "secret"
        secret.write_text("a secret of the bench, for a while\n")
        secret.chmod(0o600)
        self._head = f'[broker]\ncluster.secret.file = "{secret}"\n'
        self._more = (
            f'\n[tls]\ncertificate = "{own}.pem"\nkey = "{own}.key"\n'
            f'ca = "{own.parent / "ca.pem"}"\n'
            f'[[listener]]\nname = "secured"\nport = {self.secured_port}\n'
            'access = "required"\ntls = true\n'
        )

    def prepare(self) -> None:
        super().prepare()
        path = Path(self.brokers[0].command[-1])
        path.write_text(path.read_text().replace("[broker]\n", self._head, 1) + self._more)


@contextmanager
def running(home: Path, *, sync: bool) -> Iterator[list[Way]]:
    """Run both brokers, with a user and a rule each."""
    authority = Authority.create(home / "ca", CLUSTER_ID)
    authority.issue_broker(2, _HOSTS)
    keystore, own = home / "keystore.pem", home / "ca" / "broker-2"
    keystore.write_text(Path(f"{own}.key").read_text() + Path(f"{own}.pem").read_text())
    ca = home / "ca" / "ca.pem"
    (home / "ours").mkdir()
    ours = SecuredOurs(home / "ours", authority)
    with SecuredKafka(1, key_and_certificate=keystore) as kafka, ours:
        ways = [
            Way(
                name=name,
                clear=side.bootstrap_servers,
                port=port,
                ca=ca,
                broker=side.brokers[0],
                topic_options=side.topic_options(sync=sync),
            )
            for name, side, port in (
                (OURS, ours, ours.secured_port),
                (PEER, kafka, int(kafka.secured_servers.rpartition(":")[2])),
            )
        ]
        for way in ways:
            make_user(way)
        yield ways


def make_user(way: Way) -> None:
    """Make the user who asks, with rules for all topics and groups where rules count."""
    admin = AdminClient({"bootstrap.servers": way.clear})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    change = UserScramCredentialUpsertion(_USER, info, _PASSWORD.encode())
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(_TIMEOUT_S)
    if way.name != OURS:
        return  # Without an authorizer Apache Kafka lets every user do everything.
    rules = [
        AclBinding(
            kind,
            "*",
            ResourcePatternType.LITERAL,
            f"User:{_USER}",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
    ]
    for future in admin.create_acls(rules).values():
        future.result(_TIMEOUT_S)


# -- what is measured


def produce(way: Way, topic: str, count: int) -> None:
    """Send records in bulk, and wait until all are acknowledged."""
    bulk.produce(way.settings, topic, bytes(RECORD_BYTES), count)


def fetch(way: Way, topic: str, count: int) -> None:
    """Read so many records from the beginning."""
    bulk.fetch(way.settings, topic, count)


def produce_one_by_one(way: Way, topic: str, count: int) -> None:
    """Wait for each record's acknowledgement before the next one is sent."""
    producer = Producer({**way.settings, "linger.ms": 0, "acks": "all"})
    value, times = bytes(RECORD_BYTES), way.times.setdefault("one by one", [])
    for _ in range(count):
        begun = time.perf_counter()
        producer.produce(topic, value)
        if producer.flush(_TIMEOUT_S):
            raise TimeoutError("a record was not acknowledged in time")
        times.append(time.perf_counter() - begun)


def shake_hands(way: Way, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Connect, by a handshake of its own."""
    sock = socket.create_connection((_HOST, way.port), timeout=_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(sock, server_hostname="localhost")


def handshakes(way: Way, context: ssl.SSLContext, count: int) -> None:
    """Connect and hang up, one after the other."""
    for _ in range(count):
        shake_hands(way, context).close()


def log_in(way: Way, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Connect and log in."""
    sock = shake_hands(way, context)
    steps = log_in_steps(LogIn(user=_USER, password=Secret.of(_PASSWORD)))
    try:
        step = next(steps)
        while True:
            key, version, message = step
            sock.sendall(write_request(key, version, 1, "bench", message))
            step = steps.send(read_response(memoryview(answer_of(sock)), key, version)[1])
    except StopIteration:
        return sock


def log_ins(way: Way, context: ssl.SSLContext, count: int) -> None:
    """Connect, log in and hang up, one after the other."""
    for _ in range(count):
        log_in(way, context).close()


def small_requests(way: Way, context: ssl.SSLContext, count: int) -> None:
    """Ask one thing after the other on one connection."""
    times = way.times.setdefault("small", [])
    with log_in(way, context) as sock:
        for _ in range(count):
            begun = time.perf_counter()
            sock.sendall(_API_VERSIONS)
            answer_of(sock)
            times.append(time.perf_counter() - begun)


def answer_of(sock: ssl.SSLSocket) -> bytes:
    """Receive one answer."""
    (length,) = struct.unpack(">i", _receive(sock, 4))
    return _receive(sock, length)


def _receive(sock: ssl.SSLSocket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = sock.recv(length - len(data))
        if not piece:
            raise ConnectionError("the broker has hung up")
        data += piece
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of each is done in a round."""

    records: int
    singles: int
    requests: int
    connections: int


def one_round(way: Way, number: int, sizes: Sizes) -> None:
    """Do each of it once."""
    admin = AdminClient({"bootstrap.servers": way.clear})
    topic = f"round-{number + 1}"
    new = NewTopic(topic, 1, 1, config=dict(way.topic_options))
    admin.create_topics([new])[topic].result(_TIMEOUT_S)
    context = ssl.create_default_context(cafile=str(way.ca))
    # Once for what is loaded and compiled by it.
    produce(way, topic, 1)
    records, singles = sizes.records, sizes.singles
    way.measure("produce", records, lambda: produce(way, topic, records))
    way.measure("fetch", records, lambda: fetch(way, topic, records))
    way.measure("one by one", singles, lambda: produce_one_by_one(way, topic, singles))
    requests, connections = sizes.requests, sizes.connections
    way.measure("small", requests, lambda: small_requests(way, context, requests))
    way.measure("handshakes", connections, lambda: handshakes(way, context, connections))
    way.measure("log-ins", connections, lambda: log_ins(way, context, connections))
    admin.delete_topics([topic])[topic].result(_TIMEOUT_S)


def report(ways: Sequence[Way]) -> None:
    """Print rates, and ours against the peer's."""
    ours, peer = ways
    print(f"{'what':14}{OURS:>14}{PEER:>22}{'ratio':>8}   us CPU each")
    for what, rates in ours.rates.items():
        ratios = [a / b for a, b in zip(rates, peer.rates[what], strict=True)]
        own, other = (median(way.cpu_s[what]) * 1e6 for way in ways)
        print(
            f"{what:14}{median(rates):>12,.0f}/s{median(peer.rates[what]):>20,.0f}/s"
            f"{median(ratios):>7.2f}x   {own:,.1f} and {other:,.1f}"
        )
    for what, times in ours.times.items():
        for percent in (50, 99):
            mine, others = _percentile(times, percent), _percentile(peer.times[what], percent)
            print(
                f"{f'{what} p{percent}':14}{mine * 1e6:>12,.0f} us{others * 1e6:>20,.0f} us"
                f"{others / mine:>6.2f}x"
            )


def _percentile(times: Sequence[float], percent: int) -> float:
    return sorted(times)[(len(times) - 1) * percent // 100]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=300_000, help="of 1 KB, in a round")
    parser.add_argument("--singles", type=int, default=3_000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--sync", action="store_true", help="sync before acknowledging")
    given = parser.parse_args(arguments)
    sizes = Sizes(
        records=given.records,
        singles=given.singles,
        requests=given.requests,
        connections=given.connections,
    )
    try:
        with (
            tempfile.TemporaryDirectory(prefix="bench-secured-") as folder,
            running(Path(folder), sync=given.sync) as ways,
        ):
            for way in ways:
                one_round(way, -1, sizes)
                way.forget()
            for number in range(given.rounds):
                # Who comes first has no advantage on average.
                for way in ways if number % 2 else ways[::-1]:
                    one_round(way, number, sizes)
            report(ways)
    except PeerUnavailableError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
