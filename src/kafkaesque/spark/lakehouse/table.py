"""A table as it is at one version: its columns, its files, and how far topics are archived."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.commit_log import read_commit_info, version_at, versions
from kafkaesque.spark.lakehouse.errors import TableError
from kafkaesque.spark.offsets import Offsets, Partition, from_json

#: What Kafkaesque's commits say of themselves; the offsets are those of the whole table.
OFFSETS, QUERY, BATCH, ROWS = (
    "kafkaesque.offsets",
    "kafkaesque.query",
    "kafkaesque.batch",
    "kafkaesque.rows",
)
KIND = "kafkaesque.kind"
_UNDERSTOOD = {"timestampNtz", "vacuumProtocolCheck"}
_COMMITS_LOOKED_AT_MAX = 1000


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file that is part of the table at a version."""

    path: str
    size_bytes: int
    rows: int | None
    partition_values: dict[str, str | None]
    #: Of whole numbers, and of timestamps in microseconds; one that is not told is not in it.
    least: dict[str, int]
    most: dict[str, int]

    def folder_key(self) -> tuple[tuple[str, str | None], ...]:
        """Return what it shares with the files with which it can be compacted."""
        return tuple(sorted(self.partition_values.items()))


def table_path(text: str) -> str:
    """Return a table's folder.

    Raises:
        WrongOption: it is on no file system.
    """
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "file":
        raise WrongOption(
            f"the table {text} is not on a file system: name a folder that driver and workers share"
        )
    path = rest if separator else text.removeprefix("file:")
    return str(Path(path).absolute())


def maybe_open(path: str) -> DeltaTable | None:
    """Return the newest version of a table, None where there is none.

    Raises:
        TableError: it is there and cannot be read.
    """
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise TableError(f"the table {path} cannot be read: {error}") from error
    _check_features(path, table)
    return table


def open_table(path: str, version: int | None = None) -> DeltaTable:
    """Return a table at a version, the newest by default.

    Raises:
        WrongOption: there is no such table or version. TableError: it cannot be read.
    """
    table = maybe_open(path)
    if table is None:
        raise WrongOption(f"there is no table at {path}")
    if version is None or version == table.version():
        return table
    try:
        return DeltaTable(path, version=version)
    except DeltaError as error:
        kept = versions(path)
        raise WrongOption(
            f"the table {path} cannot be read as of version {version}: its log has the versions"
            f" {kept[0]} to {kept[-1]}"
        ) from error


def open_as_of(path: str, version: int | None, time_ms: int | None) -> DeltaTable:
    """Return a table as of a version or of a time, the newest without either."""
    if time_ms is not None:
        open_table(path)
        version = version_at(path, time_ms)
    return open_table(path, version)


def _check_features(path: str, table: DeltaTable) -> None:
    """Refuse a table whose files do not say all: deleted rows beside them, renamed columns."""
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - _UNDERSTOOD
    if protocol.min_reader_version == 2 or features:
        names = ", ".join(sorted(features)) or "columnMapping"
        raise TableError(f"the table {path} has features that are not understood here: {names}")


def schema_fields(table: DeltaTable) -> list[dict[str, Any]]:
    """Return a table's columns in Spark's JSON form."""
    found: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return found


def partition_columns(table: DeltaTable) -> tuple[str, ...]:
    """Return by which columns a table's files are divided."""
    return tuple(table.metadata().partition_columns)


def file_entries(table: DeltaTable) -> list[FileEntry]:
    """Return a version's files, in the order of their paths."""
    actions = pa.table(table.get_add_actions(flatten=True))
    dividing = partition_columns(table)
    bounds = {
        side: {
            name.removeprefix(f"{side}."): _numbers(actions.column(name))
            for name in actions.schema.names
            if name.startswith(f"{side}.") and _is_number(actions.schema.field(name).type)
        }
        for side in ("min", "max")
    }
    values = {name: actions.column(f"partition.{name}").to_pylist() for name in dividing}
    columns = [actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")]
    found = [
        FileEntry(
            # As it stands in the log, where it is a URL.
            unquote(path),
            size,
            rows,
            {name: _text(values[name][at]) for name in dividing},
            _at(bounds["min"], at),
            _at(bounds["max"], at),
        )
        for at, (path, size, rows) in enumerate(zip(*columns, strict=True))
    ]
    return sorted(found, key=lambda each: each.path)


def _at(columns: Mapping[str, list[int | None]], row: int) -> dict[str, int]:
    cells = ((name, column[row]) for name, column in columns.items())
    return {name: cell for name, cell in cells if cell is not None}


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def _numbers(column: Any) -> list[int | None]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz))
    found: list[int | None] = column.cast(pa.int64()).to_pylist()
    return found


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def offset_app_id(partition: Partition) -> str:
    """Return the name under which a table's log counts how far a partition is archived.

    As the version of an application's transaction it outlives checkpoints and the log's cleaning.
    """
    topic, number = partition
    return f"kafkaesque.offsets/{topic}/{number}"


def archived_until(table: DeltaTable, partitions: Iterable[Partition]) -> Offsets:
    """Return the offsets at which what comes next begins, of those partitions that have rows."""
    found = {each: table.transaction_version(offset_app_id(each)) for each in partitions}
    return {each: end for each, end in found.items() if end is not None}


def recorded_offsets(path: str, version: int) -> Offsets:
    """Return how far each partition was archived at a version, as the commits until then say it."""
    for number in range(version, max(-1, version - _COMMITS_LOOKED_AT_MAX), -1):
        info = read_commit_info(path, number)
        if info is None:
            break
        found = info.words.get(OFFSETS)
        if isinstance(found, Mapping):
            return from_json(found)
    return {}
