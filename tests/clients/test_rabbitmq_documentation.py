"""The commands of docs/rabbitmq-api.md run, and print what the page says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.clients.rabbitmq_cluster import RabbitMqCluster
from tests.documentation.table import blocks_run_by, this_file
from tests.waiting import DEADLINE_S

PAGE = Path(__file__).parents[2] / "docs" / "rabbitmq-api.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert [
        each.content for each in blocks_run_by(this_file(__file__), "docs/rabbitmq-api.md")
    ] == blocks
    with RabbitMqCluster(1, tmp_path) as cluster:
        for entry in "".join(blocks).split("$ ")[1:]:
            lines = entry.splitlines()
            last = next(at for at, line in enumerate(lines) if not line.endswith("\\"))
            command = "\n".join(lines[: last + 1])
            done = subprocess.run(
                ["bash", "-c", command.replace("localhost:8080", f"localhost:{_port(cluster)}")],
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == "\n".join(lines[last + 1 :]), command


def _port(cluster: RabbitMqCluster) -> int:
    return cluster.admin_ports[0]
