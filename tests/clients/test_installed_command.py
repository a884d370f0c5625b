"""The installed command, brokers and all, as a person starts it: nothing is imported before.

Most tests fork brokers and commands from a process that has imported their modules
(`tests/forked`). A broken entry point, a missing import and a wrong exit code show here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.clients.cluster import KafkaesqueCluster
from tests.waiting import DEADLINE_S

COMMAND = str(Path(sys.executable).with_name("kafkaesque"))


class InstalledCluster(KafkaesqueCluster):
    """Its brokers are started by the installed command."""

    popen: type[subprocess.Popen[bytes]] = subprocess.Popen

    def prepare(self) -> None:
        super().prepare()
        for broker in self.brokers:
            broker.command = [COMMAND, "broker", *broker.command[-2:]]

    def run(self, *words: str) -> str:
        """Run a command against these brokers; it must succeed."""
        done = subprocess.run(
            [COMMAND, *words, "--bootstrap-server", self.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_a_cluster_works_and_a_broker_stops_in_order(tmp_path: Path) -> None:
    with InstalledCluster(3, directory=tmp_path) as cluster:
        cluster.run("topic", "create", "orders", "-p", "3", "-r", "3")
        cluster.run("publish", "orders", "one", "two", "three")
        assert cluster.brokers[0].stop() == 0
        read = cluster.run("consume", "orders", "--from-beginning", "--until-end")
    assert sorted(read.split()) == ["one", "three", "two"]
