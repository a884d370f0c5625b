"""The first example of the manual does what the manual says, run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.documentation.table import blocks_run_by, this_file

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
TIMEOUT_S = 600


def read_example() -> tuple[str, str]:
    """Return the first script of the page, and what it prints."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    script = next(text for language, text in blocks if language == "python")
    return script, next(text for language, text in blocks if not language)


def test_the_first_example_writes_what_it_shows_in_a_shell_without_the_environment(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    script, output = read_example()
    assert [each.content for each in blocks_run_by(this_file(__file__), "docs/spark.md")] == [
        script,
        output,
    ]
    assert '"127.0.0.1:9092"' in script
    path = tmp_path / "example.py"
    path.write_text(script.replace("127.0.0.1:9092", bootstrap_servers))
    # Whose environment is not activated gets the system's python3, which has no Kafkaesque.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    del environment["PYSPARK_PYTHON"]
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == output.strip()
