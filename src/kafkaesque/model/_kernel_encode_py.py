"""The encoding half of the record kernel in pure Python; `_kernel_py` is the whole."""

from collections.abc import Sequence

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
