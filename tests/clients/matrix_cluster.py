"""Brokers with a port for every protocol, for messages that cross from each to each."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.storage.wal import WAL_DIRECTORY
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.test_cli import KAFKAESQUE
from tests.waiting import DEADLINE_S

PROTOCOLS = ("amqp", "sqs", "mqtt", "stomp", "nats")


class MatrixCluster(KafkaesqueCluster):
    """Brokers of ours that speak Kafka, the text protocol, AMQP, SQS, MQTT, STOMP and NATS."""

    def __init__(self, brokers: int, directory: Path) -> None:
        #: By protocol, in the order of the brokers.
        self.ports = {protocol: unused_ports(brokers) for protocol in PROTOCOLS}
        self.home = directory
        super().__init__(brokers, directory=directory, has_text=True, sections=self._section)

    def _section(self, number: int) -> str:
        return "".join(
            f'\n[[listener]]\nprotocol = "{protocol}"\nport = {ports[number - 1]}\n'
            for protocol, ports in self.ports.items()
        )

    def port(self, protocol: str, number: int) -> int:
        """Return the port of a broker, which is number 1, 2, or 3."""
        if protocol == "kafka":
            return self.brokers[number - 1].port
        return (self.text_ports if protocol == "text" else self.ports[protocol])[number - 1]

    def run(self, *words: str) -> str:
        """Run a command of `kafkaesque`, and return what it prints."""
        done = subprocess.run(
            [*KAFKAESQUE, *words],
            env={**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": self.bootstrap_servers},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def logs_with(self, number: int, payload: bytes) -> Counter[str]:
        """Return in which logs a payload lies on a broker's disk, and how often.

        What is in the write-ahead log is there until it is in the log that it is for.
        """
        assert self._directory is not None
        data = self._directory / f"broker-{number}" / "data"
        found: Counter[str] = Counter()
        for path in data.rglob("*"):
            if path.is_file() and WAL_DIRECTORY not in path.relative_to(data).parts:
                count = path.read_bytes().count(payload)
                if count:
                    found[path.parent.name] += count
        return found
