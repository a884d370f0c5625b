"""JSON Schema, parsed by the packages jsonschema and referencing.

No document is ever fetched: a `$ref` leads into the schema itself, or to a reference by its name.
"""

from collections.abc import Iterator
from typing import Any, Final

from kafkaesque.registry.errors import InvalidSchema
from kafkaesque.registry.json_schema_comparison import DEPTH_MAX, Comparison, Node, Part
from kafkaesque.registry.json_text import compact, read_json
from kafkaesque.registry.schemas import References

#: Objects in one schema: checking each against a newer draft takes 0.2 ms, in which nobody else is
#: served.
OBJECTS_MAX: Final = 2_000
#: What the document is called where it does not say.
_OWN_URI: Final = "urn:kafkaesque:schema"


class JsonSchema:
    """See `ParsedSchema`."""

    __slots__ = ("_resolver", "_root", "text")

    def __init__(self, text: str, references: References, *, is_registered: bool = False) -> None:
        """Parse a schema; one that is registered was found to be one.

        Raises:
            InvalidSchema: it is none, or refers to what is not there.
        """
        # Loaded with the first schema.
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft7Validator, validator_for
        from referencing import Registry, Resource
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT7

        self._root: Node = read_json(text)
        if not isinstance(self._root, dict | bool):
            raise InvalidSchema("a JSON Schema is an object, or true or false")
        try:
            if not is_registered:
                _check_size(self._root)
                validator_for(self._root, default=Draft7Validator).check_schema(self._root)
            registry: Registry[Any] = Registry()
            for name, each in references.items():
                other = Resource.from_contents(read_json(each), default_specification=DRAFT7)
                registry = registry.with_resource(name, other)
            own = Resource.from_contents(self._root, default_specification=DRAFT7)
            uri = own.id() or _OWN_URI
            # All of it is gone through once, and not again for each reference.
            self._resolver: Node = registry.with_resource(uri, own).crawl().resolver(uri)
            self._check_references(self._root, 0)
        except SchemaError as error:
            where = "/".join(map(str, error.absolute_path))
            raise InvalidSchema(f"it is no JSON Schema: /{where}: {error.message}") from None
        except Unresolvable as error:
            raise InvalidSchema(f"it refers to {error.ref!r}, which is not there") from None
        except (RecursionError, ValueError, TypeError, AttributeError) as error:
            raise InvalidSchema(f"it is no JSON Schema: {error}") from None
        self.text: Final = compact(self._root)

    @property
    def normalized(self) -> str:
        """See `ParsedSchema`."""
        return compact(self._root, sort_keys=True)

    @property
    def former(self) -> tuple[str, ...]:
        """See `ParsedSchema`."""
        return ()

    def cannot_read(self, written: object) -> Iterator[str]:
        """See `ParsedSchema`."""
        if not isinstance(written, JsonSchema):
            yield "the schema before is no JSON Schema"
            return
        try:
            yield from Comparison().differences(written.whole, self.whole, "")
        except (TypeError, KeyError, AttributeError, ValueError, RecursionError):
            # A draft says nothing about keywords of a later one, such as prefixItems.
            yield "they cannot be compared: a keyword has a value that no draft lets it have"

    @property
    def whole(self) -> Part:
        """All of it, to be compared."""
        draft = str(self._root.get("$schema", "")) if isinstance(self._root, dict) else ""
        return Part(self._root, self._resolver, not draft or "/draft-0" in draft)

    def _check_references(self, node: Node, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise InvalidSchema("it is nested too deeply")
        if isinstance(node, dict):
            target = node.get("$ref")
            if isinstance(target, str):
                self._resolver.lookup(target)
            for each in node.values():
                self._check_references(each, depth + 1)
        elif isinstance(node, list):
            for each in node:
                self._check_references(each, depth + 1)


def _check_size(root: Node) -> None:
    """Refuse what would take long to check.

    Raises:
        InvalidSchema: it has too many parts.
    """
    left, count = [root], 0
    while left:
        node = left.pop()
        count += isinstance(node, dict)
        if count > OBJECTS_MAX:
            raise InvalidSchema(f"it has more than {OBJECTS_MAX} objects")
        if isinstance(node, dict):
            left += node.values()
        elif isinstance(node, list):
            left += node
