"""Brokers with ports for NATS, and nats-py at them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster

_numbers = itertools.count()


def new_name(of: str = "subject") -> str:
    """Return a name that no other test has."""
    return f"{of}{next(_numbers)}"


class NatsCluster(KafkaesqueCluster):
    """Brokers of ours, each with a port for NATS."""

    def __init__(self, brokers: int, directory: Path) -> None:
        self.nats_ports = unused_ports(brokers)
        #: All data of the brokers is below it.
        self.directory = directory
        super().__init__(brokers, directory=directory, sections=self._section)

    def _section(self, number: int) -> str:
        return f'\n[[listener]]\nprotocol = "nats"\nport = {self.nats_ports[number - 1]}\n'

    def url(self, number: int = 1) -> str:
        """Where clients connect to a broker."""
        return f"nats://127.0.0.1:{self.nats_ports[number - 1]}"

    @asynccontextmanager
    async def connected(self, number: int = 1, **more: Any) -> AsyncIterator[Client]:
        """nats-py, connected with a broker."""
        connection = await nats.connect(self.url(number), **more)
        try:
            yield connection
        finally:
            await connection.close()


async def subscribed(client: Client) -> None:
    """Wait until all brokers know what a client has subscribed to.

    nats-py's PING overtakes what is in its buffer: of two the second comes behind the SUB.
    """
    await client.flush()
    await client.flush()
