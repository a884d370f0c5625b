"""Typed payloads: JSON, CSV, XML, Avro and Protobuf as columns, and what is none kept aside.

A reader adds columns to a table of the source; `good_records` and `bad_records` divide it. What
cannot be read never stops a query. The other way, `write_avro` and `write_protobuf` make values of
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from kafkaesque.spark.avro import avro_decoder, avro_encoder
from kafkaesque.spark.json_misfits import first_misfit
from kafkaesque.spark.payload_column import ENCODED
from kafkaesque.spark.protobuf import protobuf_decoder, protobuf_encoder

#: What a reader adds: the payload in columns (null where the value is, or is bad), why it is bad
#: (null where it is not), and with a registry's framing the number of its schema.
PAYLOAD, BAD_REASON, SCHEMA_ID = "payload", "bad_reason", "schema_id"

#: What is kept of a bad record beside its reason.
BAD_COLUMNS = ("topic", "partition", "offset", "key", "value")

_BODY, _CORRUPT = "__body", "__corrupt"
_PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
#: Framing of the common schema registries: a zero byte and the schema's number, 32 bits.
_FRAME_BYTES = 5


def read_json(table: DataFrame, schema: StructType | str, *, framed: bool = False) -> DataFrame:
    """Return the table with its values read as JSON objects of a schema.

    A value is bad if it is not UTF-8, not one JSON object and nothing more, or a field in it is of
    another type, which the reason names. Fields that are missing are null, fields that the schema
    has not are left out.
    """
    wanted = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    parsed = f.from_json(_text(), _with_corrupt(wanted), _PERMISSIVE)
    what = f"JSON object of the schema {wanted.simpleString()}"
    # Spark reads the first of several objects, and says nothing of the others.
    is_one = f.json_array_length(f.concat(f.lit("["), _text(), f.lit("]"))) == 1
    misfit = first_misfit(_text(), f.col(PAYLOAD), wanted)
    return _read_text(_with_body(table, framed), wanted, parsed, what, is_one, misfit)


def read_csv(table: DataFrame, columns: list[str], *, separator: str = ",") -> DataFrame:
    """Return the table with its values read as one line of CSV each (RFC 4180), columns as texts.

    A value is bad if it is not UTF-8, or has more or fewer columns. What is empty is null.
    """
    wanted = StructType([StructField(name, StringType()) for name in columns])
    schema = ", ".join(f"`{name}` STRING" for name in (*columns, _CORRUPT))
    options = {**_PERMISSIVE, "sep": separator, "escape": '"', "multiLine": "true"}
    parsed = f.from_csv(f.regexp_replace(_text(), r"[\r\n]+\z", ""), schema, options)
    what = f"line of CSV with {len(columns)} columns"
    is_right = f.length(_BODY) > 0
    return _read_text(_with_body(table, False), wanted, parsed, what, is_right)


def read_xml(table: DataFrame, schema: StructType, *, root: str) -> DataFrame:
    """Return the table with its values read as one XML element each, of the name `root`.

    Attributes are the fields whose names begin with _. A value is bad if it is not UTF-8, no such
    element or more than one, declares a document type, or a field in it is of another type.
    """
    parsed = f.from_xml(_text(), _with_corrupt(schema), {**_PERMISSIVE, "rowTag": root})
    name = f"\\Q{root}\\E"
    begins = _text().rlike(rf"(?s)^\ufeff?\s*(?:<\?xml[^>]*+>\s*)?(?:<!--.*?-->\s*)*<{name}[\s/>]")
    ends = _text().rlike(rf"(?:</{name}\s*>|/>)\s*(?:<!--[^>]*+-->\s*)?\z")
    is_one = f.regexp_count(_text(), f.lit(rf"<{name}[\s/>]")) == 1
    what = f"XML element {root} of the schema {schema.simpleString()}"
    return _read_text(_with_body(table, False), schema, parsed, what, begins & ends & is_one)


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


def write_avro(payload: Any, schema: str, *, schema_id: int | None = None) -> Any:
    """Return a column of (value, bad_reason) of a column of structures of an Avro schema.

    With `schema_id` values are in a registry's framing.

    Raises:
        WrongOption: it is no schema of a record, or has a type that Spark has not.
    """
    return f.arrow_udf(avro_encoder(schema, schema_id), ENCODED)(payload)


def write_protobuf(
    payload: Any, descriptors: bytes, message: str, *, schema_id: int | None = None
) -> Any:
    """Return a column of (value, bad_reason) of a column of structures of a message's type.

    With `schema_id` values are in a registry's framing, for the first message of its file.

    Raises:
        WrongOption: there is no such message, or it contains itself.
    """
    return f.arrow_udf(protobuf_encoder(descriptors, message, schema_id), ENCODED)(payload)


def _read_text(
    found: DataFrame,
    wanted: StructType,
    parsed: Any,
    what: str,
    is_right: Any,
    detail: Any = None,
) -> DataFrame:
    """Return the table with what a reader of Spark's makes of its bodies, if they are right.

    `detail` says more of those that are not, or is null; it is computed of no others.
    """
    found = found.withColumn(PAYLOAD, parsed)
    payload = f.col(PAYLOAD)
    is_wrong = payload.isNull() | payload.getField(_CORRUPT).isNotNull()
    is_wrong = is_wrong | ~f.coalesce(is_right, f.lit(False))
    told: Any = f.lit(f"the value is no {what}")
    if detail is not None:
        told = f.concat_ws(": ", told, detail)
    reason = (
        f.when(f.col(BAD_REASON).isNotNull(), f.col(BAD_REASON))
        .when(~f.is_valid_utf8(_text()), f.lit("the value is not UTF-8"))
        .when(f.col(_BODY).isNotNull() & is_wrong, told)
    )
    fields = [payload.getField(name).alias(name) for name in wanted.fieldNames()]
    found = found.withColumn(BAD_REASON, reason)
    is_good = f.col(BAD_REASON).isNull() & f.col(_BODY).isNotNull()
    return found.withColumn(PAYLOAD, f.when(is_good, f.struct(*fields))).drop(_BODY)


def _text() -> Any:
    return f.col(_BODY).cast("string")


def _with_corrupt(wanted: StructType) -> StructType:
    return StructType([*wanted.fields, StructField(_CORRUPT, StringType())])


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


def bad_records(table: DataFrame, columns: Iterable[str] = BAD_COLUMNS) -> DataFrame:
    """Return the rows whose value could not be read, as they came, each with its reason.

    `columns` are those that the table has of the source's.
    """
    reason = f.col(BAD_REASON).alias("reason")
    return table.where(f.col(BAD_REASON).isNotNull()).select(*columns, reason)


def _with_body(table: DataFrame, framed: bool) -> DataFrame:
    """Return the table with the bytes to be read, and what is wrong with their framing."""
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
