"""From batches to Arrow: record batches of Spark's schema, filled by the kernel."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.column_builder import ColumnBuilder, GrownColumn, RecordTable
from kafkaesque.model.kernel_types import HeaderColumns
from kafkaesque.spark.partition_reader import BATCH_BYTES_MAX
from kafkaesque.spark.ranges import OffsetRange
from kafkaesque.spark.row_filter import RowFilter, clamp_ms
from kafkaesque.spark.where import EVERYTHING, Where

#: A record batch is handed over as soon as it has either; a batch of the log is never divided.
ROWS_MAX = 16_384
BYTES_MAX = 8 << 20

SPARK_SCHEMA = {
    "key": "key BINARY",
    "value": "value BINARY",
    "topic": "topic STRING",
    "partition": "partition INT",
    "offset": "offset BIGINT",
    "timestamp": "timestamp TIMESTAMP",
    "timestampType": "timestampType INT",
    "headers": "headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
}


def arrow_schema(columns: Iterable[str]) -> Any:
    """Return the Arrow schema of these columns, just as Spark makes it of its own."""
    return pa.schema([(name, _TYPES[name]) for name in columns])


def read_tables(
    batches: Iterable[tuple[Buffer, BatchHeader, int]],
    columns: tuple[str, ...],
    wanted: OffsetRange,
    *,
    where: Where = EVERYTHING,
    batch_bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[Any]:
    """Yield the records of a range as Arrow record batches, none of them empty.

    The batches are those of `PartitionReader.read`, each with the first offset that is to be read.

    Raises:
        RecordError: a batch takes more than `batch_bytes_max` when it is decompressed, or is
            damaged.
    """
    row_filter = RowFilter(where)
    maker = TableMaker(columns, wanted, row_filter)
    builder = ColumnBuilder(
        keys="key" in columns, values="value" in columns, headers="headers" in columns
    )
    for answer, batch, first_offset in batches:
        if row_filter.leaves_out and not row_filter.may_want(batch):
            continue
        builder.append(
            answer,
            batch,
            batch_bytes_max,
            first_offset=first_offset,
            end_offset=wanted.end,
        )
        if len(builder) >= ROWS_MAX or builder.size_bytes >= BYTES_MAX:
            yield from maker.make(builder.take())
    if len(builder):
        yield from maker.make(builder.take())


class TableMaker:
    """Makes record batches for one range; columns that are the same in every row are kept."""

    def __init__(
        self, columns: tuple[str, ...], wanted: OffsetRange, row_filter: RowFilter
    ) -> None:
        self._schema = arrow_schema(columns)
        self._columns = columns
        self._wanted = wanted
        self._filter = row_filter
        self._topics = pa.array([], pa.string())
        self._partitions = pa.array([], pa.int32())

    def make(self, table: RecordTable) -> Iterator[Any]:
        """Yield a record batch if a row is wanted.

        Where all are, the table's buffers become its own, without a copy.
        """
        rows = len(table.offsets)
        if len(self._topics) < rows:
            # With room, so that the next one does not need longer ones again.
            count = max(rows + rows // 4, ROWS_MAX)
            self._topics = pa.repeat(self._wanted.topic, count)
            self._partitions = pa.repeat(pa.scalar(self._wanted.partition, pa.int32()), count)
        arrays = [self._array(name, table, rows) for name in self._columns]
        found = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if self._filter.leaves_out:
            times = _timestamps(table.timestamps_ms, rows).view(pa.int64())
            offsets = _from_buffer(pa.int64(), table.offsets, rows)
            found = found.filter(self._filter.wanted(offsets, times))
        if found.num_rows:
            yield found

    def _array(self, name: str, table: RecordTable, rows: int) -> Any:
        match name:
            case "key":
                return _binary(table.keys, rows)
            case "value":
                return _binary(table.values, rows)
            case "topic":
                return self._topics.slice(0, rows)
            case "partition":
                return self._partitions.slice(0, rows)
            case "offset":
                return _from_buffer(pa.int64(), table.offsets, rows)
            case "timestamp":
                return _timestamps(table.timestamps_ms, rows)
            case "timestampType":
                return _from_buffer(pa.int32(), table.timestamp_types, rows)
            case _:
                return _headers(table.headers, rows)


def _from_buffer(kind: Any, values: array[int], rows: int) -> Any:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values)])


def _binary(column: GrownColumn | None, rows: int) -> Any:
    assert column is not None
    buffers = [pa.py_buffer(part) for part in (column.validity, column.offsets, column.data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def _timestamps(milliseconds: array[int], rows: int) -> Any:
    """Return microseconds; what 64 bits cannot hold becomes the first or last that they can."""
    found = _from_buffer(pa.timestamp("ms", tz="UTC"), milliseconds, rows)
    try:
        return found.cast(_TYPES["timestamp"])
    except pa.ArrowInvalid:
        bound = array("q", [1000 * clamp_ms(each) for each in milliseconds])
        return _from_buffer(_TYPES["timestamp"], bound, rows)


def _headers(columns: HeaderColumns | None, rows: int) -> Any:
    assert columns is not None
    row_offsets, validity, name_offsets, names, value_offsets, values, value_validity = columns
    count = len(name_offsets) - 1
    name_array = pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(name_offsets), pa.py_buffer(names)]
    )
    value_array = _binary(GrownColumn(value_offsets, values, value_validity), count)
    structs = pa.StructArray.from_arrays([name_array, value_array], fields=list(_HEADER))
    return pa.Array.from_buffers(
        _TYPES["headers"],
        rows,
        [pa.py_buffer(validity), pa.py_buffer(row_offsets)],
        children=[structs],
    )
