"""What a query's filters say of the offsets that need not be read; Spark applies them all again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kafkaesque.spark.log_offsets import NOT_FOUND
from kafkaesque.spark.offsets import NUMBER_MAX, Offsets, Partition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Narrowing:
    """Bounds that all filters together leave."""

    #: None: any.
    partitions: frozenset[int] | None = None
    offset_min: int = 0
    offset_max: int = NUMBER_MAX
    #: A latest time says nothing of offsets: a later record may be older.
    timestamp_ms_min: int | None = None

    def narrow(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> Offsets:
        """Return the ends of what is to be read; a partition of which nothing is, is left out."""
        return {
            each: min(end, self.offset_max + 1)
            for each, end in ends.items()
            if (self.partitions is None or each[1] in self.partitions)
            and min(end, self.offset_max + 1) > max(starts[each], self.offset_min)
        }

    def first(self, starts: Offsets, ends: Offsets, at_time: Mapping[Partition, int]) -> Offsets:
        """Return where to begin in the partitions of `ends`; `at_time` has none of them, or all."""
        found = {each: max(starts[each], self.offset_min) for each in ends}
        for each, offset in at_time.items():
            found[each] = ends[each] if offset == NOT_FOUND else max(found[each], offset)
        return found


def read_filters(filters: Iterable[Any]) -> Narrowing:
    """Return what Spark's filters, all of which have to hold, say of offsets."""
    found = Narrowing()
    for each in filters:
        kind, attribute = type(each).__name__, getattr(each, "attribute", None)
        value = getattr(each, "value", None)
        if attribute == ("partition",):
            _read_partition(found, kind, value)
        elif attribute == ("offset",) and isinstance(value, int):
            _read_offset(found, kind, value)
        elif attribute == ("timestamp",) and isinstance(value, datetime):
            _read_timestamp(found, kind, value)
    return found


def _read_partition(found: Narrowing, kind: str, value: Any) -> None:
    if kind in ("EqualTo", "EqualNullSafe"):
        value = (value,)
    elif kind != "In":
        return
    numbers = frozenset(value)
    found.partitions = numbers if found.partitions is None else found.partitions & numbers


def _read_offset(found: Narrowing, kind: str, value: int) -> None:
    match kind:
        case "EqualTo" | "EqualNullSafe":
            low, high = value, value
        case "GreaterThan":
            low, high = value + 1, found.offset_max
        case "GreaterThanOrEqual":
            low, high = value, found.offset_max
        case "LessThan":
            low, high = 0, value - 1
        case "LessThanOrEqual":
            low, high = 0, value
        case _:
            return
    found.offset_min = max(found.offset_min, low)
    found.offset_max = min(found.offset_max, high)


def _read_timestamp(found: Narrowing, kind: str, value: datetime) -> None:
    if kind not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return
    moment = value if value.tzinfo is not None else value.astimezone()
    since = moment - _EPOCH
    ms = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    found.timestamp_ms_min = max(0, ms, found.timestamp_ms_min or 0)
