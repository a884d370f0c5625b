"""Batches that are not what they claim to be: the error that Kafka gives, for that batch alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest

from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.compression import Codec, compress
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.protocols.kafka.messages.produce_response import PartitionProduceResponse
from tests.clients.bad_input import MIB, Victim, batch, produce_request

VERSION = 9
PARTITIONS = 4
INT32_MAX = 2**31 - 1
#: message.max.bytes as it is by default, and what a batch may decompress to.
BATCH_BYTES_MAX = 1_048_588
DECOMPRESSED_BYTES_MAX = 64 * MIB
#: A bomb is dealt with in less processor time.
BOMB_SECONDS_MAX = 3.0
#: One batch that decompresses to nearly as much as is allowed: twice that, and room.
BOMB_GROWTH_BYTES_MAX = 2 * DECOMPRESSED_BYTES_MAX + 32 * MIB

# Places in a batch.
LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, FIRST_TIME, LAST_TIME = 8, 16, 17, 21, 23, 27, 35
PRODUCER_ID, PRODUCER_EPOCH, SEQUENCE, COUNT, RECORDS = 43, 51, 53, 57, 61


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as made:
        yield made


@pytest.fixture(scope="module")
def topic(victim: Victim) -> str:
    return victim.make_topic(PARTITIONS)


@pytest.fixture(autouse=True)
def others_notice_nothing(victim: Victim) -> Iterator[None]:
    with victim.watched(growth_bytes_max=BOMB_GROWTH_BYTES_MAX):
        yield


def outcome(victim: Victim, request: ProduceRequest) -> PartitionProduceResponse:
    """Return what becomes of the only partition of a request."""
    with victim.connect() as wire:
        (answered,) = wire.ask(ApiKey.PRODUCE, VERSION, request).responses
    (partition,) = answered.partition_responses
    assert isinstance(partition, PartitionProduceResponse)
    return partition


def error_of(victim: Victim, topic: str, records: bytes | bytearray | None) -> ErrorCode:
    before = end_offset(victim, topic)
    code = ErrorCode(outcome(victim, produce_request(topic, records)).error_code)
    assert (end_offset(victim, topic) == before) is (code != ErrorCode.NONE)
    return code


def end_offset(victim: Victim, topic: str) -> int:
    """Return the high watermark of the first partition."""
    wanted = FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1,
    )
    request = FetchRequest(
        max_bytes=1, session_epoch=-1, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    with victim.connect() as wire:
        answer = wire.ask(ApiKey.FETCH, 12, request)
    offset = answer.responses[0].partitions[0].high_watermark
    assert isinstance(offset, int)
    return offset


def sealed(records: bytearray) -> bytearray:
    """Return a changed batch with the length and the checksum that it then must have."""
    struct.pack_into(">i", records, LENGTH, len(records) - 12)
    struct.pack_into(">I", records, CRC, crc32c(bytes(records[ATTRIBUTES:])))
    return records


def with_field(at: int, form: str, value: int) -> bytearray:
    """Return a batch of two records with one field changed and all else right."""
    records = batch(b"one", b"two")
    struct.pack_into(form, records, at, value)
    return sealed(records)


def with_records(records: bytes, count: int = 1) -> bytearray:
    """Return a batch with these bytes where its records should be."""
    changed = batch(b"x")[:RECORDS] + records
    struct.pack_into(">i", changed, COUNT, count)
    struct.pack_into(">i", changed, LAST_DELTA, count - 1)
    return sealed(bytearray(changed))


# -- batches


def test_a_good_batch_is_taken(victim: Victim, topic: str) -> None:
    # The measure of all that follows: what is changed there is what is refused.
    assert error_of(victim, topic, batch(b"one", b"two")) == ErrorCode.NONE
    assert error_of(victim, topic, with_field(SEQUENCE, ">i", -1)) == ErrorCode.NONE
    assert error_of(victim, topic, with_records(b"\x0e\0\0\0\1\2x\0")) == ErrorCode.NONE


def test_no_batch_and_two(victim: Victim, topic: str) -> None:
    assert error_of(victim, topic, b"") == ErrorCode.INVALID_RECORD
    assert error_of(victim, topic, None) == ErrorCode.INVALID_RECORD
    assert error_of(victim, topic, batch(b"x") + batch(b"y")) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (0xFF, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_other_magic_bytes(victim: Victim, topic: str, magic: int, code: ErrorCode) -> None:
    assert error_of(victim, topic, with_field(MAGIC, ">B", magic)) == code


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_old_formats(victim: Victim, topic: str, magic: int) -> None:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1000) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", 5) + b"value"
    message = struct.pack(">I", zlib.crc32(body)) + body
    message_set = struct.pack(">qi", 0, len(message)) + message
    assert error_of(victim, topic, message_set) == ErrorCode.INVALID_RECORD
    assert error_of(victim, topic, message_set * 10) == ErrorCode.INVALID_RECORD


def test_a_batch_with_any_one_byte_changed_is_refused(victim: Victim, topic: str) -> None:
    good = batch(b"one", b"two", options=BatchOptions(producer_id=7, producer_epoch=0))
    before = end_offset(victim, topic)
    with victim.connect() as wire:
        for at in range(LENGTH, len(good)):
            if at in range(12, 16):  # The leader epoch, which is the broker's.
                continue
            changed = bytearray(good)
            changed[at] ^= 0x55
            answer = wire.ask(ApiKey.PRODUCE, VERSION, produce_request(topic, changed))
            assert answer.responses[0].partition_responses[0].error_code != ErrorCode.NONE, at
    assert end_offset(victim, topic) == before


def test_a_batch_cut_at_every_byte_is_refused(victim: Victim, topic: str) -> None:
    good = batch(b"one", b"two")
    before = end_offset(victim, topic)
    with victim.connect() as wire:
        for end in range(len(good)):
            answer = wire.ask(ApiKey.PRODUCE, VERSION, produce_request(topic, good[:end]))
            code = answer.responses[0].partition_responses[0].error_code
            assert code == ErrorCode.INVALID_RECORD, (end, ErrorCode(code))
    assert end_offset(victim, topic) == before


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_that_no_batch_can_have(victim: Victim, topic: str, length: int) -> None:
    records = batch(b"x")
    struct.pack_into(">i", records, LENGTH, length)
    assert error_of(victim, topic, records) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_is_larger_than_the_topic_takes(victim: Victim, topic: str) -> None:
    assert error_of(victim, topic, batch(bytes(BATCH_BYTES_MAX))) == ErrorCode.MESSAGE_TOO_LARGE
    records = batch(b"x")
    struct.pack_into(">i", records, LENGTH, INT32_MAX)
    assert error_of(victim, topic, records) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 3, 1000, INT32_MAX])
def test_a_record_count_that_lies(victim: Victim, topic: str, count: int) -> None:
    assert error_of(victim, topic, with_field(COUNT, ">i", count)) == ErrorCode.INVALID_RECORD
    lies = with_field(LAST_DELTA, ">i", count - 1 if count > -(2**31) else INT32_MAX)
    assert error_of(victim, topic, lies) == ErrorCode.INVALID_RECORD
    # Both lie the same way: only the records themselves tell.
    both = batch(b"one", b"two")
    struct.pack_into(">i", both, COUNT, count)
    struct.pack_into(">i", both, LAST_DELTA, max(count - 1, -(2**31)))
    assert error_of(victim, topic, sealed(both)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        (5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (7, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (0x08, ErrorCode.INVALID_TIMESTAMP),
        (0x20, ErrorCode.INVALID_RECORD),
        (0x30, ErrorCode.INVALID_RECORD),
    ],
    ids=["codec 5", "codec 7", "append time", "control", "control in a transaction"],
)
def test_attributes_that_a_client_may_not_set(
    victim: Victim, topic: str, attributes: int, code: ErrorCode
) -> None:
    assert error_of(victim, topic, with_field(ATTRIBUTES, ">h", attributes)) == code


@pytest.mark.parametrize(
    "records",
    [
        b"",
        b"\xff" * 20,
        b"\x80" * 20,
        b"\x0e\0\0\0\1\2x",
        b"\x10\0\0\0\1\2x\0",
        b"\x0c\0\0\0\1\2x\0",
        b"\x01\0\0\0\1\2x\0",
        b"\x0e\0\0\0\1\4x\0",
        b"\x0e\0\0\0\3\2x\0",
        b"\x0e\0\0\0\1\2x\2",
        b"\x0e\0\0\0\1\2x\1",
        b"\x0e\0\0\2\1\2x\0",
        b"\x0e\0\0\1\1\2x\0",
        b"\x0e\0\0\0\1\2x\0more",
        b"\x18\0\0\0\1\2x" + b"\xff\xff\xff\xff\x0f\0",
        b"\x16\0\0\0" + b"\xfe\xff\xff\xff\x0f" + b"\2x\0",
        b"\x16\0\0\0\1" + b"\xfe\xff\xff\xff\x0f" + b"x\0",
    ],
)
def test_records_that_do_not_frame(victim: Victim, topic: str, records: bytes) -> None:
    assert error_of(victim, topic, with_records(records)) == ErrorCode.INVALID_RECORD


# -- compression


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec], ids=lambda codec: codec.name)
def test_compressed_rubbish(victim: Victim, topic: str, codec: Codec) -> None:
    for rubbish in (b"", b"\0" * 50, b"\xff" * 50, compress(codec, bytes(1000))[:-5]):
        records = with_records(rubbish)
        struct.pack_into(">h", records, ATTRIBUTES, codec)
        assert error_of(victim, topic, sealed(records)) in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
        ), rubbish


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec], ids=lambda codec: codec.name)
def test_records_that_do_not_frame_once_decompressed(
    victim: Victim, topic: str, codec: Codec
) -> None:
    for inner in (b"\xff" * 20, b"\x0e\0\0\0\1\4x\0", b"\x0e\0\0\0\1\2x\0more"):
        records = with_records(compress(codec, inner))
        struct.pack_into(">h", records, ATTRIBUTES, codec)
        assert error_of(victim, topic, sealed(records)) == ErrorCode.INVALID_RECORD


def bomb(codec: Codec, size: int) -> bytearray:
    """Return a batch of one record, whose value is of that many zeros."""
    return batch(bytes(size), options=BatchOptions(codec=codec))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD], ids=lambda codec: codec.name)
def test_a_decompression_bomb(victim: Victim, topic: str, codec: Codec) -> None:
    records = bomb(codec, 8 * DECOMPRESSED_BYTES_MAX)
    assert len(records) < BATCH_BYTES_MAX
    worked_s = victim.process.cpu_seconds()
    assert error_of(victim, topic, records) == ErrorCode.MESSAGE_TOO_LARGE
    assert victim.process.cpu_seconds() - worked_s < BOMB_SECONDS_MAX
    assert victim.process.rss_peak_bytes() < 4 * DECOMPRESSED_BYTES_MAX


def test_a_bomb_of_lz4_blocks(victim: Victim, topic: str) -> None:
    # lz4 makes at most 255 of 1, so that what fits into a batch is just above the limit.
    records = bomb(Codec.LZ4, DECOMPRESSED_BYTES_MAX * 3)
    assert len(records) < BATCH_BYTES_MAX
    assert error_of(victim, topic, records) == ErrorCode.MESSAGE_TOO_LARGE


def test_snappy_that_claims_more_than_it_can_hold(victim: Victim, topic: str) -> None:
    claims_4_gb = b"\xff\xff\xff\xff\x0f" + b"\0a"
    for payload in (
        claims_4_gb,
        b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(claims_4_gb)) + claims_4_gb,
        b"\x82SNAPPY\0" + struct.pack(">iiI", 1, 1, 0xFFFFFFFF),
    ):
        records = with_records(payload)
        struct.pack_into(">h", records, ATTRIBUTES, Codec.SNAPPY)
        assert error_of(victim, topic, sealed(records)) in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.MESSAGE_TOO_LARGE,
        )


def test_bombs_in_many_partitions_of_one_request(victim: Victim) -> None:
    count = 20
    topic = victim.make_topic(count)
    records = bomb(Codec.ZSTD, DECOMPRESSED_BYTES_MAX + 1)
    data = [PartitionProduceData(index=index, records=records) for index in range(count)]
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    with victim.connect() as wire:
        (answered,) = wire.ask(ApiKey.PRODUCE, VERSION, request).responses
    codes = {each.error_code for each in answered.partition_responses}
    assert codes == {ErrorCode.MESSAGE_TOO_LARGE}


def test_bombs_in_a_row_on_one_connection(victim: Victim, topic: str) -> None:
    # All of them come with one read: a bomb of zstd takes 2 KiB.
    request = produce_request(topic, bomb(Codec.ZSTD, DECOMPRESSED_BYTES_MAX + 1))
    frame = write_request(ApiKey.PRODUCE, VERSION, 1, "test", request)
    count = 20
    assert len(frame) * count < 200_000
    with victim.connect() as wire:
        wire.send(frame * count)
        for _ in range(count):
            answer = wire.answer(ApiKey.PRODUCE, VERSION)
            code = answer.responses[0].partition_responses[0].error_code
            assert code == ErrorCode.MESSAGE_TOO_LARGE


# -- requests


@pytest.mark.parametrize("partition", [-(2**31), -1, PARTITIONS, INT32_MAX])
def test_a_partition_that_does_not_exist(victim: Victim, topic: str, partition: int) -> None:
    answer = outcome(victim, produce_request(topic, batch(b"x"), partition=partition))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.index == partition


@pytest.mark.parametrize("name", ["", ".", "no such", "a/b", "nul\0", "x" * 300, "日本語"])
def test_a_topic_that_does_not_exist(victim: Victim, name: str) -> None:
    answer = outcome(victim, produce_request(name, batch(b"x")))
    assert answer.error_code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )


def test_a_topic_id_that_does_not_exist(victim: Victim) -> None:
    request = produce_request("", batch(b"x"))
    request.topic_data[0].topic_id = b"\x55" * 16
    with victim.connect() as wire:
        (answered,) = wire.ask(ApiKey.PRODUCE, 13, request).responses
    assert answered.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [-(2**15), -2, 2, 7, 2**15 - 1])
def test_acks_that_do_not_exist(victim: Victim, topic: str, acks: int) -> None:
    answer = outcome(victim, produce_request(topic, batch(b"x"), acks=acks))
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("timeout_ms", [-(2**31), -1, 0, INT32_MAX])
def test_any_timeout_is_taken(victim: Victim, topic: str, timeout_ms: int) -> None:
    # Written it is in any case; whether it is confirmed in no time at all is another matter.
    answer = outcome(victim, produce_request(topic, batch(b"x"), timeout_ms=timeout_ms))
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)


def test_a_failure_that_may_not_be_answered_closes_the_connection(
    victim: Victim, topic: str
) -> None:
    with victim.connect() as wire:
        good = produce_request(topic, batch(b"x"), acks=0)
        wire.send(write_request(ApiKey.PRODUCE, VERSION, 1, "test", good))
        assert not wire.is_closed_by_broker(0.2)
        bad = produce_request(topic, batch(b"x"), acks=0, partition=99)
        wire.send(write_request(ApiKey.PRODUCE, VERSION, 2, "test", bad))
        assert wire.is_closed_by_broker()


def test_a_producer_id_without_a_sequence(victim: Victim, topic: str) -> None:
    assert error_of(victim, topic, with_field(PRODUCER_ID, ">q", 5)) == ErrorCode.INVALID_RECORD


def test_a_transaction_that_nobody_began(victim: Victim, topic: str) -> None:
    options = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    request = produce_request(topic, batch(b"x", options=options))
    request.transactional_id = "nobody's"
    code = outcome(victim, request).error_code
    assert code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_times_at_the_ends_of_all_days(victim: Victim, topic: str) -> None:
    for value in (-(2**63), 2**63 - 1, 0):
        for at in (FIRST_TIME, LAST_TIME):
            code = error_of(victim, topic, with_field(at, ">q", value))
            assert code in (ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
