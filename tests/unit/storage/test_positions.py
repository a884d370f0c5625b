"""Both number spaces against counting by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import Index, Term
from kafkaesque.storage.entries import EntryKind, Mark
from kafkaesque.storage.positions import LogPositions


def mark(index: int, term: int, kind: EntryKind = EntryKind.NOOP) -> Mark:
    return Mark(Index(index), Term(term), kind, b"")


#: Widths of batches; 0 is a mark.
LAYOUTS = st.lists(st.integers(0, 3), max_size=30)


def build(layout: list[int]) -> tuple[LogPositions, list[int | None]]:
    """Return positions, and per index (from 1) the offset of its record or None."""
    positions = LogPositions()
    offsets: list[int | None] = []
    next_offset = 0
    for width in layout:
        index = len(offsets) + 1
        if width == 0:
            positions.add_mark(mark(index, 1))
            offsets.append(None)
        else:
            assert positions.add_data(index, index + width - 1, 1) == next_offset
            offsets.extend(range(next_offset, next_offset + width))
            next_offset += width
    return positions, offsets


@given(layout=LAYOUTS)
def test_translation_both_ways(layout: list[int]) -> None:
    positions, offsets = build(layout)
    records = 0
    for index, offset in enumerate(offsets, 1):
        if offset is not None:
            assert positions.offset_of_index(index) == offset
            assert positions.index_of_offset(offset) == index
            records += 1
        else:
            assert positions.offset_of_index(index) == records
        assert positions.offset_after(index) == records
    assert positions.end_offset == records
    assert positions.last_index == len(offsets)


@given(layout=LAYOUTS, data=st.data())
def test_truncation_is_as_if_it_had_never_been(layout: list[int], data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, len(layout)))
    positions, _ = build(layout)
    shorter, offsets = build(layout[:keep])
    positions.truncate_to(len(offsets))
    assert positions.end_offset == shorter.end_offset
    assert positions.marks == shorter.marks
    assert positions.spans == shorter.spans
    assert positions.last_term == shorter.last_term


@given(layout=LAYOUTS, data=st.data())
def test_advance_keeps_the_numbers(layout: list[int], data: st.DataObject) -> None:
    positions, offsets = build(layout)
    gone = data.draw(st.integers(0, len(offsets)))
    before = positions.offset_after(gone)
    end = positions.end_offset
    positions.advance(before, gone)
    assert positions.end_offset == end
    for index in range(gone + 1, len(offsets) + 1):
        offset = offsets[index - 1]
        if offset is not None:
            assert positions.offset_of_index(index) == offset
            assert positions.index_of_offset(offset) == index
    frozen = positions.freeze()
    restored = LogPositions.restore(frozen.start, frozen.marks, frozen.spans, frozen.last_index)
    assert restored.end_offset == end
    assert restored.spans == positions.spans
    assert restored.term_at(gone) == positions.term_at(gone)


def terms_1_1_3_5() -> LogPositions:
    positions = LogPositions()
    positions.add_mark(mark(1, 1))
    positions.add_data(2, 6, 1)
    positions.add_mark(mark(7, 3))
    positions.add_data(8, 9, 3)
    positions.add_mark(mark(10, 5))
    return positions


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        pytest.param(-1, (-1, -1), id="none"),
        pytest.param(0, (0, 0), id="before the first"),
        pytest.param(1, (1, 5), id="first"),
        pytest.param(2, (1, 5), id="between"),
        pytest.param(3, (3, 7), id="second"),
        pytest.param(4, (3, 7), id="between again"),
        pytest.param(5, (5, 7), id="latest ends at the log's end"),
        pytest.param(6, (-1, -1), id="newer than the latest"),
    ],
)
def test_end_of_epoch(epoch: int, answer: tuple[int, int]) -> None:
    assert terms_1_1_3_5().end_of_epoch(epoch) == answer


def test_terms_survive_the_start() -> None:
    positions = terms_1_1_3_5()
    positions.advance(6, 8)
    assert positions.prev_term == 3
    assert positions.spans[0] == (3, 7)
    assert positions.term_at(8) == 3
    with pytest.raises(InvariantBroken):
        positions.term_at(7)


def test_configuration_before_the_start_still_counts() -> None:
    positions = LogPositions()
    for index in (1, 2, 3):
        positions.add_mark(mark(index, 1, EntryKind.CONFIG))
    positions.advance(0, 2)
    assert [m.index for m in positions.configurations()] == [2, 3]
    positions.truncate_to(2)
    assert [m.index for m in positions.configurations()] == [2]


def test_holes_keep_their_numbers() -> None:
    positions = LogPositions()
    positions.add_data(1, 2, 1)
    positions.add_data(8, 9, 1)
    assert positions.end_offset == 9
    assert positions.index_of_offset(7) == 8
    positions.begin_term(4, 12)
    positions.add_data(15, 15, 4)
    assert positions.term_at(11) == 1
    assert positions.term_at(12) == 4


@pytest.mark.parametrize(
    ("first", "last", "term"),
    [(3, 2, 2), (2, 4, 2), (3, 4, 1)],
    ids=["backwards", "overlapping", "older term"],
)
def test_entries_must_follow(first: int, last: int, term: int) -> None:
    positions = LogPositions()
    positions.add_data(1, 2, 2)
    with pytest.raises(InvariantBroken):
        positions.add_data(first, last, term)
