"""Runs a recipe of `examples/` as a user does: a script, with the address of a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
RECIPE_TIMEOUT_S = 240.0


def run_recipe(name: str, bootstrap_servers: str, *arguments: str) -> str:
    """Run `examples/NAME.py` to its end and return what it printed; fails when it fails."""
    path = EXAMPLES / f"{name}.py"
    command = [sys.executable, str(path), "--bootstrap-server", bootstrap_servers, *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=RECIPE_TIMEOUT_S)
    finally:
        end_group(process)
    assert process.returncode == 0, f"{name} failed:\n{output}{errors}"
    assert "Traceback" not in errors, errors
    return output


def end_group(process: subprocess.Popen[str]) -> None:
    """End what the recipe started and left behind, and reap the recipe itself."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    with process:
        process.wait()
