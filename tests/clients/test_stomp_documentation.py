"""The program of docs/stomp.md runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

from tests.clients.stomp_cluster import StompCluster
from tests.clients.test_amqp_documentation import run_program
from tests.documentation.table import blocks_run_by, this_file

PAGE = Path(__file__).parents[2] / "docs" / "stomp.md"


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    assert len(blocks_run_by(this_file(__file__), "docs/stomp.md")) == 2
    with StompCluster(1, tmp_path) as cluster:
        run_program(PAGE, "61613", cluster.stomp_ports[0])
