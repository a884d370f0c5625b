"""Avro schemas as Spark's types, values as Arrow columns, and Arrow columns as values."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

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

_SIMPLE = {
    "boolean": spark.BooleanType,
    "int": spark.IntegerType,
    "long": spark.LongType,
    "float": spark.FloatType,
    "double": spark.DoubleType,
    "bytes": spark.BinaryType,
    "fixed": spark.BinaryType,
    "string": spark.StringType,
    "enum": spark.StringType,
}
_LOGICAL = {
    "date": spark.DateType,
    "timestamp-millis": spark.TimestampType,
    "timestamp-micros": spark.TimestampType,
    "uuid": spark.StringType,
}


def avro_decoder(text: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return the Spark type of (payload, bad_reason) and what makes such a column of values.

    Raises:
        WrongOption: it is no schema of a record, or has a type that Spark has not.
    """
    schema, names = _parsed(text)
    payload = spark_type(schema, names)
    kind = spark.StructType(
        [
            spark.StructField(PAYLOAD, payload),
            spark.StructField(REASON, spark.StringType()),
        ]
    )
    arrow_type = to_arrow_type(payload, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        return decode_column(values, partial(_decode, schema=schema), arrow_type)

    return kind, decode


def avro_encoder(text: str, schema_id: int | None) -> Callable[[Any], Any]:
    """Return what makes a column of (value, bad_reason) of one of structures.

    Raises:
        WrongOption: it is no schema of a record, or has a type that Spark has not.
    """
    schema, names = _parsed(text)
    spark_type(schema, names)
    frame = frame_of(schema_id)

    def encode(payload: Any) -> bytes:
        import fastavro

        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, payload)
        return frame + out.getvalue()

    def encode_all(payloads: pa.Array) -> pa.Array:
        return encode_column(payloads, encode)

    return encode_all


def _parsed(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a schema and the names in it."""
    import fastavro

    try:
        names: dict[str, Any] = {}
        schema = fastavro.parse_schema(json.loads(text), names)
    except Exception as error:
        raise WrongOption(f"it is no Avro schema: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise WrongOption("the Avro schema is not that of a record")
    return schema, names


def spark_type(schema: Any, names: Mapping[str, Any], within: tuple[str, ...] = ()) -> Any:
    """Return the type of a schema, in which `names` are defined; `within` are those around it.

    Raises:
        WrongOption: Spark has no such type.
    """
    if isinstance(schema, list):
        return _union(schema, names, within)
    if isinstance(schema, str) and schema in names:
        schema = names[schema]
    if isinstance(schema, str):
        schema = {"type": schema}
    if isinstance(schema["type"], dict | list):
        return spark_type(schema["type"], names, within)
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        return _record(schema, names, within)
    if kind == "array":
        return spark.ArrayType(spark_type(schema["items"], names, within))
    if kind == "map":
        values = spark_type(schema["values"], names, within)
        return spark.MapType(spark.StringType(), values)
    if logical == "decimal":
        return spark.DecimalType(schema["precision"], schema.get("scale", 0))
    found = _LOGICAL.get(logical) if logical else _SIMPLE.get(kind)
    if found is None:
        raise WrongOption(f"the Avro schema has the type {logical or kind}, which Spark has not")
    return found()


def _union(schema: list[Any], names: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    others = [each for each in schema if each != "null"]
    if len(others) != 1:
        raise WrongOption("the Avro schema has a union of more than null and one type")
    return spark_type(others[0], names, within)


def _record(schema: Mapping[str, Any], names: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    name = schema["name"]
    if name in within:
        raise WrongOption(f"the Avro schema has the record {name} within itself")
    return spark.StructType(
        [
            spark.StructField(each["name"], spark_type(each["type"], names, (*within, name)))
            for each in schema["fields"]
        ]
    )


def _decode(value: bytes, schema: Any) -> tuple[Any, str | None]:
    import fastavro

    stream = io.BytesIO(value)
    try:
        row = _plain(fastavro.schemaless_reader(stream, schema, None))
    except Exception as error:  # Whatever a library does with bytes that were made up.
        return None, f"the value is no Avro record of the schema: {type(error).__name__} {error}"
    if stream.tell() != len(value):
        return None, f"the Avro record ends at byte {stream.tell()} of {len(value)}"
    return row, None


def _plain(value: Any) -> Any:
    """Return what Arrow takes: a UUID as its text, a map as pairs is left as it is."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, UUID) else value
