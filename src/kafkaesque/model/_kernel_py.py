"""The record kernel in pure Python: what runs where nothing could be compiled.

`_kernel.pyx` has the same functions and raises the same errors on the same input; a change here is
a change there. Bytes come from outside: every length is checked before it is used.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct

from kafkaesque.model._kernel_amqp_py import cut_acks as cut_acks
from kafkaesque.model._kernel_amqp_py import cut_publishes as cut_publishes
from kafkaesque.model._kernel_encode_py import encode_columns as encode_columns
from kafkaesque.model._kernel_encode_py import encode_records as encode_records
from kafkaesque.model._kernel_encode_py import group_rows as group_rows
from kafkaesque.model._kernel_encode_py import hash_partitions as hash_partitions
from kafkaesque.model._kernel_encode_py import murmur2 as murmur2
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.kernel_types import (
    BatchTuple,
    ColumnTuple,
    HeaderColumns,
    Headers,
    RecordTuple,
    TableParts,
)
from kafkaesque.model.record_errors import Fault, RecordError, record_error

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UINT64_MASK = 2**64 - 1

_HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
#: What the length field does not count: base offset and the field itself.
LENGTH_OVERHEAD = 12
#: The smallest thing of any format that can follow a length field (a v0 message).
LEGACY_LENGTH_MIN = 14
#: Bytes up to and including the magic byte, which stands at the same place in all formats.
MAGIC_END = 17
#: First byte that the checksum covers: the attributes.
CHECKED_START = 21
#: A record of six one-byte fields and its length.
RECORD_BYTES_MIN = 7

_CODEC_MASK = 0x07
_CODEC_MAX = 4
_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_HORIZON = 0x40
_RESERVED = 0xFF80
#: Records that are framed otherwise, or cannot be looked into: compressed or sealed.
_HIDDEN = 0x4007

#: One parsed record: timestamp delta, offset delta, key start and length, value start and length,
#: header start and count. Starts are positions in the payload, a length of -1 is null.
_Fields = tuple[int, int, int, int, int, int, int, int]


class _Broken(Exception):
    """A fault inside the records, before anybody knows in which batch."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault

    def error(self, at: int) -> RecordError:
        """Return what to tell about the batch at byte `at`."""
        return record_error(self.fault, at)


# Batches


def scan_batches(
    buffer: Buffer,
    at: int,
    end: int,
    bytes_max: int,
    count_max: int,
    produced: bool,
    walk: bool,
    /,
) -> tuple[list[BatchTuple], int, int]:
    """Check the batches in `buffer[at:end]`, one after another, up to `count_max` of them.

    `produced` applies the rules for what a client may send, otherwise those for what a log may
    hold. `walk` also checks the framing of every record of uncompressed batches.

    Returns the good batches, the position after the last of them, and the `Fault` of the batch
    that begins there (0: `end` or `count_max` was reached). Raises nothing about the content.
    """
    view = memoryview(buffer).cast("B")
    _require_range(at, end, len(view))
    batches: list[BatchTuple] = []
    while at < end and len(batches) < count_max:
        fault = _frame_fault(view, at, end, bytes_max)
        if fault:
            return batches, at, fault
        fields = _HEADER.unpack_from(view, at)
        size = fields[1] + LENGTH_OVERHEAD
        fault = _header_fault(fields, produced)
        latest = fields[8]
        if not fault and walk and not fields[5] & _HIDDEN:
            try:
                payload = bytes(view[at + HEADER_BYTES : at + size])
                walked = _walk(payload, fields[12], fields[6], fields[7], produced)
                latest = latest if fields[5] & _APPEND_TIME or not fields[12] else walked
            except _Broken as broken:
                fault = broken.fault
        if fault:
            return batches, at, fault
        batches.append((at, *fields, latest))
        at += size
    return batches, at, Fault.NONE


def _require_range(at: int, end: int, size: int) -> None:
    if not 0 <= at <= end <= size:
        raise IndexError(f"bytes {at} to {end} are outside of a buffer of {size}")


def _frame_fault(view: memoryview, at: int, end: int, bytes_max: int) -> Fault:
    """Return what is wrong with a batch's outside: its length, its magic byte, its checksum."""
    if end - at < MAGIC_END:
        return Fault.INCOMPLETE
    length = int.from_bytes(view[at + 8 : at + 12], "big", signed=True)
    if length < LEGACY_LENGTH_MIN:
        return Fault.LENGTH
    magic = view[at + 16]
    if magic < 2:
        return Fault.LEGACY_MAGIC
    if magic > 2:
        return Fault.MAGIC
    size = length + LENGTH_OVERHEAD
    if size < HEADER_BYTES:
        return Fault.LENGTH
    if size > bytes_max:
        return Fault.TOO_LARGE
    if size > end - at:
        return Fault.INCOMPLETE
    stated = int.from_bytes(view[at + 17 : at + 21], "big")
    if crc32c(view[at + CHECKED_START : at + size]) != stated:
        return Fault.CHECKSUM
    return Fault.NONE


def _header_fault(fields: tuple[int, ...], produced: bool) -> Fault:
    """Return what is wrong with the header of a batch whose checksum is right."""
    if fields[5] & _CODEC_MASK > _CODEC_MAX:
        return Fault.CODEC
    return _produced_fault(fields) if produced else _stored_fault(fields)


def _produced_fault(fields: tuple[int, ...]) -> Fault:
    _, _, _, _, _, attributes, last_delta, _, _, producer, epoch, sequence, count = fields
    if attributes & _RESERVED:
        return Fault.RESERVED_BITS
    if attributes & _CONTROL:
        return Fault.CONTROL_BIT
    if attributes & _HORIZON:
        return Fault.HORIZON_BIT
    if attributes & _APPEND_TIME:
        return Fault.APPEND_TIME_BIT
    if count < 1 or last_delta != count - 1:
        return Fault.COUNT
    if producer >= 0:
        return Fault.PRODUCER if epoch < 0 or sequence < 0 else Fault.NONE
    return Fault.PRODUCER if producer < -1 or attributes & _TRANSACTIONAL else Fault.NONE


def _stored_fault(fields: tuple[int, ...]) -> Fault:
    base, last_delta, count = fields[0], fields[6], fields[12]
    if base < 0 or last_delta < 0 or base > INT64_MAX - last_delta:
        return Fault.BASE_OFFSET
    if count < 0 or count - 1 > last_delta:
        return Fault.COUNT
    return Fault.NONE


# Records


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a zig-zag number of 32 bits and the position after it."""
    if at < end and (first := data[at]) < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1
    value = shift = 0
    while shift < 35 and at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                break
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise _Broken(Fault.RECORD_VARINT)


def _varlong(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a zig-zag number of 64 bits and the position after it."""
    if at < end and (first := data[at]) < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1
    value = shift = 0
    while shift < 70 and at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise _Broken(Fault.RECORD_VARINT)


def _read_record(data: bytes, at: int, end: int) -> tuple[_Fields, int]:
    """Parse the record at `at`, all of it; return its fields and the position after it."""
    length, at = _varint(data, at, end)
    if length < RECORD_BYTES_MIN - 1 or length > end - at:
        raise _Broken(Fault.RECORD_LENGTH)
    end = at + length
    # The attributes of a record are unused and not looked at.
    timestamp_delta, at = _varlong(data, at + 1, end)
    offset_delta, at = _varint(data, at, end)
    key_bytes, key_at = _varint(data, at, end)
    if key_bytes < -1 or key_bytes > end - key_at:
        raise _Broken(Fault.RECORD_KEY)
    at = key_at + key_bytes if key_bytes > 0 else key_at
    value_bytes, value_at = _varint(data, at, end)
    if value_bytes < -1 or value_bytes > end - value_at:
        raise _Broken(Fault.RECORD_VALUE)
    at = value_at + value_bytes if value_bytes > 0 else value_at
    header_count, headers_at = _varint(data, at, end)
    if header_count < 0 or header_count > (end - headers_at) // 2:
        raise _Broken(Fault.RECORD_HEADERS)
    if _skip_headers(data, headers_at, end, header_count) != end:
        raise _Broken(Fault.RECORD_REST)
    fields = (
        timestamp_delta,
        offset_delta,
        key_at,
        key_bytes,
        value_at,
        value_bytes,
        headers_at,
        header_count,
    )
    return fields, end


def _skip_headers(data: bytes, at: int, end: int, count: int) -> int:
    for _ in range(count):
        length, at = _varint(data, at, end)
        if length < 0 or length > end - at:
            raise _Broken(Fault.RECORD_HEADERS)
        length, at = _varint(data, at + length, end)
        if length < -1 or length > end - at:
            raise _Broken(Fault.RECORD_HEADERS)
        at += max(length, 0)
    return at


def _require_count(size: int, count: int) -> None:
    """Refuse a count that the bytes cannot hold, before anything is allocated for it."""
    if count < 0 or count > size // RECORD_BYTES_MIN:
        raise _Broken(Fault.COUNT)


def _walk(payload: bytes, count: int, last_delta: int, base: int, produced: bool) -> int:
    """Parse every record and return the latest timestamp, or `base` if there is no record."""
    _require_count(len(payload), count)
    at, end, previous, latest = 0, len(payload), -1, None
    for _ in range(count):
        fields, at = _read_record(payload, at, end)
        previous = _next_delta(previous, fields[1], last_delta, produced)
        timestamp = _timestamp(base, fields[0])
        if latest is None or timestamp > latest:
            latest = timestamp
    if at != end:
        raise _Broken(Fault.TRAILING)
    return base if latest is None else latest


def _require_offsets(base: int, last_delta: int) -> None:
    if base < 0 or last_delta < 0 or base > INT64_MAX - last_delta:
        raise _Broken(Fault.BASE_OFFSET)


def _next_delta(previous: int, delta: int, last_delta: int, produced: bool) -> int:
    """Check an offset delta: a producer leaves no gaps, a compacted log may."""
    if delta <= previous or delta > last_delta or (produced and delta != previous + 1):
        raise _Broken(Fault.OFFSET_DELTA)
    return delta


def _timestamp(base: int, delta: int) -> int:
    timestamp = base + delta
    if not -INT64_MAX - 1 <= timestamp <= INT64_MAX:
        raise _Broken(Fault.TIMESTAMP_DELTA)
    return timestamp


def walk_records(
    payload: Buffer,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    produced: bool,
    at: int,
    /,
) -> int:
    """Check the records of a decompressed payload; `at` only names the batch in the error.

    Returns the latest timestamp (`base_timestamp` if there is no record).

    Raises:
        InvalidRecord: the framing, the offsets or the timestamps are not possible.
    """
    try:
        return _walk(_own(payload), count, last_offset_delta, base_timestamp, produced)
    except _Broken as broken:
        raise broken.error(at) from None


def _own(payload: Buffer) -> bytes:
    """Return `bytes`, which Python reads faster than any other buffer."""
    return payload if type(payload) is bytes else bytes(payload)


def decode_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_timestamp: int | None,
    at: int,
    /,
) -> list[RecordTuple]:
    """Return (offset, timestamp, key, value, headers) of every record of a payload.

    With an `append_timestamp` every record has that one.

    Raises:
        CorruptBatch: the batch's offsets do not fit in 63 bits.
        InvalidRecord: the framing, the offsets or the timestamps are not possible.
    """
    data = _own(payload)
    records: list[RecordTuple] = []
    position, end, previous = 0, len(data), -1
    try:
        _require_offsets(base_offset, last_offset_delta)
        _require_count(end, count)
        for _ in range(count):
            fields, position = _read_record(data, position, end)
            delta, previous, key_at, key_bytes, value_at, value_bytes, headers_at, headers = (
                fields[0],
                _next_delta(previous, fields[1], last_offset_delta, False),
                *fields[2:],
            )
            timestamp = _timestamp(base_timestamp, delta)
            records.append(
                (
                    base_offset + previous,
                    timestamp if append_timestamp is None else append_timestamp,
                    None if key_bytes < 0 else data[key_at : key_at + key_bytes],
                    None if value_bytes < 0 else data[value_at : value_at + value_bytes],
                    _headers(data, headers_at, end, headers) if headers else (),
                )
            )
        if position != end:
            raise _Broken(Fault.TRAILING)
    except _Broken as broken:
        raise broken.error(at) from None
    return records


def _headers(data: bytes, at: int, end: int, count: int) -> Headers:
    """Return the headers; a name that is not UTF-8 is read as Java does, not refused."""
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, at = _varint(data, at, end)
        if length < 0 or length > end - at:
            raise _Broken(Fault.RECORD_HEADERS)
        name = data[at : at + length].decode("utf-8", "replace")
        length, at = _varint(data, at + length, end)
        if length < -1 or length > end - at:
            raise _Broken(Fault.RECORD_HEADERS)
        headers.append((name, None if length < 0 else data[at : at + length]))
        at += max(length, 0)
    return tuple(headers)


def read_headers(payload: Buffer, start: int, count: int, /) -> Headers:
    """Return the headers that `decode_columns` located at `start`.

    Raises:
        InvalidRecord: there are no such headers.
        IndexError: `start` is outside of the payload.
    """
    data = _own(payload)
    _require_range(start, len(data), len(data))
    try:
        if count < 0 or count > (len(data) - start) // 2:
            raise _Broken(Fault.RECORD_HEADERS)
        return _headers(data, start, len(data), count)
    except _Broken as broken:
        raise broken.error(0) from None


def decode_columns(
    payload: Buffer,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_timestamp: int | None,
    at: int,
    /,
) -> ColumnTuple:
    """Return where everything is: one array per property, one entry per record.

    Starts are positions in `payload`; a length of -1 is null.

    Raises:
        CorruptBatch: the batch's offsets do not fit in 63 bits.
        InvalidRecord: the framing, the offsets or the timestamps are not possible.
        OverflowError: the payload is larger than 2 GiB.
    """
    data = _own(payload)
    rows: list[_Fields] = []
    position, end, previous = 0, len(data), -1
    if end > INT32_MAX:
        raise OverflowError("a payload is at most 2 GiB")
    try:
        _require_offsets(base_offset, last_offset_delta)
        _require_count(end, count)
        for _ in range(count):
            fields, position = _read_record(data, position, end)
            previous = _next_delta(previous, fields[1], last_offset_delta, False)
            _timestamp(base_timestamp, fields[0])
            rows.append(fields)
        if position != end:
            raise _Broken(Fault.TRAILING)
    except _Broken as broken:
        raise broken.error(at) from None
    columns = list(zip(*rows, strict=True)) if rows else [()] * 8
    if append_timestamp is None:
        times = array("q", [base_timestamp + delta for delta in columns[0]])
    else:
        times = array("q", [append_timestamp]) * count
    offsets = array("q", [base_offset + delta for delta in columns[1]])
    key_at, key_bytes, value_at, value_bytes, headers_at, headers = (
        array("i", column) for column in columns[2:]
    )
    return offsets, times, key_at, key_bytes, value_at, value_bytes, headers_at, headers


def gather(
    payload: Buffer, starts: "array[int]", lengths: "array[int]", /
) -> "tuple[bytes, array[int], bytes, int]":
    """Return a column of byte strings in Arrow's layout.

    That is: the values one after another, n + 1 int32 offsets into them, a bitmap of what is not
    null (least significant bit first), and how many are null.

    Raises:
        ValueError: starts and lengths do not fit each other or the payload.
        OverflowError: the values are more than 2 GiB.
    """
    if starts.typecode != "i" or lengths.typecode != "i" or len(starts) != len(lengths):
        raise ValueError("starts and lengths are two arrays of int32, equally long")
    data = _own(payload)
    total, nulls = 0, 0
    offsets = array("i", [0])
    validity = bytearray((len(starts) + 7) // 8)
    parts: list[bytes] = []
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if length < -1 or start < 0 or start > len(data) or length > len(data) - start:
            raise ValueError("a value is outside of the payload")
        if length < 0:
            nulls += 1
        else:
            validity[row >> 3] |= 1 << (row & 7)
            parts.append(data[start : start + length])
            total += length
        if total > INT32_MAX:
            raise OverflowError("a column holds at most 2 GiB")
        offsets.append(total)
    return b"".join(parts), offsets, bytes(validity), nulls


def gather_into(
    payload: Buffer,
    starts: "array[int]",
    lengths: "array[int]",
    first: int,
    end: int,
    offsets: "array[int]",
    data: bytearray,
    validity: bytearray,
    /,
) -> int:
    """Append rows `first` up to `end` to a column of byte strings in Arrow's layout.

    The column has one offset more than rows and begins with [0], nothing and nothing. Return how
    many of the new rows are null. On an error nothing has been appended.

    Raises:
        ValueError: starts and lengths do not fit each other, the rows or the payload, or the three
            parts are no column.
        OverflowError: the values are more than 2 GiB.
    """
    _require_int32(starts, lengths)
    _require_rows(first, end, len(starts))
    _require_column(offsets, data, validity)
    found, added, total, nulls = _own(payload), array("i"), len(data), 0
    parts: list[bytes] = []
    for row in range(first, end):
        start, length = starts[row], lengths[row]
        if length < -1 or start < 0 or start > len(found) or length > len(found) - start:
            raise ValueError("a value is outside of the payload")
        if length < 0:
            nulls += 1
        else:
            parts.append(found[start : start + length])
            total += length
        if total > INT32_MAX:
            raise OverflowError("a column holds at most 2 GiB")
        added.append(total)
    _put_validity(validity, len(offsets) - 1, [length >= 0 for length in lengths[first:end]])
    offsets.extend(added)
    data += b"".join(parts)
    return nulls


def append_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_timestamp: int | None,
    at: int,
    first_offset: int,
    end_offset: int,
    table: TableParts,
    /,
) -> int:
    """Append the records from `first_offset` to before `end_offset` to a table; return how many.

    All of the payload is checked, as by `decode_columns`. On an error nothing has been appended.

    Raises:
        CorruptBatch: the batch's offsets do not fit in 63 bits.
        InvalidRecord: the framing, the offsets or the timestamps are not possible.
        ValueError: the parts are no table.
        OverflowError: the payload, or a column, would be larger than 2 GiB.
    """
    offsets, timestamps, types, keys, values = table
    if (offsets.typecode, timestamps.typecode, types.typecode) != ("q", "q", "i"):
        raise ValueError("the parts are no table")
    columns = [column for column in (keys, values) if column is not None]
    for column in columns:
        _require_column(*column)
    lengths = {len(timestamps), len(types), *(len(column[0]) - 1 for column in columns)}
    if lengths != {len(offsets)}:
        raise ValueError("the parts are no table")
    found = decode_columns(
        payload, count, base_offset, last_offset_delta, base_timestamp, append_timestamp, at
    )
    first, end = bisect_left(found[0], first_offset), bisect_left(found[0], end_offset)
    end = max(first, end)
    for parts, sizes in ((keys, found[3]), (values, found[5])):
        more = sum(max(size, 0) for size in sizes[first:end])
        if parts is not None and len(parts[1]) + more > INT32_MAX:
            raise OverflowError("a column holds at most 2 GiB")
    if keys is not None:
        gather_into(payload, found[2], found[3], first, end, *keys)
    if values is not None:
        gather_into(payload, found[4], found[5], first, end, *values)
    offsets.extend(found[0][first:end])
    timestamps.extend(found[1][first:end])
    types.extend(array("i", [append_timestamp is not None]) * (end - first))
    return end - first


def gather_headers_into(
    payload: Buffer,
    starts: "array[int]",
    counts: "array[int]",
    first: int,
    end: int,
    columns: HeaderColumns,
    /,
) -> int:
    """Append the headers of rows `first` up to `end` to a column of lists in Arrow's layout.

    A row without headers is null. Names are UTF-8, read as `read_headers` does. Return how many of
    the new rows are null. On an error nothing has been appended.

    Raises:
        InvalidRecord: there are no such headers.
        ValueError: starts and counts do not fit each other, the rows or the payload, or the parts
            are no columns.
        OverflowError: names or values are more than 2 GiB.
    """
    _require_int32(starts, counts)
    _require_rows(first, end, len(starts))
    row_offsets, row_validity, name_offsets, names, value_offsets, values, value_validity = columns
    _require_column(name_offsets, names, None)
    _require_column(value_offsets, values, value_validity)
    if (
        len(row_validity) != len(row_offsets) + 6 >> 3
        or len(name_offsets) != len(value_offsets)
        or row_offsets[-1] != len(name_offsets) - 1
    ):
        raise ValueError("the parts are no columns of headers")
    rows = [
        read_headers(payload, starts[row], counts[row]) if counts[row] else ()
        for row in range(first, end)
    ]
    headers = [(name.encode(), value) for row in rows for name, value in row]
    name_bytes = sum(len(name) for name, _ in headers)
    if max(len(names) + name_bytes, len(values) + len(_own(payload))) > INT32_MAX:
        raise OverflowError("a column holds at most 2 GiB")
    _put_validity(row_validity, len(row_offsets) - 1, [bool(row) for row in rows])
    _put_validity(value_validity, len(value_offsets) - 1, [v is not None for _, v in headers])
    for row in rows:
        row_offsets.append(row_offsets[-1] + len(row))
    for name, value in headers:
        names += name
        name_offsets.append(len(names))
        values += value or b""
        value_offsets.append(len(values))
    return sum(not row for row in rows)


def _require_int32(starts: "array[int]", lengths: "array[int]") -> None:
    if starts.typecode != "i" or lengths.typecode != "i" or len(starts) != len(lengths):
        raise ValueError("starts and lengths are two arrays of int32, equally long")


def _require_rows(first: int, end: int, count: int) -> None:
    if not 0 <= first <= end <= count:
        raise ValueError("there are no such rows")


def _require_column(offsets: "array[int]", data: bytearray, validity: bytearray | None) -> None:
    if offsets.typecode != "i" or not offsets or offsets[-1] != len(data):
        raise ValueError("offsets and data are no column")
    if validity is not None and len(validity) != len(offsets) + 6 >> 3:
        raise ValueError("the validity is not that of the column")


def _put_validity(validity: bytearray, rows: int, valid: Sequence[bool]) -> None:
    """Append a bit for each new row to a bitmap that has `rows` bits."""
    validity.extend(bytes((rows + len(valid) + 7 >> 3) - len(validity)))
    for row, is_valid in enumerate(valid, start=rows):
        if is_valid:
            validity[row >> 3] |= 1 << (row & 7)
