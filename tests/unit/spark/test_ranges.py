"""Pieces for tasks cover what is to be read, once; limits share it fairly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.spark.offsets import from_json, to_json
from kafkaesque.spark.ranges import OffsetRange, cut, gather, limit_ends, ranges_between

bounds = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3)),
    st.tuples(st.integers(0, 2**60), st.integers(0, 500)),
    max_size=6,
)
counts = st.none() | st.integers(1, 60)


def covered(pieces: list[OffsetRange]) -> list[tuple[str, int, int]]:
    return [
        (each.topic, each.partition, offset)
        for each in pieces
        for offset in range(each.start, each.end)
    ]


@given(given_bounds=bounds, partitions_min=counts, records_max=counts)
def test_every_offset_is_in_just_one_piece(
    given_bounds: dict[tuple[str, int], tuple[int, int]],
    partitions_min: int | None,
    records_max: int | None,
) -> None:
    starts = {each: start for each, (start, _) in given_bounds.items()}
    ends = {each: start + size for each, (start, size) in given_bounds.items()}
    whole = ranges_between(starts, ends)
    pieces = cut(whole, partitions_min=partitions_min, records_max=records_max)
    assert covered(pieces) == covered(whole)
    assert all(piece.size for piece in pieces)
    assert records_max is None or all(piece.size <= records_max for piece in pieces)
    assert pieces == cut(whole, partitions_min=partitions_min, records_max=records_max)


@given(given_bounds=bounds, most=st.integers(0, 600))
def test_neighbours_of_few_offsets_share_a_task(
    given_bounds: dict[tuple[str, int], tuple[int, int]], most: int
) -> None:
    starts = {each: start for each, (start, _) in given_bounds.items()}
    ends = {each: start + size for each, (start, size) in given_bounds.items()}
    pieces = ranges_between(starts, ends)
    groups = gather(pieces, most)
    assert [piece for group in groups for piece in group] == pieces
    sizes = [sum(piece.size for piece in group) for group in groups]
    assert all(size <= most or len(group) == 1 for size, group in zip(sizes, groups, strict=True))
    assert all(size + group[0].size > most for size, group in zip(sizes, groups[1:], strict=False))


def test_large_partitions_are_cut_more_often() -> None:
    ranges = [OffsetRange("a", 0, 0, 900), OffsetRange("a", 1, 0, 100)]
    pieces = cut(ranges, partitions_min=10, records_max=None)
    assert [piece.partition for piece in pieces].count(0) == 9


@given(given_bounds=bounds, limit=st.integers(1, 600))
def test_a_limit_is_used_up_and_starves_nobody(
    given_bounds: dict[tuple[str, int], tuple[int, int]], limit: int
) -> None:
    starts = {each: start for each, (start, _) in given_bounds.items()}
    ends = {each: start + size for each, (start, size) in given_bounds.items()}
    found = limit_ends(starts, ends, limit)
    total = sum(size for _, size in given_bounds.values())
    assert sum(found[each] - starts[each] for each in ends) == min(limit, total)
    assert all(starts[each] <= found[each] <= ends[each] for each in ends)
    if limit >= len(ends):
        waiting = [each for each, (_, size) in given_bounds.items() if size]
        assert all(found[each] > starts[each] for each in waiting)


@given(given_bounds=bounds)
def test_offsets_come_back_from_their_json(
    given_bounds: dict[tuple[str, int], tuple[int, int]],
) -> None:
    offsets = {each: start for each, (start, _) in given_bounds.items()}
    assert from_json(to_json(offsets)) == offsets


def test_the_json_is_that_of_sparks_kafka_source() -> None:
    assert to_json({("b", 0): 1, ("a", 10): 2, ("a", 9): 3}) == {
        "a": {"9": 3, "10": 2},
        "b": {"0": 1},
    }
