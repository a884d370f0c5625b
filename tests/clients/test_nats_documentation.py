"""The programs in docs/nats.md print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.clients.nats_cluster import NatsCluster
from tests.documentation.table import blocks_run_by, this_file

PAGE = Path(__file__).parents[2] / "docs" / "nats.md"


def test_programs(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    programs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert 2 * len(programs) == len(blocks_run_by(this_file(__file__), "docs/nats.md"))
    with NatsCluster(1, tmp_path) as cluster:
        for program, output in programs:
            source = program.replace("nats://127.0.0.1:4222", cluster.url())
            done = subprocess.run(
                [sys.executable, "-c", source],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.stdout, done.stderr) == (output, "")
