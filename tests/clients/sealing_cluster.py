"""Clusters whose brokers have a key keeper, and what lies in their files."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster

KEY = b64encode(b"the key that wraps, of 32 bytes.") + b"\n"


class SealingCluster(KafkaesqueCluster):
    """Brokers `without` have no key keeper."""

    without: Sequence[int] = ()

    def prepare(self) -> None:
        super().prepare()
        for number, broker in enumerate(self.brokers, start=1):
            if number in self.without:
                continue
            home = broker.log_path.parent
            keeper, toml = home / "keeper.keys", home / "broker.toml"
            keeper.touch(mode=0o600)
            keeper.write_bytes(KEY)
            (admin_port,) = unused_ports(1)
            line = f'[broker]\nkey.keeper.file = "{keeper}"\n'
            text = toml.read_text().replace("[broker]\n", line, 1)
            toml.write_text(text.replace("admin.port = 0", f"admin.port = {admin_port}", 1))


def files_with(cluster: KafkaesqueCluster, marker: bytes) -> list[Path]:
    """Return the files below the data directories that hold a marker, at any place."""
    found: list[Path] = []
    for broker in cluster.brokers:
        paths = sorted((broker.log_path.parent / "data").rglob("*"))
        found += [path for path in paths if path.is_file() and marker in path.read_bytes()]
    return found
