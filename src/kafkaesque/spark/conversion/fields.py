"""Fields of rules, compiled to column expressions of Spark: values, and why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import functions as f
from pyspark.sql import types as spark

from kafkaesque.spark.conversion.masks import masked
from kafkaesque.spark.conversion.rules import METADATA, FieldRule
from kafkaesque.spark.conversion.types import name_of, same, type_at

#: Of a value that is cited in a reason.
_CITED = 100
_SEPARATOR = "."
#: Of the years 1 to 9999, in seconds since 1970: Spark ends a query on times far beyond.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799


class Compiler:
    """Makes columns of the fields of rules, where `payload` is a column of the type `schema`."""

    def __init__(self, payload: Any, schema: Any, salt: bytes) -> None:
        self._payload = payload
        self._schema = schema
        self._salt = salt

    def struct(self, fields: Iterable[FieldRule], target: Any) -> Any:
        """Return a column of the type `target`; what no rule makes is null."""
        rules = {rule.target: rule for rule in fields}
        return self._struct(rules, target, "")

    def reason(self, fields: Iterable[FieldRule], target: Any, required: Iterable[str]) -> Any:
        """Return the first reason for which a row cannot be converted, or null."""
        by_target = {rule.target: rule for rule in fields}
        reasons = [self._failure(rule, type_at(target, rule.target)) for rule in by_target.values()]
        for path in required:
            made = self._value(by_target[path], type_at(target, path))
            text = f"the required field {path} is missing"
            reasons.append(f.when(made.isNull(), f.lit(text)))
        return f.coalesce(*reasons, f.lit(None).cast("string"))

    def _struct(self, rules: dict[str, FieldRule], target: Any, prefix: str) -> Any:
        columns = []
        for each in target.fields:
            path = prefix + each.name
            inside = path + _SEPARATOR
            if path in rules:
                column = self._value(rules[path], each.dataType)
            elif isinstance(each.dataType, spark.StructType) and any(
                name.startswith(inside) for name in rules
            ):
                column = self._struct(rules, each.dataType, inside)
            else:
                column = f.lit(None)
            columns.append(column.cast(each.dataType).alias(each.name))
        return f.struct(*columns)

    def _value(self, rule: FieldRule, target: Any) -> Any:
        if rule.each is not None:
            return self._list(rule, target)
        value = self._cast(rule, target)
        if rule.default is not None:
            value = f.coalesce(value, f.lit(rule.default).cast(target))
        return value if rule.mask is None else masked(value, rule.mask, self._salt)

    def _list(self, rule: FieldRule, target: Any) -> Any:
        within = rule.each or ()

        def made(element: Any) -> Any:
            found = self._within(rule, element).struct(within, target.elementType)
            return f.when(element.isNotNull(), found)

        return f.transform(self._source(rule), made)

    def _within(self, rule: FieldRule, element: Any) -> Compiler:
        return Compiler(element, self._source_type(rule).elementType, self._salt)

    def _failure(self, rule: FieldRule, target: Any) -> Any:
        """Return why a field that has a value cannot be what it is to be, or null."""
        if rule.each is not None:
            within, source = rule.each, self._source(rule)

            def failing(element: Any) -> Any:
                inner = self._within(rule, element)
                return inner.reason(within, target.elementType, ()).isNotNull()

            text = f"an element of the list {rule.target} cannot be converted"
            return f.when(f.coalesce(f.exists(source, failing), f.lit(False)), f.lit(text))
        if not rule.sources or same(self._taken_type(rule), target):
            return f.lit(None).cast("string")
        taken = self._taken(rule)
        failed = taken.isNotNull() & self._cast(rule, target).isNull()
        return f.when(
            failed,
            f.concat(
                f.lit(f"the field {rule.target} must be a {name_of(target)}, and '"),
                f.substring(taken.cast("string"), 1, _CITED),
                f.lit(f"' (from {', '.join(rule.sources)}) is not one"),
            ),
        )

    def _cast(self, rule: FieldRule, target: Any) -> Any:
        if not rule.sources:
            return f.lit(rule.value).cast(target)
        taken, source = self._taken(rule), self._taken_type(rule)
        if rule.unit is not None:
            return _with_unit(taken, rule.unit, source).try_cast(target)
        if same(source, target):
            return taken
        if isinstance(source, spark.StringType):
            return _of_text(taken, rule, target)
        if isinstance(target, spark.StringType) and rule.format is not None:
            return _time_as_text(taken, rule, source)
        return taken.try_cast(target)

    def _taken(self, rule: FieldRule) -> Any:
        """Return what a field is made of, before it is cast."""
        found = self._source(rule)
        if rule.split is not None:
            parts = f.split(found, _literal(rule.split), -1)
            found = f.nullif(f.trim(f.try_element_at(parts, f.lit(rule.part))), f.lit(""))
        if rule.lookup is not None:
            found = f.try_element_at(_map_of(rule.lookup), found.cast("string"))
        return found

    def _source(self, rule: FieldRule) -> Any:
        columns = [self._at(path) for path in rule.sources]
        if rule.join is None:
            return columns[0]
        return f.nullif(
            f.concat_ws(rule.join, *(each.cast("string") for each in columns)), f.lit("")
        )

    def _at(self, path: str) -> Any:
        if path in METADATA:
            column = f.col(path.removeprefix("@"))
            return column.cast("string") if path == "@key" else column
        found = self._payload
        for name in path.split(_SEPARATOR):
            found = found.getField(name)
        return found

    def _source_type(self, rule: FieldRule) -> Any:
        (path, *_) = rule.sources
        return source_type(self._schema, path)

    def _taken_type(self, rule: FieldRule) -> Any:
        return taken_type(self._schema, rule)


def source_type(schema: Any, path: str) -> Any:
    """Return the type of a field or of one of METADATA, or None where there is none."""
    if path in METADATA:
        kinds: dict[str, Callable[[], Any]] = {
            "string": spark.StringType,
            "int": spark.IntegerType,
            "bigint": spark.LongType,
            "timestamp": spark.TimestampType,
        }
        return kinds[METADATA[path]]()
    return type_at(schema, path)


def taken_type(schema: Any, rule: FieldRule) -> Any:
    """Return the type of what a field is made of, before it is cast."""
    if rule.split is not None or rule.lookup is not None or rule.join is not None:
        return spark.StringType()
    return source_type(schema, rule.sources[0])


def _literal(text: str) -> str:
    """Return a regular expression of Java for a text as it is."""
    return "\\Q" + text.replace("\\E", "\\E\\\\E\\Q") + "\\E"


def _map_of(table: Any) -> Any:
    """Return a map as one literal, which Spark reads once for all rows."""
    import json

    return f.from_json(f.lit(json.dumps(dict(table))), "map<string,string>")


def _of_text(text: Any, rule: FieldRule, target: Any) -> Any:
    if isinstance(target, spark.TimestampType):
        return _time_of_text(text, rule)
    if isinstance(target, spark.DateType) and rule.format is not None:
        return f.try_to_date(text, rule.format)
    return f.trim(text).try_cast(target)


def _time_of_text(text: Any, rule: FieldRule) -> Any:
    """Return a time; one that names no zone is in the rule's."""
    if rule.format is not None:
        if any(letter in rule.format for letter in "VzOXxZ"):
            return f.try_to_timestamp(text, f.lit(rule.format))
        return _in_zone(f.try_to_timestamp(text, f.lit(rule.format)), rule.zone)
    trimmed = f.trim(text)
    names_zone = trimmed.rlike(r"(?:Z|[+-]\d\d(?::?\d\d)?)$") & trimmed.rlike("[T ]")
    time = trimmed.try_cast("timestamp")
    return f.when(names_zone, time).otherwise(_in_zone(time, rule.zone))


def _in_zone(time: Any, zone: str) -> Any:
    return time if zone == "UTC" else f.to_utc_timestamp(time, zone)


def _time_as_text(time: Any, rule: FieldRule, source: Any) -> Any:
    if isinstance(source, spark.TimestampType) and rule.zone != "UTC":
        time = f.from_utc_timestamp(time, rule.zone)
    return f.date_format(time, rule.format or "")


def _with_unit(column: Any, unit: str, source: Any) -> Any:
    """Return a time of a number of units since 1970, or the other way round."""
    if isinstance(source, spark.TimestampType):
        return {"s": f.unix_seconds, "ms": f.unix_millis, "us": f.unix_micros}[unit](column)
    made = {"s": f.timestamp_seconds, "ms": f.timestamp_millis, "us": f.timestamp_micros}
    per_second = {"s": 1, "ms": 1000, "us": 1_000_000}[unit]
    is_time = column.between(_FIRST_SECOND * per_second, (_LAST_SECOND + 1) * per_second - 1)
    return f.when(is_time, made[unit](column))
