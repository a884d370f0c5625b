"""The programs of docs/sqs.md print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.sqs_cluster import SqsCluster
from tests.documentation.table import blocks_run_by, this_file
from tests.waiting import DEADLINE_S

PAGE = (Path(__file__).parents[2] / "docs" / "sqs.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
ADDRESS = "http://127.0.0.1:9324"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsCluster]:
    with SqsCluster(1, tmp_path_factory.mktemp("sqs")) as found:
        yield found


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 2
    assert len(blocks_run_by(this_file(__file__), "docs/sqs.md")) == 2 * len(PROGRAMS)


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=["queue", "fifo"])
def test_a_program_prints_what_the_page_says(
    cluster: SqsCluster, program: str, output: str
) -> None:
    assert ADDRESS in program
    there = program.replace(ADDRESS, cluster.url())
    done = subprocess.run(
        [sys.executable, "-c", there],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(cluster.url(), ADDRESS) == output
