"""The readers that Spark calls: batch and stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.cluster_cache import borrowed_cluster
from kafkaesque.spark.errors import ConnectorError, DataLoss
from kafkaesque.spark.log_offsets import list_offsets
from kafkaesque.spark.offsets import (
    EARLIEST,
    LATEST,
    NUMBER_MAX,
    Offsets,
    OffsetsJson,
    Partition,
    from_json,
    to_json,
)
from kafkaesque.spark.progress import commit_progress
from kafkaesque.spark.range_reader import read_ranges
from kafkaesque.spark.ranges import OffsetRange, cut, gather, ranges_between
from kafkaesque.spark.source_options import SourceOptions
from kafkaesque.spark.subscription import LogBounds, find_partitions, tell
from kafkaesque.spark.trigger_limits import TriggerLimits


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: tuple[OffsetRange, ...]) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def read_range(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """Yield what a task is to read as Arrow record batches."""
    if not isinstance(partition, RangePartition):
        return
    with borrowed_cluster(options.cluster) as cluster:
        yield from read_ranges(cluster, options, partition.wanted)


def _cut(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    return cut(
        ranges,
        partitions_min=options.partitions_min,
        records_max=options.partition_records_max,
    )


class BatchReader(DataSourceReader):
    """Reads from offsets to offsets, as they are when a table is used for the first time.

    It takes no filters of Spark: Spark 4.3 keeps one plan for all uses of a loaded table, so that a
    filter of one use would take rows from the others (ADR 11). The option `where` is the table's.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with Cluster(self._options.cluster) as cluster:
            bounds = LogBounds(cluster, self._options, find_partitions(cluster, self._options))
            pieces = _cut(self._options, bounds.ranges())
        # Offsets that lie apart can be many ranges of few records.
        is_apart = len(self._options.where.offset.parts) > 1
        offsets_max = self._options.task_offsets if is_apart else 0
        return [RangePartition(group) for group in gather(pieces, offsets_max)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far the topics have come, and reads between two such answers.

    One instance lives on the driver as long as the query, copies of it in the tasks.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._kept: Cluster | None = None
        #: Where a query without a checkpoint begins; Spark asks for it more than once.
        self._initial: OffsetsJson | None = None
        #: Whether that is in the checkpoint.
        self._is_pinned = False
        #: The end of a query that reads what is available now.
        self._target: Offsets | None = None
        self._limits = TriggerLimits(options)
        #: The topics' ends, as they were found last.
        self._ends: Offsets | None = None
        #: What the group has been told last.
        self._committed: OffsetsJson | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies for tasks know the options alone."""
        return StreamReader, (self._options,)

    @property
    def _cluster(self) -> Cluster:
        if self._kept is None:
            self._kept = Cluster(self._options.cluster)
        return self._kept

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins; always the same of one reader."""
        if self._initial is None:
            bounds = LogBounds(self._cluster, self._options, self._find())
            self._initial = to_json(bounds.starts())
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return whether the options limit a micro-batch; `latestOffset` knows how."""
        return ReadMaxRows(NUMBER_MAX) if self._limits.has_any else ReadAllAvailable()

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:  # noqa: N802
        """Return where the next micro-batch ends; `start` itself where there is to be none.

        What lies before `start` has been processed: Spark asks when a micro-batch is done.

        The first micro-batch of a query that begins at the latest is empty: so where it began is
        in the checkpoint, as its end, before anything is read.
        """
        self.commit(start)
        if self._options.is_start_moving and start == self._initial and not self._is_pinned:
            self._is_pinned = True
            return start
        begun = from_json(start)
        ends = dict(self._latest() if self._target is None else self._target)
        if start == self._initial:
            # The target may be from before the latest at which the query begins.
            ends = {each: max(end, begun.get(each, end)) for each, end in ends.items()}
        starts = self._with_new(begun, ends)
        self._refuse_lost(starts, ends)
        if isinstance(limit, ReadAllAvailable):
            return to_json(ends)
        may_wait = self._target is None
        end = self._limits.end(self._cluster, starts, ends, may_wait=may_wait)
        return start if end is None else to_json(end)

    def reportLatestOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Return the topics' ends as they were found last, for the query's progress report."""
        return to_json(self._latest() if self._ends is None else self._ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember the topics' ends: the query ends there."""
        self._target = self._latest()

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        """Return the pieces of a micro-batch, which depend on its offsets and options only."""
        ends = from_json(end)
        starts = self._with_new(from_json(start), ends)
        if self._options.is_start_moving and start == self._initial:
            # The first micro-batch, again: the latest is somewhere else by now.
            starts = {each: min(at, ends.get(each, at)) for each, at in starts.items()}
        self._refuse_lost(starts, ends)
        pieces = _cut(self._options, ranges_between(starts, ends))
        return [RangePartition(group) for group in gather(pieces, self._options.task_offsets)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._options, partition)

    def commit(self, end: OffsetsJson) -> None:
        """Tell the group how far the query has come; the checkpoint is what counts."""
        if self._options.group_id is None or end == self._committed:
            return
        try:
            commit_progress(self._cluster, self._options.group_id, from_json(end))
            self._committed = end
        except ConnectorError as error:
            tell(f"the query continues, but its progress is not committed: {error}")

    def stop(self) -> None:
        """End the connections."""
        if self._kept is not None:
            self._kept.close()

    def _find(self) -> list[Partition]:
        return find_partitions(self._cluster, self._options)

    def _ask(self, wanted: Offsets) -> Offsets:
        is_committed = self._options.is_read_committed
        return list_offsets(self._cluster, wanted, is_read_committed=is_committed)

    def _latest(self) -> Offsets:
        self._ends = self._ask(dict.fromkeys(self._find(), LATEST))
        return self._ends

    def _with_new(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Return the starts with those of partitions that were not there before."""
        new = [each for each in ends if each not in starts]
        return {**starts, **self._ask(dict.fromkeys(new, EARLIEST))} if new else starts

    def _refuse_lost(self, starts: Offsets, ends: Offsets) -> None:
        """Tell of partitions that are gone or shorter than they were."""
        for (topic, partition), start in starts.items():
            end = ends.get((topic, partition))
            if end is not None and end >= start:
                continue
            where = "is gone" if end is None else f"ends at offset {end}"
            message = f"partition {topic}-{partition} {where}, and the query had come to {start}"
            if self._options.fails_on_data_loss:
                raise DataLoss(f"{message}; failOnDataLoss=false would continue with what is there")
            tell(message)
