"""The lines under [fields] of a rule, checked against both of its forms."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import types as spark

from kafkaesque.spark.conversion import masks
from kafkaesque.spark.conversion.fields import source_type, taken_type
from kafkaesque.spark.conversion.mistakes import Place
from kafkaesque.spark.conversion.rules import METADATA, FieldRule, Mask
from kafkaesque.spark.conversion.types import (
    TIMES,
    can_cast,
    name_of,
    paths_of,
    same,
    type_at,
)

_STEPS = (
    *("from", "value", "join", "split", "part", "lookup", "format", "zone", "unit"),
    *("default", "mask", "keep", "each"),
)
_UNITS = ("s", "ms", "us")
_PART_MAX = 1000
#: What patterns of times are made of, beside signs and 'texts in quotes'.
_LETTERS = (
    "yyyy yy M MM MMM MMMM d dd H HH h hh k kk K KK m mm s ss S SS SSS SSSS SSSSS SSSSSS a VV z X"
    " XX XXX x xx xxx Z"
).split()
_LOOKUP_ROWS_MAX = 1000
_LOOKUP_BYTES_MAX = 1 << 20


class FieldLoader:
    """Makes rules of fields of lines; what is wrong is noted at its place."""

    def __init__(self, lookups: Path, *, has_salt: bool) -> None:
        self._lookups = lookups
        self._has_salt = has_salt

    def load(
        self, place: Place, table: Mapping[str, Any], source: Any, target: Any
    ) -> tuple[FieldRule, ...]:
        """Return the rules from a form `source` to a form `target`."""
        found = []
        for path, steps in _flat(table).items():
            at, kind = place.at(path), type_at(target, path)
            if kind is None:
                at.wrong(f"there is no such field to be made; there are {_list(target)}")
                continue
            rule = self._rule(at, path, steps, source, kind)
            if rule is not None:
                found.append(rule)
        return tuple(found)

    def _rule(self, at: Place, path: str, steps: Any, source: Any, kind: Any) -> FieldRule | None:
        if isinstance(steps, str):
            steps = {"from": steps}
        if not isinstance(steps, dict):
            at.wrong(f'it is made by the name of a field or by {{ from = "…" }}, not by {steps!r}')
            return None
        before = len(at.mistakes.found)
        at.only(steps, _STEPS, "step")
        sources = self._sources(at, steps, source)
        if len(at.mistakes.found) > before:
            return None
        if "each" in steps:
            return self._list(at, path, steps, sources, source, kind)
        rule = FieldRule(
            target=path,
            sources=sources,
            value=steps.get("value"),
            join=steps.get("join"),
            split=steps.get("split"),
            part=self._part(at, steps),
            lookup=self._lookup(at, steps),
            format=self._format(at, steps),
            zone=self._zone(at, steps),
            unit=self._unit(at, steps),
            default=steps.get("default"),
            mask=self._mask(at, steps, kind),
        )
        if len(at.mistakes.found) == before:
            self._check_types(at, rule, source, kind)
        return rule if len(at.mistakes.found) == before else None

    def _sources(self, at: Place, steps: Mapping[str, Any], source: Any) -> tuple[str, ...]:
        if ("from" in steps) == ("value" in steps):
            at.wrong("it has either from, the name of a field, or value, which is always the same")
            return ()
        given = steps.get("from", [])
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            at.wrong(f"from is the name of a field, or a list of names, not {given!r}")
            return ()
        if "join" in steps and not isinstance(steps["join"], str):
            at.wrong(f"join is the text between the fields, not {steps['join']!r}")
        if (len(names) > 1) != ("join" in steps):
            at.wrong("from is a list of two fields or more together with join, else one field")
        for name in names:
            if source_type(source, name) is None:
                at.wrong(
                    f"from: there is no field {name!r}; there are {_list(source)}"
                    f" and {', '.join(METADATA)}"
                )
        return tuple(names)

    def _list(
        self,
        at: Place,
        path: str,
        steps: Mapping[str, Any],
        sources: tuple[str, ...],
        source: Any,
        kind: Any,
    ) -> FieldRule | None:
        given: Any = source_type(source, sources[0]) if len(sources) == 1 else None
        if not _is_list_of_structs(given) or not _is_list_of_structs(kind):
            at.wrong("each is for lists of objects, and from and the field are not both such lists")
            return None
        if not isinstance(steps["each"], dict) or len(steps) > 2:
            at.wrong("each is a table of fields, and beside it there is only from")
            return None
        within = self.load(at, steps["each"], given.elementType, kind.elementType)
        return FieldRule(target=path, sources=sources, each=within)

    def _part(self, at: Place, steps: Mapping[str, Any]) -> int:
        if ("split" in steps) != ("part" in steps):
            at.wrong("split, the text between the parts, and part, which of them, go together")
            return 0
        if "split" not in steps:
            return 0
        if not isinstance(steps["split"], str) or not steps["split"]:
            at.wrong(f"split is the text between the parts, not {steps['split']!r}")
        part = steps["part"]
        if not isinstance(part, int) or not part or abs(part) > _PART_MAX:
            at.wrong(f"part is 1 for the first, -1 for the last, and so on, not {part!r}")
            return 0
        return part

    def _lookup(self, at: Place, steps: Mapping[str, Any]) -> Mapping[str, str] | None:
        word = at.text(steps, "lookup")
        if word is None:
            return None
        name, _, column = word.partition(".")
        known = sorted(path.stem for path in self._lookups.glob("*.csv"))
        if name not in known:
            at.wrong(f"lookup: there is no table {name!r}; there are {', '.join(known) or 'none'}")
            return None
        path = self._lookups / f"{name}.csv"
        if path.stat().st_size > _LOOKUP_BYTES_MAX:
            at.wrong(f"lookup: {path.name} has more than {_LOOKUP_BYTES_MAX} bytes")
            return None
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = list(csv.reader(file)) or [[]]
        if column not in head[1:]:
            columns = ", ".join(f"{name}.{each}" for each in head[1:])
            at.wrong(f"lookup is a table with one of its columns: {columns}; not {word!r}")
            return None
        if len(rows) > _LOOKUP_ROWS_MAX or any(len(row) != len(head) for row in rows):
            at.wrong(
                f"lookup: {path.name} has up to {_LOOKUP_ROWS_MAX} lines of {len(head)} columns"
            )
            return None
        return {row[0]: row[head.index(column)] for row in rows}

    def _format(self, at: Place, steps: Mapping[str, Any]) -> str | None:
        pattern = at.text(steps, "format")
        if pattern is None:
            return None
        for run in re.findall(r"([A-Za-z])(\1*)", re.sub(r"'[^']*'", "", pattern)):
            if "".join(run) not in _LETTERS:
                at.wrong(
                    f"format: {''.join(run)!r} means nothing in {pattern!r}; there are"
                    f" {', '.join(_LETTERS)} and 'texts in quotes'"
                )
        if pattern.count("'") % 2 or re.search(r"[\[\]{}#]", pattern):
            at.wrong(f"format: {pattern!r} has a quote without end, or one of the signs []{{}}#")
        return pattern

    def _zone(self, at: Place, steps: Mapping[str, Any]) -> str:
        zone = at.text(steps, "zone") or "UTC"
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            at.wrong(f"zone: there is no zone {zone!r}; such as UTC, Europe/Berlin, Asia/Tokyo")
        return zone

    def _unit(self, at: Place, steps: Mapping[str, Any]) -> str | None:
        unit = at.text(steps, "unit")
        if unit is not None and unit not in _UNITS:
            at.wrong(f"unit is one of {', '.join(_UNITS)} since 1970, not {unit!r}")
        return unit

    def _mask(self, at: Place, steps: Mapping[str, Any], kind: Any) -> Mask | None:
        word = at.text(steps, "mask")
        if word is None:
            if "keep" in steps:
                at.wrong("keep goes with mask = 'keep-last'")
            return None
        if word not in masks.KINDS:
            at.wrong(f"mask is one of {', '.join(masks.KINDS)}, not {word!r}")
            return None
        if not isinstance(kind, spark.StringType):
            at.wrong(f"mask is for texts, and the field is a {name_of(kind)}")
        if word == "hash" and not self._has_salt:
            at.wrong("mask: hash needs the setting kafkaesque.conversion.salt, which is empty")
        keep = at.number(steps, "keep", 1, masks.KEEP_MAX) if word == "keep-last" else 0
        if word != "keep-last" and "keep" in steps:
            at.wrong("keep goes with mask = 'keep-last'")
        return Mask(kind=word, keep=keep or 0)

    def _check_types(self, at: Place, rule: FieldRule, source: Any, kind: Any) -> None:
        for name, value in (("value", rule.value), ("default", rule.default)):
            if value is not None and not _fits(value, kind):
                at.wrong(f"{name}: {value!r} is no {name_of(kind)}")
        if not rule.sources:
            return
        for path in rule.sources:
            given = source_type(source, path)
            texts = rule.split is not None or rule.lookup is not None or rule.join is not None
            if texts and not can_cast(given, spark.StringType(), has_unit=False):
                at.wrong(f"join, split and lookup are for texts, and {path} is a {name_of(given)}")
        taken = taken_type(source, rule)
        if not can_cast(taken, kind, has_unit=rule.unit is not None):
            at.wrong(
                f"a {name_of(taken)} (from {', '.join(rule.sources)}) cannot be made a"
                f" {name_of(kind)}{_hint(taken, kind)}"
            )
        if rule.format is not None and not _is_time_and_text(taken, kind):
            at.wrong(
                "format is between texts and times, and this is from"
                f" {name_of(taken)} to {name_of(kind)}"
            )


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return lines by their paths, however the tables in TOML are nested."""
    found: dict[str, Any] = {}
    for name, steps in table.items():
        inner = isinstance(steps, dict) and steps and not set(steps) & set(_STEPS)
        if inner and all(isinstance(each, dict | str) for each in steps.values()):
            found.update(_flat(steps, f"{prefix}{name}."))
        else:
            found[prefix + name] = steps
    return found


def _list(struct: Any) -> str:
    return ", ".join(paths_of(struct))


def _is_list_of_structs(kind: Any) -> bool:
    return isinstance(kind, spark.ArrayType) and isinstance(kind.elementType, spark.StructType)


def _is_time_and_text(one: Any, other: Any) -> bool:
    pair = (one, other)
    return any(
        isinstance(time, TIMES) and isinstance(text, spark.StringType)
        for time, text in (pair, pair[::-1])
    )


def _hint(taken: Any, kind: Any) -> str:
    if _is_list_of_structs(taken) and _is_list_of_structs(kind):
        return "; each = { … } says how its elements are made"
    if isinstance(taken, spark.StructType) and isinstance(kind, spark.StructType):
        return "; name its fields one by one"
    if not same(taken, kind) and isinstance(kind, spark.TimestampType):
        return "; unit = 's', 'ms' or 'us' makes times of whole numbers"
    return ""


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value of TOML is of a type, without being cut."""
    if isinstance(kind, spark.StringType):
        return isinstance(value, str)
    if isinstance(kind, spark.BooleanType):
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if isinstance(kind, spark.IntegerType | spark.LongType):
        bits = 31 if isinstance(kind, spark.IntegerType) else 63
        return isinstance(value, int) and -(2**bits) <= value < 2**bits
    if isinstance(kind, spark.FloatType | spark.DoubleType):
        return isinstance(value, int | float)
    if isinstance(kind, spark.DecimalType):
        return isinstance(value, int | str) and _fits_decimal(str(value), kind)
    return False


def _fits_decimal(text: str, kind: Any) -> bool:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    if not number.is_finite():
        return False
    whole = len(str(abs(int(number)))) if int(number) else 0
    exponent = number.as_tuple().exponent
    return (
        isinstance(exponent, int)
        and -exponent <= kind.scale >= 0
        and (whole <= kind.precision - kind.scale)
    )
