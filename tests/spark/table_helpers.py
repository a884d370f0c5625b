"""Rows as Spark brings them to a table, and what is in one, read without our own reader."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from kafkaesque.spark.lakehouse.layout import Layout, plan_layout
from kafkaesque.spark.lakehouse.publishing import (
    MicroBatch,
    Published,
    TableOptions,
    join,
    publish,
)
from kafkaesque.spark.lakehouse.staging import FileStager, Staged

NOON_US = 1_714_564_800_000_000  # 2024-05-01T12:00:00Z
DAY_US = 86_400_000_000
COLUMNS = {
    "key": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "topic": ("string", pa.string()),
    "partition": ("integer", pa.int32()),
    "offset": ("long", pa.int64()),
    "timestamp": ("timestamp", pa.timestamp("us", tz="UTC")),
}


def schema_json(**more: str) -> str:
    kinds = {name: kind for name, (kind, _) in COLUMNS.items()} | more
    fields = [
        {"name": name, "type": kind, "nullable": False, "metadata": {}}
        for name, kind in kinds.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def layout(partition_by: tuple[str, ...] | None = None, **more: str) -> Layout:
    return plan_layout(schema_json(**more), partition_by)


def rows(
    first: int,
    count: int,
    *,
    topic: str = "flights",
    partition: int = 0,
    time_us: int = NOON_US,
    **more: Any,
) -> Any:
    """Return a record batch of a partition's rows, each a microsecond after the one before."""
    offsets = list(range(first, first + count))
    cells = {
        "key": [b"k%d" % each if each % 2 else None for each in offsets],
        "value": [b"%s-%d-%d" % (topic.encode(), partition, each) for each in offsets],
        "topic": [topic] * count,
        "partition": [partition] * count,
        "offset": offsets,
        "timestamp": [time_us + each for each in offsets],
    }
    arrays = [pa.array(cells[name], kind) for name, (_, kind) in COLUMNS.items()]
    names = [*COLUMNS, *more]
    arrays += [pa.array([each] * count) for each in more.values()]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def stage(
    table: Path,
    batches: list[Any],
    written_as: tuple[str, int] = ("query", 0),
    *,
    plan: Layout | None = None,
    task: int = 0,
    file_bytes_max: int = 1 << 27,
) -> Staged:
    stager = FileStager(
        str(table), plan or layout(), written_as, task, file_bytes_max=file_bytes_max
    )
    for batch in batches:
        stager.add(batch)
    return stager.finish()


def write(
    table: Path,
    batches: list[Any],
    batch_id: int = 0,
    *,
    query: str = "query",
    plan: Layout | None = None,
    **options: Any,
) -> Published:
    """Stage and publish as one task does."""
    staged = stage(table, batches, (query, batch_id), plan=plan)
    batch = MicroBatch(query=query, batch_id=batch_id, staged=join([staged]))
    return publish(TableOptions(path=str(table), **options), plan or layout(), batch)


def content(table: Path, version: int | None = None) -> Counter[tuple[str, int, int, bytes]]:
    """Return a table's rows as delta-rs reads them."""
    found = DeltaTable(table, version=version).to_pyarrow_table()
    cells = [found.column(name).to_pylist() for name in ("topic", "partition", "offset", "value")]
    return Counter(zip(*cells, strict=True))


def expected(
    first: int, count: int, topic: str = "flights", partition: int = 0
) -> Counter[tuple[str, int, int, bytes]]:
    return Counter(
        (topic, partition, each, b"%s-%d-%d" % (topic.encode(), partition, each))
        for each in range(first, first + count)
    )


def moment(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC)


def data_files(table: Path) -> set[str]:
    return {path.relative_to(table).as_posix() for path in table.rglob("*.parquet")} - {
        path.relative_to(table).as_posix() for path in table.rglob("_delta_log/*.parquet")
    }
