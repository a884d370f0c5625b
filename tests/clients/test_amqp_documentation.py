"""The program of docs/amqp.md runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.clients.amqp_cluster import AmqpCluster
from tests.waiting import DEADLINE_S

PAGE = Path(__file__).parents[2] / "docs" / "amqp.md"
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    ((program, printed),) = PROGRAM.findall(PAGE.read_text())
    with AmqpCluster(1, tmp_path) as cluster:
        address = f"127.0.0.1:{cluster.amqp_ports[0]}"
        done = subprocess.run(
            [sys.executable, "-c", program.replace("127.0.0.1:5672", address)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
