"""Avro schemas as Avro's library for Java writes them: one text for all spellings of a schema.

Confluent's serializers for Java send this text, whatever the schema was read from, and Confluent's
registry keeps it.
"""

from collections.abc import Iterable
from typing import Any, Final

_PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
#: What has a meaning in a schema and in a field; all else is the writer's own.
_OF_SCHEMAS: Final = frozenset(
    {
        "aliases",
        "doc",
        "fields",
        "items",
        "name",
        "namespace",
        "size",
        "symbols",
        "type",
        "values",
    }
)
_OF_ENUMS: Final = _OF_SCHEMAS | {"default"}
_OF_FIELDS: Final = frozenset({"aliases", "default", "doc", "name", "order", "type"})

# A schema's JSON.
_Node = Any


def canonical(node: _Node, *, sort_own: bool = False) -> _Node:
    """Return a schema's JSON in the order, and with the names, that Java writes.

    Properties of the writer's own keep their order, unless they are to be sorted. The schema is
    valid: whatever is raised for another one says nothing.
    """
    return _Writer(sort_own=sort_own).write(node, "")


class _Writer:
    """Writes what is within a namespace."""

    __slots__ = ("_sort_own",)

    def __init__(self, *, sort_own: bool) -> None:
        self._sort_own = sort_own

    def write(self, node: _Node, space: str) -> _Node:
        if isinstance(node, str):
            return _within(node, space)
        if isinstance(node, list):
            return [self.write(each, space) for each in node]
        kind = node["type"]
        if not isinstance(kind, str):
            return {**node, "type": self.write(kind, space)}
        if kind in _NAMED:
            return self._named(kind, node, space)
        own = self._own(node, _OF_SCHEMAS)
        if kind == "array":
            return {"type": kind, "items": self.write(node["items"], space), **own}
        if kind == "map":
            return {"type": kind, "values": self.write(node["values"], space), **own}
        return {"type": _within(kind, space), **own} if own else _within(kind, space)

    def _named(self, kind: str, node: dict[str, _Node], outer: str) -> _Node:
        before, dot, name = node["name"].rpartition(".")
        space = before if dot else node.get("namespace", outer) or ""
        found: dict[str, _Node] = {"type": kind, "name": name}
        if space != outer:
            found["namespace"] = space
        if isinstance(node.get("doc"), str):
            found["doc"] = node["doc"]
        if kind == "enum":
            found |= {key: node[key] for key in ("symbols", "default") if key in node}
        elif kind == "fixed":
            found["size"] = node["size"]
        else:
            found["fields"] = [self._field(each, space) for each in node["fields"]]
        found |= self._own(node, _OF_ENUMS if kind == "enum" else _OF_SCHEMAS)
        if node.get("aliases"):
            found["aliases"] = _once(_within(each, space) for each in node["aliases"])
        return found

    def _field(self, field: dict[str, _Node], space: str) -> _Node:
        found = {"name": field["name"], "type": self.write(field["type"], space)}
        if isinstance(field.get("doc"), str):
            found["doc"] = field["doc"]
        if "default" in field:
            found["default"] = field["default"]
        order = str(field.get("order", "ascending")).lower()
        if order != "ascending":
            found["order"] = order
        if field.get("aliases"):
            found["aliases"] = _once(field["aliases"])
        return found | self._own(field, _OF_FIELDS)

    def _own(self, node: dict[str, _Node], known: frozenset[str]) -> dict[str, _Node]:
        names = [each for each in node if each not in known]
        return {each: node[each] for each in (sorted(names) if self._sort_own else names)}


def _within(name: str, space: str) -> str:
    """Return a name as it is called in a namespace."""
    before, _, simple = name.rpartition(".")
    return simple if before == space and simple not in _PRIMITIVES else name


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
