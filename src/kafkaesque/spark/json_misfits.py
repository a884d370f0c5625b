"""Which field of a JSON object has another type than a schema wants, asked of bad objects only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

#: Of a wider schema the fields that come first are looked at.
FIELDS_MAX = 200
_CORRUPT = "__corrupt"


def first_misfit(text: Any, payload: Any, schema: StructType) -> Any:
    """Return a column that names the first field that is in the text and could not be read.

    `payload` is what Spark's reader made of the text, which leaves such fields null. Null where
    there is none: the text is no object then.
    """
    found: Any = f.lit(None).cast("string")
    # The last `when` that is wrapped around the others is the first to be asked.
    for path, column, kind in reversed(list(_fields(payload, schema, ()))[:FIELDS_MAX]):
        part = f.get_json_object(text, _json_path(path))
        is_misfit = part.isNotNull() & (column.isNull() | _has_misfits(part, kind))
        told = f"the field {'.'.join(path)} has to be {kind.simpleString()}"
        found = f.when(is_misfit, f.lit(told)).otherwise(found)
    return found


def _fields(
    column: Any, schema: StructType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any, DataType]]:
    """Yield the path, column and type of all fields, those of a structure after itself."""
    for field in schema.fields:
        there, inner = (*path, field.name), column.getField(field.name)
        yield there, inner, field.dataType
        if isinstance(field.dataType, StructType):
            yield from _fields(inner, field.dataType, there)


def _has_misfits(part: Any, kind: DataType) -> Any:
    """Whether an array or a map has what does not fit: of those that are read in part."""
    if not isinstance(kind, ArrayType | MapType):
        return f.lit(False)
    schema = StructType([StructField("all", kind), StructField(_CORRUPT, StringType())])
    whole = f.concat(f.lit('{"all":'), part, f.lit("}"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return f.from_json(whole, schema, options).getField(_CORRUPT).isNotNull()


def _json_path(path: tuple[str, ...]) -> str:
    """Return a path as Spark has it; a name that it cannot write is found nowhere."""
    return "$" + "".join(f"['{name}']" for name in path)
