"""Chooses the compiled record kernel, or its pure-Python twin where nothing could be compiled.

Callers write `kernel.active.scan_batches(...)` at each call, so that tests can switch.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


def load_kernel(name: str) -> Kernel:
    """Return the kernel "compiled" or "python".

    Raises:
        ImportError: the compiled one was not built.
        ValueError: there is no kernel of that name.
    """
    if name == "compiled":
        from kafkaesque.model import _kernel

        return _kernel
    if name == "python":
        from kafkaesque.model import _kernel_py

        return _kernel_py
    raise ValueError(f"there is no kernel {name!r}: it is 'compiled' or 'python'")


def _load_best() -> tuple[str, Kernel]:
    try:
        return "compiled", load_kernel("compiled")
    except ImportError:
        return "python", load_kernel("python")


active: Kernel
name: str
name, active = _load_best()


@contextmanager
def use_kernel(wanted: str) -> Iterator[Kernel]:
    """Use the named kernel within the block, in the whole process; for tests and benchmarks."""
    global name, active
    before = name, active
    name, active = wanted, load_kernel(wanted)
    try:
        yield active
    finally:
        name, active = before
