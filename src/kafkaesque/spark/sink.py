"""The writers that Spark calls: batch and stream."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.model.sink_markers import sink_id
from kafkaesque.spark.batch_sender import BatchSender
from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.cluster_cache import borrowed_cluster
from kafkaesque.spark.errors import ConnectorError, WrongOption
from kafkaesque.spark.row_router import ProducerState, RowRouter
from kafkaesque.spark.sink_options import SinkOptions
from kafkaesque.spark.transaction import Marker, Transaction

#: Local properties that Spark sets for the tasks of a stream's micro-batch.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote, or found written by itself before."""

    rows: int
    was_there: bool = False


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches; all is decided in the tasks, and nothing is left for the driver."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        context = TaskContext.get()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise ConnectorError(
                "Spark does not tell the task which micro-batch it writes, so it cannot be written"
                " exactly once; deliveryGuarantee=at-least-once does without"
            )
        return write_task(self._options, iterator, query, int(batch), context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: the tasks have committed."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: tasks that failed have aborted, or those that follow do it for them."""


class BatchWriter(DataSourceArrowWriter):
    """Writes a table; attempts of a task know each other by the job's id, or the user's for it."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = _named(options) or (uuid.uuid4().hex, 0)

    def write(self, iterator: Iterator[Any]) -> Written:
        task = TaskContext.get().partitionId()
        return write_task(self._options, iterator, *self._job, task)


def _named(options: SinkOptions) -> tuple[str, int] | None:
    """Return the user's name and number for a table, if there are any, for its topic alone."""
    if options.written_as is None or options.topic is None:
        return options.written_as
    name, number = options.written_as
    # No topic's name has a slash, so no two of them make the same.
    return f"{name}/{options.topic}", number


def write_task(
    options: SinkOptions, tables: Iterable[Any], query: str, batch_id: int, task: int
) -> Written:
    """Write a task's rows, unless that has been done.

    Raises:
        ConnectorError: it could not be done; nothing of it is visible, or with at-least-once some.
    """
    filled = (table for table in tables if table.num_rows)
    first = next(filled, None)
    if first is None:
        return Written(0)
    with borrowed_cluster(options.cluster) as cluster:
        writer = _TaskWriter(cluster, options, task)
        if options.is_exactly_once:
            return writer.write_once(_chain(first, filled), _id(options, query, task), batch_id)
        return writer.write(_chain(first, filled))


def _id(options: SinkOptions, query: str, task: int) -> str:
    return options.id_prefix + sink_id(query, task)


def _chain(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


class _TaskWriter:
    """One task's way from tables to acknowledged batches."""

    def __init__(self, cluster: Cluster, options: SinkOptions, task: int) -> None:
        self._cluster = cluster
        self._options = options
        self._task = task
        self._counts: dict[str, int] = {}
        self.rows = 0
        self.size_bytes = 0

    def write(self, tables: Iterable[Any]) -> Written:
        """Write at least once."""
        router = self._router(BatchOptions(codec=self._options.codec))
        sender = BatchSender(self._cluster, None)
        for table in tables:
            self._count(table)
            for batches in router.rounds(table, _now_ms()):
                sender.send(batches)
        sender.finish()
        return Written(self.rows)

    def write_once(self, tables: Iterable[Any], transactional_id: str, batch_id: int) -> Written:
        """Write in a transaction, unless the marker says that it has been done."""
        transaction = Transaction(
            self._cluster, transactional_id, self._options.transaction_timeout_ms
        )
        marker = transaction.open()
        if marker is not None and marker.batch_id >= batch_id:
            return self._compare(tables, marker, batch_id)
        try:
            self._write_in(transaction, tables, batch_id)
            transaction.commit()
        except ConnectorError as error:
            _abort_after(error, transaction)
            raise
        return Written(self.rows)

    def _write_in(self, transaction: Transaction, tables: Iterable[Any], batch_id: int) -> None:
        router = self._router(
            BatchOptions(
                codec=self._options.codec,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                transactional=True,
            )
        )
        sender = BatchSender(self._cluster, transaction.transactional_id)
        for table in tables:
            self._count(table)
            for batches in router.rounds(table, _now_ms()):
                transaction.add(batches)
                sender.send(batches)
        # On its way while the last batches are written; none of it counts before the commit.
        transaction.send_marker(Marker(batch_id, self.rows, self.size_bytes))
        sender.finish()

    def _compare(self, tables: Iterable[Any], marker: Marker, batch_id: int) -> Written:
        """Write nothing; the rows have to be those that were written."""
        for table in tables:
            self._count(table)
        if marker.batch_id == batch_id and (self.rows, self.size_bytes) != (
            marker.rows,
            marker.size_bytes,
        ):
            raise ConnectorError(
                f"task {self._task} of micro-batch {batch_id} had written {marker.rows} rows of"
                f" {marker.size_bytes} bytes, and now it is given {self.rows} of {self.size_bytes}:"
                " the query does not repeat a micro-batch as it was, so it cannot be written"
                " exactly once"
            )
        return Written(self.rows, was_there=True)

    def _count(self, table: Any) -> None:
        self.rows += table.num_rows
        self.size_bytes += sum(
            _data_bytes(table.column(name))
            for name in ("key", "value")
            if name in table.schema.names
        )

    def _router(self, options: BatchOptions) -> RowRouter:
        return RowRouter(
            self._options, ProducerState(options), self._partition_count, sticky=self._task
        )

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            count = self._cluster.partition_count(topic)
            if not count:
                raise WrongOption(f"there is no topic {topic!r}")
            self._counts[topic] = count
        return self._counts[topic]


def _data_bytes(column: Any) -> int:
    """Return the bytes of a column's values, however its buffers are cut."""
    return pc.sum(pc.binary_length(column)).as_py() or 0


def _abort_after(error: ConnectorError, transaction: Transaction) -> None:
    """Abort, so that readers need not wait for the timeout; what went wrong is told already."""
    try:
        transaction.abort()
    except ConnectorError as second:
        error.add_note(f"and the transaction could not be aborted: {second}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
