"""The command line logs in at a real broker: password, code, session, and out again."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from kafkaesque.access.secret import Secret
from kafkaesque.access.totp import step_of, write_code
from kafkaesque.cli.broker_ports import unused_ports
from tests.forked import processes

PASSWORD = "a password of tests"
READY_S = 90.0


class Place(NamedTuple):
    """A broker whose ports want a log-in, but for one of Kafka's."""

    folder: Path
    open_kafka: int
    kafka: int
    admin: int
    open_admin: int

    def run(self, *words: str, kafka: int | None = None) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "KAFKAESQUE_SESSION_FILE": str(self.folder / "session.json"),
            "KAFKAESQUE_BOOTSTRAP_SERVER": f"127.0.0.1:{kafka or self.kafka}",
            "KAFKAESQUE_ADMIN": f"127.0.0.1:{self.admin}",
        }
        return processes.run(
            [sys.executable, "-m", "kafkaesque.cli.app", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def ok(self, *words: str, kafka: int | None = None) -> str:
        done = self.run(*words, kafka=kafka)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("sessions")
    ports = unused_ports(5)
    made = Place(folder, *ports[:4])
    for name, text in (("secret", "a secret of the cluster, for tests"), ("password", PASSWORD)):
        path = folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)
    config = folder / "broker.toml"
    config.write_text(
        f"""[broker]
id = 1
data = "{folder}/data"
cluster.secret.file = "{folder}/secret"
super.users = "User:alice"
text.port = 0
kafka.port = {made.open_kafka}
admin.port = {made.open_admin}
peer.port = {ports[4]}

[[listener]]
name = "clients"
port = {made.kafka}
access = "required"

[[listener]]
protocol = "admin"
name = "people"
port = {made.admin}
access = "required"
"""
    )
    with (folder / "log").open("w") as log:
        broker = subprocess.Popen(
            [sys.executable, "-m", "kafkaesque.cli.app", "broker", "--config", str(config)],
            stdout=log,
            stderr=log,
        )
    try:
        _wait(made)
        password = str(folder / "password")
        made.ok("user", "create", "alice", "--password-file", password, kafka=made.open_kafka)
        yield made
    finally:
        broker.terminate()
        with suppress(subprocess.TimeoutExpired):
            broker.wait(30)
        broker.kill()


def _wait(place: Place) -> None:
    deadline_s = time.monotonic() + READY_S
    while time.monotonic() < deadline_s:
        if place.run("cluster", "status", kafka=place.open_kafka).returncode == 0:
            return
        time.sleep(0.2)
    raise AssertionError((place.folder / "log").read_text())


def test_a_person_logs_in_with_a_code_and_out_again(place: Place) -> None:
    password = str(place.folder / "password")
    assert place.run("topic", "list").returncode != 0
    open_admin = f"127.0.0.1:{place.open_admin}"
    added: Any = json.loads(
        place.ok("user", "totp", "add", "alice", "--admin", open_admin, "--json")
    )
    (text,) = parse_qs(urlsplit(added["uri"]).query)["secret"]
    secret = Secret(base64.b32decode(text + "=" * (-len(text) % 8)))

    refused = place.run("login", "alice", "--password-file", password)
    assert refused.returncode != 0
    assert "the log-in is refused" in refused.stderr
    code = write_code(secret, step_of(int(time.time() * 1_000)))
    assert "logged in as alice until" in place.ok(
        "login", "alice", "--password-file", password, "--code", code
    )
    file = place.folder / "session.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert PASSWORD not in file.read_text()

    # By librdkafka, by our own requests, and at the admin port.
    place.ok("topic", "create", "orders")
    assert "orders" in place.ok("topic", "list")
    assert "alice" in place.ok("user", "list")
    place.ok("publish", "orders", "hello")
    assert "hello" in place.ok(
        "consume", "orders", "--from-beginning", "--max", "1", "--timeout", "30"
    )
    # Another cluster, or a listener that nobody logs in at, is not shown the token.
    place.ok("topic", "list", kafka=place.open_kafka)

    token = json.loads(file.read_text())["token"]
    file.chmod(0o644)
    assert "others may read" in place.run("topic", "list").stderr
    file.chmod(0o600)
    ended = place.ok("user", "logout", "alice", "--admin", open_admin)
    assert "1 session of alice ended" in ended
    assert place.run("topic", "list").returncode != 0
    code = write_code(secret, step_of(int(time.time() * 1_000)) + 1)
    place.ok("login", "alice", "--password-file", password, "--code", code)
    token = json.loads(file.read_text())["token"]
    assert "alice is logged out" in place.ok("logout")
    assert not file.exists()
    assert place.run("topic", "list").returncode != 0
    # The token is worth nothing, not only gone.
    kept = {"user": "alice", "token": token, "expires_ms": int(time.time() * 1_000) + 60_000}
    addresses = [f"127.0.0.1:{place.kafka}"]
    file.write_text(json.dumps({**kept, "addresses": addresses, "admin": "127.0.0.1:1"}))
    file.chmod(0o600)
    assert place.run("topic", "list").returncode != 0
    file.unlink()

    shown = place.ok("user", "totp", "add", "alice", "--admin", open_admin)
    assert "otpauth://totp/" in shown
    assert "\u2588" in shown
