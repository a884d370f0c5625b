"""What a record kernel does, and the tuples and columns that it takes and gives."""

from array import array
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from kafkaesque.model.buffers import Buffer

#: One batch as the kernel reports it: the fields of `batch.BatchHeader`, in that order.
BatchTuple: TypeAlias = tuple[
    int, int, int, int, int, int, int, int, int, int, int, int, int, int, int
]
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
#: The fields of `records.Record`, in that order.
RecordTuple: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
#: offsets, timestamps ('q'); key starts and lengths, value starts and lengths, header starts and
#: counts ('i').
ColumnTuple: TypeAlias = tuple[
    "array[int]",
    "array[int]",
    "array[int]",
    "array[int]",
    "array[int]",
    "array[int]",
    "array[int]",
    "array[int]",
]
#: Headers in Arrow's layout: offsets of the rows' lists into the headers, and which rows have any;
#: offsets of the names and the names; offsets of the values, the values, and which are not null.
HeaderColumns: TypeAlias = tuple[
    "array[int]",
    bytearray,
    "array[int]",
    bytearray,
    "array[int]",
    bytearray,
    bytearray,
]
#: A column that grows, in Arrow's layout: int32 offsets, data, bitmap of what is not null.
GrowingColumn: TypeAlias = tuple["array[int]", bytearray, bytearray]
#: A table that grows: offsets and timestamps (int64), timestamp types (int32), keys, values.
TableParts: TypeAlias = tuple[
    "array[int]",
    "array[int]",
    "array[int]",
    GrowingColumn | None,
    GrowingColumn | None,
]
#: An Arrow column of byte strings: data, int32 offsets, bitmap of what is not null (None: nothing
#: is null), and the place of its first row in these buffers.
ArrowColumn: TypeAlias = tuple[Buffer, Buffer, Buffer | None, int]


class Kernel(Protocol):
    """The functions that exist twice; `_kernel_py` documents each."""

    def scan_batches(
        self,
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
        self,
        payload: Buffer,
        count: int,
        last_offset_delta: int,
        base_timestamp: int,
        produced: bool,
        at: int,
        /,
    ) -> int: ...

    def decode_records(
        self,
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
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        append_timestamp: int | None,
        at: int,
        /,
    ) -> ColumnTuple: ...

    def read_headers(self, payload: Buffer, start: int, count: int, /) -> Headers: ...

    def gather(
        self, payload: Buffer, starts: "array[int]", lengths: "array[int]", /
    ) -> "tuple[bytes, array[int], bytes, int]": ...

    def gather_into(
        self,
        payload: Buffer,
        starts: "array[int]",
        lengths: "array[int]",
        first: int,
        end: int,
        offsets: "array[int]",
        data: bytearray,
        validity: bytearray,
        /,
    ) -> int: ...

    def append_records(
        self,
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
        self,
        payload: Buffer,
        starts: "array[int]",
        counts: "array[int]",
        first: int,
        end: int,
        columns: HeaderColumns,
        /,
    ) -> int: ...

    def encode_records(
        self,
        records: Sequence[object],
        base_offset: int,
        base_timestamp: int,
        prefix_bytes: int,
        /,
    ) -> tuple[bytearray, int, int]: ...

    def encode_columns(
        self,
        keys: ArrowColumn | None,
        values: ArrowColumn | None,
        count: int,
        rows: "array[int]",
        first: int,
        bytes_max: int,
        prefix_bytes: int,
        /,
    ) -> tuple[bytearray, int]: ...

    def hash_partitions(
        self, keys: ArrowColumn, count: int, partitions: int, unkeyed: int, /
    ) -> "array[int]": ...

    def group_rows(
        self, partitions: "array[int]", count: int, /
    ) -> "tuple[array[int], array[int]]": ...

    def murmur2(self, key: Buffer, /) -> int: ...

    def cut_publishes(
        self, data: bytes, at: int, frame_bytes_max: int, body_bytes_max: int, /
    ) -> tuple[int, int, bytes, bytes, list[bytes]] | None: ...

    def cut_acks(self, data: bytes, at: int, /) -> tuple[int, int, int, int, bool] | None: ...
