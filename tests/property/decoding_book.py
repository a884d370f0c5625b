"""Schemas by which values are decoded that their writers may have made to do harm."""

from typing import Final

from kafkaesque.admin.decoding.schema_book import KnownSchema, Place, UnknownSchema
from kafkaesque.registry.schemas import SchemaType

PROTO: Final = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message Tree {
  int64 id = 1;
  string name = 2;
  repeated Tree children = 3;
  map<string, Tree> by_name = 4;
  repeated int32 numbers = 5;
  bytes data = 6;
  double ratio = 7;
  Colour colour = 8;
  oneof choice { string text = 9; google.protobuf.Timestamp at = 10; }
  google.protobuf.Any any = 11;
  google.protobuf.Struct struct = 12;
  optional bool flag = 13;
}
enum Colour { NONE = 0; RED = 1; }
"""
_TEXTS: Final = (
    (SchemaType.AVRO, '{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]}]}'),
    (SchemaType.PROTOBUF, PROTO),
    (SchemaType.JSON, "{}"),
    (SchemaType.AVRO, "no schema"),
    (SchemaType.AVRO, '{"type":"array","items":"null"}'),
)
_PLACE: Final = Place(subject="s", version=1)
SCHEMAS: Final[dict[int, KnownSchema | UnknownSchema]] = {
    number: KnownSchema(
        id=number, type=kind, text=text, references={}, key_place=_PLACE, value_place=_PLACE
    )
    for number, (kind, text) in enumerate(_TEXTS, 1)
}
