"""A search leaves out values in Avro in a time that neither values nor schemas choose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kafkaesque.admin.api.messages import SearchFilter
from kafkaesque.admin.api.search_matcher import JSON_DEPTH_MAX, Matcher
from kafkaesque.admin.decoding.avro_path import _Compiler
from kafkaesque.admin.decoding.bounds import Allowance
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.schema_book import KnownSchema, Place, SchemaBook
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record, decode_columns
from kafkaesque.registry.schemas import SchemaType

FRAME = b"\0\0\0\0\1"
PLACE = Place(subject="orders-value", version=1)
NUMBERS_THEN_TEXT = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "numbers", "type": {"type": "array", "items": "int"}},
        {"name": "a", "type": "string"},
    ],
}
RECORDS = 6


def of_one_another(number: int) -> dict[str, Any]:
    """Return a record that has any of the ones before it, itself, or the next one."""
    kinds: list[Any] = ["null", *(f"R{each}" for each in range(number + 1))]
    if number + 1 < RECORDS:
        kinds.append(of_one_another(number + 1))
    return {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": kinds}]}


def candidates(
    schema: object, path: str, bodies: Sequence[bytes], wanted: str = "needle"
) -> list[int]:
    """Return the rows that may fit."""
    text = json.dumps(schema)
    known = KnownSchema(
        id=1,
        type=SchemaType.AVRO,
        text=text,
        references={},
        key_place=PLACE,
        value_place=PLACE,
    )
    records = [Record(at, 1, None, FRAME + body) for at, body in enumerate(bodies)]
    columns = decode_columns(memoryview(bytes(encode_batch(records))), 2**20)
    matcher = Matcher(SearchFilter(json_path=path, json_value=wanted, decoded=True))
    decoder = Decoder(SchemaBook(schemas={1: known}), Allowance())
    return list(matcher.candidates(columns, range(len(records)), decoder))


def test_one_that_ends_too_early_is_not_read_on_in_the_next() -> None:
    unfinished, other = b"\x08\x02", b"\0\x0aother"
    assert candidates(NUMBERS_THEN_TEXT, "a", [unfinished, *[other] * 9]) == [0]


def test_a_number_ends_after_ten_bytes() -> None:
    longest, too_long = b"\xff" * 9 + b"\1", b"\xff" * 10 + b"\1"
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    assert candidates(schema, "a", [b"\2", longest, b"\4", too_long, b"\6"], "7") == [3]


def test_a_record_is_looked_at_once_at_each_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    field = _Compiler._field

    def counted(self: _Compiler, fields: Any, path: Any) -> Any:
        looked_at.append(len(path))
        return field(self, fields, path)

    monkeypatch.setattr(_Compiler, "_field", counted)
    assert candidates(of_one_another(0), ".".join("a" * JSON_DEPTH_MAX), [b"\0"]) == []
    assert 0 < len(looked_at) <= RECORDS * JSON_DEPTH_MAX
