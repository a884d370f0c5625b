"""Rows that a search passes over without a look: none of them would have fitted."""

from __future__ import annotations

from random import Random

import pytest

from kafkaesque.admin.api.messages import SearchFilter
from kafkaesque.admin.api.scan_part import Matcher
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record, RecordColumns, decode_columns

FILTERS = (
    SearchFilter(contains="needle"),
    SearchFilter(contains="order"),
    SearchFilter(key="needle"),
    SearchFilter(json_path="order.note"),
    SearchFilter(json_path="order.note", json_value="needle"),
    SearchFilter(json_path="order.note", json_value="1"),
    SearchFilter(json_path="order.note", json_value="plain", contains="needle"),
)
#: Some say the same in another way.
VALUES = (
    b'{"order":{"note":"needle"}}',
    b'{"order":{"note":"n\\u0065edle"}}',
    b'{"ord\\u0065r":{"note":"needle"}}',
    b'{"order":{"note":"plain","more":"needle"}}',
    b'{"order":{"note":1}}',
    b'{"order":{"n\\u006fte":1}}',
    b'{"order":{"other":"needle"}}',
    b"needle, and no JSON",
    b"nothing \\ of it",
    b"{}",
)


def batch(random: Random, common: float) -> RecordColumns:
    """Return records of which most are empty objects."""
    records = [
        Record(at, 1, random.choice([None, b"needle", b"k"]), value)
        for at in range(100)
        for value in [random.choice(VALUES) if random.random() < common else b"{}"]
    ]
    return decode_columns(memoryview(bytes(encode_batch(records))), 2**20)


@pytest.mark.parametrize("common", [0.0, 0.02, 0.1, 0.9])
@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_no_row_that_fits_is_passed_over(wanted: SearchFilter, common: float) -> None:
    matcher = Matcher(wanted)
    for seed in range(20):
        columns = batch(Random(seed), common)
        rows = range(3, 97)
        candidates = list(matcher.candidates(columns, rows))
        assert candidates == sorted(set(candidates))
        fitting = [row for row in rows if matcher.matches(columns, row)]
        assert [row for row in candidates if matcher.matches(columns, row)] == fitting


def test_an_escape_byte_around_values_does_not_have_each_record_decoded() -> None:
    records = [Record(at, 1, None, b'{"order":{"note":"plain"}}') for at in range(100)]
    columns = decode_columns(memoryview(bytes(encode_batch(records))), 2**20)
    assert b"\\" in bytes(columns.payload), "the number of the 46th record"
    matcher = Matcher(SearchFilter(json_path="order.note", json_value="needle"))
    assert len(list(matcher.candidates(columns, range(100)))) < 10
