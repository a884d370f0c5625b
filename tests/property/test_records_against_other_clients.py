"""Batches of kafka-python, aiokafka and kio are read, and they read ours; every codec."""

import io
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from aiokafka.record.default_records import (
        DefaultRecordBatch as AiokafkaBatch,
    )
    from aiokafka.record.default_records import (
        DefaultRecordBatchBuilder as AiokafkaBuilder,
    )
    from aiokafka.record.default_records import (
        _DefaultRecordBatchBuilderPy as AiokafkaPythonBuilder,
    )
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    from kio.records import readers as kio_readers
    from kio.records import schema as kio_schema
    from kio.records import writers as kio_writers

from kafkaesque.model.batch import check_batches, read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import use_kernel
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.model.records import Record, decode_batch
from tests.unit.model.record_helpers import PLENTY, both_kernels, record_lists

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

codecs = st.sampled_from(list(Codec))
# What Python's datetime and the clients' own checks can hold, far from their edges.
times = st.integers(0, 2**41)
# A big record, so that every client finds it worth compressing.
FILLER = Record(0, 1, b"filler", b"abc" * 300)


def builders(codec: Codec) -> list[Any]:
    """Return what can write the codec: kafka-python's library for snappy is not installed."""
    theirs = [AiokafkaBuilder, AiokafkaPythonBuilder]
    return theirs if codec is Codec.SNAPPY else [DefaultRecordBatchBuilder, *theirs]


def readers(codec: Codec) -> list[Any]:
    return [AiokafkaBatch] if codec is Codec.SNAPPY else [DefaultRecordBatch, AiokafkaBatch]


def with_filler(records: list[Record]) -> list[Record]:
    return [FILLER] + [record._replace(offset=record.offset + 1) for record in records]


def built(builder_type: Any, records: list[Record], codec: Codec) -> bytes:
    """Return the batch that another client makes of the records."""
    builder = builder_type(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for record in records:
        added = builder.append(
            record.offset,
            timestamp=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
        assert added is not None
    return bytes(builder.build())


def as_records(found: Iterable[Any]) -> list[Record]:
    return [
        Record(each.offset, each.timestamp, each.key, each.value, tuple(map(tuple, each.headers)))
        for each in found
    ]


@both_kernels
@given(records=record_lists(times=times, size_max=5).map(with_filler), codec=codecs)
def test_batches_of_other_clients_are_read(
    kernel_name: str, records: list[Record], codec: Codec
) -> None:
    with use_kernel(kernel_name):
        for builder_type in builders(codec):
            batch = built(builder_type, records, codec)
            (header,) = check_batches(batch, PLENTY, decompressed_bytes_max=PLENTY)
            assert header.codec is codec
            assert header.latest_timestamp_ms == header.max_timestamp_ms
            assert decode_batch(batch, PLENTY) == records


@both_kernels
@given(records=record_lists(times=times, size_max=5))
def test_our_uncompressed_bytes_are_those_of_kafka_python(
    kernel_name: str, records: list[Record]
) -> None:
    with use_kernel(kernel_name):
        ours = encode_batch(records, BatchOptions(leader_epoch=0))
    assert ours == built(DefaultRecordBatchBuilder, records, Codec.NONE)


@both_kernels
@given(records=record_lists(times=times, size_max=5).map(with_filler), codec=codecs)
def test_other_clients_read_our_batches(
    kernel_name: str, records: list[Record], codec: Codec
) -> None:
    with use_kernel(kernel_name):
        batch = bytes(encode_batch(records, BatchOptions(codec=codec)))
    for reader_type in readers(codec):
        theirs = reader_type(batch)
        assert theirs.validate_crc()
        assert as_records(theirs) == records


@both_kernels
@given(records=record_lists(times=times, size_max=5), sequence=st.integers(0, 2**31 - 1))
def test_kio_and_we_read_each_other(kernel_name: str, records: list[Record], sequence: int) -> None:
    # kio takes the latest time for the end of all times and rounds: whole seconds are exact.
    records = [each._replace(timestamp_ms=each.timestamp_ms // 1000 * 1000) for each in records]
    options = BatchOptions(producer_id=7, producer_epoch=1, base_sequence=sequence, leader_epoch=0)
    with use_kernel(kernel_name):
        ours = bytes(encode_batch(records, options))
        theirs, size = kio_readers.read_batch(ours, 0)
        assert size == len(ours)
        assert (theirs.producer_id, theirs.base_sequence) == (7, sequence)
        assert [from_kio(each) for each in theirs.records] == records
        with io.BytesIO() as out:
            kio_writers.write_new_batch(out, to_kio(records, sequence))
            written = out.getvalue()
        assert read_batch_header(written).base_sequence == sequence
        assert written == ours


def from_kio(record: Any) -> Record:
    return Record(
        record.offset,
        round((record.timestamp - EPOCH) / timedelta(milliseconds=1)),
        record.key,
        record.value,
        tuple(((each.key or b"").decode(), each.value) for each in record.headers),
    )


def to_kio(records: list[Record], sequence: int) -> Any:
    schema: Any = kio_schema
    return schema.NewRecordBatch(
        producer_id=7,
        producer_epoch=1,
        base_sequence=sequence,
        attributes=0,
        records=tuple(
            schema.Record(
                attributes=0,
                timestamp=EPOCH + timedelta(milliseconds=record.timestamp_ms),
                offset=record.offset,
                key=record.key,
                value=record.value,
                headers=tuple(
                    schema.RecordHeader(key=name.encode(), value=content)
                    for name, content in record.headers
                ),
            )
            for record in records
        ),
    )


@both_kernels
@given(key=st.binary(max_size=60), count=st.integers(1, 1000))
def test_keys_go_where_kafka_python_sends_them(kernel_name: str, key: bytes, count: int) -> None:
    with use_kernel(kernel_name):
        assert partition_for_key(key, count) == (kafka_python_murmur2(key) & 0x7FFFFFFF) % count
