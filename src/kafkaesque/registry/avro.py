"""Avro schemas: parsing by fastavro, and whether one reads what another one has written.

The rules are those of schema resolution in Avro's specification (1.12, "Schema Resolution").
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kafkaesque.registry.avro_text import canonical
from kafkaesque.registry.errors import InvalidSchema
from kafkaesque.registry.json_text import compact, read_json
from kafkaesque.registry.schemas import References

#: What a reader's type takes beside its own.
_PROMOTED: Final[Mapping[str, frozenset[str]]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_NAMED: Final = ("record", "error", "enum", "fixed")
#: Pairs of types that one comparison looks at.
_PAIRS_MAX: Final = 100_000

# A schema's JSON, as fastavro has parsed it.
_Node = Any


class AvroSchema:
    """See `ParsedSchema`."""

    __slots__ = ("_names", "_root", "former", "normalized", "text")

    def __init__(self, text: str, references: References) -> None:
        """Parse a schema.

        Raises:
            InvalidSchema: it is none, or uses what is not there.
        """
        # Loaded with the first schema: it takes 4 MB.
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema

        self._names: dict[str, _Node] = {}
        written = _read(text)
        try:
            _check_fields(written)
            for each in references.values():
                parse_schema(_read(each), named_schemas=self._names)
            self._root: _Node = parse_schema(written, named_schemas=self._names)
            self.text: Final = compact(canonical(written))
            self.normalized: Final = compact(canonical(written, sort_own=True))
        except UnknownType as error:
            raise InvalidSchema(f"the type {error.name!r} is not known") from None
        except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidSchema(f"it is no Avro schema: {error}") from None
        except RecursionError:
            raise InvalidSchema("it is nested too deeply") from None
        self.former: Final = (compact(written), compact(written, sort_keys=True))

    @property
    def root(self) -> _Node:
        """The schema's JSON with full names, for those who read data."""
        return self._root

    @property
    def names(self) -> Mapping[str, _Node]:
        """What full names in it stand for."""
        return self._names

    def cannot_read(self, written: object) -> Iterator[str]:
        """See `ParsedSchema`."""
        if not isinstance(written, AvroSchema):
            yield "the schema before is not written in Avro"
            return
        try:
            yield from _Comparison(self._names, written._names).differences(
                self._root, written._root, ""
            )
        except RecursionError:
            yield "they are nested too deeply to be compared"


def _read(text: str) -> object:
    # A primitive type's name may stand alone.
    if text.strip().isidentifier():
        return text.strip()
    return read_json(text)


def _check_fields(node: _Node) -> None:
    """Check what fastavro takes as empty.

    Raises:
        InvalidSchema: a record has no list of fields.
    """
    if isinstance(node, list):
        for each in node:
            _check_fields(each)
    elif isinstance(node, dict):
        if node.get("type") in ("record", "error") and not isinstance(node.get("fields"), list):
            raise InvalidSchema(f"the record {node.get('name')!r} has no fields")
        for key in ("type", "items", "values", "fields"):
            _check_fields(node.get(key))


class _Comparison:
    """One reader against one writer."""

    __slots__ = ("_assumed", "_pairs", "_reader_names", "_writer_names")

    def __init__(self, reader_names: dict[str, _Node], writer_names: dict[str, _Node]) -> None:
        self._reader_names = reader_names
        self._writer_names = writer_names
        #: Pairs of records that are looked at further up: they fit as far as the rest does.
        self._assumed: set[tuple[str, str]] = set()
        self._pairs = 0

    def differences(self, reader: _Node, writer: _Node, path: str) -> Iterator[str]:
        """Say where a reader fails."""
        self._pairs += 1
        if self._pairs > _PAIRS_MAX:
            yield "the schemas are too large to be compared"
            return
        reader, writer = _resolve(reader, self._reader_names), _resolve(writer, self._writer_names)
        reader_type, writer_type = _type_of(reader), _type_of(writer)
        if writer_type == "union":
            for number, branch in enumerate(writer):
                yield from self.differences(reader, branch, f"{path}/{number}")
        elif reader_type == "union":
            if not any(self._fits(branch, writer, path) for branch in reader):
                yield f"{path or '/'}: no branch of the reader's union takes {writer_type}"
        elif reader_type != writer_type:
            if writer_type not in _PROMOTED.get(reader_type, ()):
                yield f"{path or '/'}: {writer_type} was written, {reader_type} is read"
        elif reader_type in _NAMED:
            yield from self._named(reader_type, reader, writer, path)
        elif reader_type == "array":
            yield from self.differences(reader["items"], writer["items"], f"{path}/items")
        elif reader_type == "map":
            yield from self.differences(reader["values"], writer["values"], f"{path}/values")

    def _fits(self, reader: _Node, writer: _Node, path: str) -> bool:
        return next(self.differences(reader, writer, path), None) is None

    def _named(self, kind: str, reader: _Node, writer: _Node, path: str) -> Iterator[str]:
        names = {_short(reader["name"]), *map(_short, reader.get("aliases", ()))}
        if _short(writer["name"]) not in names:
            yield f"{path or '/'}: {writer['name']} was written, {reader['name']} is read"
        elif kind == "fixed":
            if reader["size"] != writer["size"]:
                yield f"{path or '/'}: {writer['size']} bytes were written, {reader['size']} read"
        elif kind == "enum":
            known = set(reader["symbols"])
            missing = [each for each in writer["symbols"] if each not in known]
            if missing and "default" not in reader:
                yield f"{path or '/'}: the reader lacks symbols: {', '.join(missing)}"
        else:
            yield from self._records(reader, writer, path)

    def _records(self, reader: _Node, writer: _Node, path: str) -> Iterator[str]:
        pair = (reader["name"], writer["name"])
        if pair in self._assumed:
            return
        self._assumed.add(pair)
        written = {field["name"]: field for field in writer["fields"]}
        failed = False
        for field in reader["fields"]:
            names: Sequence[str] = (field["name"], *field.get("aliases", ()))
            found = next((written[name] for name in names if name in written), None)
            inner = f"{path}/fields/{field['name']}"
            if found is not None:
                for each in self.differences(field["type"], found["type"], inner):
                    failed = True
                    yield each
            elif "default" not in field:
                failed = True
                yield f"{inner}: the field was not written and has no default"
        if failed:
            self._assumed.discard(pair)


def _resolve(node: _Node, names: dict[str, _Node]) -> _Node:
    return names.get(node, node) if isinstance(node, str) else node


def _type_of(node: _Node) -> str:
    if isinstance(node, list):
        return "union"
    if isinstance(node, str):
        return node
    kind = node["type"]
    return kind if isinstance(kind, str) else _type_of(kind)


def _short(name: str) -> str:
    return name.rpartition(".")[2]
