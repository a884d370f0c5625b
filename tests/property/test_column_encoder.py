"""Rows of Arrow columns become batches that hold just them, by both kernels in the same bytes."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import check_batches
from kafkaesque.model.batch_encoder import BatchOptions, RowColumns, encode_rows
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import load_kernel, use_kernel
from kafkaesque.model.kernel_types import ArrowColumn
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.model.records import Record, decode_batch
from tests.unit.model.record_helpers import NOW_MS, PLENTY, both_kernels, contents, kernel_names

tables = st.lists(st.tuples(contents, contents), min_size=1, max_size=30)


def column(cells: list[bytes | None], before: int = 0) -> ArrowColumn:
    """Return a column that begins `before` rows into its buffers, as a slice of a longer one."""
    everything = [b"other", None, b""][:before] + cells
    offsets, data, validity = array("i", [0]), b"", bytearray((len(everything) + 7) // 8)
    for row, cell in enumerate(everything):
        data += cell or b""
        offsets.append(len(data))
        validity[row // 8] |= (cell is not None) << row % 8
    has_nulls = None in everything
    return data, offsets.tobytes(), bytes(validity) if has_nulls else None, before


def columns_of(table: list[tuple[bytes | None, bytes | None]], before: int = 0) -> RowColumns:
    keys = None if all(key is None for key, _ in table) else column([k for k, _ in table], before)
    return RowColumns(keys=keys, values=column([v for _, v in table], before), count=len(table))


@both_kernels
@given(
    table=tables,
    before=st.integers(0, 3),
    bytes_max=st.integers(0, 600),
    codec=st.sampled_from(Codec),
    data=st.data(),
)
def test_batches_hold_the_rows_in_their_order(
    kernel_name: str,
    table: list[tuple[bytes | None, bytes | None]],
    before: int,
    bytes_max: int,
    codec: Codec,
    data: st.DataObject,
) -> None:
    rows = array("i", data.draw(st.lists(st.integers(0, len(table) - 1), min_size=1, max_size=40)))
    first, found = 0, []
    with use_kernel(kernel_name):
        while first < len(rows):
            begun = first
            batch, first = encode_rows(
                columns_of(table, before),
                rows,
                first,
                bytes_max=bytes_max,
                timestamp_ms=NOW_MS,
                options=BatchOptions(codec=codec),
            )
            assert codec or first - begun == 1 or len(batch) <= bytes_max
            (header,) = check_batches(batch, PLENTY, decompressed_bytes_max=PLENTY)
            assert header.latest_timestamp_ms == NOW_MS
            found += decode_batch(batch, PLENTY)
            assert [record.offset for record in found[begun:]] == list(range(first - begun))
    assert [(record.key, record.value) for record in found] == [table[row] for row in rows]
    assert {record[1::3] for record in found} == {(NOW_MS, ())}
    assert type(found[0]) is Record


@given(table=tables, bytes_max=st.integers(0, 600), before=st.integers(0, 3))
def test_both_kernels_write_the_same_bytes(
    table: list[tuple[bytes | None, bytes | None]], bytes_max: int, before: int
) -> None:
    columns, rows = columns_of(table, before), array("i", range(len(table)))
    results = [
        load_kernel(name).encode_columns(
            columns.keys, columns.values, columns.count, rows, 0, bytes_max, 7
        )
        for name in kernel_names()
    ]
    assert all(result == results[0] for result in results)


@both_kernels
@given(keys=st.lists(contents, max_size=40), partitions=st.integers(1, 50))
def test_rows_go_where_kafkas_clients_send_them(
    kernel_name: str, keys: list[bytes | None], partitions: int
) -> None:
    kernel = load_kernel(kernel_name)
    found = kernel.hash_partitions(column(keys), len(keys), partitions, 0)
    assert list(found) == [0 if key is None else partition_for_key(key, partitions) for key in keys]
    rows, bounds = kernel.group_rows(found, partitions)
    for partition in range(partitions):
        group = list(rows[bounds[partition] : bounds[partition + 1]])
        assert group == [row for row, each in enumerate(found) if each == partition]


BAD: list[tuple[ArrowColumn, int, list[int], int]] = [
    ((b"ab", array("i", [0, 1]).tobytes(), None, 0), 2, [0], 0),  # offsets too short
    ((b"ab", array("i", [0, 1, 3]).tobytes(), None, 0), 2, [1], 0),  # beyond the data
    ((b"ab", array("i", [0, 2, 1]).tobytes(), None, 0), 2, [1], 0),  # backwards
    ((b"ab", array("i", [-1, 1, 2]).tobytes(), None, 0), 2, [0], 0),
    ((b"ab", array("i", [0, 1, 2]).tobytes(), b"", 0), 2, [0], 0),  # no bitmap
    ((b"ab", array("i", [0, 1, 2]).tobytes(), None, 1), 2, [0], 0),
    ((b"ab", array("i", [0, 1, 2]).tobytes(), None, -1), 2, [0], 0),
    ((b"ab", array("i", [0, 1, 2]).tobytes(), None, 0), 2, [2], 0),  # no such row
    ((b"ab", array("i", [0, 1, 2]).tobytes(), None, 0), 2, [-1], 0),
    ((b"ab", array("i", [0, 1, 2]).tobytes(), None, 0), 2, [0], 1),  # no such place
    ((b"ab", array("i", [0, 1, 2]).tobytes(), None, 0), 2, [], 0),
]


@both_kernels
@pytest.mark.parametrize("case", BAD, ids=[f"case-{number}" for number in range(len(BAD))])
def test_columns_that_are_none_are_refused(
    kernel_name: str, case: tuple[ArrowColumn, int, list[int], int]
) -> None:
    values, count, rows, first = case
    with pytest.raises(ValueError, match=r"rows|column"):
        load_kernel(kernel_name).encode_columns(
            None, values, count, array("i", rows), first, PLENTY, 0
        )


@both_kernels
def test_partitions_that_do_not_exist_are_refused(kernel_name: str) -> None:
    kernel = load_kernel(kernel_name)
    for partitions in ([-1], [2]):
        with pytest.raises(ValueError, match="does not exist"):
            kernel.group_rows(array("i", partitions), 2)
    with pytest.raises(ValueError, match="at least one"):
        kernel.hash_partitions(column([b"a"]), 1, 0, 0)
