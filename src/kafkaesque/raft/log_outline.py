"""What the core knows of its log: where it starts and ends, and which term stands where.

Theory of operation. The core never looks at entries to decide anything. Terms are kept as spans
(`term` holds from `first_index` up to the next span), and spans are exact even where compaction has
left holes between entries, because an append carries the term starts of the range that it covers.
Within one term one leader laid out the entries, so two logs that have the same term at an index
have the same entry around it, and every place where a term starts or ends is an entry's border in
both. That is why comparing spans is enough to find where two logs part, and why the place found is
never inside an entry.
"""

from bisect import bisect_right
from collections.abc import Sequence

from kafkaesque.model.ids import Term
from kafkaesque.raft.entries import TermStart
from kafkaesque.raft.errors import RaftInvariantBroken


class LogOutline:
    """Ends, terms, durability and commitment of one log; everything up to `start_index` is gone."""

    __slots__ = (
        "_span_firsts",
        "_span_terms",
        "commit_index",
        "generation",
        "last_index",
        "last_term",
        "start_index",
        "start_term",
        "synced_index",
    )

    def __init__(
        self,
        *,
        start: tuple[int, Term],
        term_starts: Sequence[TermStart],
        last_index: int,
        commit_index: int,
    ) -> None:
        self.start_index, self.start_term = start
        self.last_index = last_index
        #: Durable here up to this index.
        self.synced_index = last_index
        #: Known to be committed up to this index; what is before the log's start surely is.
        self.commit_index = max(commit_index, self.start_index)
        #: Counts truncations, so that a report about entries that are gone is recognised.
        self.generation = 0
        self._span_terms: list[Term] = []
        self._span_firsts: list[int] = []
        self.last_term = self.start_term
        self._restore_spans(term_starts)

    def _restore_spans(self, term_starts: Sequence[TermStart]) -> None:
        before = TermStart(Term(-1), -1)
        for start in term_starts:
            if start.term <= before.term or start.first_index <= before.first_index:
                raise RaftInvariantBroken(f"term starts out of order: {list(term_starts)}")
            before = start
            self._span_terms.append(start.term)
            self._span_firsts.append(start.first_index)
        if self.last_index < self.start_index or before.first_index > self.last_index:
            raise RaftInvariantBroken(
                f"a log from {self.start_index} to {self.last_index} with terms {term_starts}"
            )
        self._drop_spans_before_start()
        if self._span_terms:
            self.last_term = self._span_terms[-1]
        elif self.last_index > self.start_index and self.start_term == 0:
            raise RaftInvariantBroken(f"a log up to {self.last_index} without any term")
        if self.commit_index > self.last_index:
            raise RaftInvariantBroken(
                f"commit index {self.commit_index} is after the log's end {self.last_index}"
            )

    @property
    def term_starts(self) -> list[TermStart]:
        """The spans, oldest first."""
        return [
            TermStart(term, first)
            for term, first in zip(self._span_terms, self._span_firsts, strict=True)
        ]

    def term_at(self, index: int) -> Term:
        """Return the term at an index from the log's start to its end.

        Raises:
            RaftInvariantBroken: the index is outside.
        """
        firsts = self._span_firsts
        if firsts and self.start_index <= index <= self.last_index and index >= firsts[-1]:
            return self.last_term
        if not self.start_index <= index <= self.last_index:
            raise RaftInvariantBroken(
                f"the term at {index} was asked of a log from {self.start_index}"
                f" to {self.last_index}"
            )
        at = bisect_right(firsts, index) - 1
        return self._span_terms[at] if at >= 0 else self.start_term

    def is_at_least(self, index: int, term: Term) -> bool:
        """Tell whether a log that ends with (index, term) is as up to date as this one (§5.4.1)."""
        return term > self.last_term or (term == self.last_term and index >= self.last_index)

    def newest_not_above(self, index: int, term: Term) -> TermStart | None:
        """Return the last place at or before `index` whose term is at most `term`, or None.

        Both sides of a rejected append step back with it, so that a round trip skips a whole term.
        """
        index = min(index, self.last_index)
        if index < self.start_index:
            return None
        at = bisect_right(self._span_firsts, index) - 1
        while at >= 0 and self._span_terms[at] > term:
            index = self._span_firsts[at] - 1
            at -= 1
        found = self._span_terms[at] if at >= 0 else self.start_term
        return TermStart(found, index) if found <= term else None

    def starts_within(self, after_index: int, last_index: int) -> tuple[TermStart, ...]:
        """Return the term starts after one index and up to another."""
        firsts = self._span_firsts
        if not firsts or firsts[-1] <= after_index:
            return ()
        low, high = bisect_right(firsts, after_index), bisect_right(firsts, last_index)
        return tuple(TermStart(self._span_terms[at], firsts[at]) for at in range(low, high))

    def first_difference(
        self, after: TermStart, starts: Sequence[TermStart], last_index: int
    ) -> int | None:
        """Return the first index after `after` where another log has another term, or None.

        The other log agrees at `after`, has these term starts and is compared up to `last_index`,
        or to this log's end if that comes first.
        """
        limit = min(last_index, self.last_index)
        theirs = [TermStart(after.term, after.first_index + 1), *starts]
        for position, (term, first) in enumerate(theirs):
            end = theirs[position + 1].first_index - 1 if position + 1 < len(theirs) else limit
            end = min(end, limit)
            if end < first:
                continue
            if self.term_at(first) != term:
                return first
            our_end = self._end_of_span_at(first)
            if our_end < end:
                return our_end + 1
        return None

    def _end_of_span_at(self, index: int) -> int:
        at = bisect_right(self._span_firsts, index)
        return self._span_firsts[at] - 1 if at < len(self._span_firsts) else self.last_index

    def extend(self, term: Term, first_index: int, last_index: int) -> None:
        """Add an entry at the end; not durable yet."""
        if term != self.last_term:
            self.begin_term(term, first_index)
        self.last_index = last_index

    def begin_term(self, term: Term, first_index: int) -> None:
        """Add a term start after the end (possibly inside a hole, with the entries to come)."""
        if term == self.last_term:
            return
        if term < self.last_term or first_index <= self.last_index:
            raise RaftInvariantBroken(
                f"term {term} cannot start at {first_index}: the log ends at {self.last_index}"
                f" with term {self.last_term}"
            )
        self._span_terms.append(term)
        self._span_firsts.append(first_index)
        self.last_term = term

    def truncate(self, last_index: int) -> None:
        """Forget everything after an index.

        Raises:
            RaftInvariantBroken: something committed would be lost.
        """
        if last_index < self.commit_index:
            raise RaftInvariantBroken(
                f"truncation to {last_index} below the commit index {self.commit_index}"
            )
        while self._span_firsts and self._span_firsts[-1] > last_index:
            self._span_firsts.pop()
            self._span_terms.pop()
        self.last_term = self._span_terms[-1] if self._span_terms else self.start_term
        self.last_index = last_index
        self._drop_spans_before_start()
        self.synced_index = min(self.synced_index, last_index)
        self.generation += 1

    def compact(self, start_index: int) -> None:
        """Let the log start after an index that is committed, and durable here."""
        if not self.start_index <= start_index <= min(self.commit_index, self.synced_index):
            raise RaftInvariantBroken(
                f"the log cannot start at {start_index}: it starts at {self.start_index}, is"
                f" committed up to {self.commit_index} and synced up to {self.synced_index}"
            )
        self.start_term = self.term_at(start_index)
        self.start_index = start_index
        self._drop_spans_before_start()

    def _drop_spans_before_start(self) -> None:
        # The span that covers the first index after the start stays, with its first index as it is.
        keep = max(0, bisect_right(self._span_firsts, self.start_index + 1) - 1)
        del self._span_firsts[:keep]
        del self._span_terms[:keep]
        if self.last_index == self.start_index:
            self._span_firsts.clear()
            self._span_terms.clear()

    def reset(self, index: int, term: Term) -> None:
        """Start anew after a snapshot that holds everything up to `index`; durable."""
        if index < self.commit_index:
            raise RaftInvariantBroken(
                f"a snapshot at {index} is older than the commit index {self.commit_index}"
            )
        self.start_index = self.last_index = self.synced_index = self.commit_index = index
        self.start_term = self.last_term = term
        self._span_firsts.clear()
        self._span_terms.clear()
        self.generation += 1
