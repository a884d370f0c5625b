"""Whether one Avro schema reads another one's data: as fastavro, which does it, says."""

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.registry.avro import AvroSchema
from kafkaesque.registry.errors import InvalidSchema

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
SAMPLES: dict[str, object] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 1,
    "float": 1.0,
    "double": 1.0,
    "bytes": b"x",
    "string": "x",
}


def record(fields: list[dict[str, Any]], name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_promotions_are_those_of_the_reader(reader: str, writer: str) -> None:
    old, new = AvroSchema(f'"{writer}"', {}), AvroSchema(f'"{reader}"', {})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, writer, SAMPLES[writer])
    out.seek(0)
    try:
        fastavro.schemaless_reader(out, writer, reader)
        is_read = True
    except (SchemaResolutionError, TypeError, UnicodeDecodeError):
        is_read = False
    # Lossy ones are allowed by the specification, and the other way round none is.
    assert (not list(new.cannot_read(old))) == is_read


def field(kind: object, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


@pytest.mark.parametrize(
    ("reader", "writer", "where"),
    [
        (record([field("int")]), record([field("int"), field("int", "b")]), None),
        (record([field("int"), field("int", "b")]), record([field("int")]), "/fields/b"),
        (record([field("int"), field("int", "b", default=1)]), record([field("int")]), None),
        (record([field("int", "n", aliases=["a"])]), record([field("int")]), None),
        (record([field("int", "n")]), record([field("int")]), "/fields/n"),
        (record([field(["null", "int"])]), record([field("int")]), None),
        (record([field("int")]), record([field(["null", "int"])]), "/fields/a/0"),
        (record([field(["null", "long"])]), record([field(["int", "null"])]), None),
        (record([]), record([], "Other"), "Other was written"),
        ('{"type":"array","items":"long"}', '{"type":"array","items":"int"}', None),
        ('{"type":"array","items":"int"}', '{"type":"array","items":"long"}', "/items"),
        ('{"type":"map","values":"int"}', '{"type":"map","values":"string"}', "/values"),
        (
            '{"type":"enum","name":"E","symbols":["A"]}',
            '{"type":"enum","name":"E","symbols":["A","B"]}',
            "lacks symbols: B",
        ),
        (
            '{"type":"enum","name":"E","symbols":["A"],"default":"A"}',
            '{"type":"enum","name":"E","symbols":["A","B"]}',
            None,
        ),
        (
            '{"type":"fixed","name":"F","size":4}',
            '{"type":"fixed","name":"F","size":8}',
            "8 bytes were written",
        ),
    ],
    ids=[str(number) for number in range(15)],
)
def test_rules_of_schema_resolution(reader: str, writer: str, where: str | None) -> None:
    said = list(AvroSchema(reader, {}).cannot_read(AvroSchema(writer, {})))
    if where is None:
        assert said == []
    else:
        assert where in said[0]


def test_a_record_within_itself_is_compared_once() -> None:
    def tree(kind: str) -> str:
        return record([field(kind), field(["null", "R"], "left"), field(["null", "R"], "right")])

    assert list(AvroSchema(tree("long"), {}).cannot_read(AvroSchema(tree("int"), {}))) == []
    assert list(AvroSchema(tree("int"), {}).cannot_read(AvroSchema(tree("long"), {})))


simple = st.sampled_from(PRIMITIVES)
kinds = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(lambda each: {"type": "array", "items": each}, inner),
        st.builds(lambda each: {"type": "map", "values": each}, inner),
        st.lists(simple, min_size=1, max_size=3, unique=True),
    ),
    max_leaves=4,
)


@given(fields=st.dictionaries(st.sampled_from("abc"), kinds, max_size=3))
def test_every_schema_reads_its_own_data(fields: dict[str, Any]) -> None:
    text = record([field(kind, name) for name, kind in fields.items()])
    schema = AvroSchema(text, {})
    assert list(schema.cannot_read(AvroSchema(text, {}))) == []
    assert AvroSchema(schema.text, {}).text == schema.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "NaN",
        '{"type":"record","name":"R"}',
        '{"type":"record","fields":[]}',
        '{"type":"enum","name":"E"}',
        '"nowhere.Known"',
        '{"type":"record","name":"R","fields":[{"name":"a"}]}',
        "[" * 100_000,
        "1",
        "null1",
    ],
    ids=[str(number) for number in range(11)],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        AvroSchema(text, {})
