"""The two number spaces of a log, and the terms: all that is known without its bytes.

Theory of operation. Raft counts records and marks (index, from 1), clients count records (offset,
from 0). Kept are the marks after the log's start, with the offset that the next record had when the
mark was written, and the number of marks before the start. Then the offset of the record at index
`i` is `i - 1 - (marks before i)`, and the index of the record at offset `o` is `o + 1 + (marks
whose offset is at most o)`; both are one bisection. Terms are spans, each from an index on. All of
it stays right where compaction has left holes between batches, because holes keep their numbers.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import Index, Offset, Term
from kafkaesque.storage.entries import EntryKind, LogStart, Mark, TermSpan


class FrozenPositions(NamedTuple):
    """A copy of `LogPositions`, for another thread."""

    start_offset: int
    prev_index: int
    prev_term: int
    mark_base: int
    base_configuration: Mark | None
    marks: tuple[Mark, ...]
    span_terms: tuple[int, ...]
    span_firsts: tuple[int, ...]
    last_index: int

    @property
    def spans(self) -> tuple[TermSpan, ...]:
        """The term spans, oldest first."""
        pairs = zip(self.span_terms, self.span_firsts, strict=True)
        return tuple(TermSpan(Term(term), Index(first)) for term, first in pairs)

    @property
    def start(self) -> LogStart:
        """Where the log begins."""
        return LogStart(
            start_offset=Offset(self.start_offset),
            prev_index=Index(self.prev_index),
            prev_term=Term(self.prev_term),
            marks_before=self.mark_base,
            configuration=self.base_configuration,
            spans=tuple(span for span in self.spans if span.first_index <= self.prev_index),
        )


class LogPositions:
    """Ends, marks and terms of one log; nothing here is durable by itself."""

    __slots__ = (
        "_mark_indexes",
        "_mark_offsets",
        "_span_firsts",
        "_span_terms",
        "base_configuration",
        "last_index",
        "last_term",
        "mark_base",
        "marks",
        "prev_index",
        "prev_term",
        "start_offset",
    )

    def __init__(self, start: LogStart | None = None) -> None:
        start = start or LogStart(
            start_offset=Offset(0), prev_index=Index(0), prev_term=Term(0), marks_before=0
        )
        self.start_offset: int = start.start_offset
        self.prev_index: int = start.prev_index
        self.prev_term: int = start.prev_term
        #: Marks at or before `prev_index`.
        self.mark_base = start.marks_before
        self.base_configuration = start.configuration
        self.last_index: int = start.prev_index
        self.last_term: int = start.prev_term
        self.marks: list[Mark] = []
        self._mark_indexes: list[int] = []
        self._mark_offsets: list[int] = []
        self._span_terms: list[int] = [span.term for span in start.spans]
        self._span_firsts: list[int] = [span.first_index for span in start.spans]
        if start.prev_index and not self._span_terms:
            self._span_terms.append(start.prev_term)
            self._span_firsts.append(start.prev_index)

    @classmethod
    def restore(
        cls,
        start: LogStart,
        marks: Sequence[Mark],
        spans: Sequence[TermSpan],
        last_index: int,
    ) -> "LogPositions":
        """Return what `freeze` of another one said."""
        positions = cls(start)
        for mark in marks:
            positions._note_mark(mark)
        positions._span_terms = [span.term for span in spans]
        positions._span_firsts = [span.first_index for span in spans]
        positions.last_index = last_index
        positions.last_term = spans[-1].term if spans else start.prev_term
        return positions

    # -- reading

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.last_index - self.mark_base - len(self.marks)

    @property
    def spans(self) -> list[TermSpan]:
        """The term spans, oldest first; the first one may begin before the log's start."""
        return list(self.freeze().spans)

    def offset_of_index(self, index: int) -> int:
        """Return the offset of the record at an index; for a mark, that of the next record."""
        return index - 1 - self.mark_base - bisect_left(self._mark_indexes, index)

    def offset_after(self, index: int) -> int:
        """Return how many record positions there are up to and including an index.

        This turns a commit index into a high watermark.
        """
        return index - self.mark_base - bisect_right(self._mark_indexes, index)

    def index_of_offset(self, offset: int) -> int:
        """Return the index of the record at an offset."""
        return offset + 1 + self.mark_base + bisect_right(self._mark_offsets, offset)

    def term_at(self, index: int) -> int:
        """Return the term at an index from `prev_index` to the end.

        Raises:
            InvariantBroken: the index is outside.
        """
        if not self.prev_index <= index <= self.last_index:
            raise InvariantBroken(
                f"the term at {index} was asked of a log from {self.prev_index} to"
                f" {self.last_index}"
            )
        at = bisect_right(self._span_firsts, index) - 1
        return self._span_terms[at] if at >= 0 else self.prev_term

    def term_before(self, offset: int) -> int:
        """Return the term of the record before an offset; -1 if this log cannot tell."""
        index = self.index_of_offset(offset - 1) if offset > 0 else -1
        return self.term_at(index) if self.prev_index <= index <= self.last_index else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (the greatest epoch up to `epoch`, its end offset), or (-1, -1) if unknown.

        Source: Kafka's OffsetForLeaderEpoch, `LeaderEpochFileCache.endOffsetFor` (KIP-101, 279).
        """
        terms = self._span_terms
        if epoch < 0 or not terms or epoch > terms[-1]:
            return -1, -1
        at = bisect_right(terms, epoch)
        if at == len(terms):
            return epoch, self.end_offset
        end = max(self.offset_of_index(self._span_firsts[at]), self.start_offset)
        return (terms[at - 1] if at else epoch), end

    def marks_between(self, first_index: int, last_index: int) -> Sequence[Mark]:
        """Return the marks from one index to another, both included."""
        low = bisect_left(self._mark_indexes, first_index)
        return self.marks[low : bisect_right(self._mark_indexes, last_index)]

    def configurations(self) -> list[Mark]:
        """Return the configurations that count: the last before the start and all after it.

        A snapshot brings the configuration that its sender has committed, which may stand further
        on than the snapshot: then its entry comes as well, and counts once.
        """
        found = [] if self.base_configuration is None else [self.base_configuration]
        known = found[0].index if found else 0
        found.extend(m for m in self.marks if m.kind == EntryKind.CONFIG and m.index > known)
        return found

    def freeze(self) -> FrozenPositions:
        """Return everything as it is now, at little cost."""
        return FrozenPositions(
            self.start_offset,
            self.prev_index,
            self.prev_term,
            self.mark_base,
            self.base_configuration,
            tuple(self.marks),
            tuple(self._span_terms),
            tuple(self._span_firsts),
            self.last_index,
        )

    # -- changing

    def begin_term(self, term: int, first_index: int) -> None:
        """Let a term begin at an index after the end, maybe in a hole before the next entry.

        Raises:
            InvariantBroken: terms or indexes would go back.
        """
        if term == self.last_term and self._span_terms:
            return
        if term < self.last_term or first_index <= self.last_index:
            raise InvariantBroken(
                f"term {term} cannot begin at {first_index}: the log ends at {self.last_index}"
                f" with term {self.last_term}"
            )
        self._span_terms.append(term)
        self._span_firsts.append(first_index)
        self.last_term = term

    def add_data(self, first_index: int, last_index: int, term: int) -> int:
        """Add a batch at the end, after a hole maybe; return its base offset."""
        self._check_next(first_index, last_index, term)
        if term != self.last_term or not self._span_terms:
            self.begin_term(term, first_index)
        self.last_index = last_index
        return first_index - 1 - self.mark_base - len(self.marks)

    def add_mark(self, mark: Mark) -> None:
        """Add a mark at the end."""
        self._check_next(mark.index, mark.index, mark.term)
        if mark.term != self.last_term or not self._span_terms:
            self.begin_term(mark.term, mark.index)
        self._note_mark(mark)
        self.last_index = mark.index

    def _note_mark(self, mark: Mark) -> None:
        self._mark_offsets.append(mark.index - 1 - self.mark_base - len(self.marks))
        self.marks.append(mark)
        self._mark_indexes.append(mark.index)

    def skip_to(self, index: int) -> None:
        """Take it that the entries up to an index were there; for recovery."""
        self.last_index = max(self.last_index, index)

    def _check_next(self, first_index: int, last_index: int, term: int) -> None:
        if not self.last_index < first_index <= last_index or term < self.last_term:
            raise InvariantBroken(
                f"an entry from {first_index} to {last_index} of term {term} cannot follow"
                f" {self.last_index} of term {self.last_term}"
            )

    def truncate_to(self, index: int) -> None:
        """Forget everything after an index.

        Raises:
            InvariantBroken: the index is before the log's start or after its end.
        """
        if not self.prev_index <= index <= self.last_index:
            raise InvariantBroken(
                f"a log from {self.prev_index} to {self.last_index} cannot be cut after {index}"
            )
        keep = bisect_right(self._mark_indexes, index)
        del self.marks[keep:], self._mark_indexes[keep:], self._mark_offsets[keep:]
        keep = bisect_right(self._span_firsts, index)
        del self._span_terms[keep:], self._span_firsts[keep:]
        self.last_index = index
        self.last_term = self._span_terms[-1] if self._span_terms else self.prev_term
        self.cap_start()

    def cap_start(self) -> None:
        """Let clients see everything that comes after the end: none of it was given up."""
        self.start_offset = min(self.start_offset, self.end_offset)

    def advance(self, start_offset: int, prev_index: int) -> None:
        """Let clients see nothing before an offset, and drop what is up to an index."""
        self.start_offset = max(self.start_offset, start_offset)
        if prev_index <= self.prev_index:
            return
        self.prev_term = self.term_at(prev_index)
        self.prev_index = prev_index
        gone = bisect_right(self._mark_indexes, prev_index)
        for mark in self.marks[:gone]:
            base = self.base_configuration
            if mark.kind == EntryKind.CONFIG and (base is None or mark.index > base.index):
                self.base_configuration = mark
        self.mark_base += gone
        del self.marks[:gone], self._mark_indexes[:gone], self._mark_offsets[:gone]
        spans_gone = max(bisect_right(self._span_firsts, prev_index) - 1, 0)
        del self._span_terms[:spans_gone], self._span_firsts[:spans_gone]
