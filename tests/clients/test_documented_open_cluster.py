"""The pages print what they say at `kafkaesque up`: one cluster, emptied behind each page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from bench.apache_kafka import TOOLS_VERSION
from bench.maven import cache_directory
from tests.clients import browser_pages
from tests.clients.node_client import missing
from tests.documentation.blocks import ROOT
from tests.documentation.local_cluster import LocalCluster
from tests.documentation.open_steps import CLEAN, OPEN_STEPS
from tests.documentation.reader import Reader
from tests.documentation.shell import Shell
from tests.documentation.table import blocks_run_by, pages_run_by, this_file

THIS = this_file(__file__)
NODE_MODULES = ROOT / "tests" / "clients" / "node" / "node_modules"
KAFKA_TOOLS = cache_directory() / f"tools-{TOOLS_VERSION}"


def lacks_kafka_tools() -> str:
    """Return why Apache Kafka's own tools cannot be run: they are not fetched here."""
    if shutil.which("java") is None:
        return "there is no java"
    return "" if KAFKA_TOOLS.is_dir() else "scripts/peers has not fetched Apache Kafka's tools"


#: By page, what it needs that may be missing.
LACKS: Mapping[str, Callable[[], str]] = {
    "docs/console.md": browser_pages.missing,
    "docs/kafka-apis.md": lacks_kafka_tools,
}
#: `scripts/test` takes those of which others are parts, and has no time for more.
ALWAYS = ("README.md",)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("up")) as found:
        yield found


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(each, marks=() if each in ALWAYS else pytest.mark.extended)
        for each in pages_run_by(THIS)
    ],
)
def test_a_page_prints_what_it_says(page: str, tmp_path: Path, cluster: LocalCluster) -> None:
    shutil.copy(cluster.log, tmp_path)
    blocks = blocks_run_by(THIS, page)
    if reason := LACKS.get(page, str)():
        pytest.skip(reason)
    if any(each.language == "js" for each in blocks):
        if reason := missing():
            pytest.skip(reason)
        (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    environment = {
        "KAFKAESQUE_BOOTSTRAP_SERVER": cluster.address,
        "KAFKA_TOOLS": str(KAFKA_TOOLS),
    }
    with Shell(tmp_path, environment) as shell:
        # In a checkout commands are called by their place.
        reader = Reader(
            shell,
            tmp_path,
            OPEN_STEPS.get(page, {}),
            replaced={".venv/bin/": ""},
            ports=cluster.ports,
        )
        try:
            reader.follow(blocks)
        finally:
            shell.run(CLEAN)


def test_there_are_no_steps_of_other_pages() -> None:
    assert set(OPEN_STEPS) <= set(pages_run_by(THIS))
