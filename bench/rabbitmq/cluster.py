"""Nodes of Debian's RabbitMQ that are one cluster: each as `bench/rabbitmq/server.py` runs one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.maven import PeerUnavailableError
from bench.rabbitmq.server import (
    ON_LOOPBACK,
    Home,
    Node,
    new_home,
    node_name,
    running_node,
    scripts,
)
from kafkaesque.cli.broker_ports import unused_ports

COMMAND_S: Final = 60.0
_JOINING: Final = """\
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = {first}
"""


class QuorumQueue(NamedTuple):
    """Where a quorum queue is."""

    leader: Node
    members: int


class Cluster(NamedTuple):
    """Nodes that are one cluster, the first one first."""

    home: Home
    nodes: Sequence[Node]

    def find(self, queue: str) -> QuorumQueue:
        """Return a quorum queue's place.

        Raises:
            PeerUnavailableError: the command fails.
        """
        printed = self._control("list_queues", "--formatter", "json", "name", "leader", "members")
        (found,) = (each for each in json.loads(printed) if each["name"] == queue)
        (leader,) = (each for each in self.nodes if node_name(each.port) == found["leader"])
        return QuorumQueue(leader, len(found["members"]))

    def await_all(self) -> None:
        """Wait until all nodes have joined.

        Raises:
            PeerUnavailableError: they have not.
        """
        self._control("await_online_nodes", str(len(self.nodes)))

    def _control(self, *words: str) -> str:
        (port,) = map(str, unused_ports(1))
        environment = {
            "RABBITMQ_CTL_ERL_ARGS": ON_LOOPBACK,
            "RABBITMQ_CTL_DIST_PORT_MIN": port,
            "RABBITMQ_CTL_DIST_PORT_MAX": port,
        }
        command = str(scripts(self.home.tree) / "rabbitmqctl")
        done = subprocess.run(
            [command, "--silent", "--node", node_name(self.nodes[0].port), *words],
            env=self.home.environment | environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-1000:]
            raise PeerUnavailableError(f"rabbitmqctl {words[0]}: {said}")
        return done.stdout


@contextmanager
def running_cluster(count: int, parent: Path | None = None) -> Iterator[Cluster]:
    """Run so many nodes, with their data below `parent`, until all have joined the first.

    Raises:
        PeerUnavailableError: RabbitMQ cannot be fetched, or there is no cluster in time.
    """
    ports = unused_ports(count)
    config = _JOINING.format(first=node_name(ports[0]))
    with new_home(parent) as home, ExitStack() as stack:
        nodes = [stack.enter_context(running_node(home, each, config=config)) for each in ports]
        cluster = Cluster(home, nodes)
        cluster.await_all()
        yield cluster
