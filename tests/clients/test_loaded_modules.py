"""A broker loads what it is configured for: what nobody uses takes no memory."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from tests.certificates import TestAuthority
from tests.clients.cluster import KafkaesqueCluster
from tests.waiting import DEADLINE_S

#: Runs a broker; when it has stopped, says which modules it has loaded.
_LAUNCHER = """\
import json, sys
from kafkaesque.server.__main__ import main
status = main()
print("loaded " + json.dumps(sorted(sys.modules)), flush=True)
sys.exit(status)
"""

TLS = ("kafkaesque.runtime.tls_connection", "kafkaesque.server.certificates")
ADMIN = ("kafkaesque.admin.gateway", "kafkaesque.console.pages", "httptools")
LOG_INS = (
    "kafkaesque.access.sasl_servers",
    "kafkaesque.access.scram_server",
    "kafkaesque.access.oauthbearer",
    "kafkaesque.access.json_web_tokens",
)
AUDIT = (
    "kafkaesque.broker.upkeep.audit_writer",
    "kafkaesque.broker.metadata.audited_commands",
    "kafkaesque.access.audit_verifier",
)
#: What a broker with a Kafka listener alone, at which nobody logs in, does without.
HEAVY = (
    *TLS,
    *ADMIN,
    *LOG_INS,
    *AUDIT,
    "kafkaesque.gateway.text.gateway",
    "kafkaesque.gateway.sqs.gateway",
    "kafkaesque.protocols.sqs.service",
    "kafkaesque.gateway.registry.gateway",
    "kafkaesque.registry.planner",
    "kafkaesque.groups.table",
    "kafkaesque.groups.consumer.heartbeats",
    "fastavro",
    "google.protobuf",
    "jsonschema",
    "kafkaesque.gateway.amqp.gateway",
    "kafkaesque.gateway.mqtt.gateway",
    "kafkaesque.gateway.nats.gateway",
    "kafkaesque.gateway.stomp.gateway",
    "kafkaesque.protocols.amqp.methods",
    "kafkaesque.runtime.tls_handshakes",
    "kafkaesque.server.certificate_watch",
    "kafkaesque.server.key_set_watch",
    "kafkaesque.broker.doors.sessions",
    "kafkaesque.cli.app",
    "kafkaesque.sim.runner",
    "cryptography",
    "joserfc",
    "typer",
    "rich",
    "segno",
    "confluent_kafka",
    "pyspark",
    "argparse",
    "bz2",
    "difflib",
    "importlib.resources",
    "lzma",
    "pickle",
    "shutil",
    "tempfile",
)


class ToldCluster(KafkaesqueCluster):
    """Its brokers say at their end what they have loaded."""

    #: Not from one that has loaded everything.
    popen: type[subprocess.Popen[bytes]] = subprocess.Popen

    def prepare(self) -> None:
        super().prepare()
        for broker in self.brokers:
            broker.command = [sys.executable, "-c", _LAUNCHER, *broker.command[-2:]]

    def configure(self, number: int, old: str, new: str) -> None:
        """Change a broker's file, before the start."""
        path = Path(self.brokers[number - 1].command[-1])
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def loaded(self, number: int = 1) -> list[str]:
        """Stop a broker; return the names of the modules that it had loaded."""
        broker = self.brokers[number - 1]
        broker.stop()
        (line,) = [
            line for line in broker.log_path.read_text().splitlines() if line.startswith("loaded ")
        ]
        loaded: list[str] = json.loads(line.removeprefix("loaded "))
        return loaded


def heavy_among(loaded: Sequence[str]) -> set[str]:
    return set(HEAVY) & set(loaded)


def test_a_plain_broker_loads_nothing_of_what_it_is_not_configured_for(tmp_path: Path) -> None:
    with ToldCluster(1, directory=tmp_path) as cluster:
        loaded = cluster.loaded()
    assert "kafkaesque.gateway.kafka.gateway" in loaded
    assert heavy_among(loaded) == set()


@pytest.mark.parametrize("name", [each for each in HEAVY if each.startswith("kafkaesque.")])
def test_what_is_looked_for_has_this_name(name: str) -> None:
    assert find_spec(name) is not None


def test_a_broker_with_an_admin_port_loads_it_and_no_more(tmp_path: Path) -> None:
    cluster = ToldCluster(1, directory=tmp_path)
    cluster.prepare()
    try:
        cluster.configure(1, "admin.port = 0", f"admin.port = {unused_ports(1)[0]}")
        cluster.start()
        loaded = cluster.loaded()
    finally:
        cluster.close()
    assert set(ADMIN) <= set(loaded)
    assert not {*TLS, "kafkaesque.gateway.text.gateway", "importlib.resources"} & set(loaded)


def test_a_broker_at_which_clients_log_in_loads_what_serves_them_at_the_start(
    tmp_path: Path,
) -> None:
    cluster = ToldCluster(1, directory=tmp_path)
    cluster.prepare()
    try:
        secret = tmp_path / "secret"
        secret.touch(mode=0o600)
        secret.write_text("a secret of the cluster, long enough\n")
        own = TestAuthority(tmp_path / "authority").settings()
        secure = (
            f'[tls]\ncertificate = "{own.certificate}"\nkey = "{own.key}"\nca = "{own.ca}"\n'
            f'[[listener]]\nname = "secure"\nport = {unused_ports(1)[0]}\n'
            'tls = true\naccess = "required"\n'
        )
        cluster.configure(1, "[broker]\n", f'[broker]\ncluster.secret.file = "{secret}"\n')
        cluster.configure(1, "[controllers]\n", f"{secure}[controllers]\n")
        cluster.start()
        loaded = cluster.loaded()
    finally:
        cluster.close()
    assert {*TLS, *LOG_INS, *AUDIT} <= set(loaded)


def test_a_broker_without_an_admin_port_tells_others_its_part(tmp_path: Path) -> None:
    cluster = ToldCluster(2, directory=tmp_path)
    cluster.prepare()
    (port,) = unused_ports(1)
    try:
        cluster.configure(1, "admin.port = 0", f"admin.port = {port}")
        cluster.start()
        url = f"http://127.0.0.1:{port}/api/v1/brokers"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            seen = json.load(answer)
        loaded = cluster.loaded(2)
    finally:
        cluster.close()
    assert [(each["broker"], each["missing"]) for each in seen["sources"]] == [(1, None), (2, None)]
    # It was loaded because of the question.
    assert set(ADMIN) <= set(loaded)


@pytest.mark.parametrize("arguments", [[], ["--config"], ["--help"], ["--config", "a", "b"]])
def test_arguments_of_the_server_are_explained(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "kafkaesque.server", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert ended.returncode == (0 if arguments == ["--help"] else 2)
    assert "usage: kafkaesque.server [-h] --config CONFIG" in ended.stdout + ended.stderr
