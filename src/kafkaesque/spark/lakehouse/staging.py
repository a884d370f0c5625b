"""From rows to Parquet files that lie in a table's folder and are not yet part of the table.

Where rows have a topic's partition and offset, each row group holds one partition's rows in the
order of their offsets: readers skip by a file's footer, and compaction joins whole row groups.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.commit_log import sync
from kafkaesque.spark.lakehouse.file_stats import column_stats
from kafkaesque.spark.lakehouse.layout import DATE, TIMESTAMP, Layout, derived_dates
from kafkaesque.spark.offsets import Partition

#: A row group is written as soon as it has so many bytes in memory.
ROW_GROUP_BYTES = 16 << 20
#: What a task holds in memory for all its files together.
_BUFFERED_BYTES_MAX = 64 << 20
_OPEN_FILES_MAX = 64
ORDER = ("partition", "offset")
_SAFE_VALUE = re.compile(r"[A-Za-z0-9._-]{1,120}")
_WRITTEN_AS = re.compile(r"[A-Za-z0-9._-]{1,120}")
_NAME = re.compile(r"staged-(.+)-(\d+)-(\d+)-[0-9a-f]{12}-(\d+)\.zstd\.parquet")


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a commit can make part of the table."""

    #: Within the table's folder.
    path: str
    size_bytes: int
    partition_values: dict[str, str | None]
    stats_json: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task has written: files, and which offsets are in them."""

    files: tuple[StagedFile, ...] = ()
    rows: int = 0
    #: First and last offset of each topic's partition.
    spans: dict[Partition, tuple[int, int]] = field(default_factory=dict)


def arrow_schema(layout: Layout) -> Any:
    """Return the Arrow schema of a layout's rows, `date` included."""
    try:
        return pa.schema(Schema.from_json(layout.json()).to_arrow())
    except Exception as error:
        raise WrongOption(f"a Delta Lake table cannot have these columns: {error}") from error


def check_written_as(name: str) -> str:
    """Return a query's or application's name that can be part of a file's.

    Raises:
        WrongOption: it cannot.
    """
    if not _WRITTEN_AS.fullmatch(name):
        raise WrongOption(
            f"txnAppId is at most 120 of the characters A-Z a-z 0-9 . _ -, not {name!r}"
        )
    return name


def read_file_name(name: str) -> tuple[str, int] | None:
    """Return the query and micro-batch for which a file was staged, None if it was not."""
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


class FileStager:
    """Writes one task's rows; nobody reads its files before they have been committed."""

    def __init__(
        self,
        table: str,
        layout: Layout,
        written_as: tuple[str, int],
        task: int,
        *,
        file_bytes_max: int,
    ) -> None:
        self._layout = layout
        self._schema = arrow_schema(layout)
        names = [each for each in self._schema.names if each not in layout.partition_by]
        self._file_schema = pa.schema([self._schema.field(each) for each in names])
        query, batch_id = written_as
        prefix = f"staged-{query}-{batch_id}-{task}-{uuid.uuid4().hex[:12]}"
        self._folder = _Folder(Path(table), prefix, self._file_schema, file_bytes_max)
        self._piles: dict[tuple[str | None, ...], _Pile] = {}
        self._rows = 0
        self._spans: dict[Partition, tuple[int, int]] = {}

    def add(self, batch: Any) -> None:
        """Take a record batch of Spark's, whose columns are the layout's but for `date`."""
        if not batch.num_rows:
            return
        table = self._conform(batch)
        self._rows += table.num_rows
        self._note_spans(table)
        for values, part in _divide(table, self._layout.partition_by):
            pile = self._piles.setdefault(values, _Pile())
            pile.add(part.select(self._file_schema.names))
            if pile.size_bytes >= ROW_GROUP_BYTES:
                self._write(values)
        while sum(pile.size_bytes for pile in self._piles.values()) > _BUFFERED_BYTES_MAX:
            self._write(max(self._piles, key=lambda each: self._piles[each].size_bytes))

    def finish(self) -> Staged:
        """Return what was written; it is on the disk, synced."""
        for values in list(self._piles):
            self._write(values)
        return Staged(tuple(self._folder.finish()), self._rows, self._spans)

    def discard(self) -> None:
        """Remove the files: the task has failed, so nobody can know of them."""
        self._folder.discard()

    def _conform(self, batch: Any) -> Any:
        table = pa.Table.from_batches([batch])
        if self._layout.derives_date:
            times = table.column(TIMESTAMP).cast(self._schema.field(TIMESTAMP).type)
            table = table.append_column(DATE, derived_dates(times))
        return table.select(self._schema.names).cast(self._schema)

    def _note_spans(self, table: Any) -> None:
        if not spans_are_known(self._layout):
            return
        found = table.group_by(["topic", "partition"]).aggregate(
            [("offset", "min"), ("offset", "max")]
        )
        for row in found.to_pylist():
            each = (row["topic"], row["partition"])
            first, last = row["offset_min"], row["offset_max"]
            if None in (*each, first):
                raise WrongOption("a row has no topic, partition or offset: the column is null")
            before = self._spans.get(each, (first, last))
            self._spans[each] = (min(first, before[0]), max(last, before[1]))

    def _write(self, values: tuple[str | None, ...]) -> None:
        table = self._piles.pop(values).take()
        partition_values = dict(zip(self._layout.partition_by, values, strict=True))
        for group in row_groups(table):
            self._folder.write(partition_values, group)


def spans_are_known(layout: Layout) -> bool:
    """Whether rows say of which topic's partition they are, and where they stood in it."""
    types = layout.types()
    return (types.get("topic"), types.get("partition"), types.get("offset")) == (
        "string",
        "integer",
        "long",
    )


def row_groups(table: Any) -> Iterator[Any]:
    """Yield a table's rows as row groups: each of one partition, in the order of its offsets."""
    if not set(ORDER) <= set(table.schema.names):
        yield table
        return
    if not _is_sorted(table):
        table = table.sort_by([(name, "ascending") for name in ORDER])
    runs: Any = pc.run_end_encode(table.column("partition").combine_chunks())
    start = 0
    for end in runs.run_ends.to_pylist():
        yield table.slice(start, end - start)
        start = end


def _is_sorted(table: Any) -> bool:
    """Whether all rows are of one partition, in the order of their offsets."""
    least, most = pc.min_max(table.column("partition")).as_py().values()
    offsets = table.column("offset").combine_chunks()
    if least != most:
        return False
    ascends: Any = pc.less_equal(offsets.slice(0, len(offsets) - 1), offsets.slice(1))
    return pc.all(ascends).as_py() is not False


class _Pile:
    """Rows that wait to become row groups of one file."""

    def __init__(self) -> None:
        self._tables: list[Any] = []
        self.size_bytes = 0

    def add(self, table: Any) -> None:
        self._tables.append(table)
        self.size_bytes += table.nbytes

    def take(self) -> Any:
        return pa.concat_tables(self._tables).combine_chunks()


def _divide(table: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str | None, ...], Any]]:
    """Yield a table's parts, each with the values that its rows share in these columns."""
    if not names:
        yield (), table
        return
    found = table.group_by(list(names)).aggregate([])
    for number in range(found.num_rows):
        scalars = [found.column(name)[number] for name in names]
        part = table
        if found.num_rows > 1:
            mask: Any = None
            for name, scalar in zip(names, scalars, strict=True):
                column = table.column(name)
                same: Any = pc.equal(column, scalar) if scalar.is_valid else pc.is_null(column)
                mask = same if mask is None else pc.and_kleene(mask, same)
            part = table.filter(mask)
        yield tuple(_partition_value(each) for each in scalars), part


def _partition_value(scalar: Any) -> str | None:
    # Delta Lake writes null as the empty text, so that there is no telling them apart.
    return str(scalar.as_py()) or None if scalar.is_valid else None


def folder_of(partition_values: dict[str, str | None]) -> str:
    """Return the folder for files of these values; it is for people, the log says what counts."""
    parts = []
    for name, value in partition_values.items():
        shown = "null" if value is None else value
        if not _SAFE_VALUE.fullmatch(shown) or shown in (".", ".."):
            shown = hashlib.sha256(shown.encode()).hexdigest()[:32]
        parts.append(f"{name}={shown}" if _SAFE_VALUE.fullmatch(name) else shown)
    return "/".join(parts)


class TableFile:
    """A Parquet file that is being written."""

    def __init__(self, table: Path, path: str, schema: Any) -> None:
        self.path = path
        self._table = table
        self._schema = schema
        where = table / path
        where.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(where, schema, compression="zstd")

    def write(self, group: Any) -> None:
        """Write a row group."""
        self._writer.write_table(group, row_group_size=max(1, group.num_rows))

    @property
    def size_bytes(self) -> int:
        """How large it is so far."""
        return (self._table / self.path).stat().st_size

    def finish(self, partition_values: dict[str, str | None]) -> StagedFile:
        """Return what a commit has to know of the file, which is on the disk, synced."""
        self._writer.close()
        where = self._table / self.path
        sync(where)
        sync(where.parent)
        stats = column_stats(pq.read_metadata(where), self._schema)
        now_ms = time.time_ns() // 1_000_000
        return StagedFile(
            self.path, where.stat().st_size, partition_values, json.dumps(stats), now_ms
        )

    def discard(self) -> None:
        """Remove it."""
        with suppress(OSError):
            self._writer.close()
        (self._table / self.path).unlink(missing_ok=True)


class _Folder:
    """A task's files: of each combination of values one is open, and so many altogether."""

    def __init__(self, table: Path, prefix: str, schema: Any, file_bytes_max: int) -> None:
        self._table = table
        self._prefix = prefix
        self._schema = schema
        self._file_bytes_max = file_bytes_max
        self._count = 0
        self._open: dict[str, tuple[TableFile, dict[str, str | None]]] = {}
        self._done: list[StagedFile] = []

    def write(self, values: dict[str, str | None], group: Any) -> None:
        folder = folder_of(values)
        if folder not in self._open:
            if len(self._open) >= _OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            name = f"{self._prefix}-{self._count}.zstd.parquet"
            path = f"{folder}/{name}" if folder else name
            self._open[folder] = TableFile(self._table, path, self._schema), values
            self._count += 1
        file = self._open[folder][0]
        file.write(group)
        if file.size_bytes >= self._file_bytes_max:
            self._close(folder)

    def finish(self) -> list[StagedFile]:
        for folder in list(self._open):
            self._close(folder)
        return self._done

    def discard(self) -> None:
        for file, _ in self._open.values():
            file.discard()
        for each in self._done:
            (self._table / each.path).unlink(missing_ok=True)

    def _close(self, folder: str) -> None:
        file, values = self._open.pop(folder)
        self._done.append(file.finish(values))
