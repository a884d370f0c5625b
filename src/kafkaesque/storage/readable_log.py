"""What a log gives by reading: batches and entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkaesque.env.disk import FileRange
from kafkaesque.model.errors import DiskFailed, OffsetOutOfRange
from kafkaesque.model.ids import Offset
from kafkaesque.storage import log_reads
from kafkaesque.storage.entries import EntryLike
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.log_state import LogState
from kafkaesque.storage.read_steps import Cold, Steps, run_blocking, run_warm
from kafkaesque.storage.segment import Segment


class ClosedSegment(NamedTuple):
    """A segment that is not written any more, as long as its log is not cut."""

    segment: Segment
    #: The offset after it: where the next segment begins.
    end_offset: int
    #: How often the log had been cut or emptied.
    generation: int


class ReadableLog(LogState):
    """The reading half of `GroupLog`."""

    __slots__ = ()

    def _check_offset(self, offset: int) -> None:
        if not self.positions.start_offset <= offset <= self.positions.end_offset:
            raise OffsetOutOfRange(
                f"{self!r} holds offsets {self.start_offset} to {self.end_offset}, not {offset}"
            )

    def locate(self, offset: int, bytes_max: int, limit_offset: int) -> list[FileRange] | None:
        """Return where whole batches lie, from the one with `offset` up to `limit_offset`.

        At least one batch, if there is one, even if it is longer than `bytes_max`; a segment's end
        may end it early. None: it is not known without the device, use `locate_async`.

        Raises:
            OffsetOutOfRange: before the log's start or after its end.
        """
        self._check_offset(offset)
        limit = min(limit_offset, self.written_end)
        if offset >= limit:
            return []
        try:
            found = self.segments.locate_in_tail(offset, bytes_max, limit)
            if found is not None:
                return found
            steps = self.segments.locate(offset, bytes_max, limit, self._files_end)
            return run_warm(steps, self._bench.pool)
        except (Cold, DiskFailed, StorageCorrupt):
            return None  # what is damaged, or cannot be opened, is told by `locate_async`

    def locate_async(
        self,
        offset: int,
        bytes_max: int,
        limit_offset: int,
        on_done: Callable[[list[FileRange] | Exception], None],
    ) -> None:
        """Do the same off the loop; `on_done` at once if nothing has to be read for it."""
        try:
            self._check_offset(offset)
        except OffsetOutOfRange as error:
            on_done(error)
            return
        limit = min(limit_offset, self.written_end)
        if offset >= limit:
            on_done([])
            return

        def steps() -> Steps[list[FileRange]]:
            return self.segments.locate(offset, bytes_max, limit, self._files_end)

        log_reads.run(self, steps, list, on_done)

    def locate_blocking(self, offset: int, bytes_max: int, limit_offset: int) -> list[FileRange]:
        """Do the same, waiting; for start-up only."""
        self._check_offset(offset)
        limit = min(limit_offset, self.written_end)
        if offset >= limit:
            return []
        steps = self.segments.locate(offset, bytes_max, limit, self._files_end)
        return run_blocking(steps, self._bench.pool)

    def entries_from(self, first_index: int, bytes_max: int) -> list[EntryLike] | None:
        """Return entries whose last index is at least `first_index`, marks included.

        At least one if there is one, and not more than `bytes_max` bytes beyond that. None: use
        `entries_async`.

        Raises:
            EntriesGone: the log begins later.
        """
        return log_reads.entries_from(self, first_index, bytes_max)

    def entries_async(
        self,
        first_index: int,
        bytes_max: int,
        on_done: Callable[[list[EntryLike] | Exception], None],
    ) -> None:
        """Do the same off the loop; `on_done` at once if nothing has to be read for it."""
        log_reads.entries_async(self, first_index, bytes_max, on_done)

    def closed_segment(self, offset: int) -> ClosedSegment | None:
        """Return the segment that an offset is in, if it is not written any more; None: it is.

        None also while the files do not have what the log has.
        """
        table = self.segments
        at = table.at_offset(offset)
        if self.is_held or at + 1 >= len(table.segments):
            return None
        return ClosedSegment(table.segments[at], table.end_of(at, self.end_offset), self.generation)

    def offset_for_timestamp(
        self, timestamp: int, on_done: Callable[[tuple[int, Offset] | Exception | None], None]
    ) -> None:
        """Find (timestamp, offset) of the first record that is not older; None if there is none.

        It is not looked at whether that is committed. `OffsetNotAvailable`: ask again.
        """
        log_reads.search(self, lambda: log_reads.offset_for_timestamp(self, timestamp), on_done)

    def max_timestamp(
        self, on_done: Callable[[tuple[int, Offset] | Exception | None], None]
    ) -> None:
        """Find (timestamp, offset) of the first of the newest records; None in an empty log.

        `OffsetNotAvailable`: ask again.
        """
        log_reads.search(self, lambda: log_reads.max_timestamp(self), on_done)

    def retention_candidate(
        self, now_wall_ms: int, retention_ms: int, retention_bytes: int, high_watermark: int
    ) -> Offset | None:
        """Return where the log should start by its topic's options (-1: no limit), if later.

        Whole segments before the high watermark are given up; by size never the active one.
        """
        return log_reads.retention_candidate(
            self, now_wall_ms, retention_ms, retention_bytes, high_watermark
        )
