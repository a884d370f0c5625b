"""Collects the records of many batches as columns in Arrow's layout, without an object for any."""

from array import array
from bisect import bisect_left
from typing import NamedTuple

from kafkaesque.model import kernel
from kafkaesque.model.batch import BatchHeader, read_payload
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.kernel_types import HeaderColumns
from kafkaesque.model.records import RecordColumns, decode_columns


class GrownColumn(NamedTuple):
    """Byte strings in Arrow's layout for `binary`."""

    #: n + 1 positions in `data` (int32).
    offsets: "array[int]"
    #: The values, one after another.
    data: bytearray
    #: One bit per row, least significant first: 1 is not null.
    validity: bytearray


class RecordTable(NamedTuple):
    """Records as columns; None where a column was not wanted."""

    offsets: "array[int]"
    timestamps_ms: "array[int]"
    #: 1 where a broker gave the timestamp, 0 where the producer did (int32).
    timestamp_types: "array[int]"
    keys: GrownColumn | None
    values: GrownColumn | None
    headers: HeaderColumns | None


def _new_column() -> GrownColumn:
    return GrownColumn(array("i", [0]), bytearray(), bytearray())


def _new_headers() -> HeaderColumns:
    names, values = _new_column(), _new_column()
    return array("i", [0]), bytearray(), names.offsets, names.data, *values


class ColumnBuilder:
    """A table that grows by batches; `take` hands it over and begins the next."""

    def __init__(self, *, keys: bool = True, values: bool = True, headers: bool = True) -> None:
        self._wanted = (keys, values, headers)
        self._table = self._new_table()

    def __len__(self) -> int:
        return len(self._table.offsets)

    @property
    def size_bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(len(column.data) for column in (self._table.keys, self._table.values) if column)

    def append(
        self,
        buffer: Buffer,
        batch: BatchHeader,
        decompressed_bytes_max: int,
        *,
        first_offset: int,
        end_offset: int,
    ) -> None:
        """Add a batch's records with offsets from `first_offset` to before `end_offset`.

        Raises:
            CorruptBatch: the compressed data is broken. UnknownCompression: there is no such codec.
            InvalidRecord: the records are not what the header says, or broken.
            DecompressionTooLarge: the records take more than `decompressed_bytes_max`.
            OverflowError: a column would hold more than 2 GiB.
        """
        is_append_time = batch.is_append_time
        if self._table.headers is not None:
            columns = decode_columns(buffer, decompressed_bytes_max, at=batch.at)
            self._append_columns(columns, first_offset, end_offset, is_append_time)
            return
        kernel.active.append_records(
            read_payload(buffer, batch, decompressed_bytes_max),
            batch.record_count,
            batch.base_offset,
            batch.last_offset_delta,
            batch.base_timestamp_ms,
            batch.max_timestamp_ms if is_append_time else None,
            batch.at,
            first_offset,
            end_offset,
            self._table[:5],
        )

    def _append_columns(
        self, columns: RecordColumns, first_offset: int, end_offset: int, is_append_time: bool
    ) -> None:
        """Do the same with headers."""
        first, end = 0, len(columns.offsets)
        if end and columns.offsets[0] < first_offset:
            first = bisect_left(columns.offsets, first_offset)
        if end and columns.offsets[-1] >= end_offset:
            end = max(first, bisect_left(columns.offsets, end_offset))
        table, payload = self._table, columns.payload
        if table.keys is not None:
            kernel.active.gather_into(
                payload, columns.key_starts, columns.key_lengths, first, end, *table.keys
            )
        if table.values is not None:
            kernel.active.gather_into(
                payload, columns.value_starts, columns.value_lengths, first, end, *table.values
            )
        if table.headers is not None:
            kernel.active.gather_headers_into(
                payload, columns.header_starts, columns.header_counts, first, end, table.headers
            )
        table.offsets.extend(columns.offsets[first:end])
        table.timestamps_ms.extend(columns.timestamps_ms[first:end])
        table.timestamp_types.extend(array("i", [is_append_time]) * (end - first))

    def take(self) -> RecordTable:
        """Return what has been collected."""
        table, self._table = self._table, self._new_table()
        return table

    def _new_table(self) -> RecordTable:
        keys, values, headers = self._wanted
        return RecordTable(
            array("q"),
            array("q"),
            array("i"),
            _new_column() if keys else None,
            _new_column() if values else None,
            _new_headers() if headers else None,
        )
