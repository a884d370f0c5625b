"""Which schemas the records of a batch name."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaesque.broker.options.schemas import validated_subjects
from kafkaesque.broker.partitions.schema_checks import (
    ProduceChecks,
    SchemaCheck,
    UnknownSchema,
    read_names,
)
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused
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


class Known:
    """A registry without schemas, whose log can be read or not."""

    def __init__(self, *, is_read: bool) -> None:
        self._is_read = is_read

    def ids_of(self, subject: str) -> frozenset[int]:
        return frozenset()

    def catch_up(self, on_read: Callable[[bool], None]) -> None:
        on_read(self._is_read)


@pytest.mark.parametrize(
    ("is_read", "refusal"), [(True, UnknownSchema), (False, LeaderNotAvailable)]
)
def test_an_id_is_called_unknown_only_if_the_registry_was_asked(
    is_read: bool, refusal: type[RequestRefused]
) -> None:
    """What is refused as invalid is not sent again."""
    nowhere: Any = None
    checks = ProduceChecks(nowhere, nowhere)
    checks.bind(Known(is_read=is_read))
    owner: Any = SimpleNamespace(config=None)
    check = SchemaCheck(owner, encode_batch(RECORDS), validated_subjects("t", "value"))
    check.work()
    told: list[bool] = []
    checks.run(check, lambda: told.append(True))
    assert told == [True]
    assert type(check.refusal) is refusal
