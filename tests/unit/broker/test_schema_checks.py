"""Which schemas the records of a batch name."""

import pytest

from kafkaesque.broker.options.schemas import validated_subjects
from kafkaesque.broker.partitions.schema_checks import read_names
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.records import Record

RECORDS = [
    Record(0, 1, None, b"\0\0\0\0\7data"),
    Record(1, 1, b"\0\0\0\1\0", b"\0\0\0\0\7"),
    Record(2, 1, b"\0\0\0\0", None),
    Record(3, 1, b"", b"\1\0\0\0\7data"),
]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_are_told_by_what_they_name(codec: Codec) -> None:
    records = bytes(encode_batch(RECORDS, BatchOptions(codec=codec)))
    found = read_names(memoryview(records), validated_subjects("t", "both"))
    assert found == {"t-key": {256: [1], -1: [2, 3]}, "t-value": {7: [0, 1], -1: [3]}}
    assert read_names(memoryview(records), validated_subjects("t", "none")) == {}


def test_a_batch_that_cannot_be_read_names_nothing() -> None:
    records = encode_batch(RECORDS)
    del records[-3:]
    assert read_names(records, validated_subjects("t", "value")) == {}
