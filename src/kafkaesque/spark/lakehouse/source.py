"""The readers that Spark calls: a table as of a version, and as a stream in the offsets' order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.file_ranges import (
    FileRange,
    FileRanges,
    end_offsets,
    first_offsets,
    next_offset,
)
from kafkaesque.spark.lakehouse.options import SourceOptions
from kafkaesque.spark.lakehouse.scan import Scan, pack, read_scan, read_sorted
from kafkaesque.spark.lakehouse.table import (
    file_entries,
    open_as_of,
    schema_fields,
)
from kafkaesque.spark.offsets import Offsets, OffsetsJson, Partition, from_json, to_json
from kafkaesque.spark.ranges import limit_ends

_TYPES = {"topic": "string", "partition": "integer", "offset": "long"}


class ScanPartition(InputPartition):
    """What one task reads."""

    def __init__(self, scan: Scan) -> None:
        super().__init__(scan)
        self.scan = scan


class BatchReader(DataSourceReader):
    """Reads one version, which is found when the query is planned, in any order.

    It takes no filters from Spark (4.3): what one use of a table has pushed down, another use of it
    in the same session, or the same query, finds pushed down as well.
    """

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        options, selection = self._options, self._options.selection
        table = open_as_of(options.path, options.version, options.as_of_ms)
        files = [each for each in file_entries(table) if selection.may_contain(each)]
        schema = _serialized_schema(table)
        return [
            ScanPartition(
                Scan(
                    table=options.path,
                    files=group,
                    selection=selection,
                    schema=schema,
                    columns=self._columns,
                )
            )
            for group in pack(files, options.task_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_scan(partition.scan) if isinstance(partition, ScanPartition) else iter(())


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads an archived topic as if it were the topic: its offsets, each partition in their order.

    A range of offsets has the same rows in every version that has them, since rows are appended in
    the order of their offsets and compaction changes none. So the checkpoint holds offsets only,
    and a micro-batch that is repeated after a compaction is what it was.
    """

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._known = FileRanges(options.path)
        self._at: tuple[int, dict[Partition, list[FileRange]], bytes] | None = None
        #: The end of a query that reads what is available now.
        self._target: Offsets | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies for tasks know the options alone."""
        return StreamReader, (self._options, self._columns)

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins."""
        return to_json(self._options.starts or {})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how many offsets a micro-batch has at most."""
        return ReadMaxRows(self._options.offsets_max)

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:  # noqa: N802
        """Return where the next micro-batch ends; `start` itself where there is nothing to read."""
        ranges, _ = self._look()
        ends = end_offsets(ranges) if self._target is None else dict(self._target)
        begun = self._begun(from_json(start), ranges)
        # What lies between files costs no micro-batches.
        starts = {
            each: min(next_offset(ranges.get(each, []), begun[each]), max(end, begun[each]))
            for each, end in ends.items()
        }
        waiting = {each: end for each, end in ends.items() if end > starts[each]}
        if isinstance(limit, ReadAllAvailable) or not waiting:
            reached = waiting
        else:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.offsets_max
            reached = limit_ends(starts, waiting, most)
        moved = {each: end for each, end in reached.items() if end > starts[each]}
        return to_json({**from_json(start), **moved})

    def reportLatestOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Return how far the table reaches, for the query's progress report."""
        return to_json(end_offsets(self._look()[0]))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember how far the table reaches: the query ends there."""
        self._target = end_offsets(self._look()[0])

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        """Return one task for each partition of a micro-batch."""
        ranges, schema = self._look()
        ends = from_json(end)
        begun = self._begun(from_json(start), ranges)
        found: list[InputPartition] = []
        for each, until in sorted(ends.items()):
            since = begun.get(each, 0)
            files = tuple(
                one.file for one in ranges.get(each, []) if one.last >= since and one.first < until
            )
            if until <= since or not files:
                continue
            selection = self._options.selection.with_offsets(each, since, until)
            scan = Scan(
                table=self._options.path,
                files=files,
                selection=selection,
                schema=schema,
                columns=self._columns,
            )
            found.append(ScanPartition(scan))
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_sorted(partition.scan) if isinstance(partition, ScanPartition) else iter(())

    def _begun(self, start: Offsets, ranges: dict[Partition, list[FileRange]]) -> Offsets:
        """Return how far the query has come; new partitions begin with their first row."""
        return {**first_offsets(ranges), **(self._options.starts or {}), **start}

    def _look(self) -> tuple[dict[Partition, list[FileRange]], bytes]:
        """Return where the rows lie in the version that is read."""
        options = self._options
        if self._at is not None and options.version is not None:
            return self._at[1:]
        table = open_as_of(options.path, options.version, options.as_of_ms)
        if self._at is None or self._at[0] != table.version():
            files = [each for each in file_entries(table) if options.selection.may_contain(each)]
            self._at = (table.version(), self._known.find(files), _serialized_schema(table))
        return self._at[1:]


def check_streamable(fields: list[dict[str, Any]]) -> None:
    """Accept a table whose rows have a topic, a partition and an offset.

    Raises:
        WrongOption: it has them not.
    """
    found = {each["name"]: each["type"] for each in fields}
    for name, kind in _TYPES.items():
        if found.get(name) != kind:
            raise WrongOption(
                f"a table is read as a stream in the order of its topics' offsets, and this one has"
                f" no column {name} of type {kind}"
            )


def wanted_columns(options: SourceOptions, fields: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the columns that are read, in their order.

    Raises:
        WrongOption: one is not there.
    """
    names = [each["name"] for each in fields]
    for name in options.columns or ():
        if name not in names:
            raise WrongOption(f"the option columns names {name}, and there are {', '.join(names)}")
    return options.columns or tuple(names)


def spark_schema_json(options: SourceOptions) -> list[dict[str, Any]]:
    """Return the columns of the version that is read, in Spark's JSON form."""
    return schema_fields(open_as_of(options.path, options.version, options.as_of_ms))


def _serialized_schema(table: Any) -> bytes:
    schema = pa.schema(table.schema().to_arrow())
    return bytes(schema.serialize())
