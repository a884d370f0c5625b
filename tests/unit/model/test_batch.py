import struct

import pytest

from kafkaesque.model.batch import (
    Attribute,
    assign_offsets,
    check_batches,
    read_batch_header,
    scan_batches,
)
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import use_kernel
from kafkaesque.model.record_errors import (
    BatchTooLarge,
    CorruptBatch,
    DecompressionTooLarge,
    Fault,
    IncompleteBatch,
    InvalidRecord,
    InvalidTimestamp,
    RecordError,
    UnknownCompression,
    UnsupportedMagic,
)
from kafkaesque.model.records import Record, decode_batch
from tests.unit.model.record_helpers import (
    NOW_MS,
    PLENTY,
    all_codecs,
    both_kernels,
    patched,
    raw_batch,
    sample_batch,
    sample_records,
)

LENGTH_AT, MAGIC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT = 8, 16, 21, 23, 57


def test_header_says_what_was_encoded() -> None:
    options = BatchOptions(
        codec=Codec.LZ4,
        leader_epoch=5,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    batch = encode_batch(sample_records(), options)
    header = read_batch_header(b"junk" + batch, 4)
    assert (header.at, header.size_bytes, header.end) == (4, len(batch), 4 + len(batch))
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 2, 3)
    assert (header.partition_leader_epoch, header.record_count, header.magic) == (5, 3, 2)
    assert (header.producer_id, header.producer_epoch) == (2**40, 3)
    assert (header.base_sequence, header.last_sequence) == (2**31 - 2, 0)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW_MS, NOW_MS + 2)
    assert (header.codec, header.is_compressed, header.is_transactional) == (Codec.LZ4, True, True)
    assert (header.is_control, header.is_append_time, header.delete_horizon_ms) == (
        False,
        False,
        None,
    )


def test_header_of_a_batch_with_every_broker_bit() -> None:
    options = BatchOptions(control=True, append_time_ms=77, delete_horizon_ms=55, last_offset=9)
    header = read_batch_header(encode_batch(sample_records(), options))
    assert (header.is_control, header.is_append_time, header.delete_horizon_ms) == (True, True, 55)
    assert (header.max_timestamp_ms, header.last_offset, header.last_sequence) == (77, 9, -1)


@pytest.mark.parametrize("magic", [0, 1])
@both_kernels
def test_old_formats_are_refused_by_name(kernel_name: str, magic: int) -> None:
    # A v1 message set is far shorter than a v2 header: offset, size, crc, magic, attributes, ...
    message = struct.pack(">IbbqI", 0, magic, 0, NOW_MS, 0xFFFFFFFF) + struct.pack(">i", -1)
    old = struct.pack(">qi", 0, len(message)) + message
    with use_kernel(kernel_name):
        with pytest.raises(UnsupportedMagic):
            check_batches(old, PLENTY)
        with pytest.raises(UnsupportedMagic):
            read_batch_header(old)
        with pytest.raises(UnsupportedMagic):
            check_batches(patched(sample_batch(), ">b", MAGIC_AT, magic), PLENTY)


@both_kernels
def test_unknown_magic_is_corruption(kernel_name: str) -> None:
    with use_kernel(kernel_name):
        for magic in (3, -1):
            bad = patched(sample_batch(), ">b", MAGIC_AT, magic)
            with pytest.raises(CorruptBatch, match="magic"):
                check_batches(bad, PLENTY)
            with pytest.raises(CorruptBatch, match="magic"):
                read_batch_header(bad)


@all_codecs
@both_kernels
def test_good_batches_are_described_one_by_one(kernel_name: str, codec: Codec) -> None:
    batch = sample_batch(codec)
    with use_kernel(kernel_name):
        for cap in (None, PLENTY):
            first, second = check_batches(batch + batch, len(batch), decompressed_bytes_max=cap)
            assert first == read_batch_header(batch)._replace(latest_timestamp_ms=NOW_MS + 2)
            assert second == first._replace(at=len(batch))
        assert check_batches(b"", PLENTY) == []


@both_kernels
def test_every_cut_is_noticed(kernel_name: str) -> None:
    whole = sample_batch() + sample_batch(Codec.ZSTD)
    first = len(sample_batch())
    with use_kernel(kernel_name):
        for cut in range(1, len(whole)):
            if cut != first:
                with pytest.raises(IncompleteBatch):
                    check_batches(whole[:cut], PLENTY)
            scan = scan_batches(whole[:cut])
            good = int(cut >= first)
            assert (len(scan.batches), scan.end) == (good, good * first)
            assert scan.fault is (Fault.NONE if cut == first else Fault.INCOMPLETE)


@both_kernels
def test_every_flipped_bit_after_the_leader_epoch_is_noticed(kernel_name: str) -> None:
    batch = sample_batch()
    with use_kernel(kernel_name):
        for bit in range(8 * LENGTH_AT, 8 * len(batch)):
            if 8 * 12 <= bit < 8 * MAGIC_AT:
                continue  # The leader epoch is patched by leaders, outside of the checksum.
            bad = bytearray(batch)
            bad[bit // 8] ^= 1 << bit % 8
            with pytest.raises((CorruptBatch, UnsupportedMagic, BatchTooLarge)):
                check_batches(bad, PLENTY)


@both_kernels
def test_impossible_lengths(kernel_name: str) -> None:
    with use_kernel(kernel_name):
        for length in (-(2**31), -1, 0, 13, 48):
            bad = patched(sample_batch(), ">i", LENGTH_AT, length)
            struct.pack_into(">i", bad, LENGTH_AT, length)
            with pytest.raises(CorruptBatch, match="length"):
                check_batches(bad, PLENTY)
            with pytest.raises(CorruptBatch, match="length"):
                read_batch_header(bad)
        huge = sample_batch()
        struct.pack_into(">i", huge, LENGTH_AT, 2**31 - 1)
        with pytest.raises(BatchTooLarge):
            check_batches(huge, PLENTY)


@both_kernels
def test_a_batch_may_be_as_long_as_the_limit_and_no_longer(kernel_name: str) -> None:
    batch = sample_batch()
    with use_kernel(kernel_name):
        assert len(check_batches(batch, len(batch))) == 1
        with pytest.raises(BatchTooLarge):
            check_batches(batch, len(batch) - 1)


@both_kernels
@pytest.mark.parametrize(
    ("bits", "error"),
    [
        (Attribute.CONTROL, InvalidRecord),
        (Attribute.DELETE_HORIZON, InvalidRecord),
        (Attribute.APPEND_TIME, InvalidTimestamp),
        (Attribute.TRANSACTIONAL, InvalidRecord),
        (0x80, InvalidRecord),
        (-0x8000, InvalidRecord),
        (5, UnknownCompression),
        (7, UnknownCompression),
    ],
    ids=str,
)
def test_attributes_that_a_client_may_not_set(
    kernel_name: str, bits: int, error: type[RecordError]
) -> None:
    bad = patched(sample_batch(), ">h", ATTRIBUTES_AT, bits)
    with use_kernel(kernel_name):
        with pytest.raises(error) as raised:
            check_batches(sample_batch() + bad, PLENTY)
        assert type(raised.value) is error
        assert raised.value.at == len(sample_batch())
        # A log may hold them all, but for codecs that nobody can read.
        fault = Fault.CODEC if error is UnknownCompression else Fault.NONE
        assert scan_batches(bad).fault is fault


@both_kernels
@pytest.mark.parametrize(
    ("last_delta", "count"), [(2, 2), (3, 3), (-1, 0), (1, 2**31 - 1), (-1, -1)], ids=str
)
def test_counts_that_do_not_fit(kernel_name: str, last_delta: int, count: int) -> None:
    bad = patched(sample_batch(), ">i", LAST_DELTA_AT, last_delta)
    bad = patched(bad, ">i", COUNT_AT, count)
    with use_kernel(kernel_name), pytest.raises(InvalidRecord):
        check_batches(bad, PLENTY)


@both_kernels
def test_a_count_that_the_bytes_cannot_hold_is_refused_before_memory_is_taken(
    kernel_name: str,
) -> None:
    bad = patched(sample_batch(), ">i", LAST_DELTA_AT, 2**31 - 2)
    bad = patched(bad, ">i", COUNT_AT, 2**31 - 1)
    with use_kernel(kernel_name):
        with pytest.raises(InvalidRecord, match="count"):
            check_batches(bad, PLENTY)
        with pytest.raises(InvalidRecord, match="count"):
            decode_batch(bad, PLENTY)


@both_kernels
@pytest.mark.parametrize(
    ("producer", "good"),
    [
        ((-1, -1, -1), True),
        ((-1, 0, 0), True),
        ((9, 0, 0), True),
        ((9, -1, 0), False),
        ((9, 0, -1), False),
        ((-2, 0, 0), False),
    ],
    ids=str,
)
def test_producer_fields(kernel_name: str, producer: tuple[int, int, int], good: bool) -> None:
    identity, epoch, sequence = producer
    options = BatchOptions(producer_id=identity, producer_epoch=epoch, base_sequence=sequence)
    batch = encode_batch(sample_records(), options)
    with use_kernel(kernel_name):
        if good:
            assert check_batches(batch, PLENTY)[0].producer_id == identity
        else:
            with pytest.raises(InvalidRecord, match="producer"):
                check_batches(batch, PLENTY)


@both_kernels
def test_transactional_batches_of_a_producer_are_good(kernel_name: str) -> None:
    options = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    with use_kernel(kernel_name):
        assert check_batches(encode_batch(sample_records(), options), PLENTY)[0].is_transactional


@both_kernels
def test_gaps_are_for_logs_and_not_for_producers(kernel_name: str) -> None:
    records = [Record(10, 0, None, b"a"), Record(15, 0, None, b"b")]
    batch = encode_batch(records)
    with use_kernel(kernel_name):
        with pytest.raises(InvalidRecord):
            check_batches(batch, PLENTY)
        (header,) = scan_batches(batch, walk=True).batches
        assert (header.last_offset, header.record_count) == (15, 2)
        # The count fits, the deltas do not.
        bad = encode_batch([records[0], Record(12, 0, None, b"b")])
        bad = patched(bad, ">i", LAST_DELTA_AT, 1)
        with pytest.raises(InvalidRecord, match="sequence"):
            check_batches(bad, PLENTY)
        assert scan_batches(bad, walk=True).fault is Fault.OFFSET_DELTA


# One record that is right: length 8, attributes, time, offset, key "k", null value, no headers.
GOOD = bytes([14, 0, 0, 0, 2, 0x6B, 1, 0])


@both_kernels
@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (bytes([10, 0, 0, 0, 1, 1]), "count"),  # five bytes of a record and its length
        (bytes([16]) + GOOD[1:], "record's length"),
        (bytes([10]) + GOOD[1:], "record's length"),
        (bytes([1]) + GOOD[1:], "record's length"),
        (bytes([0x80] * 5 + [0] * 5), "varint"),
        (bytes([0xFF, 0xFF, 0xFF, 0xFF, 0x10, 0, 0, 0]), "varint"),
        (bytes([26, 0, *[0xFF] * 9, 2, 0, 1, 1, 0]), "varint"),
        (bytes([14, 0, 0, 0, 3, 0x6B, 1, 0]), "key"),
        (bytes([14, 0, 0, 0, 8, 0x6B, 1, 0]), "key"),
        (bytes([14, 0, 0, 0, 2, 0x6B, 3, 0]), "value"),
        (bytes([14, 0, 0, 0, 2, 0x6B, 4, 0]), "value"),
        (bytes([14, 0, 0, 0, 2, 0x6B, 1, 1]), "headers"),
        (bytes([14, 0, 0, 0, 2, 0x6B, 1, 2]), "headers"),
        (bytes([18, 0, 0, 0, 2, 0x6B, 1, 2, 1, 1]), "headers"),
        (bytes([18, 0, 0, 0, 2, 0x6B, 1, 2, 0, 3]), "headers"),
        (bytes([16, 0, 0, 0, 2, 0x6B, 1, 0, 0]), "does not end"),
        (bytes([14, 0, 0, 2, 2, 0x6B, 1, 0]), "sequence"),
        (bytes([14, 0, 0, 1, 2, 0x6B, 1, 0]), "sequence"),
        (GOOD + b"\0", "follow"),
        (bytes([32, 0, *[0xFE, *[0xFF] * 8, 1], 0, 2, 0x6B, 1, 0]), "timestamp"),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else value.replace(" ", "-"),
)
def test_broken_framing_is_named(kernel_name: str, payload: bytes, words: str) -> None:
    with use_kernel(kernel_name):
        assert len(check_batches(raw_batch(GOOD, 1), PLENTY)) == 1
        with pytest.raises(InvalidRecord, match=words):
            check_batches(raw_batch(payload, 1), PLENTY)
        with pytest.raises(InvalidRecord, match=words):
            decode_batch(raw_batch(payload, 1), PLENTY)
        # Without the walk only the checksum is looked at, as after a restart.
        assert scan_batches(raw_batch(payload, 1)).fault is Fault.NONE


@all_codecs
@both_kernels
def test_broken_records_are_found_behind_compression(kernel_name: str, codec: Codec) -> None:
    from kafkaesque.model.compression import compress

    payload = compress(codec, GOOD + b"\0")
    bad = sample_batch() + raw_batch(payload, 1, codec)
    with use_kernel(kernel_name):
        with pytest.raises(InvalidRecord, match="follow") as raised:
            check_batches(bad, PLENTY, decompressed_bytes_max=PLENTY)
        assert raised.value.at == len(sample_batch())
        if codec:
            assert len(check_batches(bad, PLENTY)) == 2


@both_kernels
def test_the_latest_timestamp_is_that_of_the_records(kernel_name: str) -> None:
    for codec in (Codec.NONE, Codec.GZIP):
        lied = patched(sample_batch(codec), ">q", 35, 5)
        with use_kernel(kernel_name):
            (header,) = check_batches(lied, PLENTY, decompressed_bytes_max=PLENTY)
            assert (header.max_timestamp_ms, header.latest_timestamp_ms) == (5, NOW_MS + 2)
            assign_offsets(lied, 0, 0, 0, max_timestamp_ms=header.latest_timestamp_ms)
            (mended,) = check_batches(lied, PLENTY)
            assert mended.max_timestamp_ms == NOW_MS + 2


@all_codecs
def test_a_bomb_is_refused(codec: Codec) -> None:
    batch = encode_batch(
        [Record(0, 0, None, bytes(1 << 20))],
        BatchOptions(codec=codec),
    )
    if codec:
        with pytest.raises(DecompressionTooLarge):
            check_batches(batch, PLENTY, decompressed_bytes_max=1 << 19)
        with pytest.raises(DecompressionTooLarge):
            decode_batch(batch, 1 << 19)
    else:  # What is not compressed has the size that it has.
        assert len(check_batches(batch, PLENTY, decompressed_bytes_max=1)) == 1


@all_codecs
def test_offsets_are_assigned_in_place(codec: Codec) -> None:
    buffer = bytearray(b"12345") + sample_batch(codec)
    before = buffer[:]
    assign_offsets(buffer, 5, 1000, 7)
    (header,) = scan_batches(buffer, at=5).batches
    assert (header.base_offset, header.partition_leader_epoch) == (1000, 7)
    assert [record.offset for record in decode_batch(buffer, PLENTY, at=5)] == [1000, 1001, 1002]
    # Nothing but the two fields has changed.
    assert (buffer[:5], buffer[13:17], buffer[21:]) == (before[:5], before[13:17], before[21:])


@all_codecs
def test_append_time_replaces_every_timestamp(codec: Codec) -> None:
    buffer = sample_batch(codec)
    assign_offsets(memoryview(buffer), 0, 3, 1, append_time_ms=NOW_MS + 99)
    scan = scan_batches(buffer, walk=True)
    assert (scan.fault, scan.batches[0].latest_timestamp_ms) == (Fault.NONE, NOW_MS + 99)
    assert {record.timestamp_ms for record in decode_batch(buffer, PLENTY)} == {NOW_MS + 99}


def test_assigning_to_half_a_batch_writes_nothing() -> None:
    batch = sample_batch()
    for cut in (0, 60, len(batch) - 1):
        half = batch[:cut]
        with pytest.raises(IncompleteBatch):
            assign_offsets(half, 0, 9, 9)
        assert half == batch[:cut]
    with pytest.raises(IncompleteBatch):
        assign_offsets(batch, -len(batch), 9, 9)


@both_kernels
def test_a_scan_can_be_done_in_pieces(kernel_name: str) -> None:
    log = b"".join(encode_batch([Record(row, 0, None, b"x")]) for row in range(10))
    size = len(log) // 10
    with use_kernel(kernel_name):
        at, offsets = 0, []
        while at < len(log):
            scan = scan_batches(memoryview(log), at=at, count_max=3)
            assert scan.fault is Fault.NONE
            offsets += [batch.base_offset for batch in scan.batches]
            at = scan.end
        assert offsets == list(range(10))
        part = scan_batches(log, at=size, end=3 * size - 1)
        assert (len(part.batches), part.end, part.fault) == (1, 2 * size, Fault.INCOMPLETE)
        for at, end in ((-1, 5), (5, 4), (0, len(log) + 1)):
            with pytest.raises(IndexError):
                scan_batches(log, at=at, end=end)


@both_kernels
def test_a_preallocated_tail_of_zeros_ends_a_scan(kernel_name: str) -> None:
    batch = sample_batch()
    with use_kernel(kernel_name):
        scan = scan_batches(batch + bytes(4096))
        assert (len(scan.batches), scan.end, scan.fault) == (1, len(batch), Fault.LENGTH)


@both_kernels
def test_offsets_beyond_63_bits_are_corruption_in_a_log(kernel_name: str) -> None:
    with use_kernel(kernel_name):
        for base in (-1, 2**63 - 2):
            bad = patched(sample_batch(), ">q", 0, base)
            assert scan_batches(bad).fault is Fault.BASE_OFFSET
            with pytest.raises(CorruptBatch):
                decode_batch(bad, PLENTY)
        assert scan_batches(patched(sample_batch(), ">q", 0, 2**63 - 3)).fault is Fault.NONE


def test_the_compiled_kernel_counts_faults_as_the_enum_does() -> None:
    import re
    from pathlib import Path

    import kafkaesque.model

    source = Path(kafkaesque.model.__path__[0], "_kernel.pyx").read_text()
    numbers = {
        name: int(value) for name, value in re.findall(r"^    ([A-Z_]+) = (\d+)$", source, re.M)
    }
    assert {fault.name: numbers.get(fault.name) for fault in Fault if fault} == {
        fault.name: fault.value for fault in Fault if fault
    }
