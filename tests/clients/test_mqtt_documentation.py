"""The program of docs/mqtt.md runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.clients.mqtt_cluster import MqttCluster
from tests.documentation.table import blocks_run_by, this_file
from tests.waiting import DEADLINE_S

PAGE = Path(__file__).parents[2] / "docs" / "mqtt.md"
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    ((program, printed),) = PROGRAM.findall(PAGE.read_text())
    assert len(blocks_run_by(this_file(__file__), "docs/mqtt.md")) == 2
    with MqttCluster(1, tmp_path) as cluster:
        done = subprocess.run(
            [sys.executable, "-c", program.replace("1883", str(cluster.mqtt_ports[0]))],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
