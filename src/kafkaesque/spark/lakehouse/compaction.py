"""Joins small files to large ones, beside writers and readers.

A compaction replaces files by one with the same rows, in a single commit that takes place only if
all of them are still part of the table. A writer's commit never touches files that are there, so
neither hinders the other; of two compactions of the same files one does nothing. (delta-rs has a
compaction of its own; two of those at a time leave every row in the table twice.)

Row groups are joined whole, in the order of partitions and offsets, so it holds few rows in memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkaesque.spark.lakehouse.errors import TableError
from kafkaesque.spark.lakehouse.publishing import replace_files
from kafkaesque.spark.lakehouse.staging import (
    ROW_GROUP_BYTES,
    StagedFile,
    TableFile,
    folder_of,
    row_groups,
)
from kafkaesque.spark.lakehouse.table import (
    KIND,
    FileEntry,
    file_entries,
    open_table,
    partition_columns,
)

#: Files of one compaction, which keeps them open.
_FILES_MAX = 256


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction has done."""

    files_before: int = 0
    files_after: int = 0
    #: Compactions that were given up, since somebody else had replaced or removed the files.
    overtaken: int = 0


def plan_compaction(
    entries: Iterable[FileEntry], *, file_bytes: int, files_min: int
) -> list[list[FileEntry]]:
    """Return groups of files to be joined: of a folder that has `files_min` small ones, all those.

    A file is small that has less than half of `file_bytes`.
    """
    folders: dict[tuple[tuple[str, str | None], ...], list[FileEntry]] = {}
    for entry in entries:
        if entry.size_bytes * 2 < file_bytes:
            folders.setdefault(entry.folder_key(), []).append(entry)
    plans: list[list[FileEntry]] = []
    for found in folders.values():
        if len(found) < max(2, files_min):
            continue
        found.sort(key=_place)
        plans += [group for group in _cut(found, file_bytes) if len(group) > 1]
    return plans


def _place(entry: FileEntry) -> tuple[int, int, str]:
    return entry.least.get("offset", 0), entry.least.get("partition", 0), entry.path


def _cut(files: list[FileEntry], file_bytes: int) -> Iterator[list[FileEntry]]:
    group: list[FileEntry] = []
    size = 0
    for each in files:
        if group and (size + each.size_bytes > file_bytes or len(group) >= _FILES_MAX):
            yield group
            group, size = [], 0
        group.append(each)
        size += each.size_bytes
    yield group


def compact(path: str, *, file_bytes: int, files_min: int = 2) -> Compacted:
    """Join a table's small files.

    Raises:
        TableError: a file cannot be read or written.
    """
    table = open_table(path)
    plans = plan_compaction(file_entries(table), file_bytes=file_bytes, files_min=files_min)
    if not plans:
        return Compacted()
    schema = pa.schema(table.schema().to_arrow())
    dividing = partition_columns(table)
    inside = pa.schema([each for each in schema if each.name not in dividing])
    before = after = overtaken = 0
    for plan in plans:
        new = _join(path, plan, inside)
        words = {KIND: "compact", "kafkaesque.files": len(plan)}
        if replace_files(path, plan, [new], words) is None:
            overtaken += 1
            continue
        before += len(plan)
        after += 1
    return Compacted(before, after, overtaken)


def _join(path: str, plan: list[FileEntry], schema: Any) -> StagedFile:
    values = plan[0].partition_values
    folder = folder_of(values)
    name = f"compacted-{uuid.uuid4().hex}.zstd.parquet"
    file = TableFile(Path(path), f"{folder}/{name}" if folder else name, schema)
    rows = 0
    try:
        for group in _groups(path, plan, schema):
            rows += group.num_rows
            file.write(group)
        staged = file.finish(dict(values))
    except (OSError, pa.ArrowException) as error:
        file.discard()
        raise TableError(f"files of {path} cannot be joined: {error}") from error
    except BaseException:
        file.discard()
        raise
    wanted = sum(each.rows or 0 for each in plan)
    if all(each.rows is not None for each in plan) and rows != wanted:
        file.discard()
        raise TableError(
            f"files of {path} have {rows} rows and the log says {wanted}: they are left as they are"
        )
    return staged


@dataclass(frozen=True, slots=True)
class _Piece:
    """A row group of a file, and where it belongs."""

    place: tuple[int, int]
    file: int
    number: int


def _groups(path: str, plan: list[FileEntry], schema: Any) -> Iterator[Any]:
    """Yield the files' rows as row groups, small neighbours joined."""
    with ExitStack() as stack:
        files = [
            stack.enter_context(pq.ParquetFile(Path(path, each.path), memory_map=False))
            for each in plan
        ]
        pieces = sorted(
            (
                _Piece(_place_of(file.metadata, number), at, number)
                for at, file in enumerate(files)
                for number in range(file.metadata.num_row_groups)
            ),
            key=lambda piece: (piece.place, piece.file, piece.number),
        )
        waiting: list[Any] = []
        size = 0
        for piece in pieces:
            table = _conform(files[piece.file].read_row_group(piece.number), schema)
            waiting.append(table)
            size += table.nbytes
            if size >= ROW_GROUP_BYTES:
                yield from row_groups(pa.concat_tables(waiting).combine_chunks())
                waiting, size = [], 0
        if waiting:
            yield from row_groups(pa.concat_tables(waiting).combine_chunks())


def _place_of(metadata: Any, group: int) -> tuple[int, int]:
    """Return a row group's least partition and offset."""
    found = {"partition": 0, "offset": 0}
    row_group = metadata.row_group(group)
    for at in range(row_group.num_columns):
        column = row_group.column(at)
        stats = column.statistics
        if column.path_in_schema in found and stats is not None and stats.has_min_max:
            found[column.path_in_schema] = stats.min_raw
    return found["partition"], found["offset"]


def _conform(table: Any, schema: Any) -> Any:
    """Return a table with all columns, those that came later null."""
    columns = [
        table.column(each.name).cast(each.type)
        if each.name in table.schema.names
        else pa.chunked_array([pa.nulls(table.num_rows, each.type)])
        for each in schema
    ]
    return pa.table(columns, schema=schema)
