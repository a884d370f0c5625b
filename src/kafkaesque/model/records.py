"""Records: what a batch holds, read one by one or as columns."""

from array import array
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kafkaesque.model import kernel
from kafkaesque.model.batch import Attribute, BatchHeader, read_batch_header, read_payload
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.kernel_types import Headers, RecordTuple
from kafkaesque.model.record_errors import Fault, fail


class Record(NamedTuple):
    """One message."""

    offset: int
    #: Milliseconds since 1970 UTC; -1 where its producer gave none.
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    #: Names may repeat and keep their order.
    headers: Headers = ()


#: What `Record._make` does, without its Python frame: half of the time of decoding otherwise.
_new_record: Callable[[RecordTuple], Record] = partial(tuple.__new__, Record)


class RecordColumns(NamedTuple):
    """A batch's records as arrays, one entry per record, without an object for any of them.

    Starts are positions in `payload`, lengths are bytes and -1 is null. `offsets` and
    `timestamps_ms` are arrays of int64, the others of int32.
    """

    payload: Buffer
    offsets: "array[int]"
    timestamps_ms: "array[int]"
    key_starts: "array[int]"
    key_lengths: "array[int]"
    value_starts: "array[int]"
    value_lengths: "array[int]"
    header_starts: "array[int]"
    header_counts: "array[int]"

    def key(self, row: int) -> bytes | None:
        """Return one record's key."""
        return self._cut(self.key_starts[row], self.key_lengths[row])

    def value(self, row: int) -> bytes | None:
        """Return one record's value."""
        return self._cut(self.value_starts[row], self.value_lengths[row])

    def headers(self, row: int) -> Headers:
        """Return one record's headers."""
        return kernel.active.read_headers(
            self.payload, self.header_starts[row], self.header_counts[row]
        )

    def _cut(self, start: int, length: int) -> bytes | None:
        return None if length < 0 else bytes(self.payload[start : start + length])


class BinaryColumn(NamedTuple):
    """Byte strings in Arrow's layout for `binary`, to be used as its buffers without a copy."""

    #: The values, one after another.
    data: bytes
    #: n + 1 positions in `data` (int32).
    offsets: "array[int]"
    #: One bit per row, least significant first: 1 is not null.
    validity: bytes
    null_count: int


def decode_batch(buffer: Buffer, decompressed_bytes_max: int, *, at: int = 0) -> list[Record]:
    """Return the records of the batch at byte `at`; the checksum is not looked at.

    Header names that are not UTF-8 are read with replacement characters, as Java's clients do.

    Raises:
        CorruptBatch: the header or the compressed data is broken; IncompleteBatch: it is cut.
        UnsupportedMagic: format v0 or v1.
        UnknownCompression: there is no such codec.
        InvalidRecord: the records are not what the header says, or broken.
        DecompressionTooLarge: the records take more than `decompressed_bytes_max`.
    """
    header = read_batch_header(buffer, at)
    found = kernel.active.decode_records(
        *_decode_arguments(header, read_payload(buffer, header, decompressed_bytes_max))
    )
    return list(map(_new_record, found))


def decode_columns(buffer: Buffer, decompressed_bytes_max: int, *, at: int = 0) -> RecordColumns:
    """Return the records of the batch at byte `at` as columns; the checksum is not looked at.

    The payload is a view of `buffer` where the batch is not compressed.

    Raises: as `decode_batch`.
    """
    header = read_batch_header(buffer, at)
    payload = read_payload(buffer, header, decompressed_bytes_max)
    columns = kernel.active.decode_columns(*_decode_arguments(header, payload))
    return RecordColumns(payload, *columns)


def _decode_arguments(
    header: BatchHeader, payload: Buffer
) -> tuple[Buffer, int, int, int, int, int | None, int]:
    if header.record_count < 0:
        fail(Fault.COUNT, header.at)
    append_time = header.max_timestamp_ms if header.attributes & Attribute.APPEND_TIME else None
    return (
        payload,
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp_ms,
        append_time,
        header.at,
    )


def gather_keys(columns: RecordColumns) -> BinaryColumn:
    """Return all keys as one Arrow column."""
    return BinaryColumn._make(
        kernel.active.gather(columns.payload, columns.key_starts, columns.key_lengths)
    )


def gather_values(columns: RecordColumns) -> BinaryColumn:
    """Return all values as one Arrow column."""
    return BinaryColumn._make(
        kernel.active.gather(columns.payload, columns.value_starts, columns.value_lengths)
    )
