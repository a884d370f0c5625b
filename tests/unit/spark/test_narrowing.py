"""Filters keep out only offsets that they exclude."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkaesque.spark.log_offsets import NOT_FOUND
from kafkaesque.spark.narrowing import read_filters
from kafkaesque.spark.offsets import Offsets

STARTS = {("t", 0): 5, ("t", 1): 0, ("u", 2): 0}
ENDS = {("t", 0): 20, ("t", 1): 10, ("u", 2): 0}


@dataclass(frozen=True)
class Filter:
    """As Spark's, which are told apart by their class's name."""

    attribute: tuple[str, ...]
    value: Any


class EqualTo(Filter):
    pass


class GreaterThan(Filter):
    pass


class GreaterThanOrEqual(Filter):
    pass


class LessThan(Filter):
    pass


class LessThanOrEqual(Filter):
    pass


class In(Filter):
    pass


class StringContains(Filter):
    pass


def narrowed(*filters: Filter, at_time: Offsets | None = None) -> dict[int, tuple[int, int]]:
    """Return start and end by the partition's number."""
    found = read_filters(filters)
    ends = found.narrow(STARTS, ENDS)
    starts = found.first(STARTS, ends, at_time or {})
    return {each[1]: (starts[each], ends[each]) for each in ends}


OFFSET, PARTITION = ("offset",), ("partition",)
CASES: list[tuple[list[Filter], dict[int, tuple[int, int]]]] = [
    ([], {0: (5, 20), 1: (0, 10)}),
    ([EqualTo(OFFSET, 7)], {0: (7, 8), 1: (7, 8)}),
    ([GreaterThan(OFFSET, 8)], {0: (9, 20), 1: (9, 10)}),
    ([GreaterThanOrEqual(OFFSET, 10)], {0: (10, 20)}),
    ([LessThan(OFFSET, 6)], {0: (5, 6), 1: (0, 6)}),
    ([LessThanOrEqual(OFFSET, 4)], {1: (0, 5)}),
    ([GreaterThan(OFFSET, 5), LessThan(OFFSET, 5)], {}),
    ([EqualTo(PARTITION, 0)], {0: (5, 20)}),
    ([In(PARTITION, (1, 7))], {1: (0, 10)}),
    ([In(PARTITION, (0, 1)), EqualTo(PARTITION, 1)], {1: (0, 10)}),
    ([EqualTo(PARTITION, None)], {}),
    ([StringContains(("topic",), "x"), EqualTo(("value", "a"), 3)], {0: (5, 20), 1: (0, 10)}),
    ([LessThan(("timestamp",), datetime(2026, 1, 1, tzinfo=UTC))], {0: (5, 20), 1: (0, 10)}),
]


@pytest.mark.parametrize("case", CASES, ids=[f"case-{number}" for number in range(len(CASES))])
def test_bounds_are_those_of_all_filters_together(
    case: tuple[list[Filter], dict[int, tuple[int, int]]],
) -> None:
    filters, wanted = case
    assert narrowed(*filters) == wanted


def test_a_least_time_begins_at_its_first_record() -> None:
    moment = datetime(1970, 1, 1, 0, 0, 1, 500_900, tzinfo=UTC)
    least = GreaterThan(("timestamp",), moment)
    assert read_filters([least]).timestamp_ms_min == 1500
    at_time = {("t", 0): 12, ("t", 1): NOT_FOUND}
    assert narrowed(least, at_time=at_time) == {0: (12, 20), 1: (10, 10)}
