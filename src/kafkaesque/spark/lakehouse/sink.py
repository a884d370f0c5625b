"""The writers that Spark calls: tasks stage files, the driver publishes them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.lakehouse.compaction import compact
from kafkaesque.spark.lakehouse.layout import Layout
from kafkaesque.spark.lakehouse.options import SinkOptions
from kafkaesque.spark.lakehouse.publishing import MicroBatch, join, publish
from kafkaesque.spark.lakehouse.staging import FileStager, Staged
from kafkaesque.spark.subscription import tell

#: Local properties that Spark sets for the tasks of a stream's micro-batch.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
#: Small files in a folder from which on they are joined without being asked for it.
_SMALL_FILES_MIN = 8


@dataclass
class StagedByTask(WriterCommitMessage):
    """What a task has staged, and for whom."""

    query: str
    staged: Staged


class StreamWriter(DataSourceStreamArrowWriter):
    """Stages a micro-batch in its tasks, and makes it part of the table in one commit."""

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout

    def write(self, iterator: Iterator[Any]) -> StagedByTask:
        context = TaskContext.get()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise ConnectorError(
                "Spark does not tell the task which micro-batch it writes, so it cannot be written"
                " exactly once"
            )
        return stage(self._options, self._layout, iterator, (query, int(batch)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish; a micro-batch that the table has is left as it is."""
        if _publish(self._options, self._layout, messages, batchId):
            maybe_compact(self._options, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: whether a commit took place is not known here, so only vacuum removes."""


class BatchWriter(DataSourceArrowWriter):
    """Writes rows in one commit, once under the name and number that the user may give them."""

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout
        self._written_as = options.written_as or (uuid.uuid4().hex, 0)

    def write(self, iterator: Iterator[Any]) -> StagedByTask:
        return stage(self._options, self._layout, iterator, self._written_as)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish; rows that the table has under this name and number are left as they are."""
        _publish(self._options, self._layout, messages, self._written_as[1])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing, as in a stream."""


def stage(
    options: SinkOptions, layout: Layout, batches: Iterable[Any], written_as: tuple[str, int]
) -> StagedByTask:
    """Write a task's rows to files that are not yet part of the table."""
    stager = FileStager(
        options.table.path,
        layout,
        written_as,
        TaskContext.get().partitionId(),
        file_bytes_max=options.file_bytes,
    )
    try:
        for batch in batches:
            stager.add(batch)
        return StagedByTask(written_as[0], stager.finish())
    except BaseException:
        stager.discard()
        raise


def _publish(
    options: SinkOptions,
    layout: Layout,
    messages: Iterable[WriterCommitMessage | None],
    batch_id: int,
) -> bool:
    """Return whether there was something to publish that was not there."""
    parts = [each for each in messages if isinstance(each, StagedByTask)]
    staged = join(each.staged for each in parts)
    if not staged.files:
        return False
    batch = MicroBatch(query=parts[0].query, batch_id=batch_id, staged=staged)
    return not publish(options.table, layout, batch).was_there


def maybe_compact(options: SinkOptions, batch_id: int) -> None:
    """Join small files after every so many micro-batches; what comes of it stops no query."""
    if not options.compact_every or (batch_id + 1) % options.compact_every:
        return
    try:
        compact(options.table.path, file_bytes=options.file_bytes, files_min=_SMALL_FILES_MIN)
    except ConnectorError as error:
        tell(f"the query continues, but small files of its table were not joined: {error}")
