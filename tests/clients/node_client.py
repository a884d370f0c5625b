"""Runs the scripts of tests/clients/node, which drive clients, and reads the JSON they print."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.waiting import DEADLINE_S

_DIRECTORY = Path(__file__).parent / "node"
_CLIENTS = (
    "kafkajs",
    "@aws-sdk/client-sqs",
    "amqplib",
    "@nats-io/transport-node",
    "mqtt",
    "@stomp/stompjs",
    "ws",
)


def missing() -> str:
    """Return why the clients cannot be run here, or nothing when they can."""
    if shutil.which("node") is None:
        return "node is not installed"
    for client in _CLIENTS:
        if not (_DIRECTORY / "node_modules" / client).is_dir():
            return f"{client} is not installed: run `npm ci` in tests/clients/node"
    return ""


def run_node(script: str, bootstrap_servers: str, **given: Any) -> Any:
    """Run one script with `given` as its argument and return what it prints; fails when it does."""
    argument = json.dumps({"bootstrap_servers": bootstrap_servers, **given})
    command = ["node", str(_DIRECTORY / f"{script}.mjs"), argument]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=2 * DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
