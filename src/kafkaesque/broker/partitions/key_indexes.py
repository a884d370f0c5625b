"""Which parts of closed segments a reader of few keys has to read, by indexes of their keys.

Theory of operation. Such a reader asks here segment by segment. What an index says for somebody's
filters is found off the loop and kept, so that it is asked once for each segment. Where there is no
index, the segment is read, and an index is made of it, and of a few that follow, elsewhere
(`Disk.run_steps`): so the next reader, and this one further on, finds it. A topic that nobody reads
by its keys has none.

An index is soft: one that is missing, damaged or of another segment only costs the reading. The one
that is made gets its name on the loop, if its segment is still what it was.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from kafkaesque.broker.requests.commands import WantedNames
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk, File, StepRun
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import DiskFailed, OverBound
from kafkaesque.routing.subject_filters import read_filters
from kafkaesque.storage.batch_header import HEADER_BYTES
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.key_index import FILE_BYTES_MAX, NEW_SUFFIX, WantedRuns, select
from kafkaesque.storage.key_index_builder import KeyIndexPlan, build_key_index
from kafkaesque.storage.readable_log import ClosedSegment
from kafkaesque.storage.segment import Segment
from kafkaesque.storage.statistics import StorageStatistics

#: What indexes have said is kept up to this, over all logs; and so many answers at most.
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
KEPT_MAX: Final = 4_096
#: What an answer takes in memory beside its runs and the names, and what a name does.
ANSWER_BYTES: Final = 500
NAME_BYTES: Final = 50
#: Questions that wait; who asks beyond them reads the segment.
QUESTIONS_MAX: Final = 256
#: Segments that wait for their index, over all logs; those beyond are asked for again.
WAITING_MAX: Final = 64
#: So many segments get an index beside the one that is asked about.
AHEAD_MAX: Final = 4
#: Segments of which no index could be made, and when they are tried again: space may be freed.
FAILED_MAX: Final = 4_096
FAILED_AGAIN_MS: Final = 10 * 60_000

OnKnown = Callable[[WantedRuns | None], None]


class _Answer(NamedTuple):
    """What an index says for some filters; None: there is none, and the segment is to be read."""

    closed: ClosedSegment
    runs: WantedRuns | None


class _Question(NamedTuple):
    log: GroupLog
    closed: ClosedSegment
    names: WantedNames
    on_known: OnKnown


class KeyIndexes:
    """See the module."""

    def __init__(
        self, clock: Clock, disk: Disk, statistics: StorageStatistics, free_bytes_min: int
    ) -> None:
        self._clock = clock
        self._disk = disk
        self._statistics = statistics
        self._free_bytes_min = free_bytes_min
        self._kept: Final[OrderedDict[tuple[str, WantedNames], _Answer]] = OrderedDict()
        self._kept_bytes = 0
        #: Questions are answered one at a time: an index may have some MiB.
        self._questions: Final[deque[_Question]] = deque()
        self._is_asking = False
        self._waiting: Final[dict[str, tuple[GroupLog, ClosedSegment]]] = {}
        self._building: StepRun | None = None
        #: With when that is forgotten.
        self._failed: Final[OrderedDict[str, tuple[ClosedSegment, int]]] = OrderedDict()
        self._is_stopped = False

    # -- what is known

    def known(self, closed: ClosedSegment, names: WantedNames) -> tuple[bool, WantedRuns | None]:
        """Return whether it is known what a segment's index says, and that, if there is one."""
        key = (closed.segment.path, names)
        answer = self._kept.get(key)
        if answer is None or not _is_same(answer.closed, closed):
            return False, None
        self._kept.move_to_end(key)
        return True, answer.runs

    def find_out(
        self, log: GroupLog, closed: ClosedSegment, names: WantedNames, on_known: OnKnown
    ) -> None:
        """Read the index, and have it made where there is none; `on_known` in a later turn.

        It gets None where the segment is to be read.
        """
        if len(self._questions) >= QUESTIONS_MAX:
            self._clock.call_soon(lambda: on_known(None))
            return
        self._questions.append(_Question(log, closed, names, on_known))
        if not self._is_asking:
            self._ask_next()

    def count_passed(self, records: int) -> None:
        """Note that so many records did not have to be read."""
        self._statistics.records_passed_over += records

    def _ask_next(self) -> None:
        self._is_asking = bool(self._questions)
        if self._is_asking:
            question = self._questions.popleft()
            self._clock.call_soon(lambda: self._ask(question))

    def _ask(self, question: _Question) -> None:
        log, closed, names, _ = question
        is_known, runs = self.known(closed, names)
        if is_known or not _is_current(log, closed):
            self._on_answer(question, runs)
            return
        try:
            file: File = log.pool.get(closed.segment.key_index_path)
        except FileNotFoundError:
            self._want(log, closed)
            self._on_answer(question, None)
            return
        except DiskFailed:
            self._on_answer(question, None)
            return
        if file.size() > FILE_BYTES_MAX:
            self._discard(question)
            return

        def on_read(data: bytes | DiskFailed) -> None:
            if isinstance(data, DiskFailed):
                self._on_answer(question, None)
            else:
                self._disk.run(lambda: _select(data, names), on_selected)

        def on_selected(runs: object, error: Exception | None) -> None:
            if isinstance(runs, WantedRuns):
                self._check_mark(question, runs)
            elif error is not None:
                self._discard(question)
            else:
                self._keep(question, None)

        self._disk.read(file, 0, file.size(), on_read)

    def _check_mark(self, question: _Question, runs: WantedRuns) -> None:
        """See that the index is that of the segment as it is."""
        log, closed, _, _ = question
        mark, segment = runs.mark, closed.segment
        if not _is_current(log, closed):
            self._on_answer(question, None)
            return
        if mark[:3] != (segment.base_offset, closed.end_offset, segment.size):
            self._discard(question)
            return
        try:
            file = log.pool.get(segment.path)
        except (FileNotFoundError, DiskFailed):
            self._on_answer(question, None)
            return

        def on_read(header: bytes | DiskFailed) -> None:
            if isinstance(header, DiskFailed):
                self._on_answer(question, None)
            elif crc32c(header) != mark.last_header_checksum:
                self._discard(question)
            else:
                self._keep(question, runs)

        self._disk.read(file, mark.last_position, HEADER_BYTES, on_read)

    def _discard(self, question: _Question) -> None:
        """The file is damaged, or another segment's: another one is made."""
        log, closed, _, _ = question
        if _is_current(log, closed):
            _remove(log, self._disk, closed.segment.key_index_path)
            self._want(log, closed)
        self._on_answer(question, None)

    def _on_answer(self, question: _Question, runs: WantedRuns | None) -> None:
        self._ask_next()
        # What it is for may have gone meanwhile.
        question.on_known(runs if _is_current(question.log, question.closed) else None)

    def _keep(self, question: _Question, runs: WantedRuns | None) -> None:
        """Answer, and remember what the file has said."""
        key = (question.closed.segment.path, question.names)
        answer = _Answer(question.closed, runs)
        self._forget(key)
        self._kept[key] = answer
        self._kept_bytes += _bytes_of(question.names, answer)
        while self._kept_bytes > KEPT_BYTES_MAX or len(self._kept) > KEPT_MAX:
            self._forget(next(iter(self._kept)))
        self._on_answer(question, runs)

    def _forget(self, key: tuple[str, WantedNames]) -> None:
        answer = self._kept.pop(key, None)
        if answer is not None:
            self._kept_bytes -= _bytes_of(key[1], answer)

    # -- making them

    def _want(self, log: GroupLog, closed: ClosedSegment) -> None:
        """Have an index made of a segment, and of those that follow."""
        if self._is_stopped:
            return
        wanted: ClosedSegment | None = closed
        for _ in range(1 + AHEAD_MAX):
            if wanted is None or len(self._waiting) >= WAITING_MAX:
                break
            if self._is_missed(wanted):
                self._waiting.setdefault(wanted.segment.path, (log, wanted))
            wanted = log.closed_segment(wanted.end_offset)
        self._build_next()

    def _is_missed(self, closed: ClosedSegment) -> bool:
        """Tell whether a segment has no index, and was not tried in vain a short while ago."""
        failed, until_ms = self._failed.get(closed.segment.path, (None, 0))
        has_failed = failed is not None and _is_same(failed, closed)
        if has_failed and self._clock.now_ms() < until_ms:
            return False
        return not self._disk.exists(closed.segment.key_index_path)

    def _build_next(self) -> None:
        while self._building is None and self._waiting and not self._is_stopped:
            path = next(iter(self._waiting))
            log, closed = self._waiting.pop(path)
            # It may have been asked for again while it was made.
            if _is_current(log, closed) and self._is_missed(closed):
                self._build(log, closed)

    def _build(self, log: GroupLog, closed: ClosedSegment) -> None:
        segment, size = closed.segment, closed.segment.size
        plan = KeyIndexPlan(
            segment.directory, segment.base_offset, closed.end_offset, size, self._free_bytes_min
        )

        def on_step(_: int) -> None:
            if self._building is not None:
                if _is_current(log, closed):
                    self._building.go_on()
                else:
                    self._building.stop()

        def on_done(is_written: bool | None, error: Exception | None) -> None:
            self._building = None
            if is_written and _is_current(log, closed) and segment.size == size:
                self._put_in_place(log, segment)
            else:
                if not log.is_deleted:
                    _remove(log, self._disk, segment.key_index_path + NEW_SUFFIX)
                if is_written is False or error is not None:
                    self._note_failed(closed)
            self._build_next()

        try:
            self._building = self._disk.run_steps(build_key_index, plan, on_step, on_done)
        except OverBound:
            pass  # It is asked for again.

    def _put_in_place(self, log: GroupLog, segment: Segment) -> None:
        path = segment.key_index_path
        try:
            log.pool.drop(path)
            self._disk.rename(path + NEW_SUFFIX, path)
        except (OSError, DiskFailed):
            return
        self._statistics.key_indexes_built += 1
        for key in [key for key in self._kept if key[0] == segment.path]:
            self._forget(key)

    def _note_failed(self, closed: ClosedSegment) -> None:
        self._failed[closed.segment.path] = closed, self._clock.now_ms() + FAILED_AGAIN_MS
        if len(self._failed) > FAILED_MAX:
            self._failed.popitem(last=False)

    def stop(self) -> None:
        """Make no more; what is under way ends, and is of no worth."""
        self._is_stopped = True
        self._waiting.clear()
        if self._building is not None:
            self._building.stop()


def _select(data: bytes, names: WantedNames) -> WantedRuns | None:
    return select(data, read_filters(names).may_want)


def _bytes_of(names: WantedNames, answer: _Answer) -> int:
    # Each request of another broker has brought names of its own.
    name_bytes = sum(map(len, names)) + NAME_BYTES * len(names)
    return ANSWER_BYTES + name_bytes + (0 if answer.runs is None else answer.runs.size_bytes)


def _is_same(left: ClosedSegment, right: ClosedSegment) -> bool:
    return left.segment is right.segment and left[1:] == right[1:]


def _is_current(log: GroupLog, closed: ClosedSegment) -> bool:
    """Tell whether a segment is still what it was."""
    if log.is_deleted or closed.segment.is_removed:
        return False
    now = log.closed_segment(closed.segment.base_offset)
    return now is not None and _is_same(now, closed)


def _remove(log: GroupLog, disk: Disk, path: str) -> None:
    with suppress(DiskFailed, OSError):
        log.pool.drop(path)
        disk.remove(path)
