"""The examples of the client's pages run, and print what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaesque.testing import LiveCluster
from tests.documentation.table import blocks_run_by, this_file

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
ADDRESS = "127.0.0.1:9092"

EXAMPLES = [
    pytest.param(program, output, id=f"{page}-{number}")
    for page in ("client", "delivery")
    for number, (program, output) in enumerate(EXAMPLE.findall((DOCS / f"{page}.md").read_text()))
]


def test_there_are_examples_of_everything() -> None:
    assert len(EXAMPLES) >= 12
    pages = [(DOCS / f"{page}.md").read_text() for page in ("client", "delivery")]
    assert sum(page.count("```python") for page in pages) == len(EXAMPLES)
    names = ("docs/client.md", "docs/delivery.md")
    blocks = [each for page in names for each in blocks_run_by(this_file(__file__), page)]
    assert len(blocks) == 2 * len(EXAMPLES)


@pytest.mark.parametrize(("program", "output"), EXAMPLES)
def test_an_example_prints_what_the_page_says(
    cluster: LiveCluster, program: str, output: str
) -> None:
    assert ADDRESS in program
    done = subprocess.run(
        [sys.executable, "-c", program.replace(ADDRESS, cluster.bootstrap_servers)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (output, "")
