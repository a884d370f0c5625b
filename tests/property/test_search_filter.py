"""What a search passes over unread never fits: its shortcuts find what a naive look finds."""

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.admin.api.messages import SearchFilter
from kafkaesque.admin.api.search_matcher import Matcher
from kafkaesque.admin.decoding.bounds import Allowance
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.schema_book import KnownSchema, Place, SchemaBook
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.records import Record, decode_columns
from kafkaesque.registry.schemas import SchemaType
from tests.property.test_decoding import avro_values

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


# -- what is left out undecoded is what would be refused decoded

PLACE = Place(subject="s", version=1)
FRAMES: st.SearchStrategy[Headers] = st.sampled_from(
    [(), (), (("a", b'"a":1'),), (("__value_schema_id", b"\0\0\0\0\1"),)]
)
SPACE = st.sampled_from(["", " ", "\t\n"])
PATHS = st.sampled_from(["a", "b", "a.a", "a.b", "a.a.a"])
#: The same numbers and texts, written in several ways, and others that begin like them.
NUMBERS = ["1", "10", "1.0", "1e0", "10E-1", "-0", "0", "-1", "7", "1" * 17]
TEXTS = ['"1"', '"7"', '"a"', '"\\u0061"', '"true"', '"\\\\"', '""']
WRITTEN = [*NUMBERS, *TEXTS, "true", "null", "[1]", "{}", '{"a":1}', "x"]
VALUES = [None, *NUMBERS, "-0.0", "a", "\\", "", "true", "null", "[1]", "{}"]
FRAME = b"\0\0\0\0\1"


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 2) -> str:
    """Return JSON, or nearly that; names may be there twice, and stand in values."""
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(WRITTEN))
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(["a", "b", "\\u0061", "ab"]))
        value = draw(json_texts(depth - 1))
        parts.append(f'"{name}"{draw(SPACE)}:{draw(SPACE)}{value}{draw(SPACE)}')
    return "{" + ",".join(parts) + "}"


def check_nothing_is_lost(
    bodies: Sequence[bytes | None],
    path: str,
    value: str | None,
    book: SchemaBook | None = None,
    headers: Headers = (),
) -> None:
    """Compare what is found of the candidates with what is found of all records."""
    records = [Record(at, 1, None, each, headers) for at, each in enumerate(bodies)]
    columns = decode_columns(bytes(encode_batch(records)), 1 << 20)
    matcher = Matcher(SearchFilter(json_path=path, json_value=value, decoded=book is not None))
    decoder = Decoder(book or SchemaBook(), Allowance(1 << 40))
    rows = range(len(records))
    expected = [row for row in rows if matcher.matches(columns, row, decoder)]
    candidates = list(matcher.candidates(columns, rows, decoder))
    assert candidates == sorted(set(candidates))
    assert [row for row in candidates if matcher.matches(columns, row, decoder)] == expected


def test_a_value_is_found_in_every_way_of_writing_it() -> None:
    for written in WRITTEN:
        for value in VALUES:
            check_nothing_is_lost([b'{"a" :\n%s }' % written.encode()] * 2, "a", value)
            check_nothing_is_lost([b'{"a":{"b":%s}}' % written.encode()] * 2, "a.b", value)


@given(
    st.lists(json_texts(), min_size=1, max_size=6),
    PATHS,
    st.sampled_from(VALUES),
    FRAMES,
    st.booleans(),
)
def test_no_json_is_left_out_that_fits(
    texts: list[str], path: str, value: str | None, headers: Headers, is_decoded: bool
) -> None:
    book = SchemaBook() if is_decoded else None
    check_nothing_is_lost([None, *(each.encode() for each in texts)], path, value, book, headers)


def avro_book(schema: Any) -> SchemaBook:
    known = KnownSchema(
        id=1,
        type=SchemaType.AVRO,
        text=json.dumps(schema),
        references={},
        key_place=PLACE,
        value_place=PLACE,
    )
    return SchemaBook({1: known})


@given(avro_values(), st.binary(max_size=12), PATHS, FRAMES, st.booleans())
def test_no_avro_is_left_out_that_fits(
    case: tuple[Any, Any, Any], noise: bytes, path: str, headers: Headers, is_there: bool
) -> None:
    schema, written_value, shown = case
    for name in path.split("."):
        shown = shown.get(name) if isinstance(shown, dict) else None
    value = shown if isinstance(shown, str) else json.dumps(shown, separators=(",", ":"))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), written_value)
    plain = written.getvalue()
    bodies = [FRAME + plain, FRAME + noise, b'{"a": 1}', None, plain]
    check_nothing_is_lost(bodies, path, value if is_there else None, avro_book(schema), headers)


#: Fields of every kind, before the one that is looked for.
ALL_KINDS = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "list", "type": {"type": "array", "items": "long"}},
        {"name": "nulls", "type": {"type": "array", "items": "null"}},
        {"name": "map", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "enum", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "flag", "type": "boolean"},
        {"name": "single", "type": "float"},
        {"name": "more", "type": ["null", "R"]},
        {"name": "a", "type": ["long", {"type": "long", "logicalType": "timestamp-millis"}]},
    ],
}
#: A block that says its size, and says it wrongly: nobody needs it.
PARTS = b"\x03\x7e\x02\x04\0" + b"\x06\0" + b"\x02\x02m\x02\x02v\0" + b"\x02" + b"\0FF" + b"\1"
SHORT = PARTS + b"\0\0\x80?" + b"\0"
NESTED = PARTS + b"\0\0\x80?" + b"\x02" + SHORT + b"\0\x0e"


def test_fields_of_every_kind_are_passed_over() -> None:
    bodies = [FRAME + each for each in (SHORT + b"\0\x0e", NESTED + b"\0\x10", SHORT + b"\2\x0e")]
    for path, value in (("a", "7"), ("a", "8"), ("more.a", "7"), ("a", "1970-01-01T00:00:00.007Z")):
        book = avro_book(ALL_KINDS)
        check_nothing_is_lost(bodies, path, value, book)
        matcher = Matcher(SearchFilter(json_path=path, json_value=value, decoded=True))
        records = [Record(at, 1, None, each) for at, each in enumerate(bodies)]
        columns = decode_columns(bytes(encode_batch(records)), 1 << 20)
        decoder = Decoder(book, Allowance())
        fits = [row for row in range(3) if matcher.matches(columns, row, decoder)]
        assert len(fits) == 1, (path, value)
        if path == "more.a":
            assert list(matcher.candidates(columns, range(3), decoder)) == fits
