"""The format `kafkaesque-index`: a stream's lines in an index, each micro-batch once.

Tasks write Arrow files into `staging/<query>/<batch>`; the driver adds all of them in the
transaction that notes (query, batch). A micro-batch that is repeated finds its number noted.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from kafkaesque.spark.errors import ConnectorError, WrongOption
from kafkaesque.spark.logs.index import COLUMNS, LineIndex
from kafkaesque.spark.options import OptionReader

#: Local properties that Spark sets for the tasks of a stream's micro-batch.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_NAMES = ("path", "stagingPath", "retentionDays", "checkpointLocation", "queryName")
_DAY_US = 86_400_000_000
_DAYS_MAX = 36_500
#: Of what is read of a staged file at a time, and handed to SQLite.
_ROWS_AT_ONCE = 10_000


@dataclass
class Staged(WriterCommitMessage):
    """Where a task has put its lines."""

    query: str
    path: str
    rows: int


class IndexSource(DataSource):
    """An index of lines, to be written by a stream; it is searched by its own commands."""

    @classmethod
    def name(cls) -> str:
        return "kafkaesque-index"

    def streamWriter(self, schema: Any, overwrite: bool) -> IndexWriter:  # noqa: N802 - Spark's
        """Return the writer of a stream of lines."""
        options = OptionReader(self.options)
        options.refuse_unknown(_NAMES)
        missing = [name for name in COLUMNS if name not in schema.fieldNames()]
        if missing:
            raise WrongOption(
                f"the index needs the columns {', '.join(COLUMNS)}: {missing[0]} is missing"
            )
        folder = Path(options.required("path"))
        staging = Path(options.text("stagingPath") or folder / "staging")
        days = options.number("retentionDays", least=0, most=_DAYS_MAX, default=0)
        return IndexWriter(folder, staging, retention_days=days)


class IndexWriter(DataSourceStreamArrowWriter):
    """Stages lines in tasks and publishes them on the driver."""

    def __init__(self, folder: Path, staging: Path, *, retention_days: int = 0) -> None:
        """Write into a folder; lines that are older than some days are removed, with 0 none."""
        self._folder, self._staging = folder.absolute(), staging.absolute()
        self._retention_days = retention_days

    def write(self, iterator: Iterator[Any]) -> Staged:
        """Put a task's lines into a file of its own, if there are any; nobody finds them yet."""
        context = TaskContext.get()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        folder = self._staging / query / batch
        path = folder / f"{context.partitionId()}-{uuid.uuid4().hex}.arrow"
        writer, rows = None, 0
        try:
            for table in iterator:
                if not table.num_rows:
                    continue
                if writer is None:
                    folder.mkdir(parents=True, exist_ok=True)
                    writer = pa.ipc.new_stream(path, table.schema)
                writer.write_batch(table)
                rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()
        return Staged(query, str(path), rows)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Add all staged lines to the index, in one transaction, unless that has been done."""
        staged = [each for each in messages if isinstance(each, Staged) and each.rows]
        if not staged:
            return
        query = staged[0].query
        with LineIndex(self._folder, writes=True) as index:
            index.publish(query, batchId, _tables(staged))
            if self._retention_days:
                index.remove_before(time.time_ns() // 1000 - self._retention_days * _DAY_US)
        self._sweep(query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: what is staged is swept away with the next micro-batch."""

    def _sweep(self, query: str, batch: int) -> None:
        """Remove what this micro-batch and those before it had staged."""
        for folder in (self._staging / query).glob("*"):
            if folder.name.isdigit() and int(folder.name) <= batch:
                shutil.rmtree(folder, ignore_errors=True)


def _tables(staged: list[Staged]) -> Iterator[Any]:
    for each in staged:
        try:
            source = pa.memory_map(each.path)
        except OSError:
            raise ConnectorError(
                f"a task has staged {each.rows} lines in {each.path}, where the driver finds none:"
                " set the option stagingPath to a directory that all machines share"
            ) from None
        with source, pa.ipc.open_stream(source) as reader:
            for table in reader:
                yield from _slices(_checked(table))


def _slices(table: Any) -> Iterator[Any]:
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        yield table.slice(start, _ROWS_AT_ONCE)


def _checked(table: Any) -> Any:
    """Return the columns of the index alone, with times as microseconds."""
    at = table.column("time").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    columns = [at if name == "time" else table.column(name) for name in COLUMNS]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))
