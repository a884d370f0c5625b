"""`kafkaesque definitions import`: what is asked for at a time, and what is to be tried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kafkaesque.cli import rabbitmq_requests
from kafkaesque.cli.admin_pages import Reply
from kafkaesque.cli.commands.definitions import CHUNK, app
from kafkaesque.cli.failure import CommandFailed


class SomeCluster:
    """Answers each request with the same, and keeps what it has asked for."""

    def __init__(self, status: int = 204, content: bytes = b"") -> None:
        self.reply = Reply(status=status, content=content)
        self.asked: list[dict[str, Any]] = []

    def ask(self, _: object, __: str, ___: str, body: bytes, ____: float) -> Reply:
        self.asked.append(json.loads(body))
        return self.reply


def run(
    monkeypatch: pytest.MonkeyPatch, cluster: SomeCluster, words: Sequence[str]
) -> Exception | None:
    monkeypatch.setattr(rabbitmq_requests, "alive_addresses", lambda _: [])
    monkeypatch.setattr(rabbitmq_requests, "ask_first", cluster.ask)
    error = CliRunner().invoke(app, ["import", *words]).exception
    assert error is None or isinstance(error, Exception)
    return error


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.json"


def test_a_file_of_few_things_is_one_request(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """It is checked as a whole before anything is changed."""
    given = {"vhosts": [{"name": "shop"}], "queues": [{"name": "q", "vhost": "shop"}]}
    file.write_text(json.dumps(given))
    cluster = SomeCluster()
    assert run(monkeypatch, cluster, [str(file)]) is None
    (asked,) = cluster.asked
    assert {part: items for part, items in asked.items() if items} == given


def test_a_large_file_is_brought_in_part_by_part(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    queues = [{"name": f"q{number}", "vhost": "shop"} for number in range(CHUNK)]
    file.write_text(json.dumps({"queues": queues, "vhosts": [{"name": "shop"}]}))
    cluster = SomeCluster()
    assert run(monkeypatch, cluster, [str(file)]) is None
    assert cluster.asked == [{"vhosts": [{"name": "shop"}]}, {"queues": queues}]


def test_a_missing_virtual_host_is_to_be_made(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    file.write_text(json.dumps({"queues": [{"name": "q"}]}))
    body = json.dumps({"error": "not found", "reason": "there is no virtual host 'my shop'"})
    cluster = SomeCluster(404, body.encode())
    failure = run(monkeypatch, cluster, [str(file), "--vhost", "my shop"])
    assert isinstance(failure, CommandFailed)
    assert failure.message == "there is no virtual host 'my shop'"
    assert failure.hint == "kafkaesque vhost create 'my shop'"
