"""The outline of a log against the plainest model of one: a term for every position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.ids import Term
from kafkaesque.raft.entries import TermStart
from kafkaesque.raft.errors import RaftInvariantBroken
from kafkaesque.raft.log_outline import LogOutline

#: Terms per position, never decreasing; position 0 is "nothing", term 0.
TERMS = st.lists(st.integers(1, 6), max_size=14).map(sorted)


def outline_of(terms: list[int], start: int = 0) -> LogOutline:
    log = LogOutline(start=(0, Term(0)), term_starts=(), last_index=0, commit_index=0)
    for index, term in enumerate(terms, start=1):
        log.extend(Term(term), index, index)
    if start:
        log.commit_index = log.synced_index = len(terms)
        log.compact(start)
    return log


def model_term(terms: list[int], index: int) -> int:
    return terms[index - 1] if index else 0


@given(TERMS, st.data())
def test_term_at(terms: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(terms)))
    log = outline_of(terms, start)
    for index in range(start, len(terms) + 1):
        assert log.term_at(index) == model_term(terms, index)
    for index in (start - 1, len(terms) + 1):
        with pytest.raises(RaftInvariantBroken):
            log.term_at(index)


@given(TERMS, st.data())
def test_newest_not_above(terms: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(terms)))
    index, term = data.draw(st.integers(0, 16)), data.draw(st.integers(0, 7))
    candidates = [
        at for at in range(start, len(terms) + 1) if at <= index and model_term(terms, at) <= term
    ]
    found = outline_of(terms, start).newest_not_above(index, Term(term))
    if candidates:
        assert found == (model_term(terms, max(candidates)), max(candidates))
    else:
        assert found is None


@given(TERMS, TERMS, st.data())
def test_first_difference(ours: list[int], theirs: list[int], data: st.DataObject) -> None:
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    after = data.draw(st.integers(0, same))
    last = data.draw(st.integers(after, len(theirs)))
    log, other = outline_of(ours), outline_of(theirs)
    difference = log.first_difference(
        TermStart(other.term_at(after), after), other.starts_within(after, last), last
    )
    expected = same + 1 if same < min(len(ours), last) else None
    assert difference == expected


@given(TERMS, st.data())
def test_truncated_and_extended(terms: list[int], data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, len(terms)))
    log = outline_of(terms)
    log.synced_index = data.draw(st.integers(0, len(terms)))
    synced, generation = log.synced_index, log.generation
    log.truncate(keep)
    assert (log.last_index, log.last_term) == (keep, model_term(terms, keep))
    assert log.synced_index == min(synced, keep)
    assert log.generation > generation
    more = [*terms[:keep], 7, 7]
    log.extend(Term(7), keep + 1, keep + 2)
    assert log.term_starts == outline_of(more).term_starts
    assert [log.term_at(index) for index in range(len(more) + 1)] == [0, *more]


@given(TERMS, st.data())
def test_restored_as_it_was(terms: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(terms)))
    log = outline_of(terms, start)
    again = LogOutline(
        start=(log.start_index, log.start_term),
        term_starts=log.term_starts,
        last_index=log.last_index,
        commit_index=0,
    )
    assert again.term_starts == log.term_starts
    assert (again.last_term, again.commit_index) == (log.last_term, start)


def test_what_is_committed_is_never_cut() -> None:
    log = outline_of([1, 1, 2])
    log.commit_index = 2
    with pytest.raises(RaftInvariantBroken, match="below the commit index 2"):
        log.truncate(1)


def test_what_is_not_committed_and_synced_is_never_compacted() -> None:
    log = outline_of([1, 1, 2])
    log.commit_index = 2
    with pytest.raises(RaftInvariantBroken, match="synced up to 0"):
        log.compact(2)
    log.synced_index = 3
    with pytest.raises(RaftInvariantBroken, match="committed up to 2"):
        log.compact(3)
    log.compact(2)
    assert (log.start_index, log.start_term) == (2, 1)


@pytest.mark.parametrize(
    ("start", "starts", "last"),
    [
        ((0, 0), [(2, 1), (1, 3)], 4),
        ((0, 0), [(1, 3), (2, 3)], 4),
        ((0, 0), [(1, 5)], 4),
        ((0, 0), [], 4),
        ((5, 1), [], 4),
    ],
    ids=["terms-fall", "index-repeats", "after-the-end", "no-term", "ends-before-start"],
)
def test_a_broken_checkpoint_is_not_restored(
    start: tuple[int, int], starts: list[tuple[int, int]], last: int
) -> None:
    with pytest.raises(RaftInvariantBroken):
        LogOutline(
            start=(start[0], Term(start[1])),
            term_starts=[TermStart(Term(term), first) for term, first in starts],
            last_index=last,
            commit_index=0,
        )
