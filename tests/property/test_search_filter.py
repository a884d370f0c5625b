"""What a search passes over unread never fits: its shortcuts find what a naive look finds."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.admin.api.messages import SearchFilter
from kafkaesque.admin.api.scan_part import Matcher
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record, decode_columns

# Few letters, so that much is found, also across the borders of keys, values and headers.
LETTERS = st.text("ab", max_size=5)
BYTES = st.none() | LETTERS.map(str.encode)
HEADERS = st.lists(st.tuples(LETTERS.filter(bool), BYTES), max_size=2).map(tuple)
RECORDS = st.lists(st.tuples(BYTES, BYTES, HEADERS), min_size=1, max_size=7)
SCALARS = st.sampled_from(["a", "ab", "é", 'a"b', 1, 1.5, 100, True, None])
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.dictionaries(st.sampled_from("abé"), inner, max_size=2), max_leaves=4
)


def found(matcher: Matcher, records: list[Record], rows: range) -> list[int]:
    columns = decode_columns(bytes(encode_batch(records)), 1 << 20)
    candidates = list(matcher.candidates(columns, rows))
    assert candidates == sorted(set(candidates))
    return [row for row in candidates if matcher.matches(columns, row)]


@given(RECORDS, LETTERS.filter(bool), st.integers(0, 3))
def test_a_text_is_found_wherever_it_stands(contents: list[Any], wanted: str, first: int) -> None:
    records = [
        Record(at, 1, key, value, headers) for at, (key, value, headers) in enumerate(contents)
    ]
    needle = wanted.encode()

    def holds(record: Record) -> bool:
        parts = [record.key, record.value]
        for name, value in record.headers:
            parts += [name.encode(), value]
        return any(needle in part for part in parts if part is not None)

    rows = range(first, len(records))
    expected = [row for row in rows if holds(records[row])]
    assert found(Matcher(SearchFilter(contains=wanted)), records, rows) == expected


@given(st.lists(DOCUMENTS, min_size=1, max_size=5), st.booleans(), SCALARS, st.data())
def test_a_field_is_found_however_its_json_is_written(
    documents: list[Any], is_escaped: bool, wanted: Any, data: st.DataObject
) -> None:
    path = data.draw(st.lists(st.sampled_from("abé"), min_size=1, max_size=2))
    records = [
        Record(at, 1, None, json.dumps(document, ensure_ascii=is_escaped).encode())
        for at, document in enumerate(documents)
    ]
    text = wanted if isinstance(wanted, str) else json.dumps(wanted)

    def fits(document: Any) -> bool:
        for name in path:
            if not isinstance(document, dict) or name not in document:
                return False
            document = document[name]
        if isinstance(document, str):
            return document == text
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False) == text

    expected = [row for row, document in enumerate(documents) if fits(document)]
    matcher = Matcher(SearchFilter(json_path=".".join(path), json_value=text))
    assert found(matcher, records, range(len(records))) == expected
