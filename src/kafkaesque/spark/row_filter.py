"""Leaves out what the option `where` does not want: whole batches undecoded, rows in Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkaesque.model.batch import BatchHeader
from kafkaesque.spark.intervals import EVERY, Intervals
from kafkaesque.spark.where import Where

#: Times that Spark cannot hold are the nearest that it can, in every column and comparison.
MILLISECONDS_MAX = (2**63 - 1) // 1000


def clamp_ms(milliseconds: int) -> int:
    """Return a time that has its microseconds in 64 bits."""
    return max(-MILLISECONDS_MAX, min(milliseconds, MILLISECONDS_MAX))


class RowFilter:
    """Knows of offsets and timestamps what is wanted; partitions are left out by the plan."""

    def __init__(self, where: Where) -> None:
        # A range has no others of a single interval.
        self._offsets = where.offset if len(where.offset.parts) > 1 else EVERY
        self._times = where.timestamp
        #: Whether there can be rows that are not wanted.
        self.leaves_out = (self._offsets, self._times) != (EVERY, EVERY)

    def may_want(self, batch: BatchHeader) -> bool:
        """Whether records of a batch can be wanted, as far as its header tells.

        Brokers keep a batch's latest timestamp right; its earliest is not in the header, because
        records of a batch may be earlier than its first.
        """
        if not self._offsets.meets(batch.base_offset, batch.last_offset):
            return False
        latest_us = clamp_ms(batch.max_timestamp_ms) * 1000
        if batch.is_append_time:
            return latest_us in self._times
        return self._times.meets(EVERY.parts[0][0], latest_us)

    def wanted(self, offsets: Any, microseconds: Any) -> Any:
        """Return for each row whether it is wanted."""
        return pc.and_(_is_in(offsets, self._offsets), _is_in(microseconds, self._times))


def _is_in(column: Any, numbers: Intervals) -> Any:
    """Return for each of the column's 64-bit numbers whether it is in the set."""
    others = ~numbers
    if _wide_parts(others) < _wide_parts(numbers):
        return pc.invert(_is_in_parts(column, others))
    return _is_in_parts(column, numbers)


def _wide_parts(numbers: Intervals) -> int:
    return sum(first != last for first, last in numbers.parts)


def _is_in_parts(column: Any, numbers: Intervals) -> Any:
    """Do it by looking up single numbers at once, and by comparing with each wide part."""
    alone = [first for first, last in numbers.parts if first == last]
    mask = pc.is_in(column, value_set=pa.array(alone, pa.int64()))
    for first, last in numbers.parts:
        if first != last:
            is_within = pc.and_(
                pc.greater_equal(column, pa.scalar(first, pa.int64())),
                pc.less_equal(column, pa.scalar(last, pa.int64())),
            )
            mask = pc.or_(mask, is_within)
    return mask
