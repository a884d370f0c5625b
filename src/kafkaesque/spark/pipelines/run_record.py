"""What a project keeps of its runs: one file each, and a lock that only one run holds."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from kafkaesque.spark.pipelines.errors import RunFailed

RECORDS_MAX = 20
#: A run that was killed leaves a JVM that needs a moment to be gone.
_LOCK_WAIT_S = 20.0
_LOCK_POLL_S = 0.1
_RECORDS, _LOCK = "runs", ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLock:
    """The right to run the project, as long as the file is open, here or in a child."""

    file: IO[str]


@contextlib.contextmanager
def locked(state_folder: Path) -> Iterator[RunLock]:
    """Let nobody else run the project.

    Raises:
        RunFailed: somebody does; one that was killed is waited for.
    """
    state_folder.mkdir(parents=True, exist_ok=True)
    with (state_folder / _LOCK).open("a+", encoding="utf-8") as file:
        deadline = time.monotonic() + _LOCK_WAIT_S
        while not _try_lock(file):
            holder = _holder(file)
            if _is_alive(holder) or time.monotonic() > deadline:
                raise RunFailed(
                    f"a run of {state_folder.parent} is under way already (process {holder})",
                    "kafkaesque pipeline status",
                )
            time.sleep(_LOCK_POLL_S)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield RunLock(file=file)


def is_locked(state_folder: Path) -> bool:
    """Whether a run is under way."""
    try:
        with (state_folder / _LOCK).open("r", encoding="utf-8") as file:
            return not _try_lock(file)
    except FileNotFoundError:
        return False


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: IO[str]) -> int:
    file.seek(0)
    words = file.read().split()
    return int(words[0]) if words and words[0].isdigit() else 0


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


class RunRecord:
    """The file of one run, replaced as a whole each time it is written."""

    def __init__(self, state_folder: Path) -> None:
        folder = state_folder / _RECORDS
        folder.mkdir(parents=True, exist_ok=True)
        before = _numbers(folder)
        self._path = folder / f"{max(before, default=0) + 1:06}.json"
        for number in before[: max(0, len(before) - RECORDS_MAX + 1)]:
            (folder / f"{number:06}.json").unlink(missing_ok=True)

    def write(self, document: dict[str, Any]) -> None:
        """Replace what is there: whoever reads finds the old or the new."""
        text = json.dumps({**document, "updated_at": now()}, indent=1)
        draft = self._path.with_suffix(".draft")
        draft.write_text(text + "\n", "utf-8")
        draft.replace(self._path)


def read_records(state_folder: Path, count: int) -> list[dict[str, Any]]:
    """Return the last runs, the newest first; files that cannot be read are left out."""
    folder = state_folder / _RECORDS
    found: list[dict[str, Any]] = []
    for number in reversed(_numbers(folder)):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads((folder / f"{number:06}.json").read_text("utf-8")))
        if len(found) == count:
            break
    return found


def now() -> str:
    """Return the time as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit())
