"""Record batches of format v2 as bytes: reading their headers, checking them, stamping offsets.

A batch is stored and sent as the producer made it; a broker writes only into the fields that this
module patches. Layout: KIP-98 and "Record Batch" in Apache Kafka's protocol documentation.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from kafkaesque.model import compression, kernel
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.compression import Codec
from kafkaesque.model.record_errors import BatchSealed, Fault, fail, record_error

HEADER = Struct(">qiibIhiqqqhii")
#: Bytes before the first record.
HEADER_BYTES = 61
#: What the batch's length field does not count: the base offset and the field itself.
LENGTH_OVERHEAD = 12
#: A buffer begins with a readable magic byte when it has this many bytes.
MAGIC_END = 17
#: First byte that the checksum covers. What stands before it may be patched without it.
CHECKED_START = 21
#: The most that a batch's 32-bit length field can say.
BATCH_BYTES_MAX = 2**31 - 1
#: Batches in one buffer that are looked at in one call; a batch takes at least 61 bytes.
BATCH_COUNT_MAX = 2**31 - 1

MAGIC = 2
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

_OFFSET_AND_LENGTH = Struct(">qi")
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_EPOCH_AT = 12
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35


class Attribute(IntEnum):
    """Bits of a batch's attributes; the lowest three are the codec."""

    CODEC_MASK = 0x07
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40
    #: Beyond Kafka's: the records are sealed, see `model.sealed_batch`. No client sees it.
    SEALED = 0x4000


_CODEC_MASK = int(Attribute.CODEC_MASK)
_SEALED = int(Attribute.SEALED)


class BatchHeader(NamedTuple):
    """What a batch says of itself, and where it stands; times are milliseconds since 1970 UTC."""

    #: Position of the batch in the buffer it was read from.
    at: int
    base_offset: int
    #: Bytes after this field: `size_bytes` is the whole batch.
    batch_length: int
    #: The Raft term in which a leader accepted the batch.
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    #: Offsets that the batch covers, less one; in a compacted log there may be fewer records.
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    #: The latest timestamp of the records themselves where they were walked, otherwise what the
    #: header says. A producer may have written another `max_timestamp_ms`.
    latest_timestamp_ms: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header and all."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def end(self) -> int:
        """Position in the buffer after the batch."""
        return self.at + self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The batch's last offset, whether or not a record is left there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, which wraps to 0 after 2**31 - 1; -1 if none."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """How the records are compressed; raises ValueError for a number that is no codec's."""
        return Codec(self.attributes & Attribute.CODEC_MASK)

    @property
    def is_compressed(self) -> bool:
        """Whether the records are compressed in any way."""
        return self.attributes & _CODEC_MASK != 0

    @property
    def is_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp_ms`, given by a broker."""
        return self.attributes & Attribute.APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.attributes & Attribute.TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are a broker's marks, which consumers skip."""
        return self.attributes & Attribute.CONTROL != 0

    @property
    def is_sealed(self) -> bool:
        """Whether the records are ciphertext."""
        return self.attributes & Attribute.SEALED != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones, if it is set (KIP-534)."""
        if self.attributes & Attribute.DELETE_HORIZON:
            return self.base_timestamp_ms
        return None


_make_header = BatchHeader._make


def read_batch_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Return the header of the batch at byte `at`, which is not checked any further.

    Raises:
        IncompleteBatch: fewer than 61 bytes are there.
        UnsupportedMagic: it is a message set of format v0 or v1.
        CorruptBatch: the length or the magic byte is not possible.
    """
    view = memoryview(buffer)
    if at < 0 or len(view) - at < HEADER_BYTES:
        if 0 <= at <= len(view) - MAGIC_END and view[at + 16] < MAGIC:
            fail(Fault.LEGACY_MAGIC, at)
        fail(Fault.INCOMPLETE, at)
    fields = HEADER.unpack_from(view, at)
    if fields[3] != MAGIC:
        fail(Fault.LEGACY_MAGIC if fields[3] in (0, 1) else Fault.MAGIC, at)
    if not HEADER_BYTES - LENGTH_OVERHEAD <= fields[1] <= BATCH_BYTES_MAX - LENGTH_OVERHEAD:
        fail(Fault.LENGTH, at)
    return BatchHeader._make((at, *fields, fields[8]))


class Scan(NamedTuple):
    """What a buffer holds, up to the first batch that is not good."""

    batches: list[BatchHeader]
    #: Position after the last good batch.
    end: int
    #: What is wrong there; `Fault.NONE` if the end, or the wanted count, was reached.
    fault: Fault


def scan_batches(
    buffer: Buffer,
    *,
    at: int = 0,
    end: int | None = None,
    bytes_max: int = BATCH_BYTES_MAX,
    count_max: int = BATCH_COUNT_MAX,
    walk: bool = False,
) -> Scan:
    """Check the batches of a log, as far as they are good; for recovery and for fetch answers.

    Every batch that is returned has the right checksum and a possible header. With `walk` the
    records of uncompressed batches are framed rightly, too.

    Raises:
        IndexError: `at` and `end` are not within the buffer.
    """
    stop = len(buffer) if end is None else end
    found, position, fault = kernel.active.scan_batches(
        buffer, at, stop, bytes_max, count_max, False, walk
    )
    return Scan([BatchHeader._make(batch) for batch in found], position, Fault(fault))


def check_batches(
    buffer: Buffer, bytes_max: int, *, decompressed_bytes_max: int | None = None
) -> list[BatchHeader]:
    """Check what a producer sent, which is one batch or several, one after another.

    Each is complete, of format v2, at most `bytes_max` long, has the right checksum and attributes
    that a client may set, and counts its records from 0 without gaps. The framing of uncompressed
    records is checked; that of compressed ones where `decompressed_bytes_max` is given, which also
    is the most that one batch may take when it is decompressed. Without it they are not looked
    into. An empty buffer gives an empty list.

    Raises:
        CorruptBatch: a length, a checksum or compressed data is wrong; IncompleteBatch: it is cut.
        UnsupportedMagic: format v0 or v1.
        BatchTooLarge: longer than `bytes_max`.
        UnknownCompression: there is no such codec.
        InvalidRecord: the content breaks a rule; InvalidTimestamp: the timestamp type does.
        DecompressionTooLarge: more than `decompressed_bytes_max`.
    """
    found, position, fault = kernel.active.scan_batches(
        buffer, 0, len(buffer), bytes_max, BATCH_COUNT_MAX, True, True
    )
    if fault:
        fail(fault, position)
    batches = list(map(_make_header, found))
    if decompressed_bytes_max is None:
        return batches
    return [
        walk_compressed(buffer, batch, decompressed_bytes_max) if batch.is_compressed else batch
        for batch in batches
    ]


def walk_compressed(buffer: Buffer, batch: BatchHeader, bytes_max: int) -> BatchHeader:
    """Check the records of a compressed batch that `check_batches` has not looked into.

    Return its header with the records' latest timestamp.

    Raises:
        CorruptBatch: the compressed data is wrong.
        InvalidRecord: the content breaks a rule.
        DecompressionTooLarge: more than `bytes_max`.
    """
    return walk_payload(batch, read_payload(buffer, batch, bytes_max))


def walk_compressed_quickly(
    buffer: Buffer, batch: BatchHeader, bytes_max: int
) -> BatchHeader | None:
    """Do the same in the time that `bytes_max` takes; None if the data is longer, or is wrong.

    Raises:
        InvalidRecord: the content breaks a rule.
    """
    compressed = memoryview(buffer)[batch.at + HEADER_BYTES : batch.end]
    codec = batch.attributes & Attribute.CODEC_MASK
    payload = compression.decompress_quickly(codec, compressed, bytes_max)
    return None if payload is None else walk_payload(batch, payload)


def walk_payload(batch: BatchHeader, payload: Buffer) -> BatchHeader:
    """Check a batch's records, as `read_payload` gave them; see `walk_compressed`.

    Raises:
        InvalidRecord: the content breaks a rule.
    """
    latest = kernel.active.walk_records(
        payload,
        batch.record_count,
        batch.last_offset_delta,
        batch.base_timestamp_ms,
        True,
        batch.at,
    )
    return batch._replace(latest_timestamp_ms=latest)


def read_payload(buffer: Buffer, batch: BatchHeader, decompressed_bytes_max: int) -> Buffer:
    """Return a batch's records, decompressed; a view of the buffer where they were not compressed.

    Raises:
        IncompleteBatch: the buffer ends before the batch does.
        UnknownCompression: there is no such codec.
        CorruptBatch: the compressed data is broken.
        DecompressionTooLarge: more than `decompressed_bytes_max`.
        BatchSealed: it has to be opened first.
    """
    if batch.end > len(buffer):
        fail(Fault.INCOMPLETE, batch.at)
    if batch.attributes & _SEALED:
        raise BatchSealed(f"the batch at offset {batch.base_offset} is sealed", batch.at)
    payload = memoryview(buffer)[batch.at + HEADER_BYTES : batch.end]
    codec = batch.attributes & Attribute.CODEC_MASK
    if not codec:
        return payload
    if codec > Codec.ZSTD:
        raise record_error(Fault.CODEC, batch.at)
    return compression.decompress(codec, payload, decompressed_bytes_max, at=batch.at)


def assign_offsets(
    buffer: bytearray | memoryview,
    at: int,
    base_offset: int,
    leader_epoch: int,
    *,
    append_time_ms: int | None = None,
    max_timestamp_ms: int | None = None,
) -> None:
    """Write what a leader decides into the batch at byte `at`, which has been checked before.

    Base offset and leader epoch lie outside of the checksum. An `append_time_ms` makes every record
    carry that time; a `max_timestamp_ms` corrects what the producer wrote. Either one takes a new
    checksum over the whole batch.

    Raises:
        IncompleteBatch: the batch is not whole; nothing was written.
    """
    view = memoryview(buffer)
    if at < 0 or len(view) - at < HEADER_BYTES:
        fail(Fault.INCOMPLETE, at)
    end = at + _OFFSET_AND_LENGTH.unpack_from(view, at)[1] + LENGTH_OVERHEAD
    if not at + HEADER_BYTES <= end <= len(view):
        fail(Fault.INCOMPLETE, at)
    _OFFSET.pack_into(view, at, base_offset)
    _EPOCH.pack_into(view, at + _EPOCH_AT, leader_epoch)
    if append_time_ms is None and max_timestamp_ms is None:
        return
    if append_time_ms is not None:
        attributes = _ATTRIBUTES.unpack_from(view, at + _ATTRIBUTES_AT)[0] | Attribute.APPEND_TIME
        _ATTRIBUTES.pack_into(view, at + _ATTRIBUTES_AT, attributes)
        max_timestamp_ms = append_time_ms
    _MAX_TIMESTAMP.pack_into(view, at + _MAX_TIMESTAMP_AT, max_timestamp_ms)
    _CRC.pack_into(view, at + _CRC_AT, crc32c(view[at + CHECKED_START : end]))
