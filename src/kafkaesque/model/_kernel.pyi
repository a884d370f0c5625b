from array import array
from collections.abc import Sequence

from kafkaesque.model.buffers import Buffer
from kafkaesque.model.kernel_types import (
    ArrowColumn,
    BatchTuple,
    ColumnTuple,
    HeaderColumns,
    Headers,
    RecordTuple,
    TableParts,
)

def scan_batches(
    buffer: Buffer,
    at: int,
    end: int,
    bytes_max: int,
    count_max: int,
    produced: bool,
    walk: bool,
    /,
) -> tuple[list[BatchTuple], int, int]: ...
def walk_records(
    payload: Buffer,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    produced: bool,
    at: int,
    /,
) -> int: ...
def decode_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_timestamp: int | None,
    at: int,
    /,
) -> list[RecordTuple]: ...
def decode_columns(
    payload: Buffer,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_timestamp: int | None,
    at: int,
    /,
) -> ColumnTuple: ...
def read_headers(payload: Buffer, start: int, count: int, /) -> Headers: ...
def gather(
    payload: Buffer, starts: array[int], lengths: array[int], /
) -> tuple[bytes, array[int], bytes, int]: ...
def gather_into(
    payload: Buffer,
    starts: array[int],
    lengths: array[int],
    first: int,
    end: int,
    offsets: array[int],
    data: bytearray,
    validity: bytearray,
    /,
) -> int: ...
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
) -> int: ...
def gather_headers_into(
    payload: Buffer,
    starts: array[int],
    counts: array[int],
    first: int,
    end: int,
    columns: HeaderColumns,
    /,
) -> int: ...
def encode_records(
    records: Sequence[object],
    base_offset: int,
    base_timestamp: int,
    prefix_bytes: int,
    /,
) -> tuple[bytearray, int, int]: ...
def encode_columns(
    keys: ArrowColumn | None,
    values: ArrowColumn | None,
    count: int,
    rows: array[int],
    first: int,
    bytes_max: int,
    prefix_bytes: int,
    /,
) -> tuple[bytearray, int]: ...
def hash_partitions(
    keys: ArrowColumn, count: int, partitions: int, unkeyed: int, /
) -> array[int]: ...
def group_rows(partitions: array[int], count: int, /) -> tuple[array[int], array[int]]: ...
def murmur2(key: Buffer, /) -> int: ...
def cut_publishes(
    data: bytes, at: int, frame_bytes_max: int, body_bytes_max: int, /
) -> tuple[int, int, bytes, bytes, list[bytes]] | None: ...
def cut_acks(data: bytes, at: int, /) -> tuple[int, int, int, int, bool] | None: ...
