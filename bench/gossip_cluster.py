"""Brokers of ours that know one address each and find the rest by gossip, as real processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.processes import BrokerNotReadyError, BrokerProcess, wait_until_ready
from kafkaesque.cli.broker_ports import unused_ports

BROKERS_MAX = 6
#: The controllers of these vote.
VOTERS = (1, 2)
SECRET = "a secret of the suite, for nobody else"
POLL_S = 0.001

_CONFIGURATION = """\
[broker]
id = {node}
cluster.id = "found-by-gossip"
data = "{home}/data"
kafka.port = {kafka_port}
peer.port = {peer_port}
text.port = 0
admin.port = {admin_port}
rack = "rack-{node}"
seeds = "{seeds}"
{secret}

[controllers]
{controllers}
[options]
"group.initial.rebalance.delay.ms" = "0"
"offsets.topic.replication.factor" = "1"
"""


class GossipCluster:
    """Brokers on 127.0.0.1, started one by one; each logs to a file of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ports = unused_ports(3 * BROKERS_MAX)
        self._kafka_ports, self._peer_ports = ports[:BROKERS_MAX], ports[BROKERS_MAX:-BROKERS_MAX]
        self._admin_ports = ports[-BROKERS_MAX:]
        self.brokers: dict[int, BrokerProcess] = {}

    def peer_address(self, node: int) -> str:
        """Return where others reach a broker."""
        return f"127.0.0.1:{self._peer_ports[node - 1]}"

    def start(
        self,
        node: int,
        seeds: Sequence[int] = (),
        *,
        secrets: Sequence[str] = (SECRET,),
        knows: bool = False,
    ) -> BrokerProcess:
        """Write a broker's files and start it; `knows`: it has the controllers' addresses."""
        home = self.directory / f"broker-{node}"
        home.mkdir(exist_ok=True)
        secret = home / "secret"
        secret.touch(0o600)
        secret.write_text("\n".join(secrets) + "\n")
        where = [f'{each} = "{self.peer_address(each) if knows else ""}"\n' for each in VOTERS]
        path = home / "broker.toml"
        path.write_text(
            _CONFIGURATION.format(
                node=node,
                home=home,
                kafka_port=self._kafka_ports[node - 1],
                peer_port=self._peer_ports[node - 1],
                admin_port=self._admin_ports[node - 1],
                seeds=",".join(map(self.peer_address, seeds)),
                secret=f'cluster.secret.file = "{secret}"' if secrets else "",
                controllers="".join(where),
            )
        )
        command = [sys.executable, "-m", "kafkaesque.server", "--config", str(path)]
        broker = BrokerProcess(
            command, log_path=home / "broker.log", port=self._kafka_ports[node - 1]
        )
        self.brokers[node] = broker
        broker.start()
        return broker

    def wait_until_ready(self, timeout_s: float = 60) -> None:
        """Wait until every broker that runs answers with all that run."""
        running = [broker for broker in self.brokers.values() if broker.is_running()]
        for broker in running:
            wait_until_ready(broker, brokers=len(running), timeout_s=timeout_s)

    # -- what a broker has logged

    def log(self, node: int) -> str:
        """Return all that a broker has logged."""
        path = self.directory / f"broker-{node}" / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for(
        self, nodes: Sequence[int], what: str, since: dict[int, int], timeout_s: float
    ) -> float:
        """Return after how many seconds all have logged something since these places in their logs.

        Raises:
            TimeoutError: some have not.
            BrokerNotReadyError: one has ended instead.
        """
        begun = time.monotonic()
        left = set(nodes)
        while left:
            left -= {node for node in left if what in self.log(node)[since[node] :]}
            waited = time.monotonic() - begun
            for node in left:
                if node in self.brokers and not self.brokers[node].is_running():
                    raise BrokerNotReadyError(
                        f"broker {node} has ended and not logged {what!r}: {self.log(node)}"
                    )
            if left and waited > timeout_s:
                logs = "".join(self.log(node)[since[node] :] for node in sorted(left))
                raise TimeoutError(f"{sorted(left)} have not logged {what!r}, but:\n{logs}")
            time.sleep(POLL_S)
        return time.monotonic() - begun

    def places(self) -> dict[int, int]:
        """Return how long each log is."""
        return {node: len(self.log(node)) for node in self.brokers}

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition; return whether it came true."""
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def close(self) -> None:
        """End all of them."""
        for broker in self.brokers.values():
            broker.kill()
