# cython: language_level=3, cdivision=True, embedsignature=False, auto_pickle=False
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The record kernel, compiled. `_kernel_py` says what each function promises; this file only says
how it stays within bounds.

All reading is by pointer. Every function takes the buffer once (`PyObject_GetBuffer`), never runs
Python code of a caller while it holds a pointer, and every position is compared with the end of
what surrounds it (buffer, batch, record) before the byte is read. Lengths are compared as
`length > end - at`, which cannot overflow. Faults travel as negative positions.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_Resize,
)
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

import array

from kafkaesque.model.checksum import crc32c as _crc32c
from kafkaesque.model.record_errors import fail as _fail

cdef enum:
    # The numbers of `record_errors.Fault`; a test compares them.
    INCOMPLETE = 1
    LENGTH = 2
    LEGACY_MAGIC = 3
    MAGIC = 4
    TOO_LARGE = 5
    CHECKSUM = 6
    CODEC = 7
    RESERVED_BITS = 8
    CONTROL_BIT = 9
    HORIZON_BIT = 10
    APPEND_TIME_BIT = 11
    COUNT = 12
    BASE_OFFSET = 13
    PRODUCER = 14
    RECORD_LENGTH = 15
    RECORD_VARINT = 16
    RECORD_KEY = 17
    RECORD_VALUE = 18
    RECORD_HEADERS = 19
    RECORD_REST = 20
    OFFSET_DELTA = 21
    TIMESTAMP_DELTA = 22
    TRAILING = 23

cdef enum:
    HEADER_BYTES = 61
    LENGTH_OVERHEAD = 12
    LEGACY_LENGTH_MIN = 14
    MAGIC_END = 17
    CHECKED_START = 21
    RECORD_BYTES_MIN = 7
    CODEC_MASK = 0x07
    CODEC_MAX = 4
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    HORIZON = 0x40
    RESERVED = 0xFF80
    HIDDEN = 0x4007  # framed otherwise: compressed or sealed
    # Columns up to this size grow by more than is needed.
    DOUBLED_BYTES_MAX = 1 << 26

cdef int64_t INT64_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t INT64_MIN = -INT64_MAX - 1
cdef int64_t INT32_MAX = 0x7FFFFFFF

cdef array.array _INT64_TEMPLATE = array.array("q")
cdef array.array _INT32_TEMPLATE = array.array("i")


cdef struct Header:
    int64_t base_offset
    int32_t length
    int32_t leader_epoch
    uint32_t crc
    int attributes
    int32_t last_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer
    int epoch
    int32_t sequence
    int32_t count


cdef struct Fields:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_bytes
    int32_t value_bytes
    int32_t header_count
    Py_ssize_t key_at
    Py_ssize_t value_at
    Py_ssize_t headers_at


# Big-endian numbers; the caller has checked that they lie within the buffer.


cdef inline uint32_t _uint32(const uint8_t* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline int32_t _int32(const uint8_t* p) noexcept nogil:
    return <int32_t>_uint32(p)


cdef inline int64_t _int64(const uint8_t* p) noexcept nogil:
    return <int64_t>((<uint64_t>_uint32(p) << 32) | _uint32(p + 4))


cdef inline int _int16(const uint8_t* p) noexcept nogil:
    cdef int value = (<int>p[0] << 8) | p[1]
    return value - 0x10000 if value & 0x8000 else value


# Varints: return the position after the number, or -RECORD_VARINT.


cdef inline Py_ssize_t _varlong(
    const uint8_t* p, Py_ssize_t at, Py_ssize_t end, int64_t* out
) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 70 and at < end:
        byte = p[at]
        at += 1
        if shift == 63 and byte & 0x7E:
            # Bits 64 and up, which the twin sees only once the number has ended: same refusal.
            return -RECORD_VARINT
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>((value >> 1) ^ (0 - (value & 1)))
            return at
        shift += 7
    return -RECORD_VARINT


cdef inline Py_ssize_t _varint(
    const uint8_t* p, Py_ssize_t at, Py_ssize_t end, int32_t* out
) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 35 and at < end:
        byte = p[at]
        at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                return -RECORD_VARINT
            out[0] = <int32_t>((<uint32_t>value >> 1) ^ (0 - (<uint32_t>value & 1)))
            return at
        shift += 7
    return -RECORD_VARINT


# Records


cdef inline Py_ssize_t _skip_headers(
    const uint8_t* p, Py_ssize_t at, Py_ssize_t end, int32_t count
) noexcept nogil:
    cdef int32_t i, length = 0
    for i in range(count):
        at = _varint(p, at, end, &length)
        if at < 0:
            return at
        if length < 0 or length > end - at:
            return -RECORD_HEADERS
        at = _varint(p, at + length, end, &length)
        if at < 0:
            return at
        if length < -1 or length > end - at:
            return -RECORD_HEADERS
        if length > 0:
            at += length
    return at


cdef inline Py_ssize_t _read_record(
    const uint8_t* p, Py_ssize_t at, Py_ssize_t end, Fields* out
) noexcept nogil:
    """Parse the record at `at`, all of it; return the position after it, or minus a fault."""
    cdef int32_t length = 0
    at = _varint(p, at, end, &length)
    if at < 0:
        return at
    if length < RECORD_BYTES_MIN - 1 or length > end - at:
        return -RECORD_LENGTH
    end = at + length
    at = _varlong(p, at + 1, end, &out.timestamp_delta)
    if at < 0:
        return at
    at = _varint(p, at, end, &out.offset_delta)
    if at < 0:
        return at
    at = _varint(p, at, end, &out.key_bytes)
    if at < 0:
        return at
    if out.key_bytes < -1 or out.key_bytes > end - at:
        return -RECORD_KEY
    out.key_at = at
    if out.key_bytes > 0:
        at += out.key_bytes
    at = _varint(p, at, end, &out.value_bytes)
    if at < 0:
        return at
    if out.value_bytes < -1 or out.value_bytes > end - at:
        return -RECORD_VALUE
    out.value_at = at
    if out.value_bytes > 0:
        at += out.value_bytes
    at = _varint(p, at, end, &out.header_count)
    if at < 0:
        return at
    if out.header_count < 0 or out.header_count > (end - at) // 2:
        return -RECORD_HEADERS
    out.headers_at = at
    if out.header_count:
        at = _skip_headers(p, at, end, out.header_count)
        if at < 0:
            return at
    return end if at == end else -RECORD_REST


cdef inline int _sequence_fault(
    Fields* fields, int64_t previous, int64_t last_delta, int64_t base, bint produced
) noexcept nogil:
    """Return what is wrong with a record's offset and timestamp, or 0."""
    cdef int64_t delta = fields.offset_delta
    if delta <= previous or delta > last_delta or (produced and delta != previous + 1):
        return OFFSET_DELTA
    delta = fields.timestamp_delta
    if (delta > 0 and base > INT64_MAX - delta) or (delta < 0 and base < INT64_MIN - delta):
        return TIMESTAMP_DELTA
    return 0


cdef inline int _count_fault(Py_ssize_t size, int64_t count) noexcept nogil:
    return COUNT if count < 0 or count > size // RECORD_BYTES_MIN else 0


cdef int _walk(
    const uint8_t* p,
    Py_ssize_t size,
    int64_t count,
    int64_t last_delta,
    int64_t base,
    bint produced,
    int64_t* latest,
) noexcept nogil:
    """Parse every record; return a fault or 0, and the latest timestamp in `latest`."""
    cdef Fields fields
    cdef Py_ssize_t at = 0
    cdef int64_t i, previous = -1
    cdef int fault = _count_fault(size, count)
    if fault:
        return fault
    latest[0] = INT64_MIN if count else base
    for i in range(count):
        at = _read_record(p, at, size, &fields)
        if at < 0:
            return <int>-at
        fault = _sequence_fault(&fields, previous, last_delta, base, produced)
        if fault:
            return fault
        previous = fields.offset_delta
        if base + fields.timestamp_delta > latest[0]:
            latest[0] = base + fields.timestamp_delta
    return 0 if at == size else TRAILING


# Batches


cdef void _read_header(const uint8_t* p, Header* out) noexcept nogil:
    out.base_offset = _int64(p)
    out.length = _int32(p + 8)
    out.leader_epoch = _int32(p + 12)
    out.crc = _uint32(p + 17)
    out.attributes = _int16(p + 21)
    out.last_delta = _int32(p + 23)
    out.base_timestamp = _int64(p + 27)
    out.max_timestamp = _int64(p + 35)
    out.producer = _int64(p + 43)
    out.epoch = _int16(p + 51)
    out.sequence = _int32(p + 53)
    out.count = _int32(p + 57)


cdef int _frame_fault(const uint8_t* p, Py_ssize_t rest, int64_t bytes_max) except -1:
    """Return what is wrong with a batch's outside, of which `rest` bytes may be read."""
    cdef int64_t length
    if rest < MAGIC_END:
        return INCOMPLETE
    length = _int32(p + 8)
    if length < LEGACY_LENGTH_MIN:
        return LENGTH
    if p[16] < 2:
        return LEGACY_MAGIC
    if p[16] > 2:
        return MAGIC
    length += LENGTH_OVERHEAD
    if length < HEADER_BYTES:
        return LENGTH
    if length > bytes_max:
        return TOO_LARGE
    if length > rest:
        return INCOMPLETE
    checked = PyMemoryView_FromMemory(
        <char*>p + CHECKED_START, <Py_ssize_t>length - CHECKED_START, PyBUF_READ
    )
    return 0 if <uint32_t>_crc32c(checked) == _uint32(p + 17) else CHECKSUM


cdef int _header_fault(Header* header, bint produced) noexcept nogil:
    if header.attributes & CODEC_MASK > CODEC_MAX:
        return CODEC
    return _produced_fault(header) if produced else _stored_fault(header)


cdef int _produced_fault(Header* header) noexcept nogil:
    if header.attributes & RESERVED:
        return RESERVED_BITS
    if header.attributes & CONTROL:
        return CONTROL_BIT
    if header.attributes & HORIZON:
        return HORIZON_BIT
    if header.attributes & APPEND_TIME:
        return APPEND_TIME_BIT
    if header.count < 1 or header.last_delta != header.count - 1:
        return COUNT
    if header.producer >= 0:
        return PRODUCER if header.epoch < 0 or header.sequence < 0 else 0
    return PRODUCER if header.producer < -1 or header.attributes & TRANSACTIONAL else 0


cdef int _stored_fault(Header* header) noexcept nogil:
    if _offsets_fault(header.base_offset, header.last_delta):
        return BASE_OFFSET
    return COUNT if header.count < 0 or header.count > <int64_t>header.last_delta + 1 else 0


cdef inline int _offsets_fault(int64_t base, int64_t last_delta) noexcept nogil:
    return BASE_OFFSET if base < 0 or last_delta < 0 or base > INT64_MAX - last_delta else 0


cdef tuple _batch_tuple(Py_ssize_t at, Header* h, int64_t latest):
    return (
        at,
        h.base_offset,
        h.length,
        h.leader_epoch,
        2,
        h.crc,
        h.attributes,
        h.last_delta,
        h.base_timestamp,
        h.max_timestamp,
        h.producer,
        h.epoch,
        h.sequence,
        h.count,
        latest,
    )


cdef int _scan_one(
    const uint8_t* p, Py_ssize_t rest, int64_t bytes_max, bint produced, bint walk,
    Header* header, int64_t* latest,
) except -1:
    """Check the batch at `p` and return a fault or 0."""
    cdef int fault = _frame_fault(p, rest, bytes_max)
    if fault:
        return fault
    _read_header(p, header)
    latest[0] = header.max_timestamp
    fault = _header_fault(header, produced)
    if fault or not walk or header.attributes & HIDDEN:
        return fault
    fault = _walk(
        p + HEADER_BYTES,
        header.length + LENGTH_OVERHEAD - HEADER_BYTES,
        header.count,
        header.last_delta,
        header.base_timestamp,
        produced,
        latest,
    )
    if header.attributes & APPEND_TIME or not header.count:
        latest[0] = header.max_timestamp
    return fault


cdef int _require_range(Py_ssize_t at, Py_ssize_t end, Py_ssize_t size) except -1:
    if at < 0 or at > end or end > size:
        raise IndexError(f"bytes {at} to {end} are outside of a buffer of {size}")
    return 0


def scan_batches(
    buffer,
    Py_ssize_t at,
    Py_ssize_t end,
    int64_t bytes_max,
    Py_ssize_t count_max,
    bint produced,
    bint walk,
    /,
):
    cdef Py_buffer view
    cdef Header header
    cdef int64_t latest = 0
    cdef int fault = 0
    cdef list batches = []
    cdef const uint8_t* p
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        _require_range(at, end, view.len)
        p = <const uint8_t*>view.buf
        while at < end and len(batches) < count_max:
            fault = _scan_one(p + at, end - at, bytes_max, produced, walk, &header, &latest)
            if fault:
                break
            batches.append(_batch_tuple(at, &header, latest))
            at += <Py_ssize_t>header.length + LENGTH_OVERHEAD
        return batches, at, fault
    finally:
        PyBuffer_Release(&view)


def walk_records(
    payload,
    int64_t count,
    int64_t last_offset_delta,
    int64_t base_timestamp,
    bint produced,
    Py_ssize_t at,
    /,
):
    cdef Py_buffer view
    cdef int64_t latest = 0
    cdef int fault
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        # It may take 25 ms, in a thread that is there so that others need not wait.
        with nogil:
            fault = _walk(
                <const uint8_t*>view.buf,
                view.len,
                count,
                last_offset_delta,
                base_timestamp,
                produced,
                &latest,
            )
    finally:
        PyBuffer_Release(&view)
    if fault:
        _fail(fault, at)
    return latest


cdef tuple _headers(const uint8_t* p, Py_ssize_t at, Py_ssize_t end, int32_t count):
    """Read headers; on a fault the result is `(fault,)`, which no headers look like."""
    cdef list headers = []
    cdef int32_t i, length = 0
    cdef str name
    for i in range(count):
        at = _varint(p, at, end, &length)
        if at < 0:
            return (-at,)
        if length < 0 or length > end - at:
            return (RECORD_HEADERS,)
        name = PyUnicode_DecodeUTF8(<const char*>p + at, length, "replace")
        at = _varint(p, at + length, end, &length)
        if at < 0:
            return (-at,)
        if length < -1 or length > end - at:
            return (RECORD_HEADERS,)
        headers.append((name, _slice(p, at, length)))
        if length > 0:
            at += length
    return tuple(headers)


cdef inline object _slice(const uint8_t* p, Py_ssize_t at, int32_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char*>p + at, length)


def decode_records(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t last_offset_delta,
    int64_t base_timestamp,
    append_timestamp,
    Py_ssize_t at,
    /,
):
    cdef Py_buffer view
    cdef Fields fields
    cdef const uint8_t* p
    cdef list records = []
    cdef bint appended = append_timestamp is not None
    cdef int64_t fixed = append_timestamp if appended else 0
    cdef int64_t i, previous = -1
    cdef Py_ssize_t position = 0
    cdef int fault
    cdef tuple headers
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t*>view.buf
        fault = _offsets_fault(base_offset, last_offset_delta) or _count_fault(view.len, count)
        if not fault:
            for i in range(count):
                position = _read_record(p, position, view.len, &fields)
                if position < 0:
                    fault = <int>-position
                    break
                fault = _sequence_fault(
                    &fields, previous, last_offset_delta, base_timestamp, False
                )
                if fault:
                    break
                previous = fields.offset_delta
                headers = ()
                if fields.header_count:
                    headers = _headers(p, fields.headers_at, position, fields.header_count)
                records.append((
                    base_offset + previous,
                    fixed if appended else base_timestamp + fields.timestamp_delta,
                    _slice(p, fields.key_at, fields.key_bytes),
                    _slice(p, fields.value_at, fields.value_bytes),
                    headers,
                ))
        if not fault and position != view.len:
            fault = TRAILING
    finally:
        PyBuffer_Release(&view)
    if fault:
        _fail(fault, at)
    return records


def read_headers(payload, Py_ssize_t start, int64_t count, /):
    cdef Py_buffer view
    cdef tuple headers
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        _require_range(start, view.len, view.len)
        if count < 0 or count > (view.len - start) // 2 or count > INT32_MAX:
            headers = (RECORD_HEADERS,)
        else:
            headers = _headers(<const uint8_t*>view.buf, start, view.len, <int32_t>count)
    finally:
        PyBuffer_Release(&view)
    if headers and type(headers[0]) is int:
        _fail(headers[0], 0)
    return headers


def decode_columns(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t last_offset_delta,
    int64_t base_timestamp,
    append_timestamp,
    Py_ssize_t at,
    /,
):
    cdef Py_buffer view
    cdef bint appended = append_timestamp is not None
    cdef int64_t fixed = append_timestamp if appended else 0
    cdef tuple columns = None
    cdef int fault
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        if view.len > INT32_MAX:
            raise OverflowError("a payload is at most 2 GiB")
        fault = _offsets_fault(base_offset, last_offset_delta) or _count_fault(view.len, count)
        if not fault:
            columns = _new_columns(<Py_ssize_t>count)
            fault = _fill_columns(
                <const uint8_t*>view.buf, view.len, count, base_offset, last_offset_delta,
                base_timestamp, appended, fixed, columns,
            )
    finally:
        PyBuffer_Release(&view)
    if fault:
        _fail(fault, at)
    return columns


cdef tuple _new_columns(Py_ssize_t count):
    cdef list columns = [array.clone(_INT64_TEMPLATE, count, False) for _ in range(2)]
    columns.extend([array.clone(_INT32_TEMPLATE, count, False) for _ in range(6)])
    return tuple(columns)


cdef int _fill_columns(
    const uint8_t* p,
    Py_ssize_t size,
    int64_t count,
    int64_t base_offset,
    int64_t last_delta,
    int64_t base_timestamp,
    bint appended,
    int64_t fixed,
    tuple columns,
) except -1:
    """Parse into columns of `count` entries each; return a fault or 0."""
    cdef long long* offsets = (<array.array>columns[0]).data.as_longlongs
    cdef long long* timestamps = (<array.array>columns[1]).data.as_longlongs
    cdef int* key_at = (<array.array>columns[2]).data.as_ints
    cdef int* key_bytes = (<array.array>columns[3]).data.as_ints
    cdef int* value_at = (<array.array>columns[4]).data.as_ints
    cdef int* value_bytes = (<array.array>columns[5]).data.as_ints
    cdef int* headers_at = (<array.array>columns[6]).data.as_ints
    cdef int* headers = (<array.array>columns[7]).data.as_ints
    cdef Fields fields
    cdef Py_ssize_t at = 0
    cdef int64_t i, previous = -1
    cdef int fault
    for i in range(count):
        at = _read_record(p, at, size, &fields)
        if at < 0:
            return <int>-at
        fault = _sequence_fault(&fields, previous, last_delta, base_timestamp, False)
        if fault:
            return fault
        previous = fields.offset_delta
        offsets[i] = base_offset + previous
        timestamps[i] = fixed if appended else base_timestamp + fields.timestamp_delta
        key_at[i] = <int>fields.key_at
        key_bytes[i] = fields.key_bytes
        value_at[i] = <int>fields.value_at
        value_bytes[i] = fields.value_bytes
        headers_at[i] = <int>fields.headers_at
        headers[i] = fields.header_count
    return 0 if at == size else TRAILING


def gather(payload, array.array starts not None, array.array lengths not None, /):
    cdef Py_buffer view
    cdef Py_ssize_t count = len(starts)
    if starts.typecode != "i" or lengths.typecode != "i" or count != len(lengths):
        raise ValueError("starts and lengths are two arrays of int32, equally long")
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        return _gather(
            <const uint8_t*>view.buf, view.len, starts.data.as_ints, lengths.data.as_ints, count
        )
    finally:
        PyBuffer_Release(&view)


cdef tuple _gather(
    const uint8_t* p, Py_ssize_t size, const int* starts, const int* lengths, Py_ssize_t count
):
    cdef array.array offsets = array.clone(_INT32_TEMPLATE, count + 1, False)
    cdef bytes validity = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t* bits = <uint8_t*>PyBytes_AS_STRING(validity)
    cdef int64_t total = 0
    cdef Py_ssize_t i, nulls = 0
    cdef bytes data
    cdef char* out
    memset(bits, 0, (count + 7) // 8)
    offsets.data.as_ints[0] = 0
    for i in range(count):
        if lengths[i] < -1 or starts[i] < 0 or starts[i] > size or lengths[i] > size - starts[i]:
            raise ValueError("a value is outside of the payload")
        if lengths[i] < 0:
            nulls += 1
        else:
            bits[i >> 3] |= <uint8_t>(1 << (i & 7))
            total += lengths[i]
            if total > INT32_MAX:
                raise OverflowError("a column holds at most 2 GiB")
        offsets.data.as_ints[i + 1] = <int>total
    data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>total)
    out = PyBytes_AS_STRING(data)
    for i in range(count):
        if lengths[i] > 0:
            memcpy(out + offsets.data.as_ints[i], p + starts[i], lengths[i])
    return data, offsets, validity, nulls


def gather_into(
    payload,
    array.array starts not None,
    array.array lengths not None,
    Py_ssize_t first,
    Py_ssize_t end,
    array.array offsets not None,
    bytearray data not None,
    bytearray validity not None,
    /,
):
    cdef Py_buffer view
    cdef array.array added
    cdef int64_t total = len(data)
    cdef Py_ssize_t i, nulls = 0
    _require_int32(starts, lengths)
    _require_rows(first, end, len(starts))
    _require_column(offsets, data, validity)
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        added = array.clone(_INT32_TEMPLATE, end - first, False)
        for i in range(first, end):
            if not _is_within(starts.data.as_ints[i], lengths.data.as_ints[i], view.len):
                raise ValueError("a value is outside of the payload")
            if lengths.data.as_ints[i] < 0:
                nulls += 1
            else:
                total += lengths.data.as_ints[i]
                if total > INT32_MAX:
                    raise OverflowError("a column holds at most 2 GiB")
            added.data.as_ints[i - first] = <int>total
        _copy_values(
            <const uint8_t*>view.buf,
            starts.data.as_ints + first,
            lengths.data.as_ints + first,
            end - first,
            len(offsets) - 1,
            total,
            data,
            validity,
        )
    finally:
        PyBuffer_Release(&view)
    array.extend(offsets, added)
    return nulls


cdef inline bint _is_within(int start, int length, Py_ssize_t size) noexcept nogil:
    return length >= -1 and 0 <= start <= size and length <= size - start


cdef int _copy_values(
    const uint8_t* p,
    const int* starts,
    const int* lengths,
    Py_ssize_t count,
    Py_ssize_t rows,
    int64_t total,
    bytearray data,
    bytearray validity,
) except -1:
    """Append values that have been checked, `total` bytes of data in the end."""
    cdef Py_ssize_t i, before = len(data)
    cdef uint8_t* bits
    cdef char* out
    _grow(validity, (rows + count + 7) >> 3)
    _resize(data, <Py_ssize_t>total)
    bits = <uint8_t*>PyByteArray_AS_STRING(validity)
    out = PyByteArray_AS_STRING(data) + before
    for i in range(count):
        if lengths[i] >= 0:
            bits[(rows + i) >> 3] |= <uint8_t>(1 << ((rows + i) & 7))
            memcpy(out, p + starts[i], lengths[i])
            out += lengths[i]
    return 0


cdef int _resize(bytearray data, Py_ssize_t size) except -1:
    """Resize with room for what follows: a bytearray's own eighth has everything copied too often."""
    if DOUBLED_BYTES_MAX > size >= data.__alloc__():
        # Shrinking to more than half of what is allocated keeps it.
        PyByteArray_Resize(data, 2 * size - (size >> 3))
    PyByteArray_Resize(data, size)
    return 0


cdef int _grow(bytearray bits, Py_ssize_t size) except -1:
    """Append zeros."""
    cdef Py_ssize_t before = len(bits)
    _resize(bits, size)
    memset(PyByteArray_AS_STRING(bits) + before, 0, size - before)
    return 0


cdef int _require_int32(array.array starts, array.array lengths) except -1:
    if starts.typecode != "i" or lengths.typecode != "i" or len(starts) != len(lengths):
        raise ValueError("starts and lengths are two arrays of int32, equally long")
    return 0


cdef int _require_rows(Py_ssize_t first, Py_ssize_t end, Py_ssize_t count) except -1:
    if not 0 <= first <= end <= count:
        raise ValueError("there are no such rows")
    return 0


cdef int _require_column(array.array offsets, bytearray data, bytearray validity) except -1:
    cdef Py_ssize_t count = len(offsets)
    if offsets.typecode != "i" or not count or offsets.data.as_ints[count - 1] != len(data):
        raise ValueError("offsets and data are no column")
    if validity is not None and len(validity) != (count + 6) >> 3:
        raise ValueError("the validity is not that of the column")
    return 0


def gather_headers_into(
    payload,
    array.array starts not None,
    array.array counts not None,
    Py_ssize_t first,
    Py_ssize_t end,
    tuple columns not None,
    /,
):
    # Headers are rare and few, so their names and values are taken through objects.
    cdef array.array row_offsets, name_offsets, value_offsets
    cdef bytearray row_validity, names, values, value_validity
    cdef Py_ssize_t row, base, size, nulls = 0, name_bytes = 0
    cdef list rows = []
    cdef tuple headers
    _require_int32(starts, counts)
    _require_rows(first, end, len(starts))
    row_offsets, row_validity, name_offsets, names, value_offsets, values, value_validity = columns
    _require_column(name_offsets, names, None)
    _require_column(value_offsets, values, value_validity)
    if row_offsets.typecode != "i" or not len(row_offsets):
        raise ValueError("the parts are no columns of headers")
    if (
        len(row_validity) != (len(row_offsets) + 6) >> 3
        or len(name_offsets) != len(value_offsets)
        or row_offsets[len(row_offsets) - 1] != len(name_offsets) - 1
    ):
        raise ValueError("the parts are no columns of headers")
    for row in range(first, end):
        headers = ()
        if counts.data.as_ints[row]:
            headers = read_headers(payload, starts.data.as_ints[row], counts.data.as_ints[row])
        headers = tuple([(name.encode(), value) for name, value in headers])
        for name, _ in headers:
            name_bytes += len(name)
        rows.append(headers)
    size = memoryview(payload).nbytes
    if len(names) + name_bytes > INT32_MAX or len(values) + size > INT32_MAX:
        raise OverflowError("a column holds at most 2 GiB")
    base = len(row_offsets) - 1
    _grow(row_validity, (base + len(rows) + 7) >> 3)
    for row in range(len(rows)):
        headers = rows[row]
        if headers:
            row_validity[(base + row) >> 3] |= 1 << ((base + row) & 7)
        else:
            nulls += 1
        for name, value in headers:
            size = len(value_offsets) - 1
            _grow(value_validity, (size + 8) >> 3)
            if value is not None:
                value_validity[size >> 3] |= 1 << (size & 7)
                values += value
            names += name
            name_offsets.append(len(names))
            value_offsets.append(len(values))
        row_offsets.append(len(name_offsets) - 1)
    return nulls


def append_records(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t last_offset_delta,
    int64_t base_timestamp,
    append_timestamp,
    Py_ssize_t at,
    int64_t first_offset,
    int64_t end_offset,
    tuple table not None,
    /,
):
    cdef Py_buffer view
    cdef bint appended = append_timestamp is not None
    cdef int64_t fixed = append_timestamp if appended else 0
    cdef array.array offsets, timestamps, types, scratch
    cdef Py_ssize_t before, rows = 0
    cdef int fault
    offsets, timestamps, types, keys, values = table
    before = len(offsets)
    if offsets.typecode != "q" or timestamps.typecode != "q" or types.typecode != "i":
        raise ValueError("the parts are no table")
    if len(timestamps) != before or len(types) != before:
        raise ValueError("the parts are no table")
    for column in (keys, values):
        if column is not None:
            _require_column(column[0], column[1], column[2])
            if len(column[0]) != before + 1:
                raise ValueError("the parts are no table")
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        if view.len > INT32_MAX:
            raise OverflowError("a payload is at most 2 GiB")
        fault = _offsets_fault(base_offset, last_offset_delta) or _count_fault(view.len, count)
        if not fault:
            # Starts and lengths of keys, and of values; the rows' places are written at once.
            scratch = array.clone(_INT32_TEMPLATE, 4 * count, False)
            array.resize_smart(offsets, before + count)
            array.resize_smart(timestamps, before + count)
            try:
                fault = _find_rows(
                    <const uint8_t*>view.buf, view.len, count, base_offset, last_offset_delta,
                    base_timestamp, appended, fixed, first_offset, end_offset,
                    offsets.data.as_longlongs + before, timestamps.data.as_longlongs + before,
                    scratch.data.as_ints, &rows,
                )
                if fault:
                    rows = 0
                elif rows:
                    _require_room(keys, scratch.data.as_ints + count, rows)
                    _require_room(values, scratch.data.as_ints + 3 * count, rows)
            except BaseException:
                rows = 0
                raise
            finally:
                array.resize_smart(offsets, before + rows)
                array.resize_smart(timestamps, before + rows)
            if rows:
                array.resize_smart(types, before + rows)
                for i in range(rows):
                    types.data.as_ints[before + i] = appended
                _append_column(
                    keys, <const uint8_t*>view.buf, scratch.data.as_ints,
                    scratch.data.as_ints + count, rows, before,
                )
                _append_column(
                    values, <const uint8_t*>view.buf, scratch.data.as_ints + 2 * count,
                    scratch.data.as_ints + 3 * count, rows, before,
                )
    finally:
        PyBuffer_Release(&view)
    if fault:
        _fail(fault, at)
    return rows


cdef int _find_rows(
    const uint8_t* p,
    Py_ssize_t size,
    int64_t count,
    int64_t base_offset,
    int64_t last_delta,
    int64_t base_timestamp,
    bint appended,
    int64_t fixed,
    int64_t first_offset,
    int64_t end_offset,
    long long* offsets,
    long long* timestamps,
    int* places,
    Py_ssize_t* rows,
) noexcept nogil:
    """Check all records and note those within the bounds; return a fault or 0."""
    cdef Fields fields
    cdef Py_ssize_t at = 0, row = 0
    cdef int64_t i, offset, previous = -1
    cdef int fault
    for i in range(count):
        at = _read_record(p, at, size, &fields)
        if at < 0:
            return <int>-at
        fault = _sequence_fault(&fields, previous, last_delta, base_timestamp, False)
        if fault:
            return fault
        previous = fields.offset_delta
        offset = base_offset + previous
        if first_offset <= offset < end_offset:
            offsets[row] = offset
            timestamps[row] = fixed if appended else base_timestamp + fields.timestamp_delta
            places[row] = <int>fields.key_at
            places[count + row] = fields.key_bytes
            places[2 * count + row] = <int>fields.value_at
            places[3 * count + row] = fields.value_bytes
            row += 1
    rows[0] = row
    return 0 if at == size else TRAILING


cdef int _require_room(column, const int* lengths, Py_ssize_t rows) except -1:
    cdef int64_t total
    cdef Py_ssize_t i
    if column is None:
        return 0
    total = len(column[1])
    for i in range(rows):
        total += max(lengths[i], 0)
    if total > INT32_MAX:
        raise OverflowError("a column holds at most 2 GiB")
    return 0


cdef int _append_column(
    column,
    const uint8_t* p,
    const int* starts,
    const int* lengths,
    Py_ssize_t rows,
    Py_ssize_t before,
) except -1:
    """Append values for which there is room."""
    cdef array.array offsets
    cdef int64_t total
    cdef Py_ssize_t i
    if column is None:
        return 0
    offsets = column[0]
    total = len(column[1])
    array.resize_smart(offsets, before + 1 + rows)
    for i in range(rows):
        total += max(lengths[i], 0)
        offsets.data.as_ints[before + 1 + i] = <int>total
    _copy_values(p, starts, lengths, rows, before, total, column[1], column[2])
    return 0


# Encoding


cdef inline int _varint_bytes(int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


cdef inline char* _put_varint(char* p, int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while rest > 0x7F:
        p[0] = <char>(<uint8_t>(rest & 0x7F | 0x80))
        p += 1
        rest >>= 7
    p[0] = <char>(<uint8_t>rest)
    return p + 1


cdef inline char* _put_bytes(char* p, bytes data) noexcept:
    cdef Py_ssize_t size
    if data is None:
        return _put_varint(p, -1)
    size = PyBytes_GET_SIZE(data)
    p = _put_varint(p, size)
    memcpy(p, PyBytes_AS_STRING(data), size)
    return p + size


cdef inline int64_t _bytes_bytes(bytes data) noexcept:
    """Return what a nullable byte string takes with its length."""
    cdef Py_ssize_t size
    if data is None:
        return 1
    size = PyBytes_GET_SIZE(data)
    return size + _varint_bytes(size)


cdef inline bytes _as_bytes(value):
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError("keys and values are bytes or None")


cdef int64_t _as_int64(value) except? -1:
    if not isinstance(value, int):
        raise TypeError("offsets and timestamps are integers")
    return <int64_t>value


cdef list _as_headers(headers):
    """Return [name, value, name, value ...] as bytes that nobody else can change."""
    cdef list flat = []
    if not isinstance(headers, (tuple, list)):
        raise TypeError("headers are a tuple or list of (name, value)")
    for header in tuple(headers):
        if not isinstance(header, tuple) or len(header) != 2 or not isinstance(header[0], str):
            raise TypeError("a header is (name, value)")
        flat.append((<str>header[0]).encode("utf-8"))
        flat.append(_as_bytes(header[1]))
    return flat


cdef class _Writer:
    """A growing bytearray; `used` of its bytes are written."""

    cdef bytearray out
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity

    def __cinit__(self, Py_ssize_t prefix_bytes, Py_ssize_t capacity):
        self.out = bytearray(prefix_bytes)
        PyByteArray_Resize(self.out, prefix_bytes + capacity)
        self.used = prefix_bytes
        self.capacity = prefix_bytes + capacity

    cdef int put(
        self, int64_t timestamp_delta, int64_t offset_delta, bytes key, bytes value, list headers
    ) except -1:
        cdef int64_t size = 1 + _varint_bytes(timestamp_delta) + _varint_bytes(offset_delta)
        cdef Py_ssize_t i, count = len(headers) if headers is not None else 0
        cdef char* p
        size += _bytes_bytes(key) + _bytes_bytes(value) + _varint_bytes(count // 2)
        for i in range(count):
            size += _bytes_bytes(<bytes>headers[i])
        if self.used + size + 5 > INT32_MAX:
            raise ValueError("a batch is at most 2 GiB")
        self.reserve(<Py_ssize_t>size + 5)
        p = _put_varint(PyByteArray_AS_STRING(self.out) + self.used, size)
        p[0] = 0
        p = _put_varint(p + 1, timestamp_delta)
        p = _put_varint(p, offset_delta)
        p = _put_bytes(p, key)
        p = _put_bytes(p, value)
        p = _put_varint(p, count // 2)
        for i in range(count):
            p = _put_bytes(p, <bytes>headers[i])
        self.used = p - PyByteArray_AS_STRING(self.out)
        return 0

    cdef int reserve(self, Py_ssize_t more) except -1:
        if self.used + more > self.capacity:
            self.capacity = 2 * self.capacity + more
            PyByteArray_Resize(self.out, self.capacity)
        return 0

    cdef bytearray finish(self):
        PyByteArray_Resize(self.out, self.used)
        return self.out


def encode_records(
    records, int64_t base_offset, int64_t base_timestamp, Py_ssize_t prefix_bytes, /
):
    cdef int64_t offset, timestamp, latest = INT64_MIN, previous = 0
    cdef bint first = True
    cdef _Writer writer
    cdef tuple record
    cdef list headers
    if not records:
        raise ValueError("a batch has at least one record")
    writer = _Writer(prefix_bytes, 64 * len(records))
    for item in records:
        if not isinstance(item, tuple) or len(item) != 5:
            raise TypeError("a record is (offset, timestamp, key, value, headers)")
        # A named tuple is one too; the cast skips the exact type check.
        record = <tuple>item
        offset = _as_int64(record[0])
        timestamp = _as_int64(record[1])
        if (
            offset < base_offset
            or (not first and offset <= previous)
            or <uint64_t>offset - <uint64_t>base_offset > <uint64_t>INT32_MAX
        ):
            raise ValueError("offsets must ascend from the base offset, within 31 bits")
        if (base_timestamp < 0 and timestamp > INT64_MAX + base_timestamp) or (
            base_timestamp > 0 and timestamp < INT64_MIN + base_timestamp
        ):
            raise ValueError("timestamps are too far apart")
        key = _as_bytes(record[2])
        value = _as_bytes(record[3])
        headers = None if record[4] == () else _as_headers(record[4])
        writer.put(timestamp - base_timestamp, offset - base_offset, key, value, headers)
        first = False
        previous = offset
        latest = max(latest, timestamp)
    return writer.finish(), latest, previous


# Encoding from columns


cdef class _Column:
    """An Arrow column whose buffers are held, and were found long enough for `count` rows."""

    cdef Py_buffer data
    cdef Py_buffer offsets
    cdef Py_buffer validity
    cdef int held
    cdef bint has_validity
    cdef Py_ssize_t first
    cdef Py_ssize_t count

    def __cinit__(self, tuple column not None, Py_ssize_t count):
        data, offsets, validity, first = column
        self.first = first
        self.count = count
        self.has_validity = validity is not None
        if self.first < 0 or count < 0 or self.first > INT32_MAX - count - 8:
            raise ValueError("the rows are not in the column")
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.held = 1
        PyObject_GetBuffer(offsets, &self.offsets, PyBUF_SIMPLE)
        self.held = 2
        if self.has_validity:
            PyObject_GetBuffer(validity, &self.validity, PyBUF_SIMPLE)
            self.held = 3
        if count and self.offsets.len < 4 * (self.first + count + 1):
            raise ValueError("the rows are not in the column")
        if self.has_validity and self.validity.len < (self.first + count + 7) >> 3:
            raise ValueError("the rows are not in the column")

    def __dealloc__(self):
        if self.held > 2:
            PyBuffer_Release(&self.validity)
        if self.held > 1:
            PyBuffer_Release(&self.offsets)
        if self.held > 0:
            PyBuffer_Release(&self.data)

    cdef int64_t find(self, Py_ssize_t row, const uint8_t** start) except -2:
        """Return a value's length, -1 if it is null."""
        cdef Py_ssize_t at = self.first + row
        cdef const int* offsets = <const int*>self.offsets.buf + at
        if self.has_validity and not (<const uint8_t*>self.validity.buf)[at >> 3] >> (at & 7) & 1:
            return -1
        if offsets[0] < 0 or offsets[1] < offsets[0] or offsets[1] > self.data.len:
            raise ValueError("a value is outside of the column")
        start[0] = <const uint8_t*>self.data.buf + offsets[0]
        return offsets[1] - offsets[0]


cdef inline int64_t _value(_Column column, Py_ssize_t row, const uint8_t** start) except -2:
    return -1 if column is None else column.find(row, start)


def encode_columns(
    tuple keys,
    tuple values,
    Py_ssize_t count,
    array.array rows not None,
    Py_ssize_t first,
    int64_t bytes_max,
    Py_ssize_t prefix_bytes,
    /,
):
    cdef _Column key_column = None if keys is None else _Column(keys, count)
    cdef _Column value_column = None if values is None else _Column(values, count)
    cdef const uint8_t* key = NULL
    cdef const uint8_t* value = NULL
    cdef int64_t key_bytes, value_bytes, body, size = prefix_bytes
    cdef Py_ssize_t at = first, row
    cdef bytearray out
    cdef char* p
    if rows.typecode != "i" or not 0 <= first < len(rows) or prefix_bytes < 0:
        raise ValueError("there are no such rows")
    # Once to know the size, once to write.
    while at < len(rows):
        body = _body_bytes(key_column, value_column, count, rows.data.as_ints[at], at - first)
        if size + body + 5 > INT32_MAX or (at > first and size + body + 5 > bytes_max):
            break
        size += _varint_bytes(body) + body
        at += 1
    if at == first:
        raise ValueError("a batch is at most 2 GiB")
    out = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>size)
    p = PyByteArray_AS_STRING(out)
    memset(p, 0, prefix_bytes)
    p += prefix_bytes
    for row in range(first, at):
        key_bytes = _value(key_column, rows.data.as_ints[row], &key)
        value_bytes = _value(value_column, rows.data.as_ints[row], &value)
        body = (
            3 + _varint_bytes(row - first) + _varint_bytes(key_bytes) + _varint_bytes(value_bytes)
            + max(key_bytes, 0) + max(value_bytes, 0)
        )
        p = _put_varint(p, body)
        p[0] = 0
        p[1] = 0
        p = _put_varint(p + 2, row - first)
        p = _put_value(p, key, key_bytes)
        p = _put_value(p, value, value_bytes)
        p[0] = 0
        p += 1
    return out, at


cdef int64_t _body_bytes(
    _Column keys, _Column values, Py_ssize_t count, Py_ssize_t row, Py_ssize_t delta
) except -2:
    """Return the bytes of a record without its length."""
    cdef const uint8_t* start = NULL
    cdef int64_t key_bytes, value_bytes
    if not 0 <= row < count:
        raise ValueError("there are no such rows")
    key_bytes = _value(keys, row, &start)
    value_bytes = _value(values, row, &start)
    return (
        3 + _varint_bytes(delta) + _varint_bytes(key_bytes) + _varint_bytes(value_bytes)
        + max(key_bytes, 0) + max(value_bytes, 0)
    )


cdef inline char* _put_value(char* p, const uint8_t* start, int64_t size) noexcept nogil:
    p = _put_varint(p, size)
    if size > 0:
        memcpy(p, start, size)
        p += size
    return p


def hash_partitions(tuple keys not None, Py_ssize_t count, int partitions, int unkeyed, /):
    cdef _Column column = _Column(keys, count)
    cdef array.array found = array.clone(_INT32_TEMPLATE, count, False)
    cdef const uint8_t* start = NULL
    cdef int64_t size
    cdef Py_ssize_t row
    if partitions < 1:
        raise ValueError("a topic has at least one partition")
    for row in range(count):
        size = column.find(row, &start)
        if size < 0:
            found.data.as_ints[row] = unkeyed
        else:
            found.data.as_ints[row] = <int>((_murmur2(start, size) & 0x7FFFFFFF) % partitions)
    return found


def group_rows(array.array partitions not None, Py_ssize_t count, /):
    cdef array.array bounds, rows
    cdef Py_ssize_t row, at
    cdef int each
    if partitions.typecode != "i" or not 0 <= count < INT32_MAX:
        raise ValueError("partitions are an array of int32")
    bounds = array.clone(_INT32_TEMPLATE, count + 1, True)
    rows = array.clone(_INT32_TEMPLATE, len(partitions), False)
    for row in range(len(partitions)):
        each = partitions.data.as_ints[row]
        if not 0 <= each < count:
            raise ValueError("a row's partition does not exist")
        bounds.data.as_ints[each + 1] += 1
    for at in range(count):
        bounds.data.as_ints[at + 1] += bounds.data.as_ints[at]
    for row in range(len(partitions)):
        each = partitions.data.as_ints[row]
        rows.data.as_ints[bounds.data.as_ints[each]] = <int>row
        bounds.data.as_ints[each] += 1
    for at in range(count, 0, -1):
        bounds.data.as_ints[at] = bounds.data.as_ints[at - 1]
    bounds.data.as_ints[0] = 0
    return rows, bounds


# Hash


def murmur2(key, /):
    cdef Py_buffer view
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    try:
        return _murmur2(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef uint32_t _murmur2(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    cdef uint32_t multiplier = 0x5BD1E995
    cdef uint32_t mixed = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t word
    cdef Py_ssize_t at = 0
    while size - at >= 4:
        word = p[at] | (<uint32_t>p[at + 1] << 8) | (<uint32_t>p[at + 2] << 16) | (
            <uint32_t>p[at + 3] << 24
        )
        word *= multiplier
        word = (word ^ (word >> 24)) * multiplier
        mixed = (mixed * multiplier) ^ word
        at += 4
    if size > at:
        word = p[at]
        if size - at > 1:
            word |= <uint32_t>p[at + 1] << 8
        if size - at > 2:
            word |= <uint32_t>p[at + 2] << 16
        mixed = (mixed ^ word) * multiplier
    mixed = (mixed ^ (mixed >> 13)) * multiplier
    return mixed ^ (mixed >> 15)


# AMQP


cdef enum:
    METHOD_FRAME = 1
    HEADER_FRAME = 2
    BODY_FRAME = 3
    FRAME_END = 0xCE
    FRAME_HEAD_BYTES = 7
    FRAME_OVERHEAD_BYTES = 8
    BASIC_CLASS = 60
    PUBLISH_ID = 0x003C0028
    ACK_ID = 0x003C0050
    CONTENT_HEAD_BYTES = 12
    ACK_PAYLOAD_BYTES = 13
    ACK_FRAME_BYTES = 21
    WHOLE_BYTES_MIN = 48


#: Where the parts of one message are, and its end; positions are relative to its begin.
cdef struct Publish:
    int channel
    Py_ssize_t method_size
    Py_ssize_t properties_at
    Py_ssize_t properties_size
    Py_ssize_t body_at
    Py_ssize_t body_size
    Py_ssize_t end


cdef inline int _uint16(const uint8_t* p) noexcept nogil:
    return (<int>p[0] << 8) | p[1]


cdef bint _find_publish(
    const uint8_t* p, Py_ssize_t rest, int64_t payload_max, int64_t body_max, Publish* out
) noexcept nogil:
    """Tell whether a whole message begins here; all that is read is within `rest` bytes."""
    cdef int64_t size, header_size, body_size, header_at, body_at
    cdef int channel
    if rest < WHOLE_BYTES_MIN or p[0] != METHOD_FRAME or _uint32(p + 7) != PUBLISH_ID:
        return False
    channel = _uint16(p + 1)
    size = _uint32(p + 3)
    header_at = FRAME_OVERHEAD_BYTES + size
    if rest - header_at < FRAME_HEAD_BYTES + CONTENT_HEAD_BYTES:
        return False
    header_size = _uint32(p + header_at + 3)
    body_size = _int64(p + header_at + 11)
    body_at = header_at + FRAME_OVERHEAD_BYTES + header_size
    if (
        p[header_at] != HEADER_FRAME
        or _uint16(p + header_at + 1) != channel
        or _uint16(p + header_at + 7) != BASIC_CLASS
        or header_size < CONTENT_HEAD_BYTES + 2
        or size > payload_max
        or header_size > payload_max
        or body_size <= 0
        or body_size > payload_max
        or body_size > body_max
        or rest - body_at < FRAME_OVERHEAD_BYTES
        or body_size > rest - body_at - FRAME_OVERHEAD_BYTES
        or p[body_at] != BODY_FRAME
        or _uint16(p + body_at + 1) != channel
        or _uint32(p + body_at + 3) != body_size
        or p[header_at - 1] != FRAME_END
        or p[body_at - 1] != FRAME_END
        or p[body_at + FRAME_HEAD_BYTES + body_size] != FRAME_END
    ):
        return False
    out.channel = channel
    out.method_size = <Py_ssize_t>size
    out.properties_at = <Py_ssize_t>(header_at + FRAME_HEAD_BYTES + CONTENT_HEAD_BYTES)
    out.properties_size = <Py_ssize_t>(header_size - CONTENT_HEAD_BYTES)
    out.body_at = <Py_ssize_t>(body_at + FRAME_HEAD_BYTES)
    out.body_size = <Py_ssize_t>body_size
    out.end = <Py_ssize_t>(body_at + FRAME_OVERHEAD_BYTES + body_size)
    return True


def cut_publishes(
    bytes data not None, Py_ssize_t at, int64_t frame_bytes_max, int64_t body_bytes_max, /
):
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef int64_t payload_max = frame_bytes_max - FRAME_OVERHEAD_BYTES
    cdef Publish first, found
    cdef Py_ssize_t begin = at
    cdef list bodies
    if at < 0 or at > size:
        return None
    if not _find_publish(p + at, size - at, payload_max, body_bytes_max, &first):
        return None
    bodies = []
    found = first
    while True:
        bodies.append(_part(p + at, found.body_at, found.body_size))
        at += found.end
        if not _find_publish(p + at, size - at, payload_max, body_bytes_max, &found) or (
            found.channel != first.channel
            or found.method_size != first.method_size
            or found.properties_size != first.properties_size
            or memcmp(p + at + 7, p + begin + 7, <size_t>first.method_size)
            or memcmp(
                p + at + found.properties_at,
                p + begin + first.properties_at,
                <size_t>first.properties_size,
            )
        ):
            break
    return (
        at,
        first.channel,
        _part(p + begin, FRAME_HEAD_BYTES, first.method_size),
        _part(p + begin, first.properties_at, first.properties_size),
        bodies,
    )


cdef inline bytes _part(const uint8_t* p, Py_ssize_t at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char*>(p + at), size)


cdef inline bint _is_ack(const uint8_t* p, Py_ssize_t rest) noexcept nogil:
    return (
        rest >= ACK_FRAME_BYTES
        and p[0] == METHOD_FRAME
        and _uint32(p + 3) == ACK_PAYLOAD_BYTES
        and _uint32(p + 7) == ACK_ID
        and p[ACK_FRAME_BYTES - 1] == FRAME_END
    )


def cut_acks(bytes data not None, Py_ssize_t at, /):
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef int channel
    cdef uint64_t first, last
    cdef bint multiple
    if at < 0 or at > size or not _is_ack(p + at, size - at):
        return None
    channel = _uint16(p + at + 1)
    first = last = <uint64_t>_int64(p + at + 11)
    multiple = p[at + 19] & 1
    at += ACK_FRAME_BYTES
    while (
        not multiple
        and _is_ack(p + at, size - at)
        and _uint16(p + at + 1) == channel
        and last != <uint64_t>-1
        and <uint64_t>_int64(p + at + 11) == last + 1
        and not p[at + 19] & 1
    ):
        last += 1
        at += ACK_FRAME_BYTES
    return at, channel, first, last, bool(multiple)
