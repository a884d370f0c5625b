"""Messages of Protocol Buffers as Spark's types, values as Arrow columns, and columns as values."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.payload_column import (
    PAYLOAD,
    REASON,
    decode_column,
    encode_column,
    frame_of,
)

#: By `FieldDescriptor.CPPTYPE_*`: int32, int64, uint32, uint64, double, float, bool, enum.
_SIMPLE = {
    1: spark.IntegerType(),
    2: spark.LongType(),
    3: spark.LongType(),
    4: spark.DecimalType(20, 0),
    5: spark.DoubleType(),
    6: spark.FloatType(),
    7: spark.BooleanType(),
    8: spark.StringType(),
}
_ENUM, _MESSAGE, _BYTES = 8, 10, 12
_UINT64 = 4
#: The most numbers in the path to a message that a registry's framing has.
_PATH_MAX = 32


def protobuf_decoder(
    descriptors: bytes, name: str, *, framed: bool
) -> tuple[Any, Callable[[Any], Any]]:
    """Return the Spark type of (payload, bad_reason) and what makes such a column of values.

    With `framed` values begin with the path to their message, as schema registries write it.

    Raises:
        WrongOption: there is no such message in the descriptor set, or it contains itself.
    """
    payload = _struct(_message_class(descriptors, name).DESCRIPTOR)
    fields = [
        spark.StructField(PAYLOAD, payload),
        spark.StructField(REASON, spark.StringType()),
    ]
    arrow_type = to_arrow_type(payload, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        # The class is made in the process that decodes: it cannot be sent there.
        read = partial(_decode, kind=_message_class(descriptors, name), framed=framed)
        return decode_column(values, read, arrow_type)

    return spark.StructType(fields), decode


def protobuf_encoder(descriptors: bytes, name: str, schema_id: int | None) -> Callable[[Any], Any]:
    """Return what makes a column of (value, bad_reason) of one of structures.

    Raises:
        WrongOption: there is no such message in the descriptor set, or it contains itself.
    """
    _struct(_message_class(descriptors, name).DESCRIPTOR)
    # In the framing, 0 stands for the first message of its file.
    frame = frame_of(schema_id) + (b"" if schema_id is None else b"\0")

    def encode(payload: Any) -> bytes:
        message = _message_class(descriptors, name)()
        _fill(message, payload)
        return bytes(frame + message.SerializeToString(deterministic=True))

    def encode_all(payloads: pa.Array) -> pa.Array:
        return encode_column(payloads, encode)

    return encode_all


def _fill(message: Any, row: dict[str, Any]) -> None:
    """Set the fields of a message that a row has; null is a field that is not set."""
    for field in message.DESCRIPTOR.fields:
        value = row.get(field.name)
        if value is None:
            continue
        if _is_map(field):
            _fill_map(getattr(message, field.name), value, field)
        elif field.is_repeated:
            for each in value:
                if field.cpp_type == _MESSAGE:
                    _fill(getattr(message, field.name).add(), each)
                else:
                    getattr(message, field.name).append(_written(each, field))
        elif field.cpp_type == _MESSAGE:
            getattr(message, field.name).SetInParent()
            _fill(getattr(message, field.name), value)
        else:
            setattr(message, field.name, _written(value, field))


def _fill_map(entries: Any, value: dict[Any, Any], field: Any) -> None:
    kind = field.message_type.fields_by_name["value"]
    for key, each in value.items():
        if kind.cpp_type == _MESSAGE:
            _fill(entries[key], each)
        else:
            entries[key] = _written(each, kind)


def _written(value: Any, field: Any) -> Any:
    """Return what a field takes: the number of an enumeration's name, an integer of a decimal."""
    if field.cpp_type == _ENUM:
        found = field.enum_type.values_by_name.get(value)
        if found is None:
            known = ", ".join(field.enum_type.values_by_name)
            raise ValueError(f"{field.name} is one of {known}, not {value!r}")
        return found.number
    return int(value) if field.cpp_type == _UINT64 else value


@lru_cache(maxsize=64)
def _message_class(descriptors: bytes, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    try:
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except Exception as error:
        raise WrongOption(f"the descriptor set has no message {name!r}: {error}") from None


def _struct(message: Any, within: tuple[str, ...] = ()) -> Any:
    if message.full_name in within:
        raise WrongOption(f"the message {message.full_name} contains itself, which Spark has not")
    around = (*within, message.full_name)
    return spark.StructType(
        [spark.StructField(field.name, _type(field, around)) for field in message.fields]
    )


def _type(field: Any, within: tuple[str, ...]) -> Any:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return spark.MapType(_single(entry["key"], within), _single(entry["value"], within))
    single = _single(field, within)
    return spark.ArrayType(single) if field.is_repeated else single


def _single(field: Any, within: tuple[str, ...]) -> Any:
    if field.cpp_type == _MESSAGE:
        return _struct(field.message_type, within)
    if field.type == _BYTES:
        return spark.BinaryType()
    return _SIMPLE.get(field.cpp_type, spark.StringType())


def _is_map(field: Any) -> bool:
    return field.cpp_type == _MESSAGE and bool(field.message_type.GetOptions().map_entry)


def _decode(value: bytes, *, kind: Any, framed: bool) -> tuple[Any, str | None]:
    try:
        return _row(kind.FromString(_without_path(value) if framed else value)), None
    except Exception as error:  # Whatever a library does with bytes that were made up.
        name = kind.DESCRIPTOR.full_name
        return None, f"the value is no message {name}: {type(error).__name__} {error}"


def _without_path(value: bytes) -> bytes:
    """Return what follows the path: how many numbers it has, and they, as zigzag varints."""
    count, at = _varint(value, 0)
    if not 0 <= count <= _PATH_MAX:
        raise ValueError(f"a path of {count} numbers to the message")
    for _ in range(count):
        _, at = _varint(value, at)
    return value[at:]


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(value):
            break
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("the path to the message is cut off")


def _row(message: Any) -> dict[str, Any]:
    return {field.name: _cell(message, field) for field in message.DESCRIPTOR.fields}


def _cell(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return [(key, _plain(value[key], kind)) for key in value]
    if field.is_repeated:
        return [_plain(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain(value, field)


def _plain(value: Any, field: Any) -> Any:
    if field.cpp_type == _MESSAGE:
        return _row(value)
    if field.cpp_type == _ENUM:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return value
