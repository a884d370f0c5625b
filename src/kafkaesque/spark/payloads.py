"""Typed payloads: JSON, Avro and Protobuf as columns, with the records that are neither kept aside.

A reader adds columns to a table of the source; `good_records` and `bad_records` divide it. What
cannot be read never stops a query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from kafkaesque.spark.avro import avro_decoder
from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.protobuf import protobuf_decoder

#: What a reader adds: the payload in columns (null where the value is, or is bad), why it is bad
#: (null where it is not), and with a registry's framing the number of its schema.
PAYLOAD, BAD_REASON, SCHEMA_ID = "payload", "bad_reason", "schema_id"

_BODY, _CORRUPT = "__body", "__corrupt"
#: Framing of the common schema registries: a zero byte and the schema's number, 32 bits.
_FRAME_BYTES = 5


def read_json(table: DataFrame, schema: StructType | str, *, framed: bool = False) -> DataFrame:
    """Return the table with its values read as JSON objects of a schema.

    A value is bad if it is not UTF-8, no JSON object, or a field in it is of another type. Fields
    that are missing are null, fields that the schema has not are left out.
    """
    wanted = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    text = f.col(_BODY).cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    with_corrupt = StructType([*wanted.fields, StructField(_CORRUPT, StringType())])
    parsed = f.from_json(text, with_corrupt, options)
    found = _with_body(table, framed).withColumn(PAYLOAD, parsed)
    reason = (
        f.when(f.col(BAD_REASON).isNotNull(), f.col(BAD_REASON))
        .when(~f.is_valid_utf8(text), f.lit("the value is not UTF-8"))
        .when(
            f.col(_BODY).isNotNull()
            & (f.col(PAYLOAD).isNull() | f.col(PAYLOAD).getField(_CORRUPT).isNotNull()),
            f.lit(f"the value is no JSON object of the schema {wanted.simpleString()}"),
        )
    )
    fields = [f.col(PAYLOAD).getField(name).alias(name) for name in wanted.fieldNames()]
    found = found.withColumn(BAD_REASON, reason)
    is_good = f.col(BAD_REASON).isNull() & f.col(_BODY).isNotNull()
    return found.withColumn(PAYLOAD, f.when(is_good, f.struct(*fields))).drop(_BODY)


def read_avro(table: DataFrame, schema: str, *, framed: bool = False) -> DataFrame:
    """Return the table with its values read as Avro records of a schema, which is given as JSON.

    A value is bad if it is not just one record of that schema.

    Raises:
        WrongOption: it is no schema of a record, or has a type that Spark has not.
    """
    return _decoded(_with_body(table, framed), *avro_decoder(schema))


def read_protobuf(
    table: DataFrame, descriptors: bytes, message: str, *, framed: bool = False
) -> DataFrame:
    """Return the table with its values read as messages, such as "package.Flight".

    `descriptors` is a FileDescriptorSet with all that the message needs, as `protoc` writes it with
    --include_imports --descriptor_set_out. A value is bad if it cannot be parsed.

    Raises:
        WrongOption: there is no such message, or it contains itself.
    """
    found = _with_body(table, framed)
    return _decoded(found, *protobuf_decoder(descriptors, message, framed=framed))


def _decoded(found: DataFrame, kind: StructType, decode: Callable[[Any], Any]) -> DataFrame:
    """Return the table with its bodies decoded, without the columns that were for that."""
    decoded = f.arrow_udf(decode, kind)(f.col(_BODY))
    found = found.withColumn("__decoded", decoded)
    reason = f.coalesce(f.col(BAD_REASON), f.col("__decoded").getField(BAD_REASON))
    found = found.withColumn(BAD_REASON, reason)
    payload = f.when(reason.isNull(), f.col("__decoded").getField(PAYLOAD))
    return found.withColumn(PAYLOAD, payload).drop(_BODY, "__decoded")


def good_records(table: DataFrame) -> DataFrame:
    """Return the rows whose value could be read."""
    return table.where(f.col(BAD_REASON).isNull()).drop(BAD_REASON)


def bad_records(table: DataFrame) -> DataFrame:
    """Return the rows whose value could not be read, as they came, each with its reason."""
    names = [
        name for name in ("topic", "partition", "offset", "key", "value") if name in table.columns
    ]
    reason = f.col(BAD_REASON).alias("reason")
    return table.where(f.col(BAD_REASON).isNotNull()).select(*names, reason)


def _with_body(table: DataFrame, framed: bool) -> DataFrame:
    """Return the table with the bytes to be read, and what is wrong with their framing."""
    if "value" not in table.columns:
        raise WrongOption("there is no column value to be read")
    value = f.col("value")
    if not framed:
        return table.withColumn(_BODY, value).withColumn(BAD_REASON, f.lit(None).cast("string"))
    has_frame = (f.length(value) >= _FRAME_BYTES) & (
        f.substring(value, 1, 1) == f.unhex(f.lit("00"))
    )
    number = f.conv(f.hex(f.substring(value, 2, 4)), 16, 10).cast("bigint")
    body: Any = f.when(has_frame, f.expr(f"substring(value, {_FRAME_BYTES + 1})"))
    reason = f.when(
        value.isNotNull() & ~has_frame,
        f.lit("the value does not begin with a zero byte and the number of a schema"),
    )
    found = table.withColumn(SCHEMA_ID, f.when(has_frame, number))
    return found.withColumn(_BODY, body).withColumn(BAD_REASON, reason)
