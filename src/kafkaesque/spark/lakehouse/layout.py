"""What a table's columns are, and by which of them its files are divided."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.errors import TableError

DATE = "date"
TIMESTAMP = "timestamp"
_DEFAULT = ("topic", DATE)
_DIVIDING = ("string", "date", "integer", "long", "short", "byte")
#: Before 1970 stands Kafka's "no timestamp", and from the year 10000 on what was meant otherwise.
_DATED_US = (0, 253_402_300_800_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Columns in Spark's JSON form, which is Delta Lake's, too; every one may be null."""

    columns: tuple[dict[str, Any], ...]
    partition_by: tuple[str, ...]
    #: The column `date` is made of the column `timestamp`, in UTC.
    derives_date: bool

    def json(self) -> str:
        """Return the schema as a table's log has it."""
        return json.dumps({"type": "struct", "fields": list(self.columns)})

    def types(self) -> dict[str, Any]:
        """Return each column's type."""
        return {each["name"]: each["type"] for each in self.columns}


def plan_layout(schema_json: str, partition_by: tuple[str, ...] | None) -> Layout:
    """Return the layout of a table made of rows of this schema; without a wish, by topic and date.

    Raises:
        WrongOption: a column by which files are to be divided is not there, or of no such type.
    """
    columns = [_nullable(each) for each in json.loads(schema_json)["fields"]]
    types = {each["name"]: each["type"] for each in columns}
    can_derive = DATE not in types and types.get(TIMESTAMP) == "timestamp"
    wanted = partition_by
    if wanted is None:
        wanted = tuple(each for each in _DEFAULT if each in types or (each == DATE and can_derive))
    derives_date = can_derive and DATE in wanted
    if derives_date:
        columns.append({"name": DATE, "type": "date", "nullable": True, "metadata": {}})
        types[DATE] = "date"
    for name in wanted:
        if name not in types:
            raise WrongOption(f"partitionBy names {name}, and the columns are {', '.join(types)}")
        if types[name] not in _DIVIDING:
            raise WrongOption(
                f"partitionBy names {name}, whose type is {_name(types[name])}; it has to be one of"
                f" {', '.join(_DIVIDING)}"
            )
    if len(wanted) == len(columns):
        raise WrongOption("partitionBy names all columns: at least one has to be in the files")
    return Layout(columns=tuple(columns), partition_by=wanted, derives_date=derives_date)


def _nullable(field: dict[str, Any]) -> dict[str, Any]:
    return {**field, "nullable": True, "metadata": {}, "type": _nullable_type(field["type"])}


def _nullable_type(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    match kind.get("type"):
        case "struct":
            return {**kind, "fields": [_nullable(each) for each in kind["fields"]]}
        case "array":
            return {
                **kind,
                "elementType": _nullable_type(kind["elementType"]),
                "containsNull": True,
            }
        case "map":
            value = _nullable_type(kind["valueType"])
            key = _nullable_type(kind["keyType"])
            return {**kind, "keyType": key, "valueType": value, "valueContainsNull": True}
        case _:
            return kind


def new_columns(
    layout: Layout, columns: list[dict[str, Any]], *, may_add: bool
) -> list[dict[str, Any]]:
    """Return the columns that a table of `columns` lacks for rows of this layout.

    Raises:
        TableError: it cannot take such rows.
    """
    there = {each["name"]: _nullable(each)["type"] for each in columns}
    for name, kind in layout.types().items():
        if name in there and there[name] != kind:
            raise TableError(
                f"the column {name} has the type {_name(kind)}, and in the table"
                f" {_name(there[name])}: cast it"
            )
    found = [each for each in layout.columns if each["name"] not in there]
    if found and not may_add:
        names = ", ".join(each["name"] for each in found)
        raise TableError(f"the table lacks the columns {names}: mergeSchema=true would add them")
    return found


def check_partitioning(layout: Layout, there: tuple[str, ...]) -> None:
    """Accept a table whose files are divided as this layout says.

    Raises:
        TableError: they are divided otherwise.
    """
    if layout.partition_by != there:
        raise TableError(
            f"the table's files are divided by {', '.join(there) or 'nothing'},"
            f" and partitionBy says {', '.join(layout.partition_by) or 'nothing'}: it cannot be"
            " changed afterwards"
        )


def _name(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("type"))


def derived_dates(timestamps: Any) -> Any:
    """Return the dates of timestamps (Arrow, microseconds UTC); null where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ticks = timestamps.cast(pa.int64())
    low, high = _DATED_US
    is_dated: Any = pc.and_(pc.greater_equal(ticks, low), pc.less(ticks, high))
    kept: Any = pc.if_else(is_dated, ticks, pa.scalar(None, pa.int64()))
    return kept.cast(timestamps.type).cast(pa.date32())
