"""The encoding half of the record kernel in pure Python, and its hash; see `_kernel_py`."""

from array import array
from collections.abc import Sequence

from kafkaesque.model.buffers import Buffer
from kafkaesque.model.kernel_types import ArrowColumn

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UINT64_MASK = 2**64 - 1


def encode_records(
    records: Sequence[object],
    base_offset: int,
    base_timestamp: int,
    prefix_bytes: int,
    /,
) -> tuple[bytearray, int, int]:
    """Return the payload after `prefix_bytes` zero bytes, the latest timestamp, the last offset.

    `records` are (offset, timestamp, key, value, headers) with ascending offsets.

    Raises:
        ValueError: no record, offsets that do not ascend from `base_offset`, deltas or sizes
            beyond what the format can hold, a header name that is not Unicode text.
        TypeError: a record, key, value or header of the wrong type.
        OverflowError: an offset or timestamp beyond 64 bits.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    out = bytearray(prefix_bytes)
    base_offset, base_timestamp = _int64(base_offset), _int64(base_timestamp)
    latest, previous = -INT64_MAX - 1, base_offset - 1
    for record in records:
        if not isinstance(record, tuple) or len(record) != 5:
            raise TypeError("a record is (offset, timestamp, key, value, headers)")
        offset, timestamp = _int64(record[0]), _int64(record[1])
        if offset <= previous or offset - base_offset > INT32_MAX:
            raise ValueError("offsets must ascend from the base offset, within 31 bits")
        delta = timestamp - base_timestamp
        if not -INT64_MAX - 1 <= delta <= INT64_MAX:
            raise ValueError("timestamps are too far apart")
        body = bytearray(1)
        _put_varint(body, delta)
        _put_varint(body, offset - base_offset)
        _put_bytes(body, record[2])
        _put_bytes(body, record[3])
        _put_headers(body, record[4])
        if len(out) + len(body) + 5 > INT32_MAX:
            raise ValueError("a batch is at most 2 GiB")
        _put_varint(out, len(body))
        out += body
        previous, latest = offset, max(latest, timestamp)
    return out, latest, previous


def _int64(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("offsets and timestamps are integers")
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise OverflowError("offsets and timestamps have 64 bits")
    return value


def _put_varint(out: bytearray, value: int) -> None:
    value = ((value << 1) ^ (value >> 63)) & UINT64_MASK
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_bytes(out: bytearray, value: object) -> None:
    if value is None:
        out.append(1)
    elif isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        _put_varint(out, len(data))
        out += data
    else:
        raise TypeError("keys and values are bytes or None")


def _put_headers(out: bytearray, headers: object) -> None:
    if not isinstance(headers, tuple | list):
        raise TypeError("headers are a tuple or list of (name, value)")
    _put_varint(out, len(headers))
    for header in headers:
        if not isinstance(header, tuple) or len(header) != 2 or not isinstance(header[0], str):
            raise TypeError("a header is (name, value)")
        _put_bytes(out, header[0].encode())
        _put_bytes(out, header[1])


# From columns


def encode_columns(
    keys: ArrowColumn | None,
    values: ArrowColumn | None,
    count: int,
    rows: "array[int]",
    first: int,
    bytes_max: int,
    prefix_bytes: int,
    /,
) -> tuple[bytearray, int]:
    """Return a payload after `prefix_bytes` zero bytes, and the place in `rows` after its last.

    It holds the rows that `rows` names from place `first` on, as many as fit into `bytes_max` with
    the prefix and at least one; their offsets count from 0 and their timestamps are the base's.
    The columns have `count` rows; a column that is None is null throughout.

    Raises:
        ValueError: there are no such rows, or a row's value is not within its column.
    """
    if rows.typecode != "i" or not 0 <= first < len(rows) or prefix_bytes < 0:
        raise ValueError("there are no such rows")
    columns = [None if each is None else _Column(each, count) for each in (keys, values)]
    out, at = bytearray(prefix_bytes), first
    while at < len(rows):
        if not 0 <= rows[at] < count:
            raise ValueError("there are no such rows")
        body = bytearray(2)
        _put_varint(body, at - first)
        for column in columns:
            _put_nullable(body, None if column is None else column.find(rows[at]))
        body.append(0)
        most = INT32_MAX if at == first else min(bytes_max, INT32_MAX)
        if len(out) + len(body) + 5 > most:
            break
        _put_varint(out, len(body))
        out += body
        at += 1
    if at == first:
        raise ValueError("a batch is at most 2 GiB")
    return out, at


def _put_nullable(out: bytearray, value: memoryview | None) -> None:
    if value is None:
        out.append(1)
    else:
        _put_varint(out, len(value))
        out += value


class _Column:
    """An Arrow column whose buffers are long enough for `count` rows."""

    def __init__(self, column: ArrowColumn, count: int) -> None:
        self._data, offsets, validity, self._first = column
        end = self._first + count
        if self._first < 0 or count < 0 or (count and len(offsets) < 4 * (end + 1)):
            raise ValueError("the rows are not in the column")
        if validity is not None and len(validity) < end + 7 >> 3:
            raise ValueError("the rows are not in the column")
        whole = memoryview(offsets)[: len(offsets) & ~3]
        self._offsets, self._validity = whole.cast("i"), validity

    def find(self, row: int) -> memoryview | None:
        """Return a value."""
        at = self._first + row
        if self._validity is not None and not self._validity[at >> 3] >> (at & 7) & 1:
            return None
        start, end = self._offsets[at], self._offsets[at + 1]
        if not 0 <= start <= end <= len(self._data):
            raise ValueError("a value is outside of the column")
        return memoryview(self._data)[start:end]


def hash_partitions(
    keys: ArrowColumn, count: int, partitions: int, unkeyed: int, /
) -> "array[int]":
    """Return for each row the partition that Kafka's clients choose for its key.

    A row without a key gets `unkeyed`.

    Raises:
        ValueError: the rows are not in the column, or there is no partition.
    """
    column = _Column(keys, count)
    if partitions < 1:
        raise ValueError("a topic has at least one partition")
    found = array("i")
    for row in range(count):
        key = column.find(row)
        found.append(unkeyed if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions)
    return found


def group_rows(partitions: "array[int]", count: int, /) -> "tuple[array[int], array[int]]":
    """Return the rows ordered by their partition, each partition's in their order, and its bounds.

    The rows of partition p stand in the first array from bound p to before bound p + 1.

    Raises:
        ValueError: a row's partition is not one of `count`.
    """
    if partitions.typecode != "i" or not 0 <= count < INT32_MAX:
        raise ValueError("partitions are an array of int32")
    groups: list[list[int]] = [[] for _ in range(count)]
    for row, partition in enumerate(partitions):
        if not 0 <= partition < count:
            raise ValueError("a row's partition does not exist")
        groups[partition].append(row)
    bounds = array("i", [0])
    for group in groups:
        bounds.append(bounds[-1] + len(group))
    return array("i", [row for group in groups for row in group]), bounds


# Hash


def murmur2(key: Buffer, /) -> int:
    """Return Kafka's murmur2 of a key, as an unsigned number of 32 bits.

    Source: the hash by Austin Appleby, with the seed and reading order of Apache Kafka's `Utils`.
    """
    data = bytes(key)
    size = len(data)
    mixed = (0x9747B28C ^ size) & 0xFFFFFFFF
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0x5BD1E995 & 0xFFFFFFFF
        word = (word ^ word >> 24) * 0x5BD1E995 & 0xFFFFFFFF
        mixed = (mixed * 0x5BD1E995 & 0xFFFFFFFF) ^ word
    if size > whole:
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    return mixed ^ mixed >> 15
