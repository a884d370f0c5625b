"""Rows that a search passes over without a look: none of them would have fitted."""

from __future__ import annotations

from random import Random

import pytest

from kafkaesque.admin.api.messages import SearchFilter
from kafkaesque.admin.api.search_matcher import Matcher
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record, RecordColumns, decode_columns

#: Filters, with the texts that all that fits has in it: as they are, or with an escape.
FILTERS = {
    SearchFilter(contains="needle"): [b"needle"],
    SearchFilter(contains="order"): [b"order"],
    SearchFilter(key="needle"): [b"needle"],
    SearchFilter(json_path="order.note"): [b"order", b"note"],
    SearchFilter(json_path="order.note", json_value="needle"): [b"order", b"note", b"needle"],
    # A number may be written in several ways.
    SearchFilter(json_path="order.note", json_value="1"): [b"order", b"note"],
    SearchFilter(json_path="order.note", json_value="plain", contains="needle"): [
        b"order",
        b"note",
        b"plain",
        b"needle",
    ],
}
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


def looked_at_max(columns: RecordColumns, rows: range, texts: list[bytes]) -> int:
    """Return how many rows may be looked at: two for each place of the rarest text, or an escape.

    All of them, where they are about as many.
    """
    payload = bytes(columns.payload)
    fewest = min(payload.count(each) for each in texts)
    return len(rows) if 2 * fewest >= len(rows) else 2 * (fewest + payload.count(b"\\"))


@pytest.mark.parametrize("common", [0.0, 0.02, 0.1, 0.9])
@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_few_rows_are_looked_at_where_a_text_is_rare(wanted: SearchFilter, common: float) -> None:
    matcher, rows = Matcher(wanted), range(3, 97)
    for seed in range(20):
        columns = batch(Random(seed), common)
        most = looked_at_max(columns, rows, FILTERS[wanted])
        assert len(list(matcher.candidates(columns, rows))) <= most


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
    payload = bytes(columns.payload)
    assert (payload.count(b"\\"), payload.count(b"needle")) == (1, 0), "the 46th record's number"
    matcher = Matcher(SearchFilter(json_path="order.note", json_value="needle"))
    assert list(matcher.candidates(columns, range(100))) == [45, 46]
