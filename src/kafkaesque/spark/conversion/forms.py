"""Forms, read into columns and written from them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkaesque.spark.conversion.rules import Form
from kafkaesque.spark.payloads import (
    read_avro,
    read_csv,
    read_json,
    read_protobuf,
    read_xml,
    write_avro,
    write_protobuf,
)


def read_form(table: DataFrame, form: Form) -> DataFrame:
    """Return a table with its values in a column `payload`, or null and why in `bad_reason`."""
    match form.kind:
        case "csv":
            return read_csv(table, form.schema.fieldNames(), separator=form.separator)
        case "xml":
            return read_xml(table, form.schema, root=form.root)
        case "avro":
            return read_avro(table, form.avro_schema, framed=form.framed)
        case "protobuf":
            return read_protobuf(table, form.descriptors, form.message, framed=form.framed)
        case _:
            return read_json(table, form.schema, framed=form.framed)


def written_form(payload: Any, form: Form) -> Any:
    """Return a column of (value, bad_reason) of a column of structures of the form's schema."""
    number = form.schema_id if form.framed else None
    match form.kind:
        case "csv":
            options = {"sep": form.separator, "escape": '"', "emptyValue": ""}
            return _text(f.to_csv(payload, options), number)
        case "xml":
            return _text(f.to_xml(payload, {"rowTag": form.root}), number)
        case "avro":
            return write_avro(payload, form.avro_schema, schema_id=number)
        case "protobuf":
            return write_protobuf(payload, form.descriptors, form.message, schema_id=number)
        case _:
            return _text(f.to_json(payload), number)


def _text(text: Any, number: int | None) -> Any:
    value = text.cast("binary")
    if number is not None:
        frame = f.unhex(f.lit((b"\0" + number.to_bytes(4, "big")).hex()))
        value = f.concat(frame, value)
    return f.struct(value.alias("value"), f.lit(None).cast("string").alias("bad_reason"))
