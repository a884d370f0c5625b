"""What takes part in a transaction: messages of a batch, or messages in flight that it settles.

Both come as batches of the transaction's producer, so the log's own rules hold for them: numbers
without gaps, no earlier epoch, and the coordinator's word that the transaction is open. What is to
be settled is a record with a header of ours, which no client can send. A marker ends both.
"""

from typing import NamedTuple

from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.batch_encoder import MarkerType, decode_end_marker
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.message_headers import STAGED
from kafkaesque.model.record_errors import CorruptBatch, RecordError
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.model.sealed_batch import told_by
from kafkaesque.queues.arrival import Arrival, arrival_of, arrival_told, told_of
from kafkaesque.queues.runs import BadDecision, Reader, Run, Writer

_STAGED = STAGED.encode()
_ARRIVAL, _RUNS = b"\0", b"\1"
_BATCH_BYTES_MAX = 1024 * 1024
_MARKER_BYTES_MAX = 64 * 1024


class Joined(NamedTuple):
    """What a transaction's batch brings: one of the two."""

    arrival: Arrival | None
    staged: tuple[Run, ...] = ()


def staging_record(runs: tuple[Run, ...]) -> Record:
    """Return the record by which messages in flight are settled with a transaction."""
    return Record(0, 0, None, None, ((STAGED, _written(runs)),))


def joined_of(header: BatchHeader, data: Buffer, base_offset: int, wall_ms_min: int) -> Joined:
    """Return what a transaction's batch brings.

    Raises:
        RecordError: the batch is damaged.
    """
    if header.is_sealed:
        return _told(header, data, base_offset, wall_ms_min)
    runs = _staged_in(data)
    if runs is not None:
        return Joined(None, runs)
    return Joined(arrival_of(header, data, base_offset, wall_ms_min))


def told_of_joined(header: BatchHeader, data: Buffer, wall_ms_min: int) -> bytes:
    """Return what followers have to know of a transaction's batch that is about to be sealed.

    Raises:
        RecordError: the batch is damaged.
    """
    runs = _staged_in(data)
    if runs is not None:
        return _RUNS + _written(runs)
    return _ARRIVAL + told_of(header, data, wall_ms_min)


def end_in(data: Buffer) -> bool | None:
    """Return whether a control batch commits or aborts; None: it ends no transaction."""
    try:
        marker = decode_end_marker(decode_batch(data, _MARKER_BYTES_MAX)[0])
    except (RecordError, IndexError):
        return None
    return marker.type is MarkerType.COMMIT


def _told(header: BatchHeader, data: Buffer, base_offset: int, wall_ms_min: int) -> Joined:
    told = told_by(data, header._replace(at=0))
    kind, rest = told[:1], told[1:]
    if kind == _RUNS:
        return Joined(None, _read(rest))
    return Joined(arrival_told(header, rest, base_offset, wall_ms_min))


def _staged_in(data: Buffer) -> tuple[Run, ...] | None:
    if bytes(data).find(_STAGED) < 0:
        return None
    for record in decode_batch(data, _BATCH_BYTES_MAX):
        for name, value in record.headers:
            if name == STAGED:
                return _read(value or b"")
    return None


def _written(runs: tuple[Run, ...]) -> bytes:
    writer = Writer()
    writer.runs(runs)
    return bytes(writer.data)


def _read(data: bytes) -> tuple[Run, ...]:
    reader = Reader(data)
    try:
        runs = reader.runs()
        reader.end()
    except BadDecision as error:
        raise CorruptBatch(f"what a transaction settles cannot be read: {error}") from error
    return runs
