"""From Arrow to batches: which row goes to which partition, and the batches that hold them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkaesque.model import kernel
from kafkaesque.model.batch_encoder import BatchBuilder, BatchOptions, RowColumns, encode_rows
from kafkaesque.model.kernel_types import ArrowColumn
from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.offsets import Partition
from kafkaesque.spark.sink_options import SinkOptions


class ProducerState:
    """What a batch's header says of its producer; sequence numbers go on from batch to batch."""

    def __init__(self, options: BatchOptions) -> None:
        self._options = options
        self._sequences: dict[Partition, int] = {}

    def next_options(self, partition: Partition) -> BatchOptions:
        """Return the options of the next batch for a partition."""
        if self._options.producer_id < 0:
            return self._options
        return replace(self._options, base_sequence=self._sequences.get(partition, 0))

    def count(self, partition: Partition, records: int) -> None:
        """Note that a batch of so many records has been made."""
        self._sequences[partition] = (self._sequences.get(partition, 0) + records) & 0x7FFFFFFF


class RowRouter:
    """Divides tables into rounds of batches, at most one batch for each partition in a round."""

    def __init__(
        self,
        options: SinkOptions,
        producer: ProducerState,
        partition_count: Callable[[str], int],
        sticky: int,
    ) -> None:
        """Rows with neither key nor partition go to one partition per table, `sticky` at first."""
        self._options = options
        self._producer = producer
        self._partition_count = partition_count
        self._sticky = sticky

    def rounds(self, table: Any, timestamp_ms: int) -> Iterator[dict[Partition, bytearray]]:
        """Yield batches that hold a table's rows, each partition's in their order.

        Raises:
            WrongOption: a row names no topic, or a partition that does not exist.
        """
        makers = [
            (partition, self._batches(part, rows, partition, timestamp_ms))
            for part, rows, partition in self._groups(table)
        ]
        self._sticky += 1
        while makers:
            found = [(each, maker, next(maker, None)) for each, maker in makers]
            makers = [(each, maker) for each, maker, batch in found if batch is not None]
            batches = {each: batch for each, _, batch in found if batch is not None}
            if batches:
                yield batches

    def _groups(self, table: Any) -> Iterator[tuple[Any, array[int], Partition]]:
        """Yield tables, and the rows of each that are for a partition."""
        topics = [self._options.topic]
        if self._options.topic is None:
            topics = pc.unique(table.column("topic")).to_pylist()
        for topic in topics:
            if topic is None:
                raise WrongOption("a row names no topic: its column topic is null")
            part = table
            if len(topics) > 1:
                part = table.filter(pc.equal(table.column("topic"), topic))
            count = self._partition_count(topic)
            rows, bounds = kernel.active.group_rows(self._partitions(part, topic, count), count)
            for number in range(count):
                if bounds[number] < bounds[number + 1]:
                    yield part, rows[bounds[number] : bounds[number + 1]], (topic, number)

    def _partitions(self, table: Any, topic: str, count: int) -> array[int]:
        """Return each row's partition: what it names, else by its key, else the sticky one."""
        rows = table.num_rows
        unkeyed = self._sticky % count
        keys = _column(table, "key")
        found: array[int] = array("i", [unkeyed]) * rows
        if keys is not None:
            found = kernel.active.hash_partitions(keys, rows, count, unkeyed)
        if "partition" not in table.schema.names:
            return found
        hashed = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(found)])
        named: Any = pc.coalesce(table.column("partition").cast(pa.int32()), hashed)
        least, most = pc.min_max(named).as_py().values()
        if rows and not 0 <= least <= most < count:
            wrong = least if least < 0 else most
            raise WrongOption(
                f"a row names partition {wrong} of topic {topic!r}, which has {count}"
            )
        return array("i", named.to_pylist())

    def _batches(
        self, table: Any, rows: array[int], partition: Partition, timestamp_ms: int
    ) -> Iterator[bytearray]:
        has_headers = "headers" in table.schema.names and (
            table.column("headers").null_count < table.num_rows
        )
        if has_headers or self._options.keeps_timestamps:
            yield from self._batches_of_records(table, rows, partition, timestamp_ms)
            return
        columns = RowColumns(
            keys=_column(table, "key"), values=_column(table, "value"), count=table.num_rows
        )
        first = 0
        while first < len(rows):
            batch, end = encode_rows(
                columns,
                rows,
                first,
                bytes_max=self._options.batch_bytes,
                timestamp_ms=timestamp_ms,
                options=self._producer.next_options(partition),
            )
            self._producer.count(partition, end - first)
            first = end
            yield batch

    def _batches_of_records(
        self, table: Any, rows: array[int], partition: Partition, timestamp_ms: int
    ) -> Iterator[bytearray]:
        """Yield batches whose records are made one by one: headers and kept times are rare."""
        part = table.take(pa.array(rows, pa.int32()))
        times = self._times(part, timestamp_ms)
        names = ("key", "value", "headers")
        cells = [
            part.column(name).to_pylist() if name in part.schema.names else [None] * len(rows)
            for name in names
        ]
        builder = BatchBuilder(self._options.batch_bytes)
        for time_ms, key, value, headers in zip(times, *cells, strict=True):
            pairs = tuple((each["key"], each["value"]) for each in headers or ())
            record = (time_ms, _bytes(key), _bytes(value), pairs)
            if not builder.append(*record):
                yield self._build(builder, partition)
                builder.append(*record)
        if len(builder):
            yield self._build(builder, partition)

    def _times(self, table: Any, timestamp_ms: int) -> list[int]:
        """Return each row's time in milliseconds; a row without one has that of the writing."""
        if not self._options.keeps_timestamps:
            return [timestamp_ms] * table.num_rows
        ticks = table.column("timestamp").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        return [timestamp_ms if each is None else each // 1000 for each in ticks.to_pylist()]

    def _build(self, builder: BatchBuilder, partition: Partition) -> bytearray:
        count = len(builder)
        batch = builder.build(self._producer.next_options(partition))
        self._producer.count(partition, count)
        return batch


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _column(table: Any, name: str) -> ArrowColumn | None:
    """Return the buffers of a column of texts or bytes, None where there is no such column."""
    if name not in table.schema.names:
        return None
    column = table.column(name)
    if column.type not in (pa.binary(), pa.string()):
        column = column.cast(pa.binary())
    validity, offsets, data = (
        None if buffer is None else memoryview(buffer).cast("B") for buffer in column.buffers()
    )
    return data or b"", offsets or b"", validity, column.offset
