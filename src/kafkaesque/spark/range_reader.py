"""Reads several ranges, one after the other, while the next ones are on their way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.partition_reader import BATCH_BYTES_MAX, PartitionReader
from kafkaesque.spark.ranges import OffsetRange
from kafkaesque.spark.source_options import SourceOptions
from kafkaesque.spark.tables import read_tables

#: Ranges that are asked for at a time, the one that is read among them.
RANGES_AHEAD_MAX = 8


def read_ranges(
    cluster: Cluster,
    options: SourceOptions,
    ranges: Sequence[OffsetRange],
    *,
    batch_bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[Any]:
    """Yield the records of the ranges, in their order, as Arrow record batches.

    Raises:
        DataLoss: offsets are gone, and that is an error. Unavailable: no answer in time.
        RecordError: a batch is damaged, or decompressed more than `batch_bytes_max`.
    """
    readers = [PartitionReader(cluster, options, wanted) for wanted in ranges]
    for at, (reader, wanted) in enumerate(zip(readers, ranges, strict=True)):
        for each in readers[at : at + RANGES_AHEAD_MAX]:
            each.start()
        batches = reader.read()
        yield from read_tables(
            batches,
            options.columns,
            wanted,
            where=options.where,
            batch_bytes_max=batch_bytes_max,
        )
