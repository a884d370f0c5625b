"""From a table's files to Arrow record batches of its columns, as Spark wants them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from kafkaesque.spark.lakehouse.errors import TableError
from kafkaesque.spark.lakehouse.selection import Selection
from kafkaesque.spark.lakehouse.staging import ORDER
from kafkaesque.spark.lakehouse.table import FileEntry

ROWS_MAX = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Rows to be read: of these files, in these columns."""

    table: str
    files: tuple[FileEntry, ...]
    selection: Selection
    #: The table's, all of them, serialized; what is wanted are `columns`.
    schema: bytes
    columns: tuple[str, ...]


def read_scan(scan: Scan) -> Iterator[Any]:
    """Yield the rows file by file.

    Raises:
        TableError: a file is gone or damaged.
    """
    schema = pa.ipc.read_schema(pa.py_buffer(scan.schema))
    for file in scan.files:
        yield from _read_file(scan, file, schema)


def read_sorted(scan: Scan) -> Iterator[Any]:
    """Yield the rows of all files in the order of their offsets; they fit into memory.

    Raises: as `read_scan`.
    """
    columns = tuple(dict.fromkeys((*scan.columns, *ORDER)))
    batches = list(read_scan(replace(scan, columns=columns)))
    if not batches:
        return
    table = pa.Table.from_batches(batches).sort_by([(name, "ascending") for name in ORDER])
    yield from table.select(list(scan.columns)).to_batches(max_chunksize=ROWS_MAX)


def _read_file(scan: Scan, file: FileEntry, schema: Any) -> Iterator[Any]:
    inside = pa.schema([each for each in schema if each.name not in file.partition_values])
    wanted = pa.schema([schema.field(name) for name in scan.columns])
    columns = [name for name in scan.columns if name in inside.names]
    where = Path(scan.table, file.path)
    try:
        fragment = ds.ParquetFileFormat().make_fragment(str(where), LocalFileSystem())
        batches = fragment.scanner(
            schema=inside,
            columns=columns,
            filter=scan.selection.expression(inside),
            batch_size=ROWS_MAX,
            batch_readahead=2,
            fragment_readahead=1,
            use_threads=False,
        ).to_batches()
        for batch in batches:
            if batch.num_rows:
                yield _complete(batch, file, wanted)
    except FileNotFoundError as error:
        raise TableError(
            f"the file {where} is gone: vacuum has removed it, because this version of the table is"
            " older than the retained history; read a newer version"
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"the file {where} cannot be read: {error}") from error


def _complete(batch: Any, file: FileEntry, wanted: Any) -> Any:
    arrays = [
        _same(file.partition_values[each.name], each.type, batch.num_rows)
        if each.name in file.partition_values
        else batch.column(each.name).cast(each.type)
        for each in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _same(value: str | None, kind: Any, rows: int) -> Any:
    scalar = pa.scalar(value, pa.string()).cast(kind)
    return pa.repeat(scalar, rows) if scalar.is_valid else pa.nulls(rows, kind)


def pack(files: Iterable[FileEntry], bytes_max: int) -> list[tuple[FileEntry, ...]]:
    """Return groups of files for one task each, of about `bytes_max`, in the files' order."""
    groups: list[tuple[FileEntry, ...]] = []
    current: list[FileEntry] = []
    size = 0
    for file in files:
        if current and size + file.size_bytes > bytes_max:
            groups.append(tuple(current))
            current, size = [], 0
        current.append(file)
        size += file.size_bytes
    if current:
        groups.append(tuple(current))
    return groups
