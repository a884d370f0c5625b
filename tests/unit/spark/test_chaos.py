"""What the long chaos test counts, and whom it kills when."""

from __future__ import annotations

from collections import Counter

from bench.spark_chaos.schedule import Kind, make_schedule
from bench.spark_chaos.transformation import compare, transform


def test_results_are_lost_doubled_or_nobodys() -> None:
    expected = Counter([b"a", b"b", b"b", b"c"])
    assert compare(expected, expected) == (0, 0, 0)
    assert compare(expected, Counter([b"a", b"b", b"c"])) == (1, 0, 0)
    assert compare(expected, Counter([b"a", b"b", b"b", b"b", b"c", b"c"])) == (0, 2, 0)
    assert compare(expected, Counter([b"a", b"b", b"b", b"x", b"x"])) == (1, 0, 2)


def test_some_records_become_none_and_some_two() -> None:
    assert transform(b"20") == []
    assert [each[:5] for each in transform(b"21")] == [b"21 0 ", b"21 1 "]
    assert len(transform(b"22")) == 1


def test_a_seed_is_a_schedule_with_as_many_kills_of_each_kind() -> None:
    kills = make_schedule(7, 200, 2.0)
    assert kills == make_schedule(7, 200, 2.0) != make_schedule(8, 200, 2.0)
    assert Counter(kill.kind for kill in kills) == dict.fromkeys(Kind, 50)
