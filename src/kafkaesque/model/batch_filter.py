"""Leaving records out of a batch: what stays keeps its bytes, its offset and its timestamp.

Nothing is decoded into objects and encoded again, so what the format allows and we do not read
(attributes of records, header names that are not UTF-8) comes out as it went in.
"""

from collections.abc import Sequence

from kafkaesque.model import batch as layout
from kafkaesque.model import compression
from kafkaesque.model.batch import HEADER, LENGTH_OVERHEAD, Attribute, BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.record_errors import Fault, record_error

_INT64_MAX = 2**63 - 1
_UINT64_MASK = 2**64 - 1


def record_starts(payload: Buffer, count: int) -> list[int]:
    """Return where each of `count` records begins, and where the last one ends.

    Raises:
        InvalidRecord: the lengths lead out of the payload.
    """
    starts = [0]
    position = 0
    try:
        for _ in range(count):
            byte = payload[position]
            position += 1
            size = byte & 0x7F
            shift = 7
            while byte > 0x7F and shift <= 28:
                byte = payload[position]
                position += 1
                size |= (byte & 0x7F) << shift
                shift += 7
            # A zigzag number: lengths are never negative, so the sign bit is 0.
            position += size >> 1
            starts.append(position)
    except IndexError:
        raise record_error(Fault.RECORD_LENGTH, 0) from None
    if position > len(payload):
        raise record_error(Fault.RECORD_LENGTH, 0)
    return starts


def filter_batch(
    header: BatchHeader,
    payload: Buffer,
    rows: Sequence[int],
    max_timestamp_ms: int,
    *,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Return the batch with only the records in `rows`, which ascend; its checksum is set.

    `payload` is what `read_payload` gave. Offsets, timestamps, codec, leader epoch and what the
    producer says of itself stay. `max_timestamp_ms` is that of the records that stay; a batch whose
    timestamps a broker has given keeps its own. A `delete_horizon_ms` becomes the batch's base
    timestamp, and its attributes say so (KIP-534).

    Raises:
        ValueError: no rows, or timestamps too far from the horizon for the format.
        InvalidRecord: the records are broken.
    """
    if not rows:
        raise ValueError("a batch keeps at least one record")
    starts = record_starts(payload, header.record_count)
    attributes, base_time = header.attributes, header.base_timestamp_ms
    if delete_horizon_ms is None:
        parts = [payload[starts[row] : starts[row + 1]] for row in rows]
    else:
        shift = base_time - delete_horizon_ms
        parts = [_shifted(payload[starts[row] : starts[row + 1]], shift) for row in rows]
        attributes |= Attribute.DELETE_HORIZON
        base_time = delete_horizon_ms
    records: Buffer = b"".join(parts)
    codec = header.attributes & Attribute.CODEC_MASK
    if codec:
        records = compression.compress(codec, records)
    out = bytearray(layout.HEADER_BYTES) + records
    HEADER.pack_into(
        out,
        0,
        header.base_offset,
        len(out) - LENGTH_OVERHEAD,
        header.partition_leader_epoch,
        layout.MAGIC,
        0,
        attributes,
        header.last_offset_delta,
        base_time,
        header.max_timestamp_ms if header.is_append_time else max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        len(rows),
    )
    checksum = crc32c(memoryview(out)[layout.CHECKED_START :])
    out[layout.MAGIC_END : layout.CHECKED_START] = checksum.to_bytes(4, "big")
    return out


def _shifted(record: Buffer, shift: int) -> bytes:
    """Return a record whose timestamp is counted from a base that is `shift` earlier."""
    _, at = _read_varint(record, 0)
    delta, end = _read_varint(record, at + 1)
    if not -_INT64_MAX - 1 <= delta + shift <= _INT64_MAX:
        raise ValueError("the delete horizon is too far from a record's timestamp")
    body = bytes(record[at : at + 1]) + _varint(delta + shift) + bytes(record[end:])
    return _varint(len(body)) + body


def _read_varint(data: Buffer, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _varint(value: int) -> bytes:
    value = ((value << 1) ^ (value >> 63)) & _UINT64_MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
