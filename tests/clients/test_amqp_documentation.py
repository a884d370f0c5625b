"""The program of docs/amqp.md runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.clients.amqp_cluster import AmqpCluster
from tests.documentation.table import blocks_run_by, this_file
from tests.waiting import DEADLINE_S

PAGE = Path(__file__).parents[2] / "docs" / "amqp.md"
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def run_program(page: Path, usual: str, port: int) -> None:
    """Run a page's one program, at another port than the usual one, and compare what it prints."""
    ((program, printed),) = PROGRAM.findall(page.read_text())
    # As it stands in an address, and as a number.
    moved = program.replace(usual, str(port))
    done = subprocess.run(
        [sys.executable, "-c", moved],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    # The program, and what it prints.
    assert len(blocks_run_by(this_file(__file__), "docs/amqp.md")) == 2
    with AmqpCluster(1, tmp_path) as cluster:
        run_program(PAGE, "5672", cluster.amqp_ports[0])
