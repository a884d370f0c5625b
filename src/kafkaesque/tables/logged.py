"""What a table on a partition has in that partition's log: control batches that clients skip.

A batch has one record. Its key is that of Kafka's control records, four bytes: version 0, and a
type that no client knows (20821), so all that were tried move past it; its producer id is -1.
The value, big-endian: version, what it is (decisions, or a part of a snapshot), the table's number
on its partition, the lock time and the wall time of the turn; then decisions, each with its length,
or how many parts of a snapshot are before this one and how many follow, and the part.

A snapshot is the state as of the first offset of its first part: of all that is before it in the
log. Its parts stand directly behind one another. One that was begun and not finished, or of which
the first parts were removed, counts for nothing.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from kafkaesque.model.batch import HEADER_BYTES, BatchHeader
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record, decode_batch

#: The type of our control records; Kafka's own count from zero.
CONTROL_TYPE = 20_821
CONTROL_KEY = struct.Struct(">hh").pack(0, CONTROL_TYPE)
#: A batch is not longer than this, but for one decision that alone is.
PART_BYTES_MAX = 256 * 1024
#: What a batch takes in the log beside its decisions, about.
BATCH_BYTES = 100

_VERSION = 0
_HEAD = struct.Struct(">BBHqq")
_LENGTH = struct.Struct(">I")
_PARTS = struct.Struct(">II")
_OPTIONS = BatchOptions(control=True)
_NO_PRODUCER = -1
#: The value's first fields end before this, behind the numbers and the key of its record.
_HEAD_BYTES_MAX = 64
#: The bit of a varint's byte that says that another one follows.
_MORE = 0x80
#: What our batches may decompress to; they are not compressed.
_BYTES_MAX = 64 * 1024 * 1024


class LoggedKind(IntEnum):
    """What a batch says."""

    DECISIONS = 0
    SNAPSHOT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What one control batch says to one table."""

    kind: LoggedKind
    table: int
    #: The leader's monotonic time, which goes on from leader to leader; see `ReplicatedTable`.
    lock_ms: int
    #: Unix time, which never goes back.
    wall_ms: int
    decisions: tuple[bytes, ...] = ()
    #: Parts of this snapshot that are before this one, and that follow.
    parts_before: int = 0
    parts_left: int = 0
    part: bytes = b""


def write_logged(logged: Logged) -> bytearray:
    """Return the batch, for any offset."""
    parts = [
        _HEAD.pack(_VERSION, logged.kind, logged.table, logged.lock_ms, logged.wall_ms),
    ]
    if logged.kind is LoggedKind.DECISIONS:
        for decision in logged.decisions:
            parts += (_LENGTH.pack(len(decision)), decision)
    else:
        parts += (_PARTS.pack(logged.parts_before, logged.parts_left), logged.part)
    return encode_batch([Record(0, logged.wall_ms, CONTROL_KEY, b"".join(parts), ())], _OPTIONS)


def may_be_snapshot(header: BatchHeader, data: Buffer) -> bool:
    """Whether a batch may be a part of a snapshot: for who looks for one among many decisions.

    That needs a few bytes. What is a part for sure, `read_logged` says.
    """
    if not header.is_control or header.producer_id != _NO_PRODUCER:
        return False
    head = bytes(data[HEADER_BYTES : HEADER_BYTES + _HEAD_BYTES_MAX])
    at = head.find(CONTROL_KEY)
    if header.is_compressed or at < 0:
        return True
    at += len(CONTROL_KEY)
    while at < len(head) and head[at] & _MORE:
        at += 1
    # Behind the length comes the version, then what it is.
    return at + 2 >= len(head) or head[at + 2] != LoggedKind.DECISIONS


def read_logged(header: BatchHeader, data: Buffer) -> Logged | None:
    """Return what a batch says to a table; None for whatever else is in a partition's log.

    A version that is not known here is passed over like a type that is not known: such batches
    come only where a feature level has let them.
    """
    if not header.is_control or header.producer_id != _NO_PRODUCER:
        return None
    try:
        record = decode_batch(data, _BYTES_MAX)[0]
    except (RecordError, IndexError):
        return None
    value = record.value
    if record.key != CONTROL_KEY or value is None or len(value) < _HEAD.size:
        return None
    version, kind, table, lock_ms, wall_ms = _HEAD.unpack_from(value)
    if version != _VERSION or kind not in (LoggedKind.DECISIONS, LoggedKind.SNAPSHOT):
        return None
    try:
        if kind == LoggedKind.DECISIONS:
            return Logged(
                kind=LoggedKind.DECISIONS,
                table=table,
                lock_ms=lock_ms,
                wall_ms=wall_ms,
                decisions=tuple(_read_decisions(value)),
            )
        parts_before, parts_left = _PARTS.unpack_from(value, _HEAD.size)
    except struct.error:
        return None
    return Logged(
        kind=LoggedKind.SNAPSHOT,
        table=table,
        lock_ms=lock_ms,
        wall_ms=wall_ms,
        parts_before=parts_before,
        parts_left=parts_left,
        part=value[_HEAD.size + _PARTS.size :],
    )


def _read_decisions(value: bytes) -> Sequence[bytes]:
    decisions, position = [], _HEAD.size
    while position < len(value):
        (length,) = _LENGTH.unpack_from(value, position)
        position += _LENGTH.size
        decisions.append(value[position : position + length])
        position += length
    if position != len(value):
        raise struct.error("a decision is cut off")
    return decisions
