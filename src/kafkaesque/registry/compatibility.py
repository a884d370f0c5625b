"""Parsing, and which of the versions before a new schema has to fit."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from kafkaesque.registry.avro import AvroSchema
from kafkaesque.registry.errors import InvalidSchema, RegistryRefused, SchemaTooLarge
from kafkaesque.registry.json_schema import JsonSchema
from kafkaesque.registry.protobuf import ProtobufSchema
from kafkaesque.registry.records import SchemaValue
from kafkaesque.registry.schemas import (
    REASONS_MAX,
    REFERENCE_DEPTH_MAX,
    REFERENCES_MAX,
    SCHEMA_BYTES_MAX,
    ParsedSchema,
    References,
    Schema,
    SchemaType,
)
from kafkaesque.registry.state import Compatibility, RegistryState

_PARSERS: Final[Mapping[SchemaType, Callable[[str, References], ParsedSchema]]] = {
    SchemaType.AVRO: AvroSchema,
    SchemaType.PROTOBUF: ProtobufSchema,
}
#: Texts of parsed schemas that are kept, together.
KEPT_LENGTH_MAX: Final = 4 * 1024 * 1024
#: Texts of the versions that one schema is compared with, together: nobody is served meanwhile.
COMPARED_LENGTH_MAX: Final = 2 * 1024 * 1024
_BACKWARD: Final = frozenset(
    {
        Compatibility.BACKWARD,
        Compatibility.BACKWARD_TRANSITIVE,
        Compatibility.FULL,
        Compatibility.FULL_TRANSITIVE,
    }
)
_FORWARD: Final = frozenset(
    {
        Compatibility.FORWARD,
        Compatibility.FORWARD_TRANSITIVE,
        Compatibility.FULL,
        Compatibility.FULL_TRANSITIVE,
    }
)
_TRANSITIVE: Final = frozenset(
    {
        Compatibility.BACKWARD_TRANSITIVE,
        Compatibility.FORWARD_TRANSITIVE,
        Compatibility.FULL_TRANSITIVE,
    }
)


def parse(state: RegistryState, schema: Schema, *, is_registered: bool = False) -> ParsedSchema:
    """Parse a schema with what it refers to; one that is registered is not checked as a new one is.

    Raises:
        InvalidSchema: it is none, or a reference is not registered.
    """
    if len(schema.text.encode()) > SCHEMA_BYTES_MAX:
        raise SchemaTooLarge(f"a schema has at most {SCHEMA_BYTES_MAX} bytes")
    texts = tuple(resolve(state, schema).items())
    return _kept.parse(schema.type, schema.text, texts, is_registered=is_registered)


_Texts = tuple[tuple[str, str], ...]


class _Kept:
    """What was parsed last: a subject's last versions are compared with each new one.

    Bounded by the length of the texts, of which what is parsed takes a multiple.
    """

    def __init__(self) -> None:
        #: What was used last at the end.
        self._parsed: OrderedDict[tuple[SchemaType, str, _Texts], ParsedSchema] = OrderedDict()
        self._length = 0

    def parse(
        self, kind: SchemaType, text: str, references: _Texts, *, is_registered: bool
    ) -> ParsedSchema:
        """Return a schema, parsed now or before."""
        key = (kind, text, references)
        found = self._parsed.get(key)
        if found is not None:
            self._parsed.move_to_end(key)
            return found
        if kind is SchemaType.JSON:
            made: ParsedSchema = JsonSchema(text, dict(references), is_registered=is_registered)
        else:
            made = _PARSERS[kind](text, dict(references))
        self._parsed[key] = made
        self._length += _length_of(text, references)
        while self._length > KEPT_LENGTH_MAX and len(self._parsed) > 1:
            (_, gone, used), _ = self._parsed.popitem(last=False)
            self._length -= _length_of(gone, used)
        return made

    @property
    def length(self) -> int:
        """Characters of all texts that are kept."""
        return self._length


_kept: Final = _Kept()


def _length_of(text: str, references: _Texts) -> int:
    return len(text) + sum(len(each) for _, each in references)


def resolve(state: RegistryState, schema: Schema) -> References:
    """Return all schemas that one refers to, by their names; the used ones before their users.

    Raises:
        InvalidSchema: one is not registered, or they are too many or too deep.
    """
    found: dict[str, str] = {}

    def visit(user: Schema, depth: int) -> None:
        if depth > REFERENCE_DEPTH_MAX:
            raise InvalidSchema(f"references go deeper than {REFERENCE_DEPTH_MAX}")
        for each in user.references:
            if each.name in found:
                continue
            try:
                value = state.version(each.subject, each.version, deleted=True)
            except RegistryRefused as refusal:
                raise InvalidSchema(f"the reference {each.name!r}: {refusal}") from None
            used = value.as_schema
            if used.type is not schema.type:
                raise InvalidSchema(f"the reference {each.name!r} is {used.type.value}")
            visit(used, depth + 1)
            found[each.name] = used.text
            if len(found) > REFERENCES_MAX:
                raise InvalidSchema(f"it refers to more than {REFERENCES_MAX} schemas")

    visit(schema, 1)
    return found


def differences(
    state: RegistryState,
    parsed: ParsedSchema,
    schema_type: SchemaType,
    level: Compatibility,
    before: Sequence[SchemaValue],
) -> list[str]:
    """Say why a schema does not fit the versions before it, which stand in order."""
    if level is Compatibility.NONE or not before:
        return []
    compared = before if level in _TRANSITIVE else before[-1:]
    # The newest first: that is what people have changed.
    return list(
        islice(
            _differences(state, parsed, schema_type, level, tuple(reversed(compared))),
            REASONS_MAX,
        )
    )


def _differences(
    state: RegistryState,
    parsed: ParsedSchema,
    schema_type: SchemaType,
    level: Compatibility,
    compared: Sequence[SchemaValue],
) -> Iterator[str]:
    length = 0
    for each in compared:
        old = each.as_schema
        length += len(old.text)
        if length > COMPARED_LENGTH_MAX and each is not compared[0]:
            yield f"version {each.version} and those before it are too long to be compared with"
            return
        if old.type is not schema_type:
            yield f"version {each.version} is {old.type.value}, this is {schema_type.value}"
            continue
        written = parse(state, old, is_registered=True)
        if level in _BACKWARD:
            for said in parsed.cannot_read(written):
                yield f"it cannot read data of version {each.version}: {said}"
        if level in _FORWARD:
            for said in written.cannot_read(parsed):
                yield f"version {each.version} cannot read its data: {said}"
