"""Where the rows of a topic's partition lie: which offsets in which files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafkaesque.spark.lakehouse.errors import TableError
from kafkaesque.spark.lakehouse.staging import ORDER
from kafkaesque.spark.lakehouse.table import FileEntry
from kafkaesque.spark.offsets import Offsets, Partition

_FILES_KEPT_MAX = 100_000


@dataclass(frozen=True, slots=True)
class FileRange:
    """A partition's first and last offset in a file."""

    partition: Partition
    first: int
    last: int
    file: FileEntry


class FileRanges:
    """Finds a version's ranges; what a file's footer has said is remembered."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._known: dict[str, tuple[FileRange, ...]] = {}

    def find(self, files: Iterable[FileEntry]) -> dict[Partition, list[FileRange]]:
        """Return each partition's ranges in the order of their offsets.

        Raises:
            TableError: a file is gone, or has no offsets.
        """
        found: dict[Partition, list[FileRange]] = {}
        for file in files:
            if file.path not in self._known:
                if len(self._known) >= _FILES_KEPT_MAX:
                    self._known.clear()
                self._known[file.path] = tuple(self._read(file))
            for each in self._known[file.path]:
                found.setdefault(each.partition, []).append(each)
        for ranges in found.values():
            ranges.sort(key=lambda each: (each.first, each.last, each.file.path))
        return dict(sorted(found.items()))

    def _read(self, file: FileEntry) -> list[FileRange]:
        topic = file.partition_values.get("topic")
        if topic is not None and _is_of_one(file):
            each = (topic, file.least["partition"])
            return [FileRange(each, file.least["offset"], file.most["offset"], file)]
        columns = [*ORDER, *(() if topic is not None else ("topic",))]
        try:
            table = pq.read_table(
                Path(self._table, file.path), columns=columns, partitioning=None, use_threads=False
            )
        except (OSError, ValueError, KeyError) as error:
            raise TableError(
                f"the offsets in {Path(self._table, file.path)} cannot be read: {error}"
            ) from error
        return [
            FileRange((topic or row["topic"], row["partition"]), *_span(row), file)
            for row in table.group_by([each for each in columns if each != "offset"])
            .aggregate([("offset", "min"), ("offset", "max")])
            .to_pylist()
        ]


def _is_of_one(file: FileEntry) -> bool:
    """Whether the log says it all: the rows are of one partition."""
    names = set(file.least) & set(file.most)
    return set(ORDER) <= names and file.least["partition"] == file.most["partition"]


def _span(row: dict[str, Any]) -> tuple[int, int]:
    return row["offset_min"], row["offset_max"]


def first_offsets(ranges: dict[Partition, list[FileRange]]) -> Offsets:
    """Return where each partition begins."""
    return {each: found[0].first for each, found in ranges.items()}


def end_offsets(ranges: dict[Partition, list[FileRange]]) -> Offsets:
    """Return where each partition ends: after its last row."""
    return {each: 1 + max(one.last for one in found) for each, found in ranges.items()}


def next_offset(ranges: list[FileRange], offset: int) -> int:
    """Return the first offset from here on at which a file may have a row."""
    return min((max(offset, each.first) for each in ranges if each.last >= offset), default=offset)
