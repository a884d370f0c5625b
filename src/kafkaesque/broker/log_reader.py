"""Reads all committed batches of a partition on this broker, off the loop, in bounded pieces."""

from collections.abc import Callable

from kafkaesque.broker.partition import Partition
from kafkaesque.broker.stored_batches import check_stored
from kafkaesque.env.disk import Disk, FileRange
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record, decode_batch

#: Bytes that are read in one piece.
PIECE_BYTES = 1024 * 1024
#: What one batch may decompress to.
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024


class LogReader:
    """One pass over a partition, from its start up to a given end."""

    def __init__(
        self,
        *,
        partition: Partition,
        disk: Disk,
        end: Offset,
        on_batch: Callable[[BatchHeader, list[Record]], None],
        on_done: Callable[[Exception | None], None],
    ) -> None:
        self._partition = partition
        self._disk = disk
        self._end = end
        self._on_batch = on_batch
        self._on_done = on_done
        self._position = partition.log_start_offset
        self._ranges: list[FileRange] = []
        self._cancelled = False

    def start(self) -> None:
        """Begin; `on_done` follows, in a later turn unless the log is empty."""
        self._next_ranges()

    def cancel(self) -> None:
        """Call nobody any more."""
        self._cancelled = True

    def _next_ranges(self) -> None:
        if self._position >= self._end:
            self._on_done(None)
            return
        self._partition.log.locate_async(self._position, PIECE_BYTES, self._end, self._on_located)

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
        for header in check_stored(piece, data, self._position, self._partition.log.end_offset):
            self._on_batch(header, decode_batch(data, DECOMPRESSED_BYTES_MAX, at=header.at))
            self._position = Offset(header.next_offset)
