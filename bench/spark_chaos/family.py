"""The processes of a run: whose child is who, and what is left of them in the end (Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_PYTHON = "pyspark."
_EXECUTOR = "CoarseGrainedExecutorBackend"


def children_of(pid: int) -> list[int]:
    """Return the children of a process, of whichever of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def descendants_of(pid: int) -> list[int]:
    """Return children, their children, and so on."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        new = children_of(waiting.pop())
        found += new
        waiting += new
    return found


def _words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def executors_of(workers: list[int]) -> list[int]:
    """Return the executors that the workers of a standalone cluster run."""
    return sorted(
        pid for worker in workers for pid in descendants_of(worker) if _EXECUTOR in _words(pid)
    )


def python_workers_of(parents: list[int]) -> list[int]:
    """Return the Python processes that Spark runs for the given ones."""
    return sorted(
        pid for parent in parents for pid in descendants_of(parent) if _PYTHON in _words(pid)
    )


def kill(pid: int) -> None:
    """Send SIGKILL to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def marked_with(mark: str) -> dict[int, str]:
    """Return the processes that have the mark in their environment, with their command lines."""
    found = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found[int(path.name)] = _words(int(path.name))
    return found
