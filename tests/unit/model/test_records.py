import pytest

from kafkaesque.model import batch as layout
from kafkaesque.model.batch import read_batch_header, scan_batches
from kafkaesque.model.batch_encoder import (
    BatchBuilder,
    BatchOptions,
    EndMarker,
    MarkerType,
    decode_end_marker,
    encode_batch,
    encode_empty_batch,
    encode_end_marker,
)
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import load_kernel, use_kernel
from kafkaesque.model.record_errors import (
    Fault,
    IncompleteBatch,
    InvalidRecord,
    UnknownCompression,
    UnsupportedMagic,
)
from kafkaesque.model.records import (
    Record,
    decode_batch,
    decode_columns,
    gather_keys,
    gather_values,
)
from tests.unit.model.record_helpers import (
    NOW_MS,
    PLENTY,
    all_codecs,
    both_kernels,
    kernel_names,
    patched,
    raw_batch,
    sample_batch,
    sample_records,
)


@all_codecs
@both_kernels
def test_records_come_back(kernel_name: str, codec: Codec) -> None:
    with use_kernel(kernel_name):
        batch = sample_batch(codec)
        assert decode_batch(batch, PLENTY) == sample_records()
        assert decode_batch(b"head" + bytes(batch) + b"tail", PLENTY, at=4) == sample_records()


@all_codecs
@both_kernels
def test_columns_say_the_same_as_records(kernel_name: str, codec: Codec) -> None:
    records = sample_records(20)
    with use_kernel(kernel_name):
        columns = decode_columns(sample_batch(codec, 20), PLENTY)
        assert (columns.offsets.typecode, columns.key_starts.typecode) == ("q", "i")
        rows = [
            Record(
                columns.offsets[row],
                columns.timestamps_ms[row],
                columns.key(row),
                columns.value(row),
                columns.headers(row),
            )
            for row in range(20)
        ]
        assert rows == records


def test_columns_of_an_uncompressed_batch_are_views() -> None:
    batch = sample_batch()
    columns = decode_columns(batch, PLENTY)
    assert isinstance(columns.payload, memoryview)
    assert columns.payload.obj is batch


@both_kernels
def test_columns_gather_into_arrows_layout(kernel_name: str) -> None:
    with use_kernel(kernel_name):
        columns = decode_columns(sample_batch(count=9), PLENTY)
        keys, values = gather_keys(columns), gather_values(columns)
        assert keys.data == b"key" * 3
        assert list(keys.offsets) == [0, 3, 3, 3, 6, 6, 6, 9, 9, 9]
        assert (keys.null_count, keys.validity) == (3, bytes([0b01101101, 0b1]))
        assert len(values.data) == 3 * (5 + 200)
        assert (values.null_count, values.validity) == (3, bytes([0b11011011, 0]))


@both_kernels
def test_gathering_stays_within_the_payload(kernel_name: str) -> None:
    from array import array

    with use_kernel(kernel_name) as kernel:
        assert kernel.gather(b"", array("i"), array("i")) == (b"", array("i", [0]), b"", 0)
        for start, length in ((-1, 1), (0, 4), (4, 0), (3, 1), (0, -2), (2**31 - 1, 2**31 - 1)):
            with pytest.raises(ValueError, match="outside"):
                kernel.gather(b"abc", array("i", [start]), array("i", [length]))
        for starts, lengths in ((array("q", [0]), array("i", [0])), (array("i"), array("i", [0]))):
            with pytest.raises(ValueError, match="equally long"):
                kernel.gather(b"abc", starts, lengths)


@both_kernels
def test_reading_headers_stays_within_the_payload(kernel_name: str) -> None:
    with use_kernel(kernel_name) as kernel:
        assert kernel.read_headers(b"\x02a\x01", 0, 1) == (("a", None),)
        assert kernel.read_headers(b"", 0, 0) == ()
        for count in (-1, 1, 2, 2**40):
            with pytest.raises(InvalidRecord):
                kernel.read_headers(b"\x02a\x04b", 0, count)
        for start in (-1, 5):
            with pytest.raises(IndexError):
                kernel.read_headers(b"\x02a\x01", start, 1)


@both_kernels
def test_header_names_that_are_not_utf8_are_no_poison(kernel_name: str) -> None:
    payload = bytes([22, 0, 0, 0, 1, 1, 2, 4, 0xFF, 0x41, 2, 0x42])
    with use_kernel(kernel_name):
        (record,) = decode_batch(raw_batch(payload, 1), PLENTY)
        assert record.headers == (("\ufffdA", b"B"),)


@both_kernels
def test_decoding_refuses_what_is_no_batch(kernel_name: str) -> None:
    batch = sample_batch()
    with use_kernel(kernel_name):
        for cut in range(len(batch)):
            with pytest.raises(IncompleteBatch):
                decode_batch(batch[:cut], PLENTY)
        with pytest.raises(UnsupportedMagic):
            decode_batch(patched(batch, ">b", 16, 1), PLENTY)
        with pytest.raises(UnknownCompression):
            decode_batch(patched(batch, ">h", 21, 6), PLENTY)
        with pytest.raises(InvalidRecord):
            decode_batch(patched(batch, ">i", 57, -1), PLENTY)
        with pytest.raises(InvalidRecord):
            decode_columns(patched(batch, ">i", 57, 2), PLENTY)
        with pytest.raises(IncompleteBatch):
            decode_batch(batch, PLENTY, at=-1)


@both_kernels
def test_an_empty_batch_covers_offsets(kernel_name: str) -> None:
    batch = encode_empty_batch(10, 19, BatchOptions(producer_id=4, base_sequence=7))
    with use_kernel(kernel_name):
        scan = scan_batches(batch, walk=True)
        assert scan.fault is Fault.NONE
        (header,) = scan.batches
        assert (header.base_offset, header.last_offset, header.record_count) == (10, 19, 0)
        assert header.latest_timestamp_ms == layout.NO_TIMESTAMP
        assert decode_batch(batch, PLENTY) == []
        assert len(decode_columns(batch, PLENTY).offsets) == 0


@both_kernels
def test_a_compacted_batch_keeps_its_span(kernel_name: str) -> None:
    records = [Record(12, 5, b"a", b"b"), Record(17, 3, b"c", None)]
    options = BatchOptions(base_offset=10, last_offset=20, delete_horizon_ms=NOW_MS)
    with use_kernel(kernel_name):
        batch = encode_batch(records, options)
        header = read_batch_header(batch)
        assert (header.base_offset, header.last_offset) == (10, 20)
        assert (header.delete_horizon_ms, header.max_timestamp_ms) == (NOW_MS, 5)
        assert decode_batch(batch, PLENTY) == records


@both_kernels
@pytest.mark.parametrize(
    ("record", "error"),
    [
        ((0, 0, "text", None, ()), TypeError),
        ((0, 0, 5, None, ()), TypeError),
        ((0, 0, None, [1], ()), TypeError),
        ((0, 0, None, None, None), TypeError),
        ((0, 0, None, None, ((b"name", b""),)), TypeError),
        ((0, 0, None, None, (("name",),)), TypeError),
        ((0, 0, None, None, (("name", "text"),)), TypeError),
        ((0, 0, None, None, (["name", b""],)), TypeError),
        ((0, 0, None, None), TypeError),
        ([0, 0, None, None, ()], TypeError),
        ((0, 1.5, None, None, ()), TypeError),
        ((None, 0, None, None, ()), TypeError),
        ((0, 2**63, None, None, ()), OverflowError),
        ((2**63, 0, None, None, ()), OverflowError),
        ((-1, 0, None, None, ()), ValueError),
        ((2**31, 0, None, None, ()), ValueError),
        ((0, 0, None, None, (("\ud800", b""),)), ValueError),
    ],
    ids=str,
)
def test_records_that_cannot_be_encoded(
    kernel_name: str, record: object, error: type[Exception]
) -> None:
    with use_kernel(kernel_name) as kernel, pytest.raises(error):
        kernel.encode_records([record], 0, 0, 0)


@both_kernels
def test_records_that_do_not_go_together(kernel_name: str) -> None:
    with use_kernel(kernel_name) as kernel:
        with pytest.raises(ValueError, match="at least one"):
            kernel.encode_records([], 0, 0, 0)
        with pytest.raises(ValueError, match="ascend"):
            kernel.encode_records([(0, 0, None, None, ())] * 2, 0, 0, 0)
        for base, time in ((1, -(2**63)), (-(2**63), 1), (2**63 - 1, -2), (-2, 2**63 - 1)):
            with pytest.raises(ValueError, match="apart"):
                kernel.encode_records([(0, time, None, None, ())], 0, base, 0)
        edge = [(0, -(2**63), None, None, ()), (1, -1, None, None, ())]
        assert kernel.encode_records(edge, 0, -(2**63), 0)[1:] == (-1, 1)


def test_options_that_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([])
    with pytest.raises(ValueError, match="before that of the last record"):
        encode_batch(sample_records(), BatchOptions(last_offset=1))
    with pytest.raises(ValueError, match="not possible"):
        encode_batch([Record(-5, 0, None, None)])
    with pytest.raises(ValueError, match="not possible"):
        encode_batch(sample_records(), BatchOptions(last_offset=2**31))


@both_kernels
def test_other_buffers_than_bytes_are_encoded(kernel_name: str) -> None:
    class Kind(bytes):
        pass

    given = [(0, True, bytearray(b"k"), memoryview(b"-v-")[1:2], [("n", Kind(b"c"))])]
    with use_kernel(kernel_name) as kernel:
        same = kernel.encode_records([(0, 1, b"k", b"v", (("n", b"c"),))], 0, 0, 3)
        assert kernel.encode_records(given, 0, 0, 3) == same
        assert same[0][:3] == bytes(3)


@both_kernels
def test_a_builder_never_makes_more_than_its_limit(kernel_name: str) -> None:
    with use_kernel(kernel_name):
        builder = BatchBuilder(1000)
        while builder.append(NOW_MS, b"key", b"x" * 50, (("näme", b"c"), ("none", None))):
            pass
        count = len(builder)
        assert count > 5
        bound = builder.size_bytes_max
        batch = builder.build(BatchOptions(codec=Codec.NONE))
        assert len(batch) <= bound <= 1000
        assert [record.offset for record in decode_batch(batch, PLENTY)] == list(range(count))
        assert len(builder) == 0
        assert builder.append(NOW_MS, None, bytes(2000))
        assert not builder.append(NOW_MS, None, None)
        assert len(decode_batch(builder.build(), PLENTY)) == 1


@pytest.mark.parametrize("kind", list(MarkerType), ids=lambda kind: kind.name)
def test_end_markers_come_back(kind: MarkerType) -> None:
    marker = EndMarker(type=kind, coordinator_epoch=12)
    batch = encode_end_marker(
        marker, producer_id=5, producer_epoch=2, timestamp_ms=NOW_MS, base_offset=100
    )
    header = read_batch_header(batch)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.producer_id, header.producer_epoch, header.base_offset) == (5, 2, 100)
    (record,) = decode_batch(batch, PLENTY)
    assert (record.key, record.value) == (bytes([0, 0, 0, kind]), bytes([0, 0, 0, 0, 0, 12]))
    assert decode_end_marker(record) == marker
    longer = record._replace(key=bytes([0, 1, 0, kind, 9]), value=bytes([0, 3, 0, 0, 0, 12, 9]))
    assert decode_end_marker(longer) == marker


def test_what_is_no_end_marker() -> None:
    for key, value in [
        (None, b"\0" * 6),
        (b"\0" * 3, b"\0" * 6),
        (b"\0" * 4, None),
        (b"\0" * 4, b"\0" * 5),
        (b"\0\0\0\2", b"\0" * 6),
        (b"\xff\xff\0\0", b"\0" * 6),
    ]:
        with pytest.raises(InvalidRecord):
            decode_end_marker(Record(0, 0, key, value))


def test_kernels_are_chosen_by_name() -> None:
    for name in kernel_names():
        with use_kernel(name) as kernel:
            assert kernel is load_kernel(name)
    with pytest.raises(ValueError, match="no kernel"):
        load_kernel("fortran")
