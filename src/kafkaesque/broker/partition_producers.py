"""What a partition knows of its idempotent producers, kept with its log.

The state is that of the log's end. It lives in memory; the file `producer-state` beside the
segments holds it as of some committed offset, and the headers of the batches after that offset give
the rest when the partition is opened.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkaesque.broker.replica import AppendedBatch
from kafkaesque.env.disk import Disk, FileRange
from kafkaesque.model.batch import HEADER_BYTES, BatchHeader, read_batch_header
from kafkaesque.model.errors import DiskFailed, InvalidProducerEpoch, OutOfOrderSequence
from kafkaesque.model.ids import Offset
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.transactions.producer_snapshot import (
    BadProducerSnapshot,
    read_snapshot,
    write_snapshot,
)
from kafkaesque.transactions.producer_state import (
    Duplicate,
    ProducerStateConfig,
    ProducerStateTable,
    SequencedBatch,
    Verdict,
)

if TYPE_CHECKING:
    from kafkaesque.storage.group_log import GroupLog

_FILE = "producer-state"
#: Bytes that are located at a time when a log is replayed.
_REPLAY_BYTES = 8 * 1024 * 1024
#: The file is written anew when this many offsets have come since.
SAVE_INTERVAL_OFFSETS = 100_000


class PartitionProducers:
    """The producers of one partition."""

    def __init__(self, config: ProducerStateConfig, wall_ms: Callable[[], int], disk: Disk) -> None:
        self._config = config
        self._wall_ms = wall_ms
        self._disk = disk
        self._table = ProducerStateTable(config)
        self._saved_offset = 0
        self._is_saving = False

    # -- judging and noting

    def check(self, batch: BatchHeader) -> Duplicate | None:
        """Return where a repeated batch already is; None means that it is new and fits.

        Raises:
            OutOfOrderSequence: its sequence numbers do not follow.
            InvalidProducerEpoch: a newer incarnation of the producer has written.
            InvalidRecord: it has a producer id and impossible numbers.
        """
        verdict = self._table.check(
            batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.record_count
        )
        if isinstance(verdict, Duplicate):
            return verdict
        match verdict:
            case Verdict.ACCEPT:
                return None
            case Verdict.OUT_OF_ORDER_SEQUENCE:
                raise OutOfOrderSequence(
                    f"sequence {batch.base_sequence} of producer {batch.producer_id} does not "
                    "follow what it has sent before"
                )
            case Verdict.INVALID_PRODUCER_EPOCH:
                raise InvalidProducerEpoch(
                    f"epoch {batch.producer_epoch} of producer {batch.producer_id} is over"
                )
            case Verdict.INVALID_RECORD:
                raise InvalidRecord(f"producer {batch.producer_id} has impossible numbers")

    def note(self, batch: BatchHeader, base_offset: int) -> None:
        """Take note of a batch that stands, or is about to stand, at the log's end."""
        self._table.append(
            SequencedBatch(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_offset_delta + 1,
                Offset(base_offset),
                batch.max_timestamp_ms,
            ),
            self._wall_ms() if batch.producer_id >= 0 else 0,
        )

    def on_appended(self, batches: Sequence[AppendedBatch]) -> None:
        """Take note of batches that this broker did not propose itself."""
        end_offset = self._table.end_offset
        for batch in batches:
            if batch.base_offset >= end_offset:
                self.note(read_batch_header(batch.data), batch.base_offset)

    def truncate(self, end_offset: Offset) -> None:
        """The log's end was cut off."""
        self._table.truncate(end_offset)

    def on_committed(self, high_watermark: Offset) -> None:
        """What is before the high watermark stays."""
        self._table.on_committed(high_watermark)

    def expire(self, wall_ms: int) -> None:
        """Forget producers that have been silent for long."""
        self._table.remove_expired(wall_ms)

    def reset(self, start_offset: Offset) -> None:
        """Begin anew with a log that begins there."""
        self._table = ProducerStateTable(self._config, start_offset)

    # -- keeping

    def restore(self, log: "GroupLog") -> None:
        """Bring the state to the log's end, from the file and the batches after it; waits."""
        self._table = self._load(log)
        self._saved_offset = self._table.end_offset
        for header in _headers(log, self._table.end_offset):
            if header.base_offset >= self._table.end_offset:
                self.note(header, header.base_offset)

    def _load(self, log: "GroupLog") -> ProducerStateTable:
        path = f"{log.identity.directory}/{_FILE}"
        empty = ProducerStateTable(self._config, log.start_offset)
        if not self._disk.exists(path):
            return empty
        file = self._disk.open(path)
        try:
            table = read_snapshot(self._config, file.read_blocking(0, file.size()))
        except BadProducerSnapshot:
            return empty  # the log itself says it again
        finally:
            file.close()
        return table if log.start_offset <= table.end_offset <= log.end_offset else empty

    def save(self, log: "GroupLog", high_watermark: Offset) -> None:
        """Write the file and leave its sync to the kernel: a torn one is noticed and not needed."""
        if self._table.end_offset == self._saved_offset or high_watermark < self._saved_offset:
            return
        data = write_snapshot(self._table, high_watermark)
        temporary = f"{log.identity.directory}/{_FILE}.new"
        file = self._disk.open(temporary, create=True)
        try:
            file.truncate(0)
            file.write_at(0, [data])
        finally:
            file.close()
        self._disk.rename(temporary, f"{log.identity.directory}/{_FILE}")
        self._saved_offset = high_watermark

    def maybe_save(self, log: "GroupLog", high_watermark: Offset) -> None:
        """Write the file if much has come since the last time."""
        if len(self._table) and high_watermark - self._saved_offset >= SAVE_INTERVAL_OFFSETS:
            try:
                self.save(log, high_watermark)
            except DiskFailed:
                self._saved_offset = high_watermark  # the log itself will say more clearly


def _headers(log: "GroupLog", offset: int) -> Iterator[BatchHeader]:
    """Yield the headers of all batches from an offset on; waits."""
    while offset < log.end_offset:
        ranges = log.locate_blocking(Offset(offset), _REPLAY_BYTES, log.end_offset)
        if not ranges:
            return
        for piece in ranges:
            for header in _headers_in(piece):
                yield header
                offset = header.next_offset


def _headers_in(piece: FileRange) -> Iterator[BatchHeader]:
    at = piece.position
    end = piece.position + piece.length
    while at < end:
        header = read_batch_header(piece.file.read_blocking(at, HEADER_BYTES))
        yield header
        at += header.size_bytes
