"""A shell in which one page's commands are typed: what one exports, the next ones have."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.documentation.blocks import ROOT
from tests.forked.commands import Commands
from tests.waiting import DEADLINE_S

_PYTHON_PROGRAM = '#!/bin/sh\nexec {python} "$@"\n'


class Shell:
    """bash, with `kafkaesque` and `python` as after an installation; CHECKOUT is where we are."""

    def __init__(
        self, directory: Path, environment: Mapping[str, str], timeout_s: float = DEADLINE_S
    ) -> None:
        """Begin in `directory`; a command may take `timeout_s`."""
        programs = directory / ".programs"
        programs.mkdir()
        for name in ("python", "python3"):
            (programs / name).write_text(_PYTHON_PROGRAM.format(python=sys.executable))
            (programs / name).chmod(0o755)
        self._commands = Commands(programs)
        self._timeout_s = timeout_s
        # Whichever of several commands fails, the last exit code that is not 0 is told.
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env={
                **os.environ,
                "PATH": f"{programs}:{os.environ['PATH']}",
                "CHECKOUT": str(ROOT),
                **environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.run("set -o pipefail; trap 'failed=$?' ERR")

    def __enter__(self) -> Self:
        self._commands.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._commands.__exit__()
        self._kill()
        self._process.communicate()

    def _kill(self) -> None:
        """End the shell, and what was started in it: each holds the other end of our pipe."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def run(self, command: str) -> tuple[str, int]:
        """Run a command to its end; return what it prints, errors too, and its exit code.

        Raises:
            AssertionError: it does not end in time.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        end = secrets.token_hex(8)
        process.stdin.write(f"failed=0; eval {shlex.quote(command)} </dev/null\n")
        process.stdin.write(f"printf '\\n%s %d\\n' {end} $failed\n")
        process.stdin.flush()
        timer = threading.Timer(self._timeout_s, self._kill)
        timer.start()
        printed: list[str] = []
        try:
            for line in process.stdout:
                if line.startswith(f"{end} "):
                    # The line's end before the mark is ours.
                    return "".join(printed)[:-1], int(line.split()[1])
                printed.append(line)
        finally:
            timer.cancel()
        raise AssertionError(f"the shell has ended in\n{command}\n{''.join(printed)}")
