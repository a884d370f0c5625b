"""The option where: its conditions are understood as SQL has them, everything else is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.intervals import EVERY, Intervals, among, at_least, between
from kafkaesque.spark.ranges import GAP_OFFSETS_MAX, OffsetRange, ranges_within
from kafkaesque.spark.source_options import parse_source
from kafkaesque.spark.where import LENGTH_MAX, Where, parse_where

LEAST, MOST = -(2**63), 2**63 - 1
NEW_YEAR_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z

Predicate = Callable[[int], bool]

UNDERSTOOD = [
    ("offset = 5", Where(offset=among([5]))),
    ("OFFSET==5", Where(offset=among([5]))),
    ("`offset`<5", Where(offset=between(LEAST, 4))),
    ("offset>-5", Where(offset=between(-4, MOST))),
    ("offset >= +007", Where(offset=between(7, MOST))),
    ("offset<>5", Where(offset=Intervals(((LEAST, 4), (6, MOST))))),
    ("offset > 9223372036854775807", Where(offset=Intervals(()))),
    ("offset < -9223372036854775808", Where(offset=Intervals(()))),
    ("offset < 9223372036854775808", Where()),
    (f"offset >= -{'9' * 5000}", Where()),
    (f"offset in (1, {'9' * 5000})", Where(offset=among([1]))),
    ("offset between 3 AND 4", Where(offset=between(3, 4))),
    ("Partition\n=\t1 and offset=2", Where(offset=among([2]), partition=among([1]))),
    ("offset between 4 and 3", Where(offset=Intervals(()))),
    ("offset not between 3 and 4", Where(offset=Intervals(((LEAST, 2), (5, MOST))))),
    ("partition in (2,0,1,7,7)", Where(partition=Intervals(((0, 2), (7, 7))))),
    ("partition not in (0)", Where(partition=Intervals(((LEAST, -1), (1, MOST))))),
    ("timestamp >= 1767225600000", Where(timestamp=between(NEW_YEAR_US, MOST))),
    ("timestamp > '2026-01-01 00:00:00Z'", Where(timestamp=between(NEW_YEAR_US + 1, MOST))),
    ("timestamp = timestamp '2026-01-01T00:00 UTC'", Where(timestamp=among([NEW_YEAR_US]))),
    ("timestamp = '2026-01-01 01:30:00.000001+01:30'", Where(timestamp=among([NEW_YEAR_US + 1]))),
    ("timestamp = '2025-12-31 19:00:00.5 -05:00'", Where(timestamp=among([NEW_YEAR_US + 500_000]))),
    ("timestamp <= 99999999999999999999", Where()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), UNDERSTOOD, ids=[text[:40] for text, _ in UNDERSTOOD])
def test_conditions_are_understood(text: str, wanted: Where) -> None:
    assert parse_where(text) == wanted


REFUSED = [
    ("", "is empty; leave it out to read everything"),
    (" \n", "is empty; leave it out to read everything"),
    ("offset", "its end at character 7"),
    ("offset >= 1 and", "its end"),
    ("offset >= 1 or partition = 0", "'or' at character 13"),
    ("offset >= 1, partition = 0", "',' at character 12"),
    ("key = 5", "'key' at character 1"),
    ("5 = offset", "'5' at character 1"),
    ("(offset = 5)", "'(' at character 1"),
    ("not offset = 5", "'not' at character 1"),
    ("offset = 1.5", "'1.5' at character 10"),
    ("offset = 1e3", "'1e3' at character 10"),
    ("offset = 5L", "'5L' at character 10"),
    ("offset = '5'", "\"'5'\" at character 10"),
    ("offset = partition", "'partition' at character 10"),
    ("offset <=> 5", "'>' at character 10"),
    ("offset not = 5", "'=' at character 12"),
    ("offset is not null", "'is' at character 8"),
    ("offset in ()", "')' at character 12"),
    ("offset in (1, 2", "its end"),
    ("offset in 1", "'1' at character 11"),
    ("offset between 1 and", "its end"),
    ("offset between 1, 2", "',' at character 17"),
    ("offset = 1 -- all", "'--' at character 12"),
    ("offset = 1;", "';' at character 11"),
    ("timestamp = 'now", '"\'now" at character 13'),
    ("timestamp = timestamp 5", "'5' at character 23"),
    ("timestamp = current_timestamp()", "'current_timestamp'"),
    ("timestamp >= 'yesterday'", "'yesterday' for a timestamp"),
    ("timestamp >= '2026-01-01Z'", "for a timestamp"),
    ("timestamp >= '2026-13-01 00:00:00Z'", "month must be in 1..12"),
    ("timestamp >= '2026-01-01 00:00:00'", "without a zone, and Spark does not tell"),
    ("timestamp >= '2026-01-01 00:00:00 Europe/Berlin'", "'2026-01-01 00:00:00Z'"),
    ("timestamp >= '2026-01-01 00:00:00+18:01'", "Spark knows from -18:00 to +18:00"),
    ("timestamp >= '2026-01-01 00:00:00-25:00'", "Spark knows from -18:00 to +18:00"),
    ("offset = 1 and " * 1000, f"may have {LENGTH_MAX}"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[text[:40] for text, _ in REFUSED])
def test_everything_else_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(WrongOption, match=r"^the option where ") as refused:
        parse_where(text)
    message = str(refused.value)
    assert words in message
    assert "\n" not in message
    assert len(message) < 500


def test_a_stream_is_filtered_by_spark() -> None:
    options = {"kafka.bootstrap.servers": "one:9092", "subscribe": "a", "WHERE": "offset = 1"}
    assert parse_source(options, is_stream=False).where == Where(offset=among([1]))
    with pytest.raises(WrongOption, match="the option where is for batch queries"):
        parse_source(options, is_stream=True)


_NUMBERS = st.integers(-3, 12) | st.sampled_from([LEAST, MOST, LEAST - 1, MOST + 1, 10**50])
_NAMES = ("=", "==", "!=", "<>", "<", "<=", ">", ">=")
_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _holds_for(sign: str, bound: int) -> Predicate:
    return lambda number: _OPERATORS[sign](number, bound)


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, str, Predicate]:
    """Return a column, a comparison and whether a number of the column meets it."""
    column = draw(st.sampled_from(["partition", "offset"]))
    name = draw(st.sampled_from([column, column.upper(), f"`{column}`"]))
    form = draw(st.sampled_from(["sign", "in", "not in", "between", "not between"]))
    if form == "sign":
        sign, bound = draw(st.sampled_from(_NAMES)), draw(_NUMBERS)
        return column, f"{name} {sign} {bound}", _holds_for(sign, bound)
    if form.endswith("in"):
        numbers = draw(st.lists(_NUMBERS, min_size=1, max_size=6))
        text = f"{name} {form} ({', '.join(map(str, numbers))})"
        return column, text, lambda number: (number in numbers) == (form == "in")
    first, last = draw(_NUMBERS), draw(_NUMBERS)
    text = f"{name} {form} {first} and {last}"
    return column, text, lambda number: (first <= number <= last) == (form == "between")


@given(st.lists(comparisons(), min_size=1, max_size=5), st.booleans())
def test_conditions_mean_what_they_say(
    given_comparisons: list[tuple[str, str, Predicate]], is_loud: bool
) -> None:
    text = " and ".join(each for _, each, _ in given_comparisons)
    where = parse_where(text.upper() if is_loud else text)
    for column, numbers in (("partition", where.partition), ("offset", where.offset)):
        for number in (*range(-5, 15), LEAST, LEAST + 1, MOST - 1, MOST):
            wanted = all(holds(number) for name, _, holds in given_comparisons if name == column)
            assert (number in numbers) == wanted


@given(
    st.datetimes(datetime.fromisoformat("1900-01-01"), datetime.fromisoformat("2300-01-01")),
    st.integers(-18 * 60, 18 * 60),
)
def test_times_are_those_of_their_zone(time: datetime, zone_minutes: int) -> None:
    sign, (hours, minutes) = "-" if zone_minutes < 0 else "+", divmod(abs(zone_minutes), 60)
    text = f"{time.isoformat(' ', 'microseconds')}{sign}{hours:02}:{minutes:02}"
    moment = time.replace(tzinfo=UTC) - timedelta(minutes=zone_minutes)
    wanted_us = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert parse_where(f"timestamp = '{text}'").timestamp == among([wanted_us])


@given(st.text(alphabet="offset inbw('),<>=!5-.`aOd", max_size=40))
def test_any_text_is_understood_or_refused(text: str) -> None:
    with suppress(WrongOption):
        assert isinstance(parse_where(text), Where)


_SETS = st.lists(
    st.tuples(st.integers(-5, 30), st.integers(0, 6)).map(lambda part: range(part[0], sum(part))),
    max_size=5,
).map(lambda parts: among(number for part in parts for number in part))


@given(_SETS, _SETS)
def test_sets_meet_and_are_turned_around(one: Intervals, two: Intervals) -> None:
    probes = range(-8, 45)
    assert [each in one & two for each in probes] == [
        each in one and each in two for each in probes
    ]
    assert [each in ~one for each in probes] == [each not in one for each in probes]
    assert ~~one == one
    for first in probes:
        for last in range(first, 45):
            assert one.meets(first, last) == any(each in one for each in range(first, last + 1))


@given(_SETS, st.integers(0, 20), st.integers(1, 20))
def test_ranges_have_what_is_wanted_and_end_with_it(one: Intervals, start: int, size: int) -> None:
    scale = GAP_OFFSETS_MAX
    wide = Intervals(tuple((scale * first, scale * last + 1) for first, last in one.parts))
    whole = OffsetRange("t", 3, scale * start, scale * (start + size))
    found = ranges_within([whole], wide)
    edges = {edge + by for part in wide.parts for edge in part for by in (-1, 0, 1)}
    for edge in edges & set(range(whole.start, whole.end)):
        is_read = any(each.start <= edge < each.end for each in found)
        assert is_read or edge not in wide
    for each in found:
        assert each.start in wide
        assert each.end - 1 in wide
        assert whole.start <= each.start < each.end <= whole.end
    for before, after in pairwise(found):
        assert after.start - before.end > GAP_OFFSETS_MAX


def test_without_a_first_time_no_leader_is_asked() -> None:
    assert Where().earliest_ms is None
    assert Where(timestamp=EVERY & at_least(-5)).earliest_ms is None
    assert parse_where("timestamp < 5").earliest_ms is None
    assert parse_where("timestamp > 5").earliest_ms == 6
    assert parse_where("timestamp >= 5").earliest_ms == 5
