"""Forms, as rules declare them: which kinds there are, and what each takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import types as spark

from kafkaesque.spark.conversion.mistakes import Place
from kafkaesque.spark.conversion.rules import Form
from kafkaesque.spark.conversion.types import WrongType, read_struct
from kafkaesque.spark.errors import WrongOption

#: By kind, what a form takes beside its kind.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "csv": ("columns", "separator"),
    "json": ("fields", "framed", "schema_id"),
    "xml": ("fields", "root"),
    "avro": ("schema", "framed", "schema_id"),
    "protobuf": ("descriptors", "message", "framed", "schema_id"),
}
_SCHEMA_ID_MAX = 2**32 - 1


def load_form(
    table: Mapping[str, Any], place: Place, folder: Path, *, written: bool
) -> Form | None:
    """Return a form, or None with what is wrong noted; `folder` is that of the rule's file."""
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _OPTIONS:
        place.wrong(f"form.kind is one of {', '.join(_OPTIONS)}, not {kind!r}")
        return None
    options = {name: value for name, value in table.items() if name != "kind"}
    place.only(options, _OPTIONS[kind], f"option of the form {kind}")
    match kind:
        case "csv":
            return _csv(options, place)
        case "avro":
            return _avro(options, place, folder, written)
        case "protobuf":
            return _protobuf(options, place, folder, written)
    schema = _fields(options, place)
    if schema is None:
        return None
    if kind == "xml":
        root = place.text(options, "root", needed=True)
        return None if root is None else Form(kind=kind, schema=schema, root=root)
    return Form(kind=kind, schema=schema, **_framing(options, place, written))


def _csv(options: Mapping[str, Any], place: Place) -> Form | None:
    """Return a form whose columns are all texts; rules cast them."""
    names = options.get("columns")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        place.wrong("form.columns is a list of names, in the order of the columns")
        return None
    separator = options.get("separator", ",")
    if not isinstance(separator, str) or len(separator) != 1 or separator in '"\n\r\\':
        place.wrong(f"form.separator is one character, not {separator!r}")
        return None
    if len(set(names)) < len(names):
        place.wrong("form.columns names a column twice")
        return None
    try:
        schema = read_struct(dict.fromkeys(names, "string"))
    except WrongType as error:
        place.wrong(f"form.columns: {error}")
        return None
    return Form(kind="csv", schema=schema, separator=separator)


def _fields(options: Mapping[str, Any], place: Place) -> Any:
    fields = options.get("fields")
    if not isinstance(fields, dict):
        place.wrong("[form.fields] names the fields of a message, each with its type")
        return None
    try:
        return read_struct(fields)
    except WrongType as error:
        place.wrong(f"form.fields: {error}")
        return None


def _avro(options: Mapping[str, Any], place: Place, folder: Path, written: bool) -> Form | None:
    from kafkaesque.spark.avro import avro_decoder

    text = _file(options, "schema", place, folder)
    if text is None:
        return None
    try:
        schema = _payload(avro_decoder(text.decode("utf-8", "replace"))[0])
    except WrongOption as error:
        place.wrong(f"form.schema: {error}")
        return None
    framing = _framing(options, place, written)
    return Form(kind="avro", schema=schema, avro_schema=text.decode(), **framing)


def _protobuf(options: Mapping[str, Any], place: Place, folder: Path, written: bool) -> Form | None:
    from kafkaesque.spark.protobuf import protobuf_decoder

    descriptors = _file(options, "descriptors", place, folder)
    message = place.text(options, "message", needed=True)
    if descriptors is None or message is None:
        return None
    try:
        schema = _payload(protobuf_decoder(descriptors, message, framed=False)[0])
    except WrongOption as error:
        place.wrong(f"form.message: {error}")
        return None
    framing = _framing(options, place, written)
    return Form(kind="protobuf", schema=schema, descriptors=descriptors, message=message, **framing)


def _payload(decoded: Any) -> Any:
    """Return the type of the payload in what a decoder makes."""
    found = decoded["payload"].dataType
    assert isinstance(found, spark.StructType)
    return found


def _framing(options: Mapping[str, Any], place: Place, written: bool) -> dict[str, Any]:
    """Return whether values are framed: a form that is written names the number of its schema."""
    framed = options.get("framed", "schema_id" in options)
    if not isinstance(framed, bool):
        place.wrong(f"form.framed is true or false, not {framed!r}")
        return {}
    if not written or not framed:
        return {"framed": framed}
    number = place.number(options, "schema_id", 1, _SCHEMA_ID_MAX)
    return {"framed": True, "schema_id": number or 0}


def _file(options: Mapping[str, Any], name: str, place: Place, folder: Path) -> bytes | None:
    path = place.text(options, name, needed=True)
    if path is None:
        return None
    try:
        return (folder / path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        place.wrong(f"form.{name}: {path} cannot be read from {folder}: {reason}")
        return None
