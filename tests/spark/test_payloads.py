"""Typed payloads come in columns; what is poison is kept aside, whole, with its reason."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.payloads import bad_records, good_records, read_avro, read_json, read_protobuf
from tests.clients.kafka_helpers import TopicMaker, produce

SCHEMA = "carrier STRING, delay INT, tags ARRAY<STRING>"
AVRO = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "stops", "type": {"type": "array", "items": "string"}},
        {"name": "extra", "type": {"type": "map", "values": "double"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {
            "name": "from",
            "type": {
                "type": "record",
                "name": "Place",
                "fields": [{"name": "code", "type": "bytes"}],
            },
        },
        {"name": "to", "type": ["null", "Place"]},
    ],
}


def table_of(spark: Any, values: list[bytes | None]) -> Any:
    rows = [("t", 0, offset, None, value) for offset, value in enumerate(values)]
    schema = "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY"
    return spark.createDataFrame(rows, schema)


def bad(table: Any) -> dict[int, tuple[bytes, str]]:
    rows = bad_records(table).collect()
    assert all((row.topic, row.partition) == ("t", 0) for row in rows)
    return {row.offset: (bytes(row.value), row.reason) for row in rows}


def test_json_in_columns(spark: Any) -> None:
    poison = {
        2: b"{not json",
        3: b'{"carrier": "UA", "delay": "late"}',
        4: b"\xff\xfe",
        5: b"7",
        6: b"",
    }
    values: list[bytes | None] = [
        b'{"carrier": "UA", "delay": 5, "tags": ["a", "b"], "more": 1}',
        b"{}",
        *poison.values(),
        None,
    ]
    table = read_json(table_of(spark, values), SCHEMA)
    good = good_records(table).orderBy("offset").collect()
    assert [row.offset for row in good] == [0, 1, 7]
    first = good[0].payload
    assert (first.carrier, first.delay, first.tags) == ("UA", 5, ["a", "b"])
    assert good[1].payload.asDict() == {"carrier": None, "delay": None, "tags": None}
    assert good[2].payload is None
    found = bad(table)
    assert {offset: value for offset, (value, _) in found.items()} == poison
    assert found[4][1] == "the value is not UTF-8"
    assert found[3][1] == (
        "the value is no JSON object of the schema"
        " struct<carrier:string,delay:int,tags:array<string>>: the field delay has to be int"
    )
    assert "field" not in found[2][1] + found[5][1] + found[6][1]


MISFITS = {
    '{"a.b": 1, "in": {"deep": {"n": "x"}}}': "the field in.deep.n has to be int",
    '{"a.b": "x", "in": {"deep": {"n": "x"}}}': "the field a.b has to be int",
    '{"a.b": null, "in": {"deep": 5}}': "the field in.deep has to be struct<n:int>",
    '{"in": []}': "the field in has to be struct<deep:struct<n:int>>",
    '{"list": [{"n": 1}, {"n": 2.5}]}': "the field list has to be array<struct<n:int>>",
    '{"list": "x"}': "the field list has to be array<struct<n:int>>",
    '{"list": [], "map": {"k": true}}': "the field map has to be map<string,date>",
    '{"map": {}, "a.b": 3000000000}': "the field a.b has to be int",
    '{"day": "the 5th", "map": {"k": "2020-01-01"}}': "the field day has to be date",
    '{"it\'s": "x"}': "",
    '{"a.b": 1} {"a.b": "x"}': "",
    '{"a.b": 1': "",
    '[{"a.b": "x"}]': "",
}


def test_the_field_that_does_not_fit_is_named(spark: Any) -> None:
    schema = (
        "`a.b` INT, in STRUCT<deep: STRUCT<n: INT>>, list ARRAY<STRUCT<n: INT>>,"
        " map MAP<STRING, DATE>, day DATE, `it's` INT"
    )
    found = bad(read_json(table_of(spark, [text.encode() for text in MISFITS]), schema))
    reasons = {value.decode(): reason for value, reason in found.values()}
    general = "the value is no JSON object of the schema struct<a.b:int,"
    assert all(reason.startswith(general) for reason in reasons.values())
    assert {text: reason.partition(">: ")[2] for text, reason in reasons.items()} == MISFITS


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


def test_a_registrys_framing_is_taken_off(spark: Any) -> None:
    good = framed(0xFFFFFFFE, b'{"delay": 1}')
    values: list[bytes | None] = [good, b"\1\0\0\0\1{}", b"\0\0\0\1", framed(3, b"{"), None]
    table = read_json(table_of(spark, values), SCHEMA, framed=True)
    (first, last) = good_records(table).orderBy("offset").collect()
    assert (first.schema_id, first.payload.delay) == (0xFFFFFFFE, 1)
    assert (last.schema_id, last.payload) == (None, None)
    reasons = {offset: reason for offset, (_, reason) in bad(table).items()}
    assert list(reasons) == [1, 2, 3]
    assert "does not begin with a zero byte" in reasons[1]
    assert "does not begin with a zero byte" in reasons[2]
    assert "no JSON" in reasons[3]


def avro(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(AVRO))), record)
    return out.getvalue()


FLIGHT = {
    "carrier": "UA",
    "delay": -3,
    "at": 1_700_000_000_123,
    "stops": ["EWR", "é"],
    "extra": {"wind": 1.5},
    "kind": "B",
    "from": {"code": b"\0\xff"},
    "to": None,
}


def test_avro_in_columns(spark: Any) -> None:
    good = avro(FLIGHT)
    poison = {1: good[:-3], 2: good + b"x", 3: b"", 4: b"\xff" * 40}
    other = avro({**FLIGHT, "delay": None, "to": {"code": b"x"}})
    table = read_avro(table_of(spark, [good, *poison.values(), other, None]), json.dumps(AVRO))
    rows = good_records(table).selectExpr("*", "unix_millis(payload.at) AS ms").orderBy("offset")
    first, second, third = rows.collect()
    assert [row.offset for row in (first, second, third)] == [0, 5, 6]
    found = first.payload
    assert (found.carrier, found.delay, found.stops) == ("UA", -3, ["EWR", "é"])
    assert (found.extra, found.kind, first.ms) == ({"wind": 1.5}, "B", FLIGHT["at"])
    assert (bytes(found["from"].code), found.to) == (b"\0\xff", None)
    assert (second.payload.delay, bytes(second.payload.to.code)) == (None, b"x")
    assert third.payload is None
    kept = bad(table)
    assert {offset: value for offset, (value, _) in kept.items()} == poison
    assert kept[2][1] == f"the Avro record ends at byte {len(good)} of {len(good) + 1}"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "it is no Avro schema"),
        ('"string"', "not that of a record"),
        ({"name": "a", "type": ["int", "string"]}, "a union of more than null and one type"),
        ({"name": "a", "type": ["null", "R"]}, "the record R within itself"),
        ({"name": "a", "type": {"type": "int", "logicalType": "time-millis"}}, "time-millis"),
    ],
    ids=["no-schema", "no-record", "union", "recursive", "type"],
)
def test_schemas_that_spark_cannot_have_are_refused(
    spark: Any, schema: str | dict[str, Any], words: str
) -> None:
    if isinstance(schema, dict):
        schema = json.dumps({"type": "record", "name": "R", "fields": [schema]})
    with pytest.raises(WrongOption, match=words):
        read_avro(table_of(spark, []), schema)


FIELDS = [
    # Name, number, type, label (3: repeated), type's name; types are those of FieldDescriptorProto.
    ("carrier", 1, 9, 1, ""),
    ("delay", 2, 5, 1, ""),
    ("big", 3, 4, 1, ""),
    ("stops", 4, 9, 3, ""),
    ("raw", 5, 12, 1, ""),
    ("kind", 6, 14, 1, ".test.Kind"),
    ("origin", 7, 11, 1, ".test.Place"),
    ("extra", 8, 11, 3, ".test.Flight.ExtraEntry"),
]


def add_fields(message: Any, fields: list[tuple[str, int, int, int, str]]) -> None:
    for name, number, kind, label, type_name in fields:
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if type_name:
            field.type_name = type_name


def descriptor_set() -> bytes:
    """Return what protoc would write for test.Flight."""
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="test.proto", package="test", syntax="proto3")
    kinds = file.enum_type.add(name="Kind")
    for number, name in enumerate(("CARGO", "PEOPLE")):
        kinds.value.add(name=name, number=number)
    add_fields(file.message_type.add(name="Place"), [("code", 1, 9, 1, "")])
    flight = file.message_type.add(name="Flight")
    add_fields(flight, FIELDS)
    entry = flight.nested_type.add(name="ExtraEntry")
    entry.options.map_entry = True
    add_fields(entry, [("key", 1, 9, 1, ""), ("value", 2, 1, 1, "")])
    add_fields(file.message_type.add(name="Tree"), [("child", 1, 11, 3, ".test.Tree")])
    return bytes(found.SerializeToString())


def flight(**fields: Any) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Flight"))
    return bytes(kind(**fields).SerializeToString())


def test_protobuf_in_columns(spark: Any) -> None:
    full = flight(
        carrier="UA",
        delay=-3,
        big=2**64 - 1,
        stops=["EWR", "é"],
        raw=b"\0\xff",
        kind=1,
        origin={"code": "JFK"},
        extra={"wind": 1.5},
    )
    values: list[bytes | None] = [full, b"", full[:-2], None]
    table = read_protobuf(table_of(spark, values), descriptor_set(), "test.Flight")
    first, second, third = good_records(table).orderBy("offset").collect()
    found = first.payload
    assert (found.carrier, found.delay, int(found.big)) == ("UA", -3, 2**64 - 1)
    assert (found.stops, bytes(found.raw), found.kind) == (["EWR", "é"], b"\0\xff", "PEOPLE")
    assert (found.origin.code, found.extra) == ("JFK", {"wind": 1.5})
    assert (second.payload.carrier, second.payload.kind, second.payload.origin) == (
        "",
        "CARGO",
        None,
    )
    assert third.payload is None
    ((offset, (value, reason)),) = bad(table).items()
    assert (offset, value) == (2, full[:-2])
    assert "the value is no message test.Flight" in reason


def test_protobuf_in_a_registrys_framing(spark: Any) -> None:
    body = flight(carrier="UA")
    values: list[bytes | None] = [
        framed(5, b"\0" + body),
        framed(6, b"\x04\x02\x00" + body),
        framed(7, b"\x80"),
        framed(8, b"\x7f" + body),
    ]
    table = read_protobuf(table_of(spark, values), descriptor_set(), "test.Flight", framed=True)
    rows = good_records(table).orderBy("offset").collect()
    assert [(row.schema_id, row.payload.carrier) for row in rows] == [(5, "UA"), (6, "UA")]
    assert list(bad(table)) == [2, 3]


@pytest.mark.parametrize(
    ("name", "words"),
    [("test.Nothing", "no message 'test.Nothing'"), ("test.Tree", "contains itself")],
    ids=["missing", "recursive"],
)
def test_messages_that_spark_cannot_have_are_refused(spark: Any, name: str, words: str) -> None:
    with pytest.raises(WrongOption, match=words):
        read_protobuf(table_of(spark, []), descriptor_set(), name)


def test_a_poison_message_stops_no_stream(
    stream: Callable[..., Any], make_topic: TopicMaker, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic, found = make_topic(partitions=1), {}
    produce(bootstrap_servers, topic, [b'{"delay": 1}', b"poison", b'{"delay": 2}'])
    table = read_json(stream(subscribe=topic, startingOffsets="earliest"), SCHEMA)

    def divide(batch: Any, number: int) -> None:
        found["good"] = [row.payload.delay for row in good_records(batch).collect()]
        found["bad"] = [(row.offset, bytes(row.value)) for row in bad_records(batch).collect()]

    writer = table.writeStream.foreachBatch(divide).option("checkpointLocation", str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert found == {"good": [1, 2], "bad": [(1, b"poison")]}
