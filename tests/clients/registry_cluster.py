"""Brokers with ports for schemas, and Confluent's client for Python at them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster


class RegistryCluster(KafkaesqueCluster):
    """Brokers of ours, each with a port for schemas and one for the admin API."""

    def __init__(self, brokers: int, directory: Path) -> None:
        ports = unused_ports(2 * brokers)
        self.registry_ports, self._admin_ports = ports[:brokers], ports[brokers:]
        super().__init__(brokers, directory=directory, sections=self._section)

    def _section(self, number: int) -> str:
        ports = {"registry": self.registry_ports, "admin": self._admin_ports}
        return "".join(
            f'\n[[listener]]\nprotocol = "{protocol}"\nport = {found[number - 1]}\n'
            for protocol, found in ports.items()
        )

    def api(self, number: int, path: str) -> Any:
        """Ask a broker's admin API; return the JSON of its answer."""
        port = self._admin_ports[number - 1]
        status, answer = ask(f"http://127.0.0.1:{port}/api/v1{path}")
        assert status == 200, answer
        return answer

    def url(self, number: int = 1) -> str:
        """Where a broker is asked."""
        return f"http://127.0.0.1:{self.registry_ports[number - 1]}"


def ask(
    url: str, method: str = "GET", body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Send one request, as any program would; return the status and the JSON of the answer."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")
