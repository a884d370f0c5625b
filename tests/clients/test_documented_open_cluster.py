"""The pages print what they say at `kafkaesque up`: one cluster, emptied behind each page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.node_client import missing
from tests.documentation.blocks import ROOT
from tests.documentation.local_cluster import LocalCluster
from tests.documentation.open_steps import CLEAN, OPEN_STEPS
from tests.documentation.reader import Reader
from tests.documentation.shell import Shell
from tests.documentation.table import blocks_run_by, pages_run_by, this_file

THIS = this_file(__file__)
NODE_MODULES = ROOT / "tests" / "clients" / "node" / "node_modules"
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
    if any(each.language == "js" for each in blocks):
        if reason := missing():
            pytest.skip(reason)
        (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    with Shell(tmp_path, {"KAFKAESQUE_BOOTSTRAP_SERVER": cluster.address}) as shell:
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
