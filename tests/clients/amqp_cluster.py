"""Brokers with ports for AMQP, and pika at them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster

_numbers = itertools.count()


def new_name(of: str = "queue") -> str:
    """Return a name that no other test has."""
    return f"{of}-{next(_numbers)}"


class AmqpCluster(KafkaesqueCluster):
    """Brokers of ours, each with a port for AMQP."""

    def __init__(self, brokers: int, directory: Path) -> None:
        self.amqp_ports = unused_ports(brokers)
        #: For results of tasks.
        self.results = directory / "results"
        super().__init__(brokers, directory=directory, sections=self._section)

    def _section(self, number: int) -> str:
        return f'\n[[listener]]\nprotocol = "amqp"\nport = {self.amqp_ports[number - 1]}\n'

    def url(self, number: int = 1) -> str:
        """Where clients connect to a broker."""
        return f"amqp://guest:guest@127.0.0.1:{self.amqp_ports[number - 1]}/%2F"

    @contextmanager
    def connected(self, number: int = 1, **more: Any) -> Iterator[pika.BlockingConnection]:
        """pika, connected with a broker."""
        parameters = pika.ConnectionParameters(
            "127.0.0.1", self.amqp_ports[number - 1], blocked_connection_timeout=60, **more
        )
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            if connection.is_open:
                connection.close()
