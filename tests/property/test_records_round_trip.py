"""What is encoded comes back, on both kernels, and both write the same bytes."""

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import assign_offsets, check_batches, read_batch_header, scan_batches
from kafkaesque.model.batch_encoder import BatchBuilder, BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import use_kernel
from kafkaesque.model.record_errors import Fault
from kafkaesque.model.records import (
    Record,
    RecordColumns,
    decode_batch,
    decode_columns,
    gather_keys,
    gather_values,
)
from tests.unit.model.record_helpers import (
    PLENTY,
    both_kernels,
    contents,
    headers,
    kernel_names,
    near_times,
    record_lists,
)

codecs = st.sampled_from(list(Codec))


def rows_of(columns: RecordColumns) -> list[Record]:
    return [
        Record(
            columns.offsets[row],
            columns.timestamps_ms[row],
            columns.key(row),
            columns.value(row),
            columns.headers(row),
        )
        for row in range(len(columns.offsets))
    ]


@both_kernels
@given(records=record_lists(), codec=codecs, copies=st.integers(1, 3))
def test_what_a_producer_sends_is_checked_and_comes_back(
    kernel_name: str, records: list[Record], codec: Codec, copies: int
) -> None:
    with use_kernel(kernel_name):
        batch = encode_batch(records, BatchOptions(codec=codec))
        checked = check_batches(batch * copies, len(batch), decompressed_bytes_max=PLENTY)
        assert [header.at for header in checked] == [len(batch) * row for row in range(copies)]
        for header in checked:
            assert header.record_count == len(records)
            assert header.latest_timestamp_ms == max(record.timestamp_ms for record in records)
            assert decode_batch(batch * copies, PLENTY, at=header.at) == records
        assert rows_of(decode_columns(batch, PLENTY)) == records


@both_kernels
@given(records=record_lists(sparse=True), codec=codecs, more=st.integers(0, 1000))
def test_what_compaction_leaves_comes_back(
    kernel_name: str, records: list[Record], codec: Codec, more: int
) -> None:
    first, last = records[0].offset, records[-1].offset + more
    options = BatchOptions(
        codec=codec, base_offset=max(first - more, 0), last_offset=last, delete_horizon_ms=more
    )
    with use_kernel(kernel_name):
        batch = encode_batch(records, options)
        scan = scan_batches(batch, walk=True)
        assert scan.fault is Fault.NONE
        assert scan.batches[0].last_offset == last
        assert scan.batches[0].delete_horizon_ms == more
        assert decode_batch(batch, PLENTY) == records
        assert rows_of(decode_columns(batch, PLENTY)) == records


@given(records=record_lists(sparse=True))
def test_both_kernels_write_the_same_bytes(records: list[Record]) -> None:
    written = []
    for name in kernel_names():
        with use_kernel(name):
            written.append(encode_batch(records))
    assert all(batch == written[0] for batch in written)


@both_kernels
@given(
    records=record_lists(),
    codec=codecs,
    base=st.integers(0, 2**62),
    epoch=st.integers(0, 2**31 - 1),
    append_time=st.none() | near_times,
)
def test_a_stamped_batch_is_the_same_batch_elsewhere(
    kernel_name: str,
    records: list[Record],
    codec: Codec,
    base: int,
    epoch: int,
    append_time: int | None,
) -> None:
    with use_kernel(kernel_name):
        batch = encode_batch(records, BatchOptions(codec=codec))
        assign_offsets(batch, 0, base, epoch, append_time_ms=append_time)
        scan = scan_batches(batch, walk=True)
        assert (scan.fault, scan.end) == (Fault.NONE, len(batch))
        assert scan.batches[0].partition_leader_epoch == epoch
        wanted = [
            record._replace(
                offset=base + row,
                timestamp_ms=record.timestamp_ms if append_time is None else append_time,
            )
            for row, record in enumerate(records)
        ]
        assert decode_batch(batch, PLENTY) == wanted
        assert rows_of(decode_columns(batch, PLENTY)) == wanted


@both_kernels
@given(records=record_lists(size_max=40))
def test_gathered_columns_are_the_records(kernel_name: str, records: list[Record]) -> None:
    with use_kernel(kernel_name):
        columns = decode_columns(encode_batch(records), PLENTY)
        keys, values = gather_keys(columns), gather_values(columns)
    for column, wanted in (
        (keys, [record.key for record in records]),
        (values, [record.value for record in records]),
    ):
        found = [
            column.data[column.offsets[row] : column.offsets[row + 1]]
            if column.validity[row // 8] >> row % 8 & 1
            else None
            for row in range(len(records))
        ]
        assert found == wanted
        assert column.null_count == wanted.count(None)


@given(
    limit=st.integers(61, 2000),
    given_records=st.lists(st.tuples(near_times, contents, contents, headers), max_size=30),
)
def test_a_builder_keeps_its_bound_and_loses_nothing(
    limit: int, given_records: list[tuple[int, bytes | None, bytes | None, tuple[()]]]
) -> None:
    builder, batches = BatchBuilder(limit), []
    for row in given_records:
        if not builder.append(*row):
            batches.append(builder.build())
            assert builder.append(*row)
    if len(builder):
        batches.append(builder.build())
    found = [record for batch in batches for record in decode_batch(batch, PLENTY)]
    assert [tuple(record[1:]) for record in found] == given_records
    for batch in batches:
        assert len(batch) <= limit or read_batch_header(batch).record_count == 1


@given(keys=st.lists(st.binary(max_size=70)))
def test_both_kernels_hash_alike(keys: list[bytes]) -> None:
    hashes = []
    for name in kernel_names():
        with use_kernel(name) as kernel:
            hashes.append([kernel.murmur2(key) for key in keys])
    assert all(found == hashes[0] for found in hashes)
