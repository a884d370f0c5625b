"""The programs of docs/amqp-tutorials.md run, one after the other, and print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.amqp_cluster import AmqpCluster
from tests.documentation.table import blocks_run_by, this_file
from tests.waiting import DEADLINE_S

PAGE = Path(__file__).parents[2] / "docs" / "amqp-tutorials.md"
#: A program with what it prints, or the command by which the cluster is started.
PART = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```|(kafkaesque up)", re.DOTALL)
PROGRAMS = 10


@pytest.mark.extended
def test_the_programs_print_what_the_page_says(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert text.count("```python") == PROGRAMS
    starts, ran = 0, 0
    with AmqpCluster(3, tmp_path) as cluster:
        for program, printed, command in PART.findall(text):
            if command:
                starts += 1
                if starts > 1:
                    for broker in cluster.brokers:
                        broker.stop()
                    cluster.start()
                continue
            done = subprocess.run(
                [sys.executable, "-c", program.replace("5672", str(cluster.amqp_ports[ran % 3]))],
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=False,
            )
            assert (done.stdout, done.stderr) == (printed, ""), program
            ran += 1
    assert (starts, ran) == (2, PROGRAMS)
    blocks = blocks_run_by(this_file(__file__), "docs/amqp-tutorials.md")
    assert len(blocks) == starts + 2 * ran
