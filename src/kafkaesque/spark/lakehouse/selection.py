"""Which rows are wanted, and which files cannot have any of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from kafkaesque.spark.lakehouse.layout import DATE, TIMESTAMP
from kafkaesque.spark.lakehouse.table import FileEntry
from kafkaesque.spark.offsets import NUMBER_MAX, Partition

_EPOCH = date(1970, 1, 1)
_OPEN = (-NUMBER_MAX - 1, NUMBER_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What all conditions together leave; bounds are the least and the greatest that is wanted."""

    #: Of partition columns, as texts; a column that is not in it may be anything.
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Of columns in the files, and of the column `date` as days since 1970.
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def with_values(self, name: str, wanted: Iterable[str]) -> Selection:
        """Return a selection where a partition column is one of these, too."""
        found = frozenset(wanted) & self.values.get(name, frozenset(wanted))
        return replace(self, values={**self.values, name: found})

    def with_bounds(self, name: str, least: int | None, most: int | None) -> Selection:
        """Return a selection where a column is between these, too, both included."""
        low, high = self.bounds.get(name, _OPEN)
        bounds = (
            low if least is None else max(low, least),
            high if most is None else min(high, most),
        )
        return replace(self, bounds={**self.bounds, name: bounds})

    def with_times(self, start_ms: int | None, end_ms: int | None) -> Selection:
        """Return a selection of rows whose timestamps are from `start_ms` to before `end_ms`."""
        if start_ms is None and end_ms is None:
            return self
        return self.with_bounds(
            TIMESTAMP,
            None if start_ms is None else start_ms * 1000,
            None if end_ms is None else end_ms * 1000 - 1,
        )

    def with_offsets(self, partition: Partition, start: int, end: int) -> Selection:
        """Return a selection of one partition's rows from `start` to before `end`."""
        topic, number = partition
        return (
            self.with_values("topic", [topic])
            .with_bounds("partition", number, number)
            .with_bounds("offset", start, end - 1)
        )

    def may_contain(self, file: FileEntry) -> bool:
        """Whether a file can have rows that are wanted."""
        for name, wanted in self.values.items():
            if name in file.partition_values and file.partition_values[name] not in wanted:
                return False
        bounds = dict(self.bounds)
        if TIMESTAMP in bounds and DATE in file.partition_values:
            value = file.partition_values[DATE]
            if value is not None and not _meets_days(value, bounds[TIMESTAMP]):
                return False
        return all(_meets(file, name, low, high) for name, (low, high) in bounds.items())

    def expression(self, schema: Any) -> Any:
        """Return what a file's rows have to meet, None for all of them."""
        found: Any = None
        for name, wanted in self.values.items():
            if name in schema.names:
                found = _and(found, ds.field(name).isin(sorted(wanted)))
        for name, (low, high) in self.bounds.items():
            if name not in schema.names:
                continue
            kind = schema.field(name).type
            for bound, is_least in ((low, True), (high, False)):
                if bound in _OPEN:
                    continue
                scalar = pa.scalar(bound, pa.int64()).cast(kind)
                column = ds.field(name)
                found = _and(found, column >= scalar if is_least else column <= scalar)
        return found


def _and(found: Any, more: Any) -> Any:
    return more if found is None else found & more


def _meets(file: FileEntry, name: str, low: int, high: int) -> bool:
    if name in file.partition_values:
        value = file.partition_values[name]
        number = None if value is None else _number(name, value)
        return number is None or low <= number <= high
    return file.least.get(name, low) <= high and file.most.get(name, high) >= low


def _number(name: str, value: str) -> int | None:
    try:
        return days(date.fromisoformat(value)) if name == DATE else int(value)
    except ValueError:
        return None


def _meets_days(value: str, bounds: tuple[int, int]) -> bool:
    number = _number(DATE, value)
    day_us = 86_400_000_000
    return number is None or ((number + 1) * day_us > bounds[0] and number * day_us <= bounds[1])


def days(day: date) -> int:
    """Return the days since 1970."""
    return (day - _EPOCH).days
