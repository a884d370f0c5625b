"""Types in rules: names, structures in TOML, paths into them, and what casts to what."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as spark

_SIMPLE: dict[str, Callable[[], Any]] = {
    "string": spark.StringType,
    "int": spark.IntegerType,
    "bigint": spark.LongType,
    "float": spark.FloatType,
    "double": spark.DoubleType,
    "boolean": spark.BooleanType,
    "date": spark.DateType,
    "timestamp": spark.TimestampType,
    "binary": spark.BinaryType,
}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
TYPE_NAMES = (*_SIMPLE, "decimal(P,S)")
_DIGITS_MAX = 38

_NUMBERS = (
    *(spark.IntegerType, spark.LongType, spark.FloatType, spark.DoubleType, spark.DecimalType),
    *(spark.ShortType, spark.ByteType),
)
INTEGERS = (spark.IntegerType, spark.LongType)
TIMES = (spark.DateType, spark.TimestampType)
#: What a text can be read as.
_OF_TEXT = (*_NUMBERS, spark.BooleanType, *TIMES)


class WrongType(ValueError):
    """A type that there is not; the message says what is wrong with it."""


def read_type(text: Any) -> Any:
    """Return Spark's type of a name, a table of fields or a list of one type.

    Raises:
        WrongType: it is none.
    """
    if isinstance(text, dict):
        return read_struct(text)
    if isinstance(text, list):
        if len(text) != 1:
            raise WrongType("a list has one type in it, that of all its elements")
        return spark.ArrayType(read_type(text[0]))
    if isinstance(text, str) and text in _SIMPLE:
        return _SIMPLE[text]()
    found = _DECIMAL.fullmatch(text) if isinstance(text, str) else None
    if found is None or not int(found[2]) <= int(found[1]) <= _DIGITS_MAX or not int(found[1]):
        raise WrongType(f"there is no type {text!r}; the types are {', '.join(TYPE_NAMES)}")
    return spark.DecimalType(int(found[1]), int(found[2]))


def read_struct(table: dict[str, Any]) -> Any:
    """Return the structure of a table of fields.

    Raises:
        WrongType: a name or a type in it is none.
    """
    fields = []
    for name, kind in table.items():
        if not _NAME.fullmatch(name):
            raise WrongType(f"{name!r} is no name: letters, digits, _ and -, and no digit first")
        try:
            fields.append(spark.StructField(name, read_type(kind)))
        except WrongType as error:
            raise WrongType(f"{name}: {error}") from None
    if not fields:
        raise WrongType("there are no fields")
    return spark.StructType(fields)


def type_at(struct: Any, path: str) -> Any:
    """Return the type of a field such as customer.name, or None where there is none."""
    found = struct
    for name in path.split("."):
        if not isinstance(found, spark.StructType) or name not in found.fieldNames():
            return None
        found = found[name].dataType
    return found


def paths_of(struct: Any, prefix: str = "") -> list[str]:
    """Return the paths of all fields that are no structures."""
    found = []
    for each in struct.fields:
        if isinstance(each.dataType, spark.StructType):
            found += paths_of(each.dataType, f"{prefix}{each.name}.")
        else:
            found.append(prefix + each.name)
    return found


def name_of(kind: Any) -> str:
    """Return a type's name, as rules and people write it."""
    return str(kind.simpleString())


def can_cast(source: Any, target: Any, *, has_unit: bool) -> bool:
    """Whether a value of one type can be made one of another, at least sometimes."""
    if has_unit:
        pair = (source, target)
        return any(
            isinstance(time, spark.TimestampType) and isinstance(number, INTEGERS)
            for time, number in (pair, pair[::-1])
        )
    if same(source, target):
        return True
    if isinstance(target, spark.StringType):
        return isinstance(source, _OF_TEXT)
    if isinstance(source, spark.StringType):
        return isinstance(target, _OF_TEXT)
    return any(
        isinstance(source, family) and isinstance(target, family) for family in (_NUMBERS, TIMES)
    )


def same(one: Any, other: Any) -> bool:
    """Whether two types are the same, whatever they say of nulls."""
    return name_of(one) == name_of(other)
