"""A reader of committed transactions gets them, and what is in none: nothing more, nothing less."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import BatchHeader, read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record
from kafkaesque.transactions.aborted_index import AbortedIndex, AbortedTransaction
from kafkaesque.transactions.committed_filter import CommittedFilter

PRODUCERS = 3


class Step(NamedTuple):
    """What comes next in the log."""

    producer: int
    #: "plain", "write", "commit" or "abort".
    kind: str
    records: int


steps = st.lists(
    st.builds(
        Step,
        st.integers(0, PRODUCERS - 1),
        st.sampled_from(["plain", "write", "write", "commit", "abort"]),
        st.integers(1, 3),
    ),
    max_size=40,
)


class Log:
    """The batches of a partition, and which of them are to be seen."""

    def __init__(self) -> None:
        self.headers: list[BatchHeader] = []
        self.index = AbortedIndex()
        #: The last offsets of batches that are committed, or in no transaction.
        self.shown: set[int] = set()
        self.end = 0
        self._open: dict[int, list[int]] = {}
        self._first: dict[int, int] = {}

    @property
    def stable_end(self) -> int:
        return min(self._first.values(), default=self.end)

    def take(self, step: Step) -> None:
        producer = step.producer
        if step.kind in ("commit", "abort"):
            self._mark(producer, is_commit=step.kind == "commit")
            return
        is_transactional = step.kind == "write"
        first = self._append(producer, step.records, transactional=is_transactional)
        if is_transactional:
            self._first.setdefault(producer, first)
            self._open.setdefault(producer, []).append(self.end - 1)
        else:
            self.shown.add(self.end - 1)

    def _mark(self, producer: int, *, is_commit: bool) -> None:
        offset = self._append(producer, 1, transactional=True, control=True)
        batches = self._open.pop(producer, [])
        first = self._first.pop(producer, None)
        if is_commit:
            self.shown.update(batches)
        elif first is not None:
            entry = AbortedTransaction(producer, first, offset, self.stable_end)
            self.index.append(entry)

    def _append(
        self, producer: int, count: int, *, transactional: bool, control: bool = False
    ) -> int:
        first = self.end
        records = [Record(first + n, 0, None, b"", ()) for n in range(count)]
        options = BatchOptions(
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
            control=control,
        )
        self.headers.append(read_batch_header(encode_batch(records, options)))
        self.end += count
        return first


@given(steps, st.data())
def test_any_range_shows_what_is_committed_in_it(taken: list[Step], data: st.DataObject) -> None:
    log = Log()
    for step in taken:
        log.take(step)
    begin = data.draw(st.integers(0, log.stable_end))
    end = data.draw(st.integers(begin, log.stable_end))
    found = log.index.overlapping(begin, end)
    aborted = CommittedFilter([(each.producer_id, each.first_offset) for each in found])
    within = [each for each in log.headers if each.next_offset > begin and each.base_offset < end]
    shown = {each.next_offset - 1 for each in within if aborted.is_shown(each)}
    assert shown == {each.next_offset - 1 for each in within} & log.shown
