"""Columns that grow over many batches hold the records of all of them, by both kernels."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.column_builder import ColumnBuilder, GrownColumn, RecordTable
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import HeaderColumns, load_kernel, use_kernel
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.model.records import Record, decode_columns
from tests.unit.model.record_helpers import PLENTY, both_kernels, record_lists


def cells(offsets: array[int], data: bytearray, validity: bytearray) -> list[bytes | None]:
    return [
        bytes(data[offsets[row] : offsets[row + 1]])
        if validity[row >> 3] >> (row & 7) & 1
        else None
        for row in range(len(offsets) - 1)
    ]


def header_cells(columns: HeaderColumns) -> list[tuple[tuple[str, bytes | None], ...]]:
    row_offsets, validity, name_offsets, names, value_offsets, values, value_validity = columns
    found = cells(value_offsets, values, value_validity)
    everything = [
        (names[name_offsets[at] : name_offsets[at + 1]].decode(), found[at])
        for at in range(len(found))
    ]
    rows = [
        tuple(everything[row_offsets[row] : row_offsets[row + 1]])
        for row in range(len(row_offsets) - 1)
    ]
    assert [bool(row) for row in rows] == [
        bool(validity[row >> 3] >> (row & 7) & 1) for row in range(len(rows))
    ]
    return rows


def column(found: GrownColumn | None) -> list[bytes | None]:
    assert found is not None
    assert len(found.validity) == (len(found.offsets) + 6) // 8
    return cells(*found)


def rows_of(table: RecordTable) -> list[Record]:
    assert table.headers is not None
    return list(
        map(
            Record,
            table.offsets,
            table.timestamps_ms,
            column(table.keys),
            column(table.values),
            header_cells(table.headers),
        )
    )


@both_kernels
@given(
    batches=st.lists(st.tuples(record_lists(sparse=True), st.sampled_from(Codec)), max_size=5),
    bounds=st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)),
    is_inside=st.booleans(),
)
def test_a_table_holds_the_records_of_all_batches_within_its_bounds(
    kernel_name: str,
    batches: list[tuple[list[Record], Codec]],
    bounds: tuple[int, int],
    is_inside: bool,
) -> None:
    records = [record for batch, _ in batches for record in batch]
    if is_inside and records:
        # Bounds that fall between the records of a batch.
        bounds = (
            records[bounds[0] % len(records)].offset,
            records[bounds[1] % len(records)].offset,
        )
    first, end = min(bounds), max(bounds)
    builder = ColumnBuilder()
    with use_kernel(kernel_name):
        for batch, codec in batches:
            columns = decode_columns(encode_batch(batch, BatchOptions(codec=codec)), PLENTY)
            builder.append(columns, first_offset=first, end_offset=end, is_append_time=False)
    wanted = [record for record in records if first <= record.offset < end]
    assert len(builder) == len(wanted)
    assert rows_of(builder.take()) == wanted
    assert len(builder) == 0


@both_kernels
def test_only_wanted_columns_are_gathered(kernel_name: str) -> None:
    builder = ColumnBuilder(keys=False, headers=False)
    with use_kernel(kernel_name):
        columns = decode_columns(encode_batch([Record(0, 1, b"k", b"v", (("h", b"1"),))]), PLENTY)
        builder.append(columns, first_offset=0, end_offset=9, is_append_time=True)
    table = builder.take()
    assert (table.keys, table.headers, table.timestamp_types) == (None, None, array("i", [1]))
    assert column(table.values) == [b"v"]


BAD = [
    ([0], [2], 0, 1, [0], b"", b""),  # beyond the payload
    ([2], [0], 0, 1, [0], b"", b""),
    ([-1], [0], 0, 1, [0], b"", b""),
    ([0], [-2], 0, 1, [0], b"", b""),
    ([0], [1], 0, 2, [0], b"", b""),  # no such rows
    ([0], [1], -1, 1, [0], b"", b""),
    ([0], [1], 1, 0, [0], b"", b""),
    ([0], [1], 0, 1, [], b"", b""),  # no column
    ([0], [1], 0, 1, [0], b"x", b""),
    ([0], [1], 0, 1, [0], b"", b"\0"),
    ([0, 0], [1], 0, 1, [0], b"", b""),
]


@both_kernels
@pytest.mark.parametrize("case", BAD, ids=[f"case-{number}" for number in range(len(BAD))])
def test_nothing_is_appended_where_the_input_is_wrong(
    kernel_name: str, case: tuple[list[int], list[int], int, int, list[int], bytes, bytes]
) -> None:
    starts, lengths, first, end, offsets, data, validity = case
    parts = array("i", offsets), bytearray(data), bytearray(validity)
    with pytest.raises(ValueError, match=r"payload|rows|column|validity|equally"):
        load_kernel(kernel_name).gather_into(
            b"1", array("i", starts), array("i", lengths), first, end, *parts
        )
    assert parts == (array("i", offsets), bytearray(data), bytearray(validity))


@both_kernels
def test_broken_headers_are_refused_and_nothing_is_appended(kernel_name: str) -> None:
    columns: HeaderColumns = (
        array("i", [0]),
        bytearray(),
        array("i", [0]),
        bytearray(),
        array("i", [0]),
        bytearray(),
        bytearray(),
    )
    with pytest.raises(InvalidRecord):
        load_kernel(kernel_name).gather_headers_into(
            b"\x02a\x7f", array("i", [0]), array("i", [1]), 0, 1, columns
        )
    assert [len(part) for part in columns] == [1, 0, 1, 0, 1, 0, 0]
