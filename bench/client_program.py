"""Runs a client's program, which prints what it does and asks us for what it cannot do itself."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Final

from bench.processes import die_with_parent

RUN_TIMEOUT_S: Final = 400.0
LAST_WORDS: Final = 4000


class FailedError(AssertionError):
    """A program was told or given something else than it should have been."""


def run_program(command: Sequence[str], on_line: Callable[[str], bool]) -> None:
    """Run a program to its end.

    `on_line` gets each line that it prints, and returns whether the line asked for something. The
    program is then told by an empty line on its standard input that it is done.

    Raises:
        FailedError: it has failed, or did not end in time.
    """
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=die_with_parent,
        ) as process,
    ):
        alarm = threading.Timer(RUN_TIMEOUT_S, process.kill)
        alarm.start()
        try:
            _follow(process, on_line)
            code = process.wait()
        finally:
            alarm.cancel()
            process.kill()
        if code != 0:
            errors.seek(0)
            raise FailedError(f"it ended with {code}: {errors.read()[-LAST_WORDS:].strip()}")


def _follow(process: subprocess.Popen[str], on_line: Callable[[str], bool]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        if on_line(line.rstrip()):
            process.stdin.write("\n")
            process.stdin.flush()
