"""Whether one JSON Schema takes all that another one takes.

Theory of operation. A reader can read what was written if its schema accepts every document that
the writer's accepts. That is decided keyword by keyword, and errs towards no: what cannot be
decided is told as a difference.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkaesque.registry.json_text import compact

#: Pairs of schemas that one comparison looks at.
_PAIRS_MAX: Final = 20_000
DEPTH_MAX: Final = 100
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
#: These say nothing about which documents are taken.
_NOTES: Final = frozenset(
    {
        "$anchor",
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "default",
        "definitions",
        "deprecated",
        "description",
        "examples",
        "format",
        "id",
        "readOnly",
        "title",
        "writeOnly",
    }
)
#: A larger value takes less, a smaller one takes less.
_LOWER_BOUNDS: Final = ("minimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_COMPARED: Final = frozenset(
    {
        *_LOWER_BOUNDS,
        *_UPPER_BOUNDS,
        "$ref",
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "items",
        "multipleOf",
        "not",
        "oneOf",
        "prefixItems",
        "properties",
        "required",
        "type",
        "uniqueItems",
    }
)

# A schema, or a part of one.
Node = Any


@dataclass(frozen=True, slots=True)
class Part:
    """A schema within a document."""

    node: Node
    resolver: Node
    #: Whether what stands beside a `$ref` says nothing, as before the draft of 2019.
    ignores_siblings: bool

    def at(self, node: Node) -> "Part":
        return Part(node, self.resolver, self.ignores_siblings)

    @property
    def map(self) -> Mapping[str, Node]:
        """Its keywords; `false` takes nothing."""
        if isinstance(self.node, bool):
            return {} if self.node else {"not": {}}
        return self.node if isinstance(self.node, dict) else {}

    def followed(self) -> "Part":
        """Return what it refers to, if it refers to something."""
        part = self
        for _ in range(DEPTH_MAX):
            target = part.map.get("$ref")
            if not isinstance(target, str):
                return part
            beside = {name: each for name, each in part.map.items() if name != "$ref"}
            if not part.ignores_siblings and beside.keys() - _NOTES:
                return part.at({"allOf": [{"$ref": target}, beside]})
            found = part.resolver.lookup(target)
            part = Part(found.contents, found.resolver, part.ignores_siblings)
        return part


class Comparison:
    """What a new schema takes, against what an old one takes."""

    __slots__ = ("_assumed", "_pairs")

    def __init__(self) -> None:
        #: Pairs that are looked at further up: they fit as far as the rest does.
        self._assumed: set[tuple[int, int]] = set()
        self._pairs = 0

    def fits(self, old: Part, new: Part) -> bool:
        """Tell whether all that the old one takes is taken by the new one."""
        return next(self.differences(old, new, ""), None) is None

    def differences(self, old: Part, new: Part, path: str) -> Iterator[str]:
        """Say what the old one takes and the new one does not."""
        self._pairs += 1
        if self._pairs > _PAIRS_MAX or path.count("/") > DEPTH_MAX:
            yield "the schemas are too large to be compared"
            return
        old, new = old.followed(), new.followed()
        pair = (id(old.node), id(new.node))
        if pair in self._assumed or _takes_nothing(old) or _takes_all(new):
            return
        if _is_same_node(old.node, new.node) and not _refers(old.node):
            return
        self._assumed.add(pair)
        try:
            yield from self._compare(old, new, path)
        finally:
            self._assumed.discard(pair)

    def _compare(self, old: Part, new: Part, path: str) -> Iterator[str]:
        if _takes_nothing(new):
            yield f"{path or '/'}: nothing is taken any more"
            return
        yield from _check_types(old.map, new.map, path)
        yield from _check_values(old.map, new.map, path)
        yield from _check_bounds(old.map, new.map, path)
        yield from self._objects(old, new, path)
        yield from self._arrays(old, new, path)
        yield from self._combined(old, new, path)
        for keyword in sorted(new.map.keys() - _COMPARED - _NOTES):
            if old.map.get(keyword) != new.map[keyword]:
                yield f"{path}/{keyword}: it has changed, and may take less"

    # -- objects

    def _objects(self, old: Part, new: Part, path: str) -> Iterator[str]:
        if not _may_be(old.map, "object"):
            return
        required = set(old.map.get("required", ()))
        properties = new.map.get("properties", {})
        for name in new.map.get("required", ()):
            inner = properties.get(name)
            has_default = isinstance(inner, dict) and "default" in inner
            if name not in required and not has_default:
                yield f"{path}/required/{name}: the property was not required before"
        before = old.map.get("properties", {})
        old_rest = old.map.get("additionalProperties", True)
        new_rest = new.map.get("additionalProperties", True)
        for name, each in before.items():
            inner = f"{path}/properties/{name}"
            target = properties.get(name, new_rest)
            yield from self.differences(old.at(each), new.at(target), inner)
        by_pattern = old.map.get("patternProperties", {})
        if by_pattern and by_pattern != new.map.get("patternProperties"):
            yield f"{path}/patternProperties: it has changed, and may take less"
        for name, each in properties.items():
            if name not in before:
                inner = f"{path}/properties/{name}"
                for was in (old_rest, *by_pattern.values()):
                    yield from self.differences(old.at(was), new.at(each), inner)
        inner = f"{path}/additionalProperties"
        yield from self.differences(old.at(old_rest), new.at(new_rest), inner)

    # -- arrays

    def _arrays(self, old: Part, new: Part, path: str) -> Iterator[str]:
        if not _may_be(old.map, "array"):
            return
        (before, old_rest), (after, new_rest) = _items(old.map), _items(new.map)
        for number in range(max(len(before), len(after))):
            was = before[number] if number < len(before) else old_rest
            now = after[number] if number < len(after) else new_rest
            yield from self.differences(old.at(was), new.at(now), f"{path}/items/{number}")
        yield from self.differences(old.at(old_rest), new.at(new_rest), f"{path}/items")

    # -- combined schemas

    def _combined(self, old: Part, new: Part, path: str) -> Iterator[str]:
        # All that the old one takes is taken by each part of its allOf, too.
        parts = [_without(old, "allOf"), *map(old.at, old.map.get("allOf", ()))]
        for number, each in enumerate(new.map.get("allOf", ())):
            if not any(self.fits(part, new.at(each)) for part in parts):
                yield f"{path}/allOf/{number}: it takes less than was taken before"
        if "not" in new.map:
            was = old.map.get("not")
            if was is None or not self.fits(new.at(new.map["not"]), old.at(was)):
                yield f"{path}/not: it may exclude more"
        for keyword in ("anyOf", "oneOf"):
            if keyword not in new.map:
                continue
            branches = [new.at(each) for each in new.map[keyword]]
            written = next((old.map[key] for key in ("anyOf", "oneOf") if key in old.map), None)
            cases = [old] if written is None else [old.at(each) for each in written]
            for number, case in enumerate(cases):
                if not any(self.fits(case, branch) for branch in branches):
                    yield f"{path}/{keyword}: no branch takes what case {number} was"
        if "anyOf" not in new.map and "oneOf" not in new.map:
            for keyword in ("anyOf", "oneOf"):
                for number, each in enumerate(old.map.get(keyword, ())):
                    if "type" in old.map or "enum" in old.map or "const" in old.map:
                        continue
                    inner = f"{path}/{keyword}/{number}"
                    yield from self.differences(old.at(each), new, inner)


def _takes_nothing(part: Part) -> bool:
    return part.node is False or part.map.get("not") in ({}, True)


def _takes_all(part: Part) -> bool:
    return part.node is True or (isinstance(part.node, dict) and part.node.keys() <= _NOTES)


def _is_same_node(left: Node, right: Node) -> bool:
    # 1 and True are equal in Python, and not in JSON.
    return bool(left == right) and compact(left, sort_keys=True) == compact(right, sort_keys=True)


def _refers(node: Node) -> bool:
    """Tell whether a schema refers to another one, which may not be the same in both documents."""
    if isinstance(node, dict):
        return "$ref" in node or any(map(_refers, node.values()))
    return isinstance(node, list) and any(map(_refers, node))


def _without(part: Part, keyword: str) -> Part:
    return part.at({name: each for name, each in part.map.items() if name != keyword})


def _types(node: Mapping[str, Node]) -> set[str]:
    if "type" in node:
        kind = node["type"]
        return {kind} if isinstance(kind, str) else set(kind)
    values = node["enum"] if "enum" in node else [node["const"]] if "const" in node else None
    if values is None:
        # What branches take: all that any of them takes.
        branches = node.get("anyOf", node.get("oneOf"))
        if branches and all(isinstance(each, dict) and "$ref" not in each for each in branches):
            return set().union(*map(_types, branches))
        return set(_TYPES)
    return {_type_of(value) for value in values}


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _may_be(node: Mapping[str, Node], kind: str) -> bool:
    return kind in _types(node)


def _check_types(old: Mapping[str, Node], new: Mapping[str, Node], path: str) -> Iterator[str]:
    if "type" not in new:
        return
    taken = _types(new)
    if "number" in taken:
        taken.add("integer")
    for each in sorted(_types(old) - taken):
        if each != "integer" or "number" not in taken:
            yield f"{path}/type: {each} is not taken any more"


def _check_values(old: Mapping[str, Node], new: Mapping[str, Node], path: str) -> Iterator[str]:
    for keyword in ("enum", "const"):
        if keyword not in new:
            continue
        taken = new["enum"] if keyword == "enum" else [new["const"]]
        before = old["enum"] if "enum" in old else [old["const"]] if "const" in old else None
        if before is None:
            yield f"{path}/{keyword}: only some values are taken now"
        elif any(not any(_is_same(each, other) for other in taken) for each in before):
            yield f"{path}/{keyword}: a value is not taken any more"


def _is_same(left: object, right: object) -> bool:
    return _type_of(left) == _type_of(right) and left == right


def _check_bounds(old: Mapping[str, Node], new: Mapping[str, Node], path: str) -> Iterator[str]:
    for keyword in _LOWER_BOUNDS:
        if keyword in new and new[keyword] > old.get(keyword, float("-inf")):
            if not (keyword != "minimum" and new[keyword] <= 0):
                yield f"{path}/{keyword}: it is higher than before"
    for keyword in _UPPER_BOUNDS:
        if keyword in new and new[keyword] < old.get(keyword, float("inf")):
            yield f"{path}/{keyword}: it is lower than before"
    for keyword in ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        if new.get(keyword, False) is not False and _is_tighter(keyword, old, new):
            yield f"{path}/{keyword}: it is tighter than before"
    if new.get("uniqueItems") and not old.get("uniqueItems"):
        yield f"{path}/uniqueItems: equal items were taken before"


def _is_tighter(keyword: str, old: Mapping[str, Node], new: Mapping[str, Node]) -> bool:
    was, now = old.get(keyword), new[keyword]
    if was is None or isinstance(was, bool) or isinstance(now, bool):
        return bool(was != now)
    if keyword == "exclusiveMinimum":
        return bool(now > was)
    return bool(now < was) if keyword == "exclusiveMaximum" else bool(was % now != 0)


def _items(node: Mapping[str, Node]) -> tuple[list[Node], Node]:
    """Return the schemas of the first items, and that of the rest."""
    if "prefixItems" in node:
        return node["prefixItems"], node.get("items", True)
    items = node.get("items", True)
    if isinstance(items, list):
        return items, node.get("additionalItems", True)
    return [], items
