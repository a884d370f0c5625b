"""The pages of docs/concepts, and docs/queues.md: commands and programs print what stands there.

A block of `console` has commands and what each prints. A block of `python` is a program; the block
of `text` behind it is what it prints. Pages share a cluster, so their names differ.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.testing import LiveCluster
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.test_cli import KAFKAESQUE
from tests.documentation.table import blocks_run_by, this_file
from tests.forked import processes
from tests.waiting import DEADLINE_S

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"
PAGES = {each.stem: each.read_text() for each in sorted(CONCEPTS.glob("*.md"))}
EXAMPLES = {name: text for name, text in PAGES.items() if name != "README"}
#: It is longer, and some of its blocks need more than Kafka's port; those have no language.
QUEUES = (CONCEPTS.parent / "queues.md").read_text()
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BROKERS = 3

Addresses = dict[str, str]
#: As the pages have them.
KAFKA, REGISTRY, MQTT = "127.0.0.1:9092", "127.0.0.1:8181", '"port": 1883'


class Reader:
    """Does what a page says, at a cluster."""

    def __init__(self, directory: Path, addresses: Addresses) -> None:
        """`addresses` are those of the pages, and what they are here."""
        self._directory, self._addresses = directory, addresses
        self._environment = {
            **os.environ,
            "KAFKAESQUE_BOOTSTRAP_SERVER": addresses[KAFKA],
        }

    def command(self, words: Sequence[str]) -> str:
        """Run a command of `kafkaesque`, and return what it prints."""
        done = processes.run(
            [*KAFKAESQUE, *words],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def program(self, text: str) -> str:
        """Run a program, and return what it prints."""
        for told, real in self._addresses.items():
            text = text.replace(told, real)
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(text, "program", "exec"), {"__name__": "__main__"})
        return printed.getvalue()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Addresses]:
    """Brokers in this process, which speak Kafka's protocol; returns where they are."""
    with LiveCluster(1, brokers=BROKERS) as cluster:
        yield {KAFKA: cluster.bootstrap_servers}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Brokers with all ports that the pages name; returns where these are."""
    mqtt, registry = unused_ports(BROKERS), unused_ports(BROKERS)

    def sections(number: int) -> str:
        ports = {"mqtt": mqtt[number - 1], "registry": registry[number - 1]}
        return "".join(
            f'\n[[listener]]\nprotocol = "{protocol}"\nport = {port}\n'
            for protocol, port in ports.items()
        )

    directory = tmp_path_factory.mktemp("concepts")
    with KafkaesqueCluster(BROKERS, directory=directory, sections=sections) as cluster:
        yield {
            KAFKA: cluster.bootstrap_servers,
            REGISTRY: f"127.0.0.1:{registry[0]}",
            MQTT: f'"port": {mqtt[0]}',
        }


def _cases() -> Iterator[Any]:
    """Yield each page with the brokers that it needs; real ones take longer to start."""
    for name, text in EXAMPLES.items():
        needs_ports = any(each in text for each in (REGISTRY, MQTT))
        marks = (pytest.mark.extended,) if needs_ports else ()
        yield pytest.param(name, "real" if needs_ports else "simulated", id=name, marks=marks)
    yield pytest.param("all of queues", "simulated", marks=pytest.mark.extended)


@pytest.mark.parametrize(("page", "brokers"), list(_cases()))
def test_a_page_prints_what_it_says(
    page: str, brokers: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    reader = Reader(tmp_path, request.getfixturevalue(brokers))
    blocks = [
        each for each in BLOCK.findall({**EXAMPLES, "all of queues": QUEUES}[page]) if each[0]
    ]
    path = "docs/queues.md" if page == "all of queues" else f"docs/concepts/{page}.md"
    assert [each[1] for each in blocks] == [
        each.content for each in blocks_run_by(this_file(__file__), path)
    ]
    printed = ""
    for language, content in blocks:
        if language == "console":
            before, *parts = re.split(r"^\$ kafkaesque ", content, flags=re.MULTILINE)
            assert before == ""
            for part in parts:
                command, _, output = part.partition("\n")
                printed = reader.command(shlex.split(command, comments=True))
                assert TIME.sub("then", printed) == TIME.sub("then", output), command
        elif language == "python":
            printed = reader.program(content)
        else:
            assert (language, printed) == ("text", content)
