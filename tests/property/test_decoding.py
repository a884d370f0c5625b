"""Decoded values are what was written; hostile bytes and schemas give a reason, and soon."""

import io
import json
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fastavro
import msgspec
import pytest
from google.protobuf import json_format, message_factory, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.admin.decoding.avro_data import read_avro
from kafkaesque.admin.decoding.bounds import DECODED_BYTES_MAX, Allowance, UndecodableError
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.msgpack_data import read_msgpack
from kafkaesque.admin.decoding.plain_values import shown_bytes, shown_float
from kafkaesque.admin.decoding.protobuf_data import MessageTypes, read_protobuf
from kafkaesque.admin.decoding.schema_book import KnownSchema, Place, SchemaBook
from kafkaesque.registry.avro import AvroSchema
from kafkaesque.registry.protobuf import ProtobufSchema
from kafkaesque.registry.schemas import SchemaType
from tests.property.decoding_book import PROTO, SCHEMAS

LONGS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(width=64)
#: JSON as it comes out grows by escapes; what is built before it does not.
SHOWN_BYTES_MAX = 6 * DECODED_BYTES_MAX


def or_reason(read: Callable[[], Any]) -> Any:
    """Return what is read, or the reason against it; nothing else may be raised."""
    try:
        return read()
    except UndecodableError as reason:
        return reason


def check(found: Any) -> None:
    """Check that there is a reason, or a value of a bounded size."""
    if isinstance(found, UndecodableError):
        assert str(found) != ""
    else:
        assert len(msgspec.json.encode(found)) <= SHOWN_BYTES_MAX


# -- Avro

#: A schema of a primitive type, and values of it with what they are shown as.
PRIMITIVES: dict[str, st.SearchStrategy[tuple[Any, Any]]] = {
    "null": st.just((None, None)),
    "boolean": st.booleans().map(lambda each: (each, each)),
    "int": st.integers(-(2**31), 2**31 - 1).map(lambda each: (each, each)),
    "long": LONGS.map(lambda each: (each, each)),
    "double": DOUBLES.map(lambda each: (each, shown_float(each))),
    "string": st.text(max_size=5).map(lambda each: (each, each)),
    "bytes": st.binary(max_size=5).map(lambda each: (each, shown_bytes(each))),
}


@st.composite
def avro_values(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any, Any]:
    """Return a schema, a value of it, and what that is shown as."""
    kinds = ["primitive", *(["array", "map", "record", "union"] if depth else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        name = draw(st.sampled_from(sorted(PRIMITIVES)))
        value, shown = draw(PRIMITIVES[name])
        return name, value, shown
    schema, value, shown = draw(avro_values(depth - 1))
    if kind == "array":
        count = draw(st.integers(0, 3))
        return {"type": "array", "items": schema}, [value] * count, [shown] * count
    if kind == "map":
        names = draw(st.lists(st.text(max_size=3), max_size=3))
        return (
            {"type": "map", "values": schema},
            dict.fromkeys(names, value),
            dict.fromkeys(names, shown),
        )
    if kind == "union":
        if schema == "null" or isinstance(schema, list):
            return schema, value, shown
        is_null = draw(st.booleans())
        return ["null", schema], None if is_null else value, None if is_null else shown
    # Names have to differ: a depth has one record.
    fields = [{"name": "a", "type": schema}, {"name": "b", "type": "long"}]
    record = {"type": "record", "name": f"R{depth}", "fields": fields}
    return record, {"a": value, "b": 7}, {"a": shown, "b": 7}


@given(avro_values())
def test_what_fastavro_writes_is_read(case: tuple[Any, Any, Any]) -> None:
    schema, value, shown = case
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    parsed = AvroSchema(json.dumps(schema), {})
    assert read_avro(written.getvalue(), parsed.root, parsed.names, Allowance()) == shown


HOSTILE_AVRO = {
    "nulls": '{"type":"array","items":"null"}',
    "empty records": ('{"type":"array","items":{"type":"record","name":"E","fields":[]}}'),
    "long names": (
        '{"type":"array","items":{"type":"record","name":"E","fields":'
        f'[{{"name":"{"n" * 100_000}","type":"null"}}]}}}}'
    ),
    "long symbols": (
        f'{{"type":"array","items":{{"type":"enum","name":"E","symbols":["{"s" * 100_000}"]}}}}'
    ),
    "nothing within itself": '{"type":"record","name":"N","fields":[{"name":"n","type":"N"}]}',
    "list": '{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]}]}',
    "tree": (
        '{"type":"record","name":"T","fields":[{"name":"t","type":{"type":"array","items":"T"}}]}'
    ),
    "maps": '{"type":"map","values":{"type":"map","values":"bytes"}}',
    "decimal": '{"type":"bytes","logicalType":"decimal","precision":90,"scale":80}',
    "times": '{"type":"array","items":{"type":"long","logicalType":"timestamp-micros"}}',
}
PARSED = {name: AvroSchema(text, {}) for name, text in HOSTILE_AVRO.items()}


def zigzag(number: int) -> bytes:
    """Return a number as Avro has it."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


#: Bytes that are often something: small numbers, large ones, and what follows them.
PIECES = st.one_of(
    st.binary(max_size=8),
    st.integers(-(2**62), 2**62).map(zigzag),
    st.integers(0, 3).map(zigzag),
    st.sampled_from([zigzag(2**40), zigzag(200_000), b"\x02" * 2_000, b"\xff" * 10]),
)
HOSTILE = st.lists(PIECES, max_size=8).map(b"".join)


@given(st.sampled_from(sorted(PARSED)), HOSTILE)
def test_avro_of_any_bytes_is_a_value_or_a_reason(name: str, data: bytes) -> None:
    parsed = PARSED[name]
    check(or_reason(lambda: read_avro(data, parsed.root, parsed.names, Allowance())))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("nulls", zigzag(2**60) + b"\0", "becomes more than"),
        ("nulls", zigzag(-(2**60)) + b"\0\0", "becomes more than"),
        ("empty records", zigzag(2**60) + b"\0", "becomes more than"),
        ("long names", zigzag(100_000) + b"\0", "becomes more than"),
        ("long symbols", zigzag(1_000) + bytes(1_001), "becomes more than"),
        ("nothing within itself", b"", "nested deeper"),
        ("list", b"\x02" * 1_000_000 + b"\0", "nested deeper"),
        ("tree", b"\x02" * 1_000_000, "nested deeper"),
        ("maps", zigzag(1) + zigzag(2**50), "50 more bytes"),
        ("maps", zigzag(1) + zigzag(-5), "more bytes"),
        ("times", b"\x02" + b"\xff" * 10, "too long"),
    ],
)
def test_avro_that_would_grow_gives_a_reason(name: str, data: bytes, reason: str) -> None:
    parsed = PARSED[name]
    reason = reason.replace("50 more", f"{2**50} more")
    with pytest.raises(UndecodableError, match=reason):
        read_avro(data, parsed.root, parsed.names, Allowance())


def test_unions_within_unions_give_a_reason() -> None:
    kind: list[Any] = ["null", "R"]
    for _ in range(60):
        kind = [kind]
    record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    parsed = AvroSchema(json.dumps(record), {})
    with pytest.raises(UndecodableError, match="nested too deeply"):
        read_avro((bytes(60) + b"\2") * 60, parsed.root, parsed.names, Allowance())


#: What schemas are made of, some of it at the wrong place.
WORDS = st.one_of(
    st.sampled_from([*sorted(PRIMITIVES), "N", "array", "map", "fixed", "enum", "record", "x"]),
    st.integers(-1, 2),
    st.just(1.5),
    st.none(),
    st.booleans(),
)
NAMES = ["type", "name", "items", "values", "fields", "symbols", "size", "logicalType", "scale"]
LOGICAL = ["decimal", "uuid", "date", "time-millis", "timestamp-micros"]
ODD_SCHEMAS = st.recursive(
    WORDS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
        st.builds(lambda each: {"type": "array", "items": each}, inner),
        st.builds(lambda each: {"type": "map", "values": each}, inner),
        st.builds(lambda each: {"type": "fixed", "name": "F", "size": each}, inner),
        st.builds(lambda each: {"type": "enum", "name": "E", "symbols": each}, inner),
        st.builds(
            lambda one, other: {
                "type": "record",
                "name": "N",
                "fields": [{"name": "a", "type": one}, {"name": "b", "type": other}],
            },
            inner,
            inner,
        ),
        st.builds(
            lambda kind, logical, scale: {"type": kind, "logicalType": logical, "scale": scale},
            inner,
            st.sampled_from(LOGICAL),
            inner,
        ),
    ),
    max_leaves=8,
)


@given(ODD_SCHEMAS, HOSTILE)
def test_an_odd_schema_is_refused_or_gives_a_value_or_a_reason(schema: Any, data: bytes) -> None:
    text = json.dumps(schema)
    known = KnownSchema(
        id=1,
        type=SchemaType.AVRO,
        text=text,
        references={},
        key_place=Place(subject="s", version=1),
        value_place=Place(subject="s", version=1),
    )
    decoder = Decoder(SchemaBook({1: known}), Allowance())
    found = or_reason(lambda: decoder.decode(b"\0\0\0\0\1" + data, "avro"))
    assert found is not None


# -- Protocol Buffers

TREE = ProtobufSchema(PROTO, {}).file.message_types_by_name["Tree"]
TREE_CLASS = message_factory.GetMessageClass(TREE)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "id": LONGS,
        "name": st.text(max_size=5),
        "numbers": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
        "data": st.binary(max_size=5),
        "ratio": DOUBLES,
        "colour": st.integers(0, 2),
        "text": st.text(max_size=3),
        "flag": st.booleans(),
    },
)
TREES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    FIELDS,
    lambda inner: st.builds(
        lambda own, children, named: {**own, "children": children, "by_name": named},
        FIELDS,
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
    ),
    max_leaves=6,
)


def tree(fields: dict[str, Any]) -> Any:
    made = TREE_CLASS()
    for name, value in fields.items():
        if name == "children":
            made.children.extend(tree(each) for each in value)
        elif name == "by_name":
            for key, each in value.items():
                made.by_name[key].CopyFrom(tree(each))
        elif name == "numbers":
            made.numbers.extend(value)
        else:
            setattr(made, name, value)
    return made


@given(TREES)
def test_what_the_library_writes_is_read(fields: dict[str, Any]) -> None:
    message = tree(fields)
    shown = read_protobuf(message.SerializeToString(), TREE, MessageTypes(), Allowance())
    expected = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert shown == expected


PROTO_PIECES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([bytes([number << 3 | wire]) for number in range(1, 14) for wire in range(6)]),
    st.sampled_from([b"\x1a\0" * 500, b"\x2a\xff\x01" + bytes(255), b"\x1b" * 500]),
)


@given(st.lists(PROTO_PIECES, max_size=12).map(b"".join))
def test_protobuf_of_any_bytes_is_a_message_or_a_reason(data: bytes) -> None:
    check(or_reason(lambda: read_protobuf(data, TREE, MessageTypes(), Allowance())))


def wide(count: int) -> Any:
    fields = "".join(f"int32 f{number} = {number + 1};" for number in range(count))
    text = f'syntax = "proto3"; message W {{ repeated I a = 1; }} message I {{ {fields} }}'
    return ProtobufSchema(text, {}).file.message_types_by_name["W"]


def delimited(number: int, data: bytes) -> bytes:
    size, out = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size]) + data


def within(number: int, times: int) -> bytes:
    data = b""
    for _ in range(times):
        data = delimited(number, data)
    return data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (within(3, 1_000), "nested deeper"),
        (b"\x1b" * 1_000, "nested deeper"),
        (b"\x7b" * 1_000, "nested deeper"),
        (delimited(5, bytes(500_000)), "becomes more than"),
        (b"\x1a\0" * 100_000, "becomes more than"),
        (b"\x0a" + b"\xff" * 10, "too long"),
        (b"\x12\x7fa", "more bytes"),
        (b"\x0c", "did not begin"),
        (b"\x1b", "within a group"),
        (b"\x0e\0", "no field"),
        (delimited(2, b"\xff"), "cannot be read as Tree"),
        (delimited(11, delimited(1, b"x.y/Z") + delimited(2, b"")), "'Z', which its schema"),
    ],
)
def test_protobuf_that_would_grow_gives_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UndecodableError, match=reason):
        read_protobuf(data, TREE, MessageTypes(), Allowance())


def test_empty_messages_of_many_fields_are_paid_for() -> None:
    with pytest.raises(UndecodableError, match="becomes more than"):
        read_protobuf(b"\x0a\0" * 2_000, wide(1_000), MessageTypes(), Allowance())


def test_what_any_holds_is_walked_through() -> None:
    held = b"\x1a\0" * 100_000
    data = delimited(11, delimited(1, b"type.googleapis.com/Tree") + delimited(2, held))
    with pytest.raises(UndecodableError, match="becomes more than"):
        read_protobuf(data, TREE, MessageTypes(), Allowance())
    small = delimited(11, delimited(1, b"type.googleapis.com/Tree") + delimited(2, b"\x08\x05"))
    assert read_protobuf(small, TREE, MessageTypes(), Allowance())["any"]["id"] == "5"


#: A name that costs more than all that the bytes of a test say.
LONG = "n" * 2_000


def big_fields() -> str:
    return "".join(f"int32 {LONG}{number} = {number + 1};" for number in range(50))


#: What is shown without being written, or otherwise than by the fields of its message.
GROWING = f"""
syntax = "proto3";
import "google/protobuf/any.proto";
message Holder {{
  repeated google.protobuf.Any many = 1;
  google.protobuf.Any one = 2;
  map<int32, Big> by_number = 3;
  repeated Nothing nothings = 4;
}}
message Big {{ {big_fields()} }}
message Many {{ repeated Big bigs = 1; }}
message Nothing {{}}
"""
BIG = delimited(1, b"/Big")


def entry(number: int) -> bytes:
    return delimited(3, bytes([8, number]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (delimited(1, BIG) * 100, "becomes more than"),
        # The library takes the bytes with the right type, and not those that come after them.
        (delimited(1, BIG + b"\x08N") * 100, "becomes more than"),
        (delimited(2, delimited(1, b"/Many")) + delimited(2, BIG), "is one once more"),
        (b"".join(map(entry, range(100))), "becomes more than"),
        # A value that is none of its type is as good as none.
        (b"".join(delimited(3, bytes([8, each, 16, 0])) for each in range(100)), "becomes more"),
        (b"\x28\0" * 200_000, "becomes more than"),
        (b"\x2b\x2c" * 200_000, "becomes more than"),
        (delimited(4, b"\x0b\x0c") * 70_000, "becomes more than"),
        (delimited(2, delimited(2, b"a")), "it holds ''"),
    ],
)
def test_what_is_shown_without_being_written_is_paid_for(data: bytes, reason: str) -> None:
    holder = ProtobufSchema(GROWING, {}).file.message_types_by_name["Holder"]
    with pytest.raises(UndecodableError, match=reason):
        read_protobuf(data, holder, MessageTypes(), Allowance())


def own_file(text: str, **options: bool) -> Any:
    """Return messages as a descriptor has them that `protoc` would not have made."""
    made = FileDescriptorProto(name="own.proto", syntax="proto2")
    text_format.Parse(text, made)
    for each in made.message_type[1:]:
        for name, value in options.items():
            setattr(each.options, name, value)
    pool = DescriptorPool()
    pool.Add(made)
    return pool.FindFileByName("own.proto").message_types_by_name["H"]


HOLDER = "message_type {{ name: 'H' field {{ name: 'a' number: 1 label: LABEL_REPEATED {} }} }}"
EXTENDED = (
    HOLDER.format("type: TYPE_MESSAGE type_name: '.E'")
    + "message_type { name: 'E' extension_range { start: 100 end: 200 } }"
    + f"extension {{ name: '{LONG}' number: 100 label: LABEL_OPTIONAL extendee: '.E' "
)


def test_names_of_extensions_are_paid_for() -> None:
    holder = own_file(EXTENDED + "type: TYPE_INT32 }")
    with pytest.raises(UndecodableError, match="becomes more than"):
        read_protobuf(b"\x0a\x03\xa0\x06\0" * 2_000, holder, MessageTypes(), Allowance())


def test_what_the_library_reads_by_other_rules_is_refused() -> None:
    message_set = own_file(
        EXTENDED.replace("end: 200", "end: 200000") + "type: TYPE_MESSAGE type_name: '.H' }",
        message_set_wire_format=True,
    )
    with pytest.raises(UndecodableError, match="E is a message set"):
        read_protobuf(b"\x0a\0", message_set, MessageTypes(), Allowance())
    of_own = own_file(
        "package: 'google.protobuf'"
        + HOLDER.format("type: TYPE_MESSAGE type_name: '.google.protobuf.Any'")
        + "message_type { name: 'Any' field { name: 'type_url' number: 1 label: LABEL_OPTIONAL"
        " type: TYPE_STRING default_value: 'x/google.protobuf.H' }"
        " field { name: 'value' number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES } }"
    )
    with pytest.raises(UndecodableError, match=r"has a google\.protobuf\.Any of its own"):
        read_protobuf(b"\x0a\0", of_own, MessageTypes(), Allowance())


def test_a_field_that_is_not_encoded_as_its_type_is_one_that_nobody_knows() -> None:
    holder = own_file(
        HOLDER.format("type: TYPE_GROUP type_name: '.E'") + "message_type { name: 'E' }"
    )
    read = read_protobuf(b"\x0a\x01\x01\x0b\x0c", holder, MessageTypes(), Allowance())
    assert read == {"a": [{}]}


def test_a_large_schema_is_gone_through_once() -> None:
    text = 'syntax = "proto3";' + "".join(f"message M{each} {{}}" for each in range(3_000))
    file, types = ProtobufSchema(text, {}).file, MessageTypes()
    assert types.find(file, [2_999]).name == "M2999"
    nobody = SimpleNamespace(message_types_by_name=None)
    assert types.find(nobody, [17]).name == "M17"


# -- MessagePack

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), DOUBLES, st.text(max_size=40)
)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=20), st.dictionaries(st.text(max_size=3), inner, max_size=20)
    ),
    max_leaves=20,
)


def shown(value: Any) -> Any:
    """Return what a value is shown as."""
    if isinstance(value, float):
        return shown_float(value)
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items()}
    return value


@given(PLAIN)
def test_what_msgspec_writes_is_read(value: Any) -> None:
    assert read_msgpack(msgspec.msgpack.encode(value), Allowance()) == shown(value)


@given(st.one_of(st.binary(max_size=64), st.lists(PIECES, max_size=6).map(b"".join)))
def test_any_bytes_are_messagepack_or_a_reason(data: bytes) -> None:
    check(or_reason(lambda: read_msgpack(data, Allowance())))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xdd" + struct.pack(">I", 2**32 - 1) + b"\x90" * 1_000_000, "becomes more than"),
        (b"\xdf" + struct.pack(">I", 2**32 - 1), "more bytes"),
        (b"\xdb" + struct.pack(">I", 2**32 - 1), "more bytes"),
        (b"\x91" * 1_000_000, "nested deeper"),
        (b"\x81\x90\x01", "no text"),
        (b"\x01\x02", "1 byte follows"),
        (b"\xc1", "begins nothing"),
        (b"\xa1\xff", "no UTF-8"),
        (b"", "1 more bytes"),
    ],
)
def test_messagepack_that_would_grow_gives_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UndecodableError, match=reason):
        read_msgpack(data, Allowance())


# -- all of them


@given(
    st.sampled_from(["auto", "json", "avro", "protobuf", "msgpack"]),
    st.one_of(
        st.binary(max_size=32),
        st.builds(
            lambda number, data: struct.pack(">BI", 0, number) + data,
            st.integers(0, 7),
            st.one_of(HOSTILE, st.lists(PROTO_PIECES, max_size=6).map(b"".join)),
        ),
    ),
    st.none() | st.binary(max_size=8) | st.just(struct.pack(">BI", 0, 2) + b"\0"),
)
def test_nothing_but_a_reason_comes_of_any_bytes(
    wanted: Any, data: bytes, header: bytes | None
) -> None:
    decoder = Decoder(SchemaBook(dict(SCHEMAS)), Allowance())
    found = or_reason(lambda: decoder.decode(data, wanted, header))
    if isinstance(found, UndecodableError):
        assert str(found) != ""
    elif found is None:
        assert wanted == "auto"
    else:
        msgspec.json.decode(found.json)
