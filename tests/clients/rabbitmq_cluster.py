"""Brokers with ports for AMQP and RabbitMQ's management API, and clients of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests
from amqpstorm.management.api import ManagementApi

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.amqp_cluster import AmqpCluster

GUEST = ("guest", "guest")


class RabbitMqCluster(AmqpCluster):
    """Brokers of ours, each with a port for AMQP and an admin port."""

    def __init__(self, brokers: int, directory: Path) -> None:
        self.admin_ports = unused_ports(brokers)
        super().__init__(brokers, directory)

    def _section(self, number: int) -> str:
        port = self.admin_ports[number - 1]
        return super()._section(number) + f'\n[[listener]]\nprotocol = "admin"\nport = {port}\n'

    def base(self, number: int = 1) -> str:
        """Where the API of a broker is; `api/...` follows."""
        return f"http://127.0.0.1:{self.admin_ports[number - 1]}/rabbitmq/"

    def management(self, number: int = 1) -> ManagementApi:
        """AMQPStorm's client of the API, unchanged."""
        return ManagementApi(self.base(number), *GUEST)

    def ask(
        self, method: str, path: str, body: Any = None, *, number: int = 1, **more: Any
    ) -> requests.Response:
        """Send a request as any library for HTTP does."""
        url = f"{self.base(number)}api{path}"
        return requests.request(method, url, json=body, **{"auth": GUEST, "timeout": 30, **more})
