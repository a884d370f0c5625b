"""A broker with two ports for Kafka's clients: each client is sent where it came from."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.kafka_helpers import TopicMaker, admin_client, consume, produce
from tests.clients.test_advertised_host import is_ready
from tests.waiting import eventually


class Ports(NamedTuple):
    inside: int
    outside: int
    peer: int
    admin: int


def write_file(directory: Path, ports: Ports) -> Path:
    path = directory / "broker.toml"
    path.write_text(
        f'[broker]\nid = 1\ndata = "{directory}/data"\ntext.port = 0\n'
        f"kafka.port = {ports.inside}\npeer.port = {ports.peer}\nadmin.port = {ports.admin}\n"
        f'[[listener]]\nname = "outside"\nport = {ports.outside}\n'
        'advertised.host = "localhost"\n'
    )
    return path


@contextmanager
def broker(directory: Path, ports: Ports) -> Iterator[None]:
    command = [sys.executable, "-m", "kafkaesque.server", "--config"]
    command.append(str(write_file(directory, ports)))
    with (directory / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            eventually(lambda: is_ready(process, ports.admin), "the broker is ready")
            yield
        finally:
            process.terminate()
            process.wait(90)


def test_each_client_is_told_the_address_of_the_listener_that_it_uses(tmp_path: Path) -> None:
    ports = Ports(*unused_ports(4))
    with broker(tmp_path, ports):
        for host, port in (("127.0.0.1", ports.inside), ("localhost", ports.outside)):
            servers = f"127.0.0.1:{port}"
            (found,) = admin_client(servers).list_topics(timeout=30).brokers.values()
            assert f"{found.host}:{found.port}" == f"{host}:{port}"
            topic = TopicMaker(servers)(partitions=1, replication=1)
            produce(servers, topic, [b"m"])
            assert [m.value() for m in consume(servers, topic, 1)] == [b"m"]


@pytest.mark.parametrize("taken", ["inside", "outside", "peer", "admin"])
def test_a_port_in_use_is_named_with_what_moves_it(tmp_path: Path, taken: str) -> None:
    ports = Ports(*unused_ports(4))
    port = getattr(ports, taken)
    settings = {
        "inside": "kafka.port",
        "outside": "port of the [[listener]] outside",
        "peer": "peer.port",
        "admin": "admin.port",
    }
    with socket.create_server(("127.0.0.1", port)):
        command = [sys.executable, "-m", "kafkaesque.server", "--config"]
        command.append(str(write_file(tmp_path, ports)))
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 1
    reason = f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert f"{reason}; to use another port, change {settings[taken]}" in done.stderr
