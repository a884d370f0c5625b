"""Removes files that no version of a table needs: the only place that deletes any.

Three kinds of files lie in a table's folder beside those of its newest version:

- *Old* ones, which compaction or expiry has taken out of the table. Older versions need them, so
  they stay for as long as the table keeps its history.
- *Dead* ones, staged for a micro-batch that the table has by now without them: an attempt of a
  task that failed, or a driver that died before its commit and has begun anew. A commit of that
  micro-batch is refused for all time, so nobody can ever need them, however new they are.
- *Strange* ones: staged for a micro-batch that has not been committed, or by somebody else. A
  writer may be about to commit them. They stay until they are older than any writer takes.

The folder is listed before the log is read: a file that is committed in between is in the log.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake.exceptions import DeltaError

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.errors import TableError
from kafkaesque.spark.lakehouse.layout import TIMESTAMP
from kafkaesque.spark.lakehouse.publishing import active_paths, remove_files
from kafkaesque.spark.lakehouse.staging import read_file_name
from kafkaesque.spark.lakehouse.table import KIND, FileEntry, file_entries, open_table

_SUFFIX = ".parquet"
#: Longer than a micro-batch or a compaction takes from its first file to its commit.
STRANGE_AGE_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """Files that nobody needs, by kind, and what they take."""

    old: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()
    size_bytes: int = 0


def vacuum(
    path: str,
    *,
    history_ms: int | None = None,
    strange_age_ms: int = STRANGE_AGE_MS,
    dry_run: bool = False,
) -> Vacuumed:
    """Remove what no version needs that is to be readable; return what that is.

    `history_ms` is how far versions reach back that stay readable, the table's own by default.

    Raises:
        TableError: the table cannot be read.
    """
    open_table(path)
    lying = dict(_list(Path(path)))
    table = open_table(path)
    active = active_paths(table)
    try:
        old = set(_taken_out(table, history_ms)) - active
        needed = (set(_taken_out(table, 0)) - old) | active
    except DeltaError as error:
        raise TableError(f"the files of {path} cannot be told apart: {error}") from error
    now_ms = time.time_ns() // 1_000_000
    kinds: dict[str, list[str]] = {"old": [], "dead": [], "strange": []}
    committed: dict[str, int | None] = {}
    for name, (_, modified_ms) in lying.items():
        if name in old:
            kinds["old"].append(name)
        elif name in needed:
            continue
        elif _is_dead(name, committed, table):
            kinds["dead"].append(name)
        elif now_ms - modified_ms > strange_age_ms:
            kinds["strange"].append(name)
    gone = [name for names in kinds.values() for name in names]
    if not dry_run:
        for name in gone:
            with suppress(FileNotFoundError):
                Path(path, name).unlink()
    return Vacuumed(
        **{kind: tuple(sorted(names)) for kind, names in kinds.items()},
        size_bytes=sum(lying[name][0] for name in gone),
    )


def _list(table: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield a folder's data files with size and age; names with `_` or `.` are not for data."""
    for folder, folders, names in os.walk(table):
        folders[:] = sorted(each for each in folders if each[0] not in "_.")
        for name in names:
            if not name.endswith(_SUFFIX) or name[0] in "_.":
                continue
            where = Path(folder, name)
            with suppress(FileNotFoundError):
                found = where.stat()
                yield (
                    where.relative_to(table).as_posix(),
                    (found.st_size, found.st_mtime_ns // 1_000_000),
                )


def _taken_out(table: Any, history_ms: int | None) -> list[str]:
    """Return the files that were taken out of the table longer ago than this."""
    hours = None if history_ms is None else -(-history_ms // 3_600_000)
    found: list[str] = table.vacuum(
        retention_hours=hours, dry_run=True, enforce_retention_duration=False
    )
    return found


def _is_dead(name: str, committed: dict[str, int | None], table: Any) -> bool:
    staged_for = read_file_name(name.rpartition("/")[2])
    if staged_for is None:
        return False
    query, batch_id = staged_for
    if query not in committed:
        committed[query] = table.transaction_version(query)
    newest = committed[query]
    return newest is not None and batch_id <= newest


@dataclass(frozen=True, slots=True)
class Expired:
    """What an expiry has taken out of the newest version."""

    files: tuple[str, ...] = ()
    rows: int = 0
    version: int | None = None


def expire(path: str, *, before_ms: int, dry_run: bool = False) -> Expired:
    """Take files out of a table whose rows all have timestamps before this time.

    Older versions have them still; `vacuum` removes them when these are no more kept. The offsets
    stay: what has expired is not archived again.

    Raises:
        TableError: it cannot be done. WrongOption: the table has no timestamps.
    """
    table = open_table(path)
    if TIMESTAMP not in {each.name for each in table.schema().fields}:
        raise WrongOption(f"the table {path} has no column {TIMESTAMP} by which rows expire")
    found = [each for each in file_entries(table) if _is_before(each, before_ms)]
    rows = sum(each.rows or 0 for each in found)
    if dry_run or not found:
        return Expired(tuple(each.path for each in found), rows)
    version = remove_files(path, found, {KIND: "expire", "kafkaesque.before_ms": before_ms})
    if version is None:
        raise TableError(f"files of {path} were replaced while they expired: try again")
    return Expired(tuple(each.path for each in found), rows, version)


def _is_before(file: FileEntry, before_ms: int) -> bool:
    latest = file.most.get(TIMESTAMP)
    return latest is not None and latest < before_ms * 1000
