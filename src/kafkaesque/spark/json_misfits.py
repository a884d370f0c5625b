"""Which field of a JSON object has another type than a schema wants, asked of bad objects only.

A stream plans every micro-batch anew, so one expression goes over a literal with all the fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

#: Of a wider schema the fields that come first are looked at.
FIELDS_MAX = 200
#: So many arrays and maps are looked into.
COLLECTIONS_MAX = 4
_CORRUPT = "__corrupt"


def first_misfit(text: Any, payload: Any, schema: StructType) -> Any:
    """Return a column that names the first field that is in the text and could not be read.

    `payload` is what Spark's reader made of the text, which leaves such fields null. Arrays and
    maps that it has read in part come last. Null where there is none: the text is no object then.
    """
    fields = list(_fields(schema, ()))[:FIELDS_MAX]
    listed = [{"path": _json_path(path), "told": _told(path, kind)} for path, kind in fields]
    candidates = f.from_json(f.lit(json.dumps(listed)), "array<struct<path: string, told: string>>")
    read = f.to_json(payload)

    def is_misfit(each: Any) -> Any:
        path = each.getField("path")
        is_there = f.call_function("get_json_object", text, path).isNotNull()
        return is_there & f.call_function("get_json_object", read, path).isNull()

    first = f.get(f.filter(candidates, is_misfit), f.lit(0)).getField("told")
    collections = [each for each in fields if isinstance(each[1], ArrayType | MapType)]
    return f.coalesce(first, *(_partly_read(text, *each) for each in collections[:COLLECTIONS_MAX]))


def _fields(
    schema: StructType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Yield the path and type of all fields, those of a structure after itself."""
    for field in schema.fields:
        yield (*path, field.name), field.dataType
        if isinstance(field.dataType, StructType):
            yield from _fields(field.dataType, (*path, field.name))


def _partly_read(text: Any, path: tuple[str, ...], kind: DataType) -> Any:
    """Return a column that names an array or a map with an element that does not fit."""
    schema = StructType([StructField("all", kind), StructField(_CORRUPT, StringType())])
    part = f.get_json_object(text, _json_path(path))
    whole = f.concat(f.lit('{"all":'), part, f.lit("}"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    is_misfit = f.from_json(whole, schema, options).getField(_CORRUPT).isNotNull()
    return f.when(is_misfit, f.lit(_told(path, kind)))


def _told(path: tuple[str, ...], kind: DataType) -> str:
    return f"the field {'.'.join(path)} has to be {kind.simpleString()}"


def _json_path(path: tuple[str, ...]) -> str:
    """Return a path as Spark has it; a name that it cannot write is found nowhere."""
    return "$" + "".join(f"['{name}']" for name in path)
