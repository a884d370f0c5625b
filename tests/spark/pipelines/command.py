"""The command `kafkaesque`, as a process, in the way its users have it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def kafkaesque(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; standard output and error are texts."""
    return subprocess.run(
        [sys.executable, "-m", "kafkaesque.cli.app", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )


def pipeline(
    action: str, folder: Path, settings: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run or dry-run a project with settings of its own."""
    conf = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    return kafkaesque("pipeline", action, str(folder), "--master", "local[2]", *conf)
