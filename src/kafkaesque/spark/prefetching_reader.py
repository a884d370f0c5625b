"""A stream's reader that sends the records of small micro-batches along with their plan.

A task in Python costs Spark 50 ms and more, however little it reads: most of that passes between
Spark's two writes to the Python process, whose kernel acknowledges the first one late. Of Spark's
own simple readers Spark takes records when it plans a micro-batch, and gives them to the task
without Python. There is no public way to it for readers that say themselves how far they have come,
so this one counts as Spark's private wrapper of simple readers; `data_source` knows in which Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper

from kafkaesque.model.record_errors import RecordError
from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.offsets import OffsetsJson
from kafkaesque.spark.range_reader import read_ranges
from kafkaesque.spark.ranges import OffsetRange
from kafkaesque.spark.source import RangePartition, StreamReader
from kafkaesque.spark.source_options import SourceOptions

#: The most that a micro-batch takes as Arrow record batches; more is left to tasks.
ROWS_BYTES_MAX = 1 << 20
#: What is asked for of one partition at a time.
_FETCH_BYTES = 256 << 10
#: For so long it is tried: a task, which may be tried again, has the options' time.
_TIMEOUT_S = 1.0


class PrefetchingReader(StreamReader, _SimpleStreamReaderWrapper):
    """Reads what one task would, if it is little; copies of it in tasks are `StreamReader`s."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        few = min(options.fetch_bytes, _FETCH_BYTES)
        times = replace(options.cluster, request_timeout_s=_TIMEOUT_S, api_timeout_s=_TIMEOUT_S)
        self._few = replace(options, cluster=times, fetch_bytes=few)
        #: Connections of its own, which give up early.
        self._hasty = Cluster(times)
        #: What `partitions` has read.
        self._rows: list[Any] = []

    @property
    def simple_reader(self) -> PrefetchingReader:
        """Return what Spark asks whether it can stop at what is available now."""
        return self

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        """Return the pieces of a micro-batch, and keep the rows of a small one."""
        found = super().partitions(start, end)
        self._rows = []
        if len(found) == 1 and isinstance(found[0], RangePartition):
            self._rows = self._read_few(found[0].wanted)
        return found

    def getCache(  # noqa: N802 - Spark's name
        self, start: OffsetsJson, end: OffsetsJson
    ) -> Iterator[Any] | None:
        """Return the rows of the micro-batch that was planned last; None: a task reads them."""
        rows, self._rows = self._rows, []
        return iter(rows) if rows else None

    def stop(self) -> None:
        """End the connections."""
        self._hasty.close()
        super().stop()

    def _read_few(self, wanted: Sequence[OffsetRange]) -> list[Any]:
        """Return all rows, or none: then there are too many, or a task is to tell the trouble."""
        if sum(each.size for each in wanted) > self._few.task_offsets:
            return []
        rows: list[Any] = []
        size = 0
        try:
            for batch in read_ranges(
                self._hasty, self._few, wanted, batch_bytes_max=ROWS_BYTES_MAX
            ):
                rows.append(batch)
                size += batch.nbytes
                if size > ROWS_BYTES_MAX:
                    self._hasty.close()
                    return []
        except (ConnectorError, RecordError):
            self._hasty.close()
            return []
        return rows
