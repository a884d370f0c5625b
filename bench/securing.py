"""What clients notice while a cluster that lets everybody in comes to require a log-in, and TLS.

    .venv/bin/python -m bench.securing [--rate 2000] [--json]

Three brokers as processes, without certificates and users at first. Each is restarted three times,
one after another, while a producer with acks=all sends at a steady rate:

    round    listener clients       listener encrypted       between brokers
             open, in the clear     not there                off
    1        optional               TLS, required            accept
    2        optional               TLS, required            dial
    3        required               TLS, required            on

Between the first round and the second the producer's successor begins, which logs in over TLS, and
then the first one stops: as an application that is deployed anew does. Whoever comes without a
log-in is counted by the brokers. Then everything is read back and compared with what was
acknowledged.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
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

from bench.ours import Kafkaesque
from bench.rolling_restart import (
    BROKERS,
    PARTITIONS,
    TOPIC,
    SteadyProducer,
    await_in_sync,
    count_read,
    restart,
)
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.server.authority import Authority
from tests.clients.cluster import CLUSTER_ID

PAUSE_S: Final = 2.0
#: By rounds: access of the listener clients, whether there is the one with TLS, and peers in [tls].
ROUNDS: Final = (
    ("open", False, "off"),
    ("optional", True, "accept"),
    ("optional", True, "dial"),
    ("required", True, "on"),
)
_USER, _PASSWORD = "app", "a password of the bench"
_COUNTER: Final = "kafkaesque_listener_connections_without_login_total"
_SECOND: Final = 100_000_000


@dataclass(slots=True)
class Report:
    """What came of it."""

    sent_without_login: int = 0
    sent_with_login: int = 0
    acknowledged: int = 0
    errors: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    restarts_s: list[float] = field(default_factory=list)
    #: Connections without a log-in that the brokers have counted in the first round, and in the
    #: second, when all clients had one.
    without_login_at_first: int = 0
    without_login_at_last: int = 0
    #: Whether somebody without a log-in still gets in where clients are.
    lets_strangers_in: bool = True

    @property
    def ok(self) -> bool:
        return not (
            self.errors or self.lost or self.without_login_at_last or self.lets_strangers_in
        )


def in_words(report: Report) -> str:
    """Return one line for each thing that is told."""
    return "\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in asdict(report).items())


class Securing:
    """A cluster that is being secured."""

    def __init__(self, home: Path) -> None:
        ports = unused_ports(3 * BROKERS)
        self.clients, self.encrypted = ports[:BROKERS], ports[BROKERS : 2 * BROKERS]
        self.admin = ports[2 * BROKERS :]
        self._home = home
        authority = Authority.create(home / "certs", CLUSTER_ID)
        for number in range(1, BROKERS + 1):
            authority.issue_broker(number, ("127.0.0.1",))
        self.ca = home / "certs" / "ca.pem"
        self._secret = home / "secret"
        self._secret.write_text("a secret of the bench, for a while\n")
        self._secret.chmod(0o600)
        #: The head of each broker's file, as it is without what changes.
        self._heads: dict[Path, str] = {}
        self.cluster = Kafkaesque(brokers=BROKERS, directory=home)

    def servers(self, ports: list[int]) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def prepare(self) -> None:
        """Write the brokers' files as they are at first."""
        self.cluster.prepare()
        for number, broker in enumerate(self.cluster.brokers, start=1):
            path = Path(broker.command[-1])
            head = f'[broker]\ncluster.secret.file = "{self._secret}"\n'
            self._heads[path] = path.read_text().replace("[broker]\n", head)
            self._write(path, number, 0)

    def write_round(self, number: int) -> None:
        """Write all files as a round has them."""
        for broker, path in enumerate(self._heads, start=1):
            self._write(path, broker, number)

    def _write(self, path: Path, broker: int, round_number: int) -> None:
        access, has_encrypted, peers = ROUNDS[round_number]
        own = self._home / "certs" / f"broker-{broker}"
        text = (
            f'\n[tls]\ncertificate = "{own}.pem"\nkey = "{own}.key"\nca = "{self.ca}"\n'
            f'peers = "{peers}"\n'
            f'[[listener]]\nname = "clients"\nport = {self.clients[broker - 1]}\n'
            f'access = "{access}"\n'
            f'[[listener]]\nprotocol = "admin"\nname = "metrics"\n'
            f"port = {self.admin[broker - 1]}\n"
        )
        if has_encrypted:
            text += (
                f'[[listener]]\nname = "encrypted"\nport = {self.encrypted[broker - 1]}\n'
                'access = "required"\ntls = true\n'
            )
        path.write_text(self._heads[path] + text)

    def make_user(self) -> None:
        """Let the application log in, and write to its topic."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        change = UserScramCredentialUpsertion(_USER, info, _PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(60)
        binding = AclBinding(
            ResourceType.TOPIC,
            TOPIC,
            ResourcePatternType.LITERAL,
            f"User:{_USER}",
            "*",
            AclOperation.WRITE,
            AclPermissionType.ALLOW,
        )
        for future in admin.create_acls([binding]).values():
            future.result(60)

    def secured_settings(self) -> Mapping[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": _USER,
            "sasl.password": _PASSWORD,
        }

    def count_without_login(self) -> int:
        """Return how often somebody came to the listener clients and did not log in."""
        total = 0.0
        for port in self.admin:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
                for line in page.read().decode().splitlines():
                    if line.startswith(_COUNTER) and 'listener="clients"' in line:
                        total += float(line.rpartition(" ")[2])
        return int(total)

    def lets_strangers_in(self) -> bool:
        """Tell whether a client without a log-in is answered where clients are."""
        options: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.servers(self.clients),
            "log_level": 0,
        }
        try:
            AdminClient(options).list_topics(timeout=5)
        except KafkaException:
            return False
        return True


def measure(rate: int, home: Path) -> Report:
    """Secure a cluster under load, and report."""
    securing, report = Securing(home), Report()
    securing.prepare()
    cluster = securing.cluster
    try:
        cluster.start()
        inside = cluster.bootstrap_servers
        config = {"min.insync.replicas": "2"}
        admin = AdminClient({"bootstrap.servers": inside})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS, config=config)])[TOPIC].result()
        await_in_sync(inside)
        first = SteadyProducer(securing.servers(securing.clients), rate)
        first.start()
        time.sleep(PAUSE_S)
        _next_round(securing, report, 1)
        report.without_login_at_first = securing.count_without_login()
        securing.make_user()
        second = SteadyProducer(
            securing.servers(securing.encrypted),
            rate,
            settings=securing.secured_settings(),
            first=_SECOND,
        )
        second.start()
        time.sleep(PAUSE_S)
        first.stop()
        _next_round(securing, report, 2)
        report.without_login_at_last = securing.count_without_login()
        _next_round(securing, report, 3)
        time.sleep(PAUSE_S)
        second.stop()
        report.lets_strangers_in = securing.lets_strangers_in()
        _sum_up(report, first, second, inside)
    finally:
        cluster.close()
    return report


def _next_round(securing: Securing, report: Report, number: int) -> None:
    securing.write_round(number)
    report.restarts_s += restart(securing.cluster.brokers, securing.cluster.bootstrap_servers)


def _sum_up(report: Report, first: SteadyProducer, second: SteadyProducer, inside: str) -> None:
    seen = count_read(inside)
    acknowledged = first.acknowledged | second.acknowledged
    report.sent_without_login, report.sent_with_login = first.sent, second.sent
    report.acknowledged = len(acknowledged)
    errors = first.errors + second.errors
    report.errors, report.reasons = errors.total(), dict(errors)
    report.lost = sum(number not in seen for number in acknowledged)
    ordered = sorted([*first.latencies_ms, *second.latencies_ms])
    if ordered:
        report.p99_ms = round(ordered[int(0.99 * (len(ordered) - 1))], 1)
        report.max_ms = round(ordered[-1], 1)


def main() -> int:
    """Run it, and print what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=2_000, help="messages a second")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafkaesque-securing-") as home:
        report = measure(given.rate, Path(home))
    print(json.dumps(asdict(report)) if given.json else in_words(report))
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
