"""Columns that grow over many batches hold the records of all of them, by both kernels."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.column_builder import ColumnBuilder, GrownColumn, RecordTable
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import load_kernel, use_kernel
from kafkaesque.model.kernel_types import HeaderColumns
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.model.records import Record
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
    headers = [()] * len(table.offsets) if table.headers is None else header_cells(table.headers)
    assert list(table.timestamp_types) == [0] * len(table.offsets)
    return list(
        map(
            Record,
            table.offsets,
            table.timestamps_ms,
            column(table.keys),
            column(table.values),
            headers,
        )
    )


@both_kernels
@given(
    batches=st.lists(st.tuples(record_lists(sparse=True), st.sampled_from(Codec)), max_size=5),
    bounds=st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)),
    is_inside=st.booleans(),
    has_headers=st.booleans(),
)
def test_a_table_holds_the_records_of_all_batches_within_its_bounds(
    kernel_name: str,
    batches: list[tuple[list[Record], Codec]],
    bounds: tuple[int, int],
    is_inside: bool,
    has_headers: bool,
) -> None:
    if not has_headers:
        batches = [([each._replace(headers=()) for each in batch], c) for batch, c in batches]
    records = [record for batch, _ in batches for record in batch]
    if is_inside and records:
        # Bounds that fall between the records of a batch.
        bounds = (
            records[bounds[0] % len(records)].offset,
            records[bounds[1] % len(records)].offset,
        )
    first, end = min(bounds), max(bounds)
    builder = ColumnBuilder(headers=has_headers)
    with use_kernel(kernel_name):
        for batch, codec in batches:
            found = encode_batch(batch, BatchOptions(codec=codec))
            header = read_batch_header(found)
            builder.append(found, header, PLENTY, first_offset=first, end_offset=end)
    wanted = [record for record in records if first <= record.offset < end]
    assert len(builder) == len(wanted)
    assert rows_of(builder.take()) == wanted
    assert len(builder) == 0


@both_kernels
def test_only_wanted_columns_are_gathered(kernel_name: str) -> None:
    builder = ColumnBuilder(keys=False, headers=False)
    with use_kernel(kernel_name):
        found = encode_batch(
            [Record(0, 1, b"k", b"v", (("h", b"1"),))], BatchOptions(append_time_ms=77)
        )
        header = read_batch_header(found)
        builder.append(found, header, PLENTY, first_offset=0, end_offset=9)
    table = builder.take()
    assert (table.keys, table.headers, table.timestamp_types) == (None, None, array("i", [1]))
    assert table.timestamps_ms == array("q", [77])
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


@both_kernels
@given(
    damage=st.tuples(st.integers(0, 10**6), st.integers(0, 255)),
    records=record_lists(size_max=6),
    rows=st.integers(0, 3),
)
def test_a_damaged_batch_adds_nothing(
    kernel_name: str, damage: tuple[int, int], records: list[Record], rows: int
) -> None:
    found = encode_batch(records)
    header = read_batch_header(found)
    found[header.at + 61 + damage[0] % (len(found) - 61)] = damage[1]
    builder = ColumnBuilder(headers=False)
    before = encode_batch([Record(each, 5, b"key", None) for each in range(rows + 1)])
    with use_kernel(kernel_name):
        builder.append(before, read_batch_header(before), PLENTY, first_offset=0, end_offset=9)
        try:
            builder.append(found, header, PLENTY, first_offset=0, end_offset=2**62)
        except InvalidRecord:
            assert len(builder) == rows + 1
        table = builder.take()
    assert table.keys is not None
    assert table.values is not None
    sizes = {len(part) for part in table[:3]}
    assert sizes == {len(table.keys.offsets) - 1} == {len(table.values.offsets) - 1}
    assert column(table.keys)[: rows + 1] == [b"key"] * (rows + 1)


@both_kernels
def test_parts_that_are_no_table_are_refused(kernel_name: str) -> None:
    kernel = load_kernel(kernel_name)
    whole = (array("q"), array("q"), array("i"), (array("i", [0]), bytearray(), bytearray()), None)
    for place, wrong in ((0, array("i")), (1, array("q", [1])), (2, array("i", [1]))):
        parts = [*whole]
        parts[place] = wrong
        with pytest.raises(ValueError, match="no table"):
            kernel.append_records(b"", 0, 0, 0, 0, None, 0, 0, 1, tuple(parts))  # type: ignore[arg-type]
    parts = [*whole]
    parts[3] = (array("i", [0, 0]), bytearray(), bytearray(1))
    with pytest.raises(ValueError, match="no table"):
        kernel.append_records(b"", 0, 0, 0, 0, None, 0, 0, 1, tuple(parts))  # type: ignore[arg-type]
