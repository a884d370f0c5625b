"""A broker as a process that hears of no controller any more: whom it lets in, and who says so."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

PASSWORD = "a password of tests"
STALE_MS = 2_000
#: Where the second broker says that it is, and where the relay before it is.
ADVERTISED = "127.0.0.2"


class Relay:
    """Passes on what others have to say to a broker; brokers speak on what they have dialled."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server((ADVERTISED, port))
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def cut(self) -> None:
        """Nothing comes through any more."""
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._port))
                self._sockets += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Place(NamedTuple):
    cluster: KafkaesqueCluster
    relay: Relay
    folder: Path
    #: The second broker's listener with a log-in.
    guarded: int

    def run(self, *words: str) -> str:
        done = processes.run(
            [sys.executable, "-m", "kafkaesque.cli.app", *words],
            env={**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": self.cluster.brokers[0].address},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def lets_in(self) -> bool:
        settings: dict[str, Any] = {
            "bootstrap.servers": f"127.0.0.1:{self.guarded}",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "log_level": 0,
        }
        try:
            AdminClient(settings).list_topics(timeout=3)
        except KafkaException:
            return False
        return True

    def findings(self) -> dict[str, list[str]]:
        found = json.loads(self.run("doctor", "--json"))["findings"]
        return {each["check"]: each["names"] for each in found}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    secret, password = tmp_path / "secret", tmp_path / "password"
    for path, text in ((secret, "a secret of the cluster, for tests"), (password, PASSWORD)):
        path.touch(mode=0o600)
        path.write_text(text + "\n")
    (guarded,) = unused_ports(1)
    listener = f'\n[[listener]]\nname = "guarded"\nport = {guarded}\naccess = "required"\n'
    cluster = KafkaesqueCluster(
        2,
        directory=tmp_path,
        options={"authorization.stale.ms.max": str(STALE_MS)},
        sections=lambda number: listener if number == 2 else "",
    )
    cluster.prepare()
    for number, broker in enumerate(cluster.brokers, start=1):
        path = broker.log_path.parent / "broker.toml"
        head = f'[broker]\ncluster.secret.file = "{secret}"\n'
        if number == 2:
            head += f'advertised.host = "{ADVERTISED}"\npeer.host = "127.0.0.1"\n'
        lines = path.read_text().replace("[broker]\n", head, 1).splitlines()
        # The first broker is the controller, and the second one is none.
        path.write_text("\n".join(each for each in lines if not each.startswith("2 = ")) + "\n")
    second = cluster.brokers[1].log_path.parent / "broker.toml"
    own = f'\n[[listener]]\nname = "kafka"\nport = {cluster.brokers[1].port}\n'
    text = second.read_text().replace(f"kafka.port = {cluster.brokers[1].port}\n", "")
    second.write_text(text + own + 'advertised.host = "127.0.0.1"\n')
    with Relay(cluster.peer_ports[1]) as relay:
        try:
            cluster.start()
            found = Place(cluster, relay, tmp_path, guarded)
            found.run("user", "create", "alice", "--password-file", str(password))
            yield found
        finally:
            cluster.close()


@pytest.mark.extended
def test_a_broker_that_is_cut_off_lets_nobody_in_and_doctor_says_so(place: Place) -> None:
    eventually(place.lets_in, "alice is let in by the second broker")
    assert "rules-stale" not in place.findings()
    place.relay.cut()
    created = place.run("user", "create", "mia", "--password-file", str(place.folder / "password"))
    assert "mia" in created
    eventually(lambda: not place.lets_in(), "the second broker has no rules that are new enough")
    assert place.findings()["rules-stale"] == ["2"]
    assert "no controller has been heard" in place.cluster.brokers[1].log_path.read_text()
