"""The Kafka messages as read from `codegen/kafka_schema/*.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Wire type -> (character in a `struct` format, bytes, Python type, default as source text).
FIXED = {
    "bool": ("?", 1, "bool", "False"),
    "int8": ("b", 1, "int", "0"),
    "int16": ("h", 2, "int", "0"),
    "uint16": ("H", 2, "int", "0"),
    "int32": ("i", 4, "int", "0"),
    "int64": ("q", 8, "int", "0"),
    "float64": ("d", 8, "float", "0.0"),
    "uuid": ("16s", 16, "bytes", "ZERO_UUID"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a struct; version ranges are inclusive pairs."""

    name: str
    element: str
    is_array: bool
    versions: tuple[int, int]
    nullable: tuple[int, int] | None
    tag: int | None
    default: Any
    has_default: bool

    def exists_in(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def nullable_in(self, version: int) -> bool:
        return self.nullable is not None and self.nullable[0] <= version <= self.nullable[1]

    @property
    def is_struct(self) -> bool:
        return self.element not in FIXED and self.element not in ("string", "bytes", "records")

    @property
    def element_type(self) -> str:
        """Python type of the value, or of an array's element."""
        if self.element in FIXED:
            return FIXED[self.element][2]
        return {"string": "str", "bytes": "Buffer", "records": "Buffer"}.get(
            self.element, self.element
        )

    @property
    def python_type(self) -> str:
        """Type of the attribute in the generated class."""
        inner = f"Sequence[{self.element_type}]" if self.is_array else self.element_type
        optional = self.nullable is not None or self.absent_is_none
        return f"{inner} | None" if optional else inner

    @property
    def absent_is_none(self) -> bool:
        """A tagged struct that is not on the wire is None: it costs nothing."""
        return self.is_struct and not self.is_array and self.tag is not None

    @property
    def default_source(self) -> str:
        """Default as source text; a struct that is always there has None, for `Class()`."""
        if self.has_default:
            return repr(self.default)
        if self.is_array:
            return "()"
        if self.element in FIXED:
            return FIXED[self.element][3]
        return {"string": '""', "bytes": 'b""', "records": "None" if self.nullable else 'b""'}.get(
            self.element, "None"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message with all its versions; `structs` holds the message's own struct first."""

    module: str
    name: str
    kind: str
    versions: tuple[int, int]
    api_key: int | None
    flexible_from: int | None
    structs: dict[str, tuple[Field, ...]]

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def fields(self, struct: str, version: int) -> list[Field]:
        """Fields of `struct` in `version` that are not tagged, in wire order."""
        return [f for f in self.structs[struct] if f.exists_in(version) and f.tag is None]

    def tagged(self, struct: str, version: int) -> list[Field]:
        """Tagged fields of `struct` in `version`, by tag."""
        tagged = [f for f in self.structs[struct] if f.exists_in(version) and f.tag is not None]
        return sorted(tagged, key=lambda f: f.tag or 0)

    def struct_bytes_min(self, struct: str, version: int) -> int:
        """Returns the fewest bytes that `struct` can take."""
        total = 1 if self.is_flexible(version) else 0
        for field in self.fields(struct, version):
            total += self._field_bytes_min(field, version)
        return total

    def _field_bytes_min(self, field: Field, version: int) -> int:
        flexible = self.is_flexible(version)
        if field.is_array:
            return 1 if flexible else 4
        if field.is_struct and field.nullable_in(version):
            return 1
        return self.element_bytes_min(field, version)

    def element_bytes_min(self, field: Field, version: int) -> int:
        """Returns the fewest bytes that one element of an array can take."""
        if field.element in FIXED:
            return FIXED[field.element][1]
        if field.is_struct:
            return self.struct_bytes_min(field.element, version)
        if self.is_flexible(version):
            return 1
        return 2 if field.element == "string" else 4


def _load_field(form: dict[str, Any], versions: tuple[int, int]) -> Field:
    wire_type: str = form["type"]
    return Field(
        name=form["name"],
        element=wire_type.removeprefix("[]"),
        is_array=wire_type.startswith("[]"),
        versions=tuple(form.get("versions", versions)),
        nullable=tuple(form["nullable"]) if "nullable" in form else None,
        tag=form.get("tag"),
        default=form.get("default"),
        has_default="default" in form,
    )


def load_messages(directory: Path) -> list[Message]:
    """Reads every message of the schema, by file name."""
    messages = []
    for path in sorted(directory.glob("*.json")):
        if path.name == "error_codes.json":
            continue
        form = json.loads(path.read_text())
        versions = tuple(form["versions"])
        structs = {
            name: tuple(_load_field(field, versions) for field in fields)
            for name, fields in form["structs"].items()
        }
        messages.append(
            Message(
                module=path.stem,
                name=form["name"],
                kind=form["kind"],
                versions=versions,
                api_key=form.get("api_key"),
                flexible_from=form.get("flexible_from"),
                structs=structs,
            )
        )
    return messages
