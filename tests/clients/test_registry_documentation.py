"""The programs and requests of docs/schema-registry.md do what the page says."""

import re
import subprocess
import sys
from pathlib import Path

from tests.clients.registry_cluster import RegistryCluster
from tests.documentation.table import blocks_run_by, this_file

PAGE = Path(__file__).parents[2] / "docs" / "schema-registry.md"
BLOCK = re.compile(r"```(python|bash)\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_each_program_prints_what_the_page_says(tmp_path: Path) -> None:
    found = BLOCK.findall(PAGE.read_text())
    assert 2 * len(found) == len(blocks_run_by(this_file(__file__), "docs/schema-registry.md")) == 4
    with RegistryCluster(1, tmp_path) as cluster:
        for language, program, output in found:
            text = program.replace("http://127.0.0.1:8181", cluster.url(1))
            words = [sys.executable, "-c"] if language == "python" else ["bash", "-c"]
            done = subprocess.run(
                [*words, text], capture_output=True, text=True, timeout=60, check=False
            )
            assert done.stdout.strip() == output.strip(), done.stderr
