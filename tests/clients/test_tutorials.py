"""The tutorials of docs/tutorials end with something that works; Spark's is under tests/spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.up_ports import free_stretches, port_words
from tests.documentation.table import pages_run_by, this_file
from tests.tutorials import PAGES, Reader
from tests.waiting import DEADLINE_S

#: Files that are saved, lines that are typed, and outputs that are compared.
COUNTS = {
    "kafka-client.md": (2, 8, 6),
    "queue-worker.md": (2, 8, 5),
    "rabbitmq-team.md": (3, 10, 5),
    "device.md": (2, 8, 4),
}
PORTS = {"kafka": 9092, "admin": 8080, "amqp": 5672, "mqtt": 1883}


@pytest.fixture
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """`kafkaesque up`, at ports that are free; returns where the pages' addresses are.

    Each page has a cluster of its own: it shows all queues, and expects none of other pages.
    """
    names = ("kafka", "text", "peer", "admin", "sqs", "amqp", "mqtt")
    ports = free_stretches(3, names)
    command = [
        *(sys.executable, "-m", "kafkaesque.cli.app", "up", "--json", "--data"),
        *(str(tmp_path_factory.mktemp("up") / "data"), *port_words(ports)),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        try:
            while json.loads(up.stdout.readline())["event"] != "ready":
                pass
            yield {f"127.0.0.1:{port}": f"127.0.0.1:{ports[name]}" for name, port in PORTS.items()}
        finally:
            up.terminate()
            up.stdout.read()


@pytest.mark.parametrize("page", COUNTS)
def test_a_reader_of_a_tutorial_sees_what_it_says(
    page: str, tmp_path: Path, addresses: dict[str, str]
) -> None:
    by_port = {'127.0.0.1", 1883': f'127.0.0.1", {addresses["127.0.0.1:1883"].rpartition(":")[2]}'}
    reader = Reader(page, tmp_path, {**addresses, **by_port}, DEADLINE_S)
    reader.follow()
    assert (reader.saved, reader.typed, reader.compared) == COUNTS[page]


def test_every_tutorial_is_followed_by_a_test() -> None:
    pages = {each.name for each in PAGES.glob("*.md")}
    assert pages == {*COUNTS, "README.md", "spark-pipeline.md"}
    assert {Path(each).name for each in pages_run_by(this_file(__file__))} == pages - {
        "spark-pipeline.md"
    }
