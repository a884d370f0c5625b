"""Making record batches: for our own clients, internal topics, compaction and control records."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from kafkaesque.model import batch as layout
from kafkaesque.model import compression, kernel
from kafkaesque.model.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, Attribute
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel_types import ArrowColumn, Headers
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.model.records import Record

_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")

#: The most that a record takes beside its key, value and headers: length, attributes, both deltas,
#: three lengths.
RECORD_OVERHEAD_BYTES_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5
HEADER_OVERHEAD_BYTES_MAX = 5 + 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What a batch's header says beside what follows from its records."""

    codec: Codec = Codec.NONE
    leader_epoch: int = layout.NO_LEADER_EPOCH
    producer_id: int = layout.NO_PRODUCER_ID
    producer_epoch: int = layout.NO_PRODUCER_EPOCH
    base_sequence: int = layout.NO_SEQUENCE
    transactional: bool = False
    control: bool = False
    #: Set by a broker: every record has this time, whatever its own says.
    append_time_ms: int | None = None
    #: Set by compaction: when tombstones may go (KIP-534).
    delete_horizon_ms: int | None = None
    #: First offset that the batch covers, where compaction removed its first records.
    base_offset: int | None = None
    #: Last offset that the batch covers, where compaction removed its last records.
    last_offset: int | None = None


DEFAULT_OPTIONS = BatchOptions()


def encode_batch(records: Sequence[Record], options: BatchOptions = DEFAULT_OPTIONS) -> bytearray:
    """Return one batch with these records, whose offsets ascend; its checksum is set.

    A plain tuple (offset, timestamp_ms, key, value, headers) does as well as a `Record`.

    Raises:
        ValueError: no records, offsets that do not ascend, a size or span the format cannot hold.
        OverflowError: an offset or timestamp beyond 64 bits.
        TypeError: a key, value or header of the wrong type.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    base_offset = records[0][0] if options.base_offset is None else options.base_offset
    base_time = records[0][1] if options.delete_horizon_ms is None else options.delete_horizon_ms
    out, latest, last_offset = kernel.active.encode_records(
        records, base_offset, base_time, HEADER_BYTES
    )
    if options.codec:
        payload = compression.compress(options.codec, memoryview(out)[HEADER_BYTES:])
        out = bytearray(HEADER_BYTES) + payload
    if len(out) > layout.BATCH_BYTES_MAX:
        raise ValueError("a batch is at most 2 GiB")
    _put_header(out, options, (base_offset, last_offset), (base_time, latest), len(records))
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """Keys and values of `count` rows as Arrow columns; one that is None is null throughout."""

    keys: ArrowColumn | None
    values: ArrowColumn | None
    count: int


def encode_rows(
    columns: RowColumns,
    rows: "array[int]",
    first: int,
    *,
    bytes_max: int,
    timestamp_ms: int,
    options: BatchOptions = DEFAULT_OPTIONS,
) -> tuple[bytearray, int]:
    """Return a producer's batch, and the place in `rows` (int32) at which the next one begins.

    It holds the rows from place `first` on that fit into `bytes_max` before compression, and at
    least one, all with the same timestamp.

    Raises:
        ValueError: there are no such rows, or a row alone is more than the format can hold.
    """
    out, end = kernel.active.encode_columns(
        columns.keys, columns.values, columns.count, rows, first, bytes_max, HEADER_BYTES
    )
    if options.codec:
        payload = compression.compress(options.codec, memoryview(out)[HEADER_BYTES:])
        out = bytearray(HEADER_BYTES) + payload
    count = end - first
    _put_header(out, options, (0, count - 1), (timestamp_ms, timestamp_ms), count)
    return out, end


def encode_empty_batch(base_offset: int, last_offset: int, options: BatchOptions) -> bytearray:
    """Return a batch that covers these offsets and has no record left.

    Compaction leaves one where it must keep a producer's last sequence number.
    """
    out = bytearray(HEADER_BYTES)
    span = (base_offset, last_offset)
    _put_header(out, options, span, (layout.NO_TIMESTAMP, layout.NO_TIMESTAMP), 0, codec=Codec.NONE)
    return out


def _put_header(
    out: bytearray,
    options: BatchOptions,
    offsets: tuple[int, int],
    times: tuple[int, int],
    count: int,
    codec: Codec | None = None,
) -> None:
    """Fill in the first 61 bytes of a batch whose records stand behind them."""
    attributes = int(options.codec if codec is None else codec)
    if options.append_time_ms is not None:
        attributes |= Attribute.APPEND_TIME
        times = (times[0], options.append_time_ms)
    if options.transactional:
        attributes |= Attribute.TRANSACTIONAL
    if options.control:
        attributes |= Attribute.CONTROL
    if options.delete_horizon_ms is not None:
        attributes |= Attribute.DELETE_HORIZON
    base_offset, last_offset = offsets
    if options.last_offset is not None:
        if options.last_offset < last_offset:
            raise ValueError("the last offset is before that of the last record")
        last_offset = options.last_offset
    last_delta = last_offset - base_offset
    if base_offset < 0 or not 0 <= last_delta < 2**31 or last_offset >= 2**63:
        raise ValueError("the offsets are not possible")
    HEADER.pack_into(
        out,
        0,
        base_offset,
        len(out) - LENGTH_OVERHEAD,
        options.leader_epoch,
        layout.MAGIC,
        0,
        attributes,
        last_delta,
        *times,
        options.producer_id,
        options.producer_epoch,
        options.base_sequence,
        count,
    )
    checksum = crc32c(memoryview(out)[layout.CHECKED_START :])
    out[layout.MAGIC_END : layout.CHECKED_START] = checksum.to_bytes(4, "big")


class BatchBuilder:
    """Collects a producer's records, offsets from 0, until they fill a batch of `bytes_max`."""

    __slots__ = ("_bytes_max", "_records", "size_bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._records: list[Record] = []
        #: The most that the batch can take before compression; what it will take is a bit less.
        self.size_bytes_max = HEADER_BYTES

    def __len__(self) -> int:
        return len(self._records)

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> bool:
        """Add a record; return False, and add nothing, if it might not fit any more.

        The first record is always taken: whether it is too large is for the broker to say.
        """
        more = RECORD_OVERHEAD_BYTES_MAX + len(key or b"") + len(value or b"")
        for name, content in headers:
            more += HEADER_OVERHEAD_BYTES_MAX + len(name.encode()) + len(content or b"")
        if self._records and self.size_bytes_max + more > self._bytes_max:
            return False
        self._records.append(Record(len(self._records), timestamp_ms, key, value, headers))
        self.size_bytes_max += more
        return True

    def build(self, options: BatchOptions = DEFAULT_OPTIONS) -> bytearray:
        """Return the batch and begin a new one.

        Raises: as `encode_batch`; the records are kept then.
        """
        out = encode_batch(self._records, options)
        self._records = []
        self.size_bytes_max = HEADER_BYTES
        return out


class MarkerType(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarker:
    """A control record that ends a producer's transaction in a partition (KIP-98)."""

    type: MarkerType
    coordinator_epoch: int


def encode_end_marker(
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = layout.NO_LEADER_EPOCH,
) -> bytearray:
    """Return the control batch with one marker."""
    record = Record(
        base_offset,
        timestamp_ms,
        _MARKER_KEY.pack(0, marker.type),
        _MARKER_VALUE.pack(0, marker.coordinator_epoch),
    )
    options = BatchOptions(
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    return encode_batch([record], options)


def decode_end_marker(record: Record) -> EndMarker:
    """Return what a record of a control batch says; later versions may have longer fields.

    Raises:
        InvalidRecord: it is not the end of a transaction.
    """
    key, value = record.key, record.value
    if key is None or len(key) < 4 or value is None or len(value) < 6:
        raise InvalidRecord("a control record is too short")
    version, kind = _MARKER_KEY.unpack_from(key)
    value_version, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    if version < 0 or value_version < 0 or kind not in (MarkerType.ABORT, MarkerType.COMMIT):
        raise InvalidRecord(f"control record of unknown version {version} or type {kind}")
    return EndMarker(type=MarkerType(kind), coordinator_epoch=coordinator_epoch)
