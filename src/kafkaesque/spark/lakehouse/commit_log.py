"""A table's log as it lies in its folder: what each commit says of itself, and when it was made."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.errors import TableError

LOG_FOLDER = "_delta_log"
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What a commit says of itself."""

    version: int
    timestamp_ms: int
    operation: str
    #: As it stands in the log, what Kafkaesque adds included.
    words: dict[str, Any]


def commit_path(table: str, version: int) -> Path:
    """Return where a version's commit lies."""
    return Path(table, LOG_FOLDER, f"{version:0{_DIGITS}d}.json")


def versions(table: str) -> list[int]:
    """Return the versions whose commits are kept, ascending; older ones are in checkpoints only."""
    try:
        names = os.listdir(Path(table, LOG_FOLDER))
    except FileNotFoundError:
        return []
    stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal())


def read_commit_info(table: str, version: int) -> CommitInfo | None:
    """Return what a commit says of itself, None where the log does not keep it any more.

    Raises:
        TableError: the commit cannot be read.
    """
    path = commit_path(table, version)
    try:
        actions = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TableError(f"the commit {path} cannot be read: {error}") from error
    words: dict[str, Any] = next(
        (each["commitInfo"] for each in actions if "commitInfo" in each), {}
    )
    timestamp_ms = int(words.get("timestamp", path.stat().st_mtime_ns // 1_000_000))
    return CommitInfo(version, timestamp_ms, str(words.get("operation", "")), words)


def version_at(table: str, time_ms: int) -> int:
    """Return the version that was the newest at a time.

    Raises:
        WrongOption: the log does not reach back so far.
    """
    kept = versions(table)
    low, high = 0, len(kept)
    while low < high:
        middle = (low + high) // 2
        info = read_commit_info(table, kept[middle])
        if info is not None and info.timestamp_ms <= time_ms:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        first = read_commit_info(table, kept[0]) if kept else None
        begins = "is empty" if first is None else f"begins at {first.timestamp_ms} ms"
        raise WrongOption(
            f"the table {table} has no version of {time_ms} ms since 1970: its log {begins}"
        )
    return kept[low - 1]


def sync_commit(table: str, version: int) -> None:
    """Have a commit on the disk, not only in the page cache."""
    path = commit_path(table, version)
    sync(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Have a file's bytes, or a folder's names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
