"""Schemas of Protocol Buffers: reading, writing, and what fits."""

import pytest

from kafkaesque.registry.errors import InvalidSchema
from kafkaesque.registry.protobuf import ProtobufSchema

WHOLE = """
syntax = "proto3"; // a comment
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "com.example";
/* several
   lines */
message Order {
  reserved 10, 12 to 14, 20 to max;
  reserved "old";
  optional string note = 1 [deprecated = true, json_name = "n"];
  map<string, Line> lines = 2;
  repeated Kind kinds = 3 [packed = false];
  oneof buyer { int64 person = 4; string company = 5; }
  google.protobuf.Timestamp at = 6;
  message Line { int32 count = 1; Line next = 2; }
  enum Kind { option allow_alias = true; NONE = 0; ZERO = 0; LAST = -1; }
}
service Shop { rpc Buy (Order) returns (stream Order); }
"""


def test_text_and_descriptor_say_the_same() -> None:
    schema = ProtobufSchema(WHOLE, {})
    for line in (
        'syntax = "proto3";',
        "  reserved 10, 12 to 14, 20 to max;",
        '  optional string note = 1 [deprecated = true, json_name = "n"];',
        "  map<string, .shop.v1.Order.Line> lines = 2;",
        "  repeated .shop.v1.Order.Kind kinds = 3 [packed = false];",
        "    int64 person = 4;",
        "    LAST = -1;",
        "  rpc Buy (.shop.v1.Order) returns (stream .shop.v1.Order);",
    ):
        assert line in schema.text.split("\n"), line
    assert ProtobufSchema(schema.text, {}).text == schema.text
    assert ProtobufSchema(schema.serialized, {}).text == schema.text
    assert ProtobufSchema(schema.serialized, {}).serialized == schema.serialized


def test_proto2_keeps_its_labels_and_defaults() -> None:
    text = """
    message M {
      required int32 a = 1;
      optional string b = 2 [default = "x\\"y"];
      optional bool c = 3 [default = true];
      extensions 100 to 199;
    }
    extend M { optional int32 more = 100; }
    """
    schema = ProtobufSchema(text, {})
    assert "  required int32 a = 1;" in schema.text
    assert '[default = "x\\"y"]' in schema.text
    assert "[default = true]" in schema.text
    assert ProtobufSchema(schema.text, {}).text == schema.text


def test_references_are_files_to_import() -> None:
    inner = 'syntax = "proto3"; package p; message Inner { int32 a = 1; }'
    outer = 'syntax = "proto3"; import "inner.proto"; message Outer { p.Inner i = 1; }'
    assert ".p.Inner i = 1;" in ProtobufSchema(outer, {"inner.proto": inner}).text
    with pytest.raises(InvalidSchema, match=r"inner\.proto"):
        ProtobufSchema(outer, {})


def message(body: str) -> str:
    others = "enum E { A = 0; } message N {} message O {}"
    return f'syntax = "proto3"; {others} message M {{ {body} }}'


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("int32 a = 1;", "int32 renamed = 1;", True),
        ("int32 a = 1;", "", True),
        ("", "int32 a = 1;", True),
        ("int32 a = 1;", "int64 a = 1;", True),
        ("int32 a = 1;", "E a = 1;", True),
        ("int32 a = 1;", "sint32 a = 1;", False),
        ("int32 a = 1;", "string a = 1;", False),
        ("string a = 1;", "bytes a = 1;", True),
        ("string a = 1;", "repeated string a = 1;", True),
        ("int32 a = 1;", "repeated int32 a = 1;", False),
        ("N a = 1;", "O a = 1;", False),
        ("fixed32 a = 1;", "sfixed32 a = 1;", True),
        ("oneof x { int32 a = 1; int32 b = 2; }", "oneof x { int32 a = 1; }", False),
        ("int32 a = 1; int32 b = 2;", "oneof x { int32 a = 1; int32 b = 2; }", False),
        ("int32 a = 1;", "oneof x { int32 a = 1; int32 b = 2; }", True),
        ("message In { int32 a = 1; } In i = 1;", "message In { string a = 1; } In i = 1;", False),
        ("map<string, int32> m = 1;", "map<string, int64> m = 1;", True),
        ("map<string, int32> m = 1;", "map<string, string> m = 1;", False),
    ],
    ids=[str(number) for number in range(18)],
)
def test_what_the_wire_allows(old: str, new: str, fits: bool) -> None:
    before, after = ProtobufSchema(message(old), {}), ProtobufSchema(message(new), {})
    assert (not list(after.cannot_read(before))) == fits


def test_required_fields_and_messages_may_not_come_or_go() -> None:
    plain = ProtobufSchema("message M { optional int32 a = 1; }", {})
    strict = ProtobufSchema("message M { optional int32 a = 1; required int32 b = 2; }", {})
    empty = ProtobufSchema("", {})
    assert list(strict.cannot_read(plain))
    assert list(plain.cannot_read(strict))
    assert list(empty.cannot_read(plain)) == ["/M: the message is gone"]


@pytest.mark.parametrize(
    "text",
    [
        "message",
        "message M {",
        "message M { int32 a = 1; }",  # proto2 needs a label
        'syntax = "proto3"; message M { Nothing a = 1; }',
        'syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }',
        'syntax = "proto3"; message M { int32 a = 0; }',
        'syntax = "proto3"; message M { int32 a = 99999999999; }',
        'syntax = "proto4";',
        'edition = "2023";',
        'import "nothing.proto";',
        'option strange = 1; syntax = "proto3";',
        "AAAA",
        "message M { optional group G = 1 {} }",
        "message A { " * 200,
        "\x00",
    ],
    ids=[str(number) for number in range(15)],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        ProtobufSchema(text, {})
