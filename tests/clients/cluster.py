"""Starts brokers of ours as real processes: the one place that knows their command and options."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from bench.processes import BrokerProcess, wait_until_ready
from kafkaesque.cli.broker_ports import unused_ports

READY_TIMEOUT_S = 90.0
CLUSTER_ID = "a-cluster-of-the-suite"

_CONFIGURATION = """\
[broker]
id = {number}
cluster.id = "{cluster_id}"
data = "{data}"
kafka.port = {kafka_port}
peer.port = {peer_port}
text.port = {text_port}
admin.port = 0
log.level = "warning"

[controllers]
{controllers}
[options]
{options}"""


def broker_command(configuration: Path, python: str = sys.executable) -> list[str]:
    """Return the command line of one broker."""
    return [python, "-m", "kafkaesque.server", "--config", str(configuration)]


def configuration(
    number: int,
    data: Path,
    kafka_ports: Sequence[int],
    peer_ports: Sequence[int],
    options: Mapping[str, str],
    text_port: int = 0,
    first_id: int = 1,
) -> str:
    """Return the TOML text for a cluster's broker number 1, 2, ..., listening on its ports."""
    voters = enumerate(peer_ports, start=first_id)
    return _CONFIGURATION.format(
        cluster_id=CLUSTER_ID,
        number=number - 1 + first_id,
        data=data,
        kafka_port=kafka_ports[number - 1],
        peer_port=peer_ports[number - 1],
        text_port=text_port,
        controllers="".join(f'{n} = "127.0.0.1:{port}"\n' for n, port in voters),
        options="".join(f'"{key}" = "{value}"\n' for key, value in options.items()),
    )


class KafkaesqueCluster:
    """A cluster of ours on 127.0.0.1, in a directory of its own; each broker is a process."""

    name = "Kafkaesque"
    #: The interpreter that runs the brokers; another checkout's runs the brokers of that one.
    python = sys.executable
    #: How a broker's process is started.
    popen: type[subprocess.Popen[bytes]] = subprocess.Popen

    def __init__(
        self,
        brokers: int = 1,
        *,
        options: Mapping[str, str] | None = None,
        directory: Path | None = None,
        has_text: bool = False,
        first_id: int = 1,
        sections: Callable[[int], str] = lambda number: "",
    ) -> None:
        """`options` are added to each broker's [options]; `directory` holds the data.

        `sections` returns what else is in the file of broker number 1, 2, ...
        With `has_text` each has a text port, too. Ids are `first_id` and those that follow it.
        """
        self.brokers: list[BrokerProcess] = []
        #: In the order of the brokers; 0 where there is none.
        self.text_ports: list[int] = []
        #: Where the brokers listen for one another, in their order.
        self.peer_ports: list[int] = []
        self._has_text = has_text
        self._count = brokers
        self._first_id = first_id
        self._sections = sections
        copies = str(min(3, brokers))
        self._options = {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": copies,
            **(options or {}),
        }
        self._parent = directory
        self._directory: Path | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def __enter__(self) -> Self:
        self.prepare()
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self) -> None:
        """Write the configuration; nothing runs yet."""
        self._directory = Path(tempfile.mkdtemp(prefix="kafkaesque-", dir=self._parent))
        ports = unused_ports(3 * self._count)
        kafka_ports, peer_ports = ports[: self._count], ports[self._count : 2 * self._count]
        self.peer_ports = peer_ports
        self.text_ports = ports[2 * self._count :] if self._has_text else [0] * self._count
        for number in range(1, self._count + 1):
            home = self._directory / f"broker-{number}"
            home.mkdir()
            path = home / "broker.toml"
            data = home / "data"
            text_port = self.text_ports[number - 1]
            text = configuration(
                number,
                data,
                kafka_ports,
                peer_ports,
                self._options,
                text_port=text_port,
                first_id=self._first_id,
            )
            path.write_text(text + self._sections(number))
            self.brokers.append(
                BrokerProcess(
                    broker_command(path, self.python),
                    log_path=home / "broker.log",
                    port=kafka_ports[number - 1],
                    popen=self.popen,
                )
            )

    def start(self) -> None:
        """Start every broker and wait until each knows all the others."""
        for broker in self.brokers:
            broker.start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until every broker that runs answers Metadata with the brokers that run."""
        running = [broker for broker in self.brokers if broker.is_running()]
        for broker in running:
            wait_until_ready(broker, brokers=len(running), timeout_s=READY_TIMEOUT_S)

    def close(self) -> None:
        """End the brokers and remove their data: nothing is left to stop in order for."""
        for broker in self.brokers:
            broker.kill()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self.brokers = []
        self._directory = None
