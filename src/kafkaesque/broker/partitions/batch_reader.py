"""Reads the batches of a log on this broker, off the loop, in bounded pieces."""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.broker.replication.stored_batches import check_stored, replay
from kafkaesque.env.disk import Disk, FileRange
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import Offset
from kafkaesque.storage.group_log import GroupLog

#: Bytes that are read in one piece.
PIECE_BYTES = 1024 * 1024


class BatchReader:
    """One pass over a log, from an offset up to a given end."""

    def __init__(
        self,
        *,
        log: GroupLog,
        disk: Disk,
        position: Offset,
        end: Offset,
        on_batch: Callable[[BatchHeader, memoryview], None],
        on_done: Callable[[Exception | None], None],
    ) -> None:
        self._log = log
        self._disk = disk
        #: Where the pass ends; to be read only.
        self.end = end
        self._on_batch = on_batch
        self._on_done = on_done
        self._position = position
        self._ranges: list[FileRange] = []
        self._cancelled = False

    def start(self) -> None:
        """Begin; `on_done` follows, in a later turn unless there is nothing to be read."""
        self._next_ranges()

    def cancel(self) -> None:
        """Call nobody any more."""
        self._cancelled = True

    def finish(self) -> None:
        """Read the rest now, waiting; `on_done` is called within this call."""
        self._cancelled = True
        self._skip_given_up()
        try:
            for header, data in replay(self._log, self._position, self.end):
                self._on_batch(header, data)
        except KafkaesqueError as error:
            self._on_done(error)
        else:
            self._on_done(None)

    def _next_ranges(self) -> None:
        log = self._log
        self._skip_given_up()
        if self._position >= self.end:
            self._on_done(None)
            return
        before = log.generation, log.start_offset

        def on_located(found: list[FileRange] | Exception) -> None:
            has_changed = before != (log.generation, log.start_offset) and not log.is_deleted
            if not found and has_changed and not self._cancelled:
                # Nothing was found because of that, and there may be more.
                self._next_ranges()
            else:
                self._on_located(found)

        log.locate_async(self._position, PIECE_BYTES, self.end, on_located)

    def _skip_given_up(self) -> None:
        """Retention may have been where the pass is to go on."""
        self._position = max(self._position, self._log.start_offset)

    def _on_located(self, found: list[FileRange] | Exception) -> None:
        if self._cancelled:
            return
        if isinstance(found, Exception):
            self._on_done(found)
        elif not found:
            # Compaction has left nothing up to the end.
            self._on_done(None)
        else:
            self._ranges = list(found)
            self._next_piece()

    def _next_piece(self) -> None:
        if not self._ranges:
            self._next_ranges()
            return
        piece = self._ranges.pop(0)
        self._disk.read(
            piece.file, piece.position, piece.length, lambda data: self._on_piece(piece, data)
        )

    def _on_piece(self, piece: FileRange, data: bytes | Exception) -> None:
        if self._cancelled:
            return
        if isinstance(data, Exception):
            self._on_done(data)
            return
        try:
            self._take(piece, memoryview(data))
        except KafkaesqueError as error:
            self._on_done(error)
            return
        self._next_piece()

    def _take(self, piece: FileRange, data: memoryview) -> None:
        for header in check_stored(piece, data, self._position, self._log.end_offset):
            self._on_batch(header, data[header.at : header.end])
            self._position = Offset(header.next_offset)
