"""The brokers that `bench.light` measures: ours, Mosquitto, nats-server and RabbitMQ with STOMP.

Mosquitto is installed, or Debian's packages are unpacked into a folder of their own. nats-server
comes with `requirements/test.txt`. RabbitMQ is that of `bench.rabbitmq`, with all processors.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.debian import fetch_packages
from bench.maven import PeerUnavailableError
from bench.rabbitmq.server import rabbitmq
from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.waiting import until_port_answers

OURS: Final = "ours"
_MOSQUITTO_PACKAGES: Final = ("mosquitto", "libdlt2", "libwrap0")
#: No bounds on what waits for a client: what a client does not get is not work that was done.
_MOSQUITTO: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {folder}/
log_type none
max_queued_messages 100000
"""
_NATS: Final = """\
listen: 127.0.0.1:{port}
log_file: "{folder}/log"
jetstream {{ store_dir: "{folder}/store", sync_interval: always }}
"""


class Server(NamedTuple):
    """A broker that runs."""

    name: str
    port: int
    #: None: its processor time and memory are not looked at.
    pid: int | None


class LightCluster(KafkaesqueCluster):
    """One broker of ours, with a port for a protocol."""

    def __init__(self, protocol: str, folder: Path) -> None:
        (self.port,) = unused_ports(1)
        self._protocol = protocol
        super().__init__(1, directory=folder, sections=self._section)

    def _section(self, number: int) -> str:
        return f'\n[[listener]]\nprotocol = "{self._protocol}"\nport = {self.port}\n'


@contextmanager
def ours(protocol: str, folder: Path) -> Iterator[Server]:
    """Run one broker of ours, with its defaults."""
    with LightCluster(protocol, folder) as cluster:
        yield Server(OURS, cluster.port, cluster.brokers[0].pid)


def _find_mosquitto() -> tuple[str, dict[str, str]]:
    """Return Mosquitto and what its environment needs."""
    found = os.environ.get("MOSQUITTO") or shutil.which("mosquitto", path="/usr/sbin:/usr/bin")
    if found is not None:
        return found, {}
    tree = fetch_packages("mosquitto", _MOSQUITTO_PACKAGES, "Mosquitto")
    folders = ":".join(str(each) for each in (tree / "usr/lib").iterdir() if each.is_dir())
    return str(tree / "usr/sbin/mosquitto"), {"LD_LIBRARY_PATH": folders}


@contextmanager
def mosquitto(folder: Path) -> Iterator[Server]:
    """Run Mosquitto with its persistence.

    Raises:
        PeerUnavailableError: it cannot be had here.
    """
    program, more = _find_mosquitto()
    (port,) = unused_ports(1)
    config = folder / "mosquitto.conf"
    config.write_text(_MOSQUITTO.format(port=port, folder=folder))
    # Where it is started as root it would become a user that may not write here.
    with config.open("a") as file:
        file.write("user root\n" if os.geteuid() == 0 else "")
    command = [program, "-c", str(config)]
    with _process("Mosquitto", command, port, folder, {**os.environ, **more}) as server:
        yield server


@contextmanager
def nats_server(folder: Path) -> Iterator[Server]:
    """Run nats-server, whose streams are synced at every message.

    Raises:
        PeerUnavailableError: it cannot be had here.
    """
    beside = Path(sys.executable).with_name("nats-server")
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        raise PeerUnavailableError("nats-server is left out: requirements/test.txt brings it")
    (port,) = unused_ports(1)
    config = folder / "nats.conf"
    config.write_text(_NATS.format(port=port, folder=folder))
    command = [program, "-c", str(config)]
    with _process("nats-server", command, port, folder, dict(os.environ)) as server:
        yield server


@contextmanager
def _process(
    name: str, command: Sequence[str], port: int, folder: Path, environment: dict[str, str]
) -> Iterator[Server]:
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        until_port_answers(process, port)
        yield Server(name, port, process.pid)
    except AssertionError as error:
        said = (folder / "output").read_text(errors="replace")[-300:]
        raise PeerUnavailableError(f"{name} is left out: it does not start ({said})") from error
    finally:
        process.terminate()
        process.wait()


@contextmanager
def rabbitmq_stomp(_: Path) -> Iterator[Server]:
    """Run RabbitMQ with its plugin for STOMP.

    Raises:
        PeerUnavailableError: it cannot be had here.
    """
    (port,) = unused_ports(1)
    settings = f"stomp.listeners.tcp.1 = 127.0.0.1:{port}\n"
    with rabbitmq(["rabbitmq_stomp"], settings, flags=""):
        yield Server("RabbitMQ", port, None)
