"""A read at the leader for somebody who wants few names: what is not wanted is left out.

Theory of operation. From the reader's offset on, closed segments are gone through by their indexes
(`key_indexes`): of each run of batches that may have something wanted the bytes are read, what is
between runs is passed over. It ends at the first segment without an index, in the segment that is
written, where the reader may not read on, when there is enough, and when it takes long. What is
passed over has no batch of a transaction and no marker, so a reader makes of the rest what it would
have made of all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.partitions.key_indexes import KeyIndexes
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_sealing import Located
from kafkaesque.broker.partitions.read_ranges import read_ranges
from kafkaesque.broker.requests.commands import WantedNames
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Buffer, Disk
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused, StorageFailed
from kafkaesque.model.ids import Offset
from kafkaesque.storage.batch_header import HEADER_BYTES, read_place
from kafkaesque.storage.key_index import WantedRuns

#: So many runs are read, and so many segments passed over, in one turn of the loop.
STEPS_PER_TURN: Final = 16
#: So many in one read.
STEPS_MAX: Final = 256
#: And not after this: an index says what many filters want after seconds, and somebody waits.
READ_MS_MAX: Final = 1_000


class Passed(NamedTuple):
    """What of a log may be wanted before an offset, and that offset."""

    records: bytes
    next_offset: Offset


OnPassed = Callable[[Passed | RequestRefused], None]


class FewNames:
    """See the module."""

    def __init__(self, clock: Clock, disk: Disk, indexes: KeyIndexes) -> None:
        self._clock = clock
        self._disk = disk
        self.indexes: Final = indexes

    def read(
        self,
        partition: Partition,
        names: WantedNames,
        offset: Offset,
        end: Offset,
        bytes_max: int,
        on_passed: OnPassed,
    ) -> None:
        """Read from an offset on, and not from `end` on; about `bytes_max`.

        Without records reading goes on at the offset that is returned, as if nobody had asked for
        names. Nothing is left out of a topic that has keys to seal with.
        """
        if partition.sealing.has_keys:
            on_passed(Passed(b"", offset))
            return
        _Read(self._clock, self._disk, self.indexes, partition, names, end, on_passed).begin(
            offset, bytes_max
        )


class _Read:
    """One read, across turns of the loop."""

    __slots__ = ("_at", "_bytes_left", "_clock", "_disk", "_end", "_generation", "_indexes",
                 "_names", "_on_passed", "_partition", "_pieces", "_steps",
                 "_until_ms")  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        disk: Disk,
        indexes: KeyIndexes,
        partition: Partition,
        names: WantedNames,
        end: Offset,
        on_passed: OnPassed,
    ) -> None:
        self._clock: Final = clock
        self._disk: Final = disk
        self._indexes: Final = indexes
        self._partition: Final = partition
        self._names: Final = names
        self._end: Final = end
        self._on_passed: Final = on_passed
        self._generation = partition.log.generation
        self._pieces: list[Buffer] = []
        self._bytes_left = 0
        self._steps = 0
        self._until_ms: Final = clock.now_ms() + READ_MS_MAX
        self._at = Offset(0)

    def begin(self, offset: Offset, bytes_max: int) -> None:
        self._at, self._bytes_left = offset, bytes_max
        self._go_on()

    def _go_on(self) -> None:
        try:
            self._partition.check_leader()
            if self._partition.log.generation != self._generation:
                raise LeaderNotAvailable(f"{self._partition.name} was cut while it was read")
            self._look()
        except RequestRefused as refusal:
            self._on_passed(refusal)

    def _look(self) -> None:
        """Look at the segment that reading has come to."""
        is_long = self._steps >= STEPS_MAX or self._clock.now_ms() >= self._until_ms
        if self._bytes_left <= 0 or self._at >= self._end or is_long:
            self._finish()
            return
        log = self._partition.log
        closed = log.closed_segment(self._at)
        if closed is None:
            self._finish()
            return
        is_known, runs = self._indexes.known(closed, self._names)
        if is_known:
            self._take(runs, closed.end_offset)
            return
        # In a later turn, in which the segment may be another one.
        self._indexes.find_out(
            log, closed, self._names, lambda found: self._on_known(found, closed.end_offset)
        )

    def _on_known(self, runs: WantedRuns | None, segment_end: int) -> None:
        try:
            self._take(runs, segment_end)
        except RequestRefused as refusal:
            self._on_passed(refusal)

    def _take(self, runs: WantedRuns | None, segment_end: int) -> None:
        """Pass over what is not wanted; read the next run that may be."""
        if runs is None:
            self._finish()
            return
        at = bisect_right(runs.ends, self._at)
        is_over = at == len(runs.ends)
        first = segment_end if is_over else max(runs.firsts[at], self._at)
        self._pass_to(min(first, self._end))
        run_end = segment_end if is_over else runs.ends[at]
        if is_over or self._at >= self._end:
            self._next()
        elif run_end > self._end:
            self._finish()  # what of it may be read is not known here
        else:
            self._read_run(Offset(run_end))

    def _pass_to(self, offset: int) -> None:
        if offset > self._at:
            self._indexes.count_passed(offset - self._at)
            self._at = Offset(offset)

    def _read_run(self, run_end: Offset) -> None:
        partition = self._partition
        ranges = partition.read_now(self._at, self._bytes_left, run_end)
        if ranges is None:
            partition.read_later(
                self._at, self._bytes_left, lambda found: self._on_located(found, run_end), run_end
            )
        else:
            self._on_located(ranges, run_end)

    def _on_located(self, ranges: Sequence[Located] | Exception, run_end: Offset) -> None:
        if isinstance(ranges, RequestRefused):
            self._on_passed(ranges)
        elif isinstance(ranges, Exception):
            self._on_passed(StorageFailed(f"the log cannot be read: {ranges}"))
        elif not ranges:
            self._on_hole(run_end)
        else:
            read_ranges(self._disk, ranges, lambda records: self._on_read(records, run_end))

    def _on_hole(self, run_end: Offset) -> None:
        """Nothing is left of a run: compaction has left a hole at its end."""
        try:
            log = self._partition.log
            if log.is_held or log.generation != self._generation:
                raise LeaderNotAvailable(f"{self._partition.name} was cut while it was read")
        except RequestRefused as refusal:
            self._on_passed(refusal)
            return
        self._at = run_end
        self._next()

    def _on_read(self, records: bytes | Exception, run_end: Offset) -> None:
        if isinstance(records, Exception):
            self._on_passed(StorageFailed(f"the log cannot be read: {records}"))
            return
        try:
            self._at = min(_end_of(records), run_end)
        except StorageFailed as failure:
            self._on_passed(failure)
            return
        self._pieces.append(records)
        self._bytes_left -= len(records)
        self._next()

    def _next(self) -> None:
        """Go on; not at once where this turn has done much."""
        self._steps += 1
        if self._steps % STEPS_PER_TURN:
            self._go_on()
        else:
            self._clock.call_soon(self._go_on)

    def _finish(self) -> None:
        self._on_passed(Passed(b"".join(self._pieces), self._at))


def _end_of(records: bytes) -> Offset:
    """Return the offset after whole batches."""
    at = end = 0
    while len(records) - at >= HEADER_BYTES:
        place = read_place(records, at)
        if place is None:
            raise StorageFailed(f"there is no record batch at byte {at} of what was read")
        at, end = at + place.size_bytes, place.last_offset + 1
    return Offset(end)
