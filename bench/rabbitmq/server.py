"""Debian's RabbitMQ, fetched into a folder of its own and run for as long as it is needed.

Nothing is installed: the packages are unpacked beside one another, so no service starts, no user
is made, and no other RabbitMQ of the machine is touched. The node has free ports on loopback, a
name and a folder of its own, and its own port mapper. Both are ended by their process ids.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.debian import fetch_packages
from bench.maven import PeerUnavailableError
from kafkaesque.cli.broker_ports import unused_ports

START_S: Final = 90.0
STOP_S: Final = 20.0
#: What the server needs beside Debian's base system.
PACKAGES: Final = (
    "rabbitmq-server",
    "erlang-base",
    *(
        f"erlang-{name}"
        for name in (
            *("asn1", "crypto", "eldap", "ftp", "inets", "mnesia", "os-mon", "parsetools"),
            *("public-key", "runtime-tools", "snmp", "ssl", "syntax-tools", "tftp", "tools"),
            "xmerl",
        )
    ),
)
_CONFIG: Final = """\
listeners.tcp.1 = 127.0.0.1:{port}
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.relative = 0.9
log.console = false
log.file.level = error
"""
#: One scheduler: the peer is asked one thing at a time.
_FLAGS: Final = "+S 1:1 +sbwt none"
#: For whatever speaks Erlang's protocol.
ON_LOOPBACK: Final = "-kernel inet_dist_use_interface {127,0,0,1}"


def fetch() -> Path:
    """Return the folder with RabbitMQ and Erlang, fetched unless it is there already."""
    return fetch_packages("rabbitmq", PACKAGES, "RabbitMQ", _relocate)


def _relocate(tree: Path, target: Path) -> None:
    """Let Erlang's start scripts look where they were unpacked."""
    erlang = "usr/lib/erlang"
    for script in (tree / erlang).glob("**/bin/erl"):
        found = script.read_text()
        script.write_text(found.replace(f"=/{erlang}", f'="{target}/{erlang}"'))


def version(tree: Path) -> str:
    """Return RabbitMQ's version."""
    return _home(tree).name.removeprefix("rabbitmq_server-")


def scripts(tree: Path) -> Path:
    """Return the folder with RabbitMQ's commands."""
    return _home(tree) / "sbin"


def _home(tree: Path) -> Path:
    return next((tree / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))


class Node(NamedTuple):
    """A RabbitMQ that runs."""

    port: int
    #: Of Erlang's machine, which does all the work.
    pid: int


class Home(NamedTuple):
    """What nodes of a cluster share: a folder with Erlang's cookie, and a port mapper."""

    tree: Path
    folder: Path
    environment: dict[str, str]


@contextmanager
def rabbitmq(plugins: Sequence[str] = (), settings: str = "", flags: str = _FLAGS) -> Iterator[int]:
    """Run RabbitMQ with these plugins and lines of its configuration; yield its port.

    Raises:
        PeerUnavailableError: it cannot be fetched, or does not start.
    """
    with running(flags, config=settings, plugins=plugins) as node:
        yield node.port


@contextmanager
def running(
    flags: str = "", parent: Path | None = None, config: str = "", plugins: Sequence[str] = ()
) -> Iterator[Node]:
    """Run RabbitMQ with these flags of Erlang's machine, and its data below `parent`.

    `config` is added to its configuration.

    Raises:
        PeerUnavailableError: it cannot be fetched, or does not start.
    """
    (port,) = unused_ports(1)
    with new_home(parent) as home, running_node(home, port, flags, config, plugins) as node:
        yield node


@contextmanager
def new_home(parent: Path | None = None) -> Iterator[Home]:
    """Run a port mapper for nodes that live in a new folder below `parent`.

    Raises:
        PeerUnavailableError: RabbitMQ cannot be fetched.
    """
    tree = fetch()
    erlang = tree / "usr/lib/erlang"
    (mapper_port,) = unused_ports(1)
    with tempfile.TemporaryDirectory(prefix="rabbitmq-", dir=parent) as name:
        environment = {
            "PATH": f"{erlang}/bin:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": name,
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(mapper_port),
        }
        mapper = subprocess.Popen(
            [next(erlang.glob("erts-*")) / "bin/epmd", "-address", "127.0.0.1"], env=environment
        )
        try:
            yield Home(tree, Path(name), environment)
        finally:
            mapper.terminate()
            mapper.wait()


@contextmanager
def running_node(
    home: Home, port: int, flags: str = "", config: str = "", plugins: Sequence[str] = ()
) -> Iterator[Node]:
    """Run a node, as `running` does, beside others of the same home.

    Raises:
        PeerUnavailableError: it does not start.
    """
    folder = home.folder / f"node-{port}"
    folder.mkdir()
    (folder / "rabbitmq.conf").write_text(_CONFIG.format(port=port) + config)
    (folder / "plugins").write_text(f"[{','.join(plugins)}].")
    environment = home.environment | _environment(folder, port)
    environment["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] = f"{flags} {ON_LOOPBACK}"
    with (folder / "output").open("wb") as log:
        node = subprocess.Popen(
            [scripts(home.tree) / "rabbitmq-server"],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_port(node, port, folder)
        yield Node(port, int((folder / "pid").read_text()))
    finally:
        _end(node)


def node_name(port: int) -> str:
    """Return how Erlang calls the node with this port."""
    return f"peer{port}@localhost"


def _environment(folder: Path, port: int) -> dict[str, str]:
    (peer_port,) = unused_ports(1)
    return {
        "RABBITMQ_NODENAME": node_name(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(peer_port),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "no-such-file"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }


def _await_port(node: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and node.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    said = (folder / "output").read_text(errors="replace")[-2000:]
    raise PeerUnavailableError(f"RabbitMQ does not start: {said}")


def _end(node: subprocess.Popen[bytes]) -> None:
    """End the node with all that it has started: it leads a session of its own."""
    for each in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(node.pid, each)
        except ProcessLookupError:
            break
        try:
            node.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
    node.wait()
