"""Schemas by their ids, as they are needed for decoding.

Theory of operation. Decoding happens off the loop, where the registry's state cannot be asked. So
a book is taken along: what it lacks is noted, and whoever has the registry adds it and decodes
again. Schemas that are read by the bytes of a hostile client are so looked up few at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkaesque.admin.decoding.bounds import UndecodableError
from kafkaesque.admin.decoding.protobuf_data import MessageTypes
from kafkaesque.registry.avro import AvroSchema
from kafkaesque.registry.errors import InvalidSchema
from kafkaesque.registry.protobuf import ProtobufSchema
from kafkaesque.registry.schemas import References, SchemaType

#: Ids that one question looks up.
SCHEMAS_MAX: Final = 100
#: Characters of schemas, with what they refer to, that one question parses: a second or two.
PARSED_LENGTH_MAX: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a schema is registered."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSchema:
    """A registered schema that may be shown."""

    id: int
    type: SchemaType
    text: str
    references: References
    #: Of all its places the one that says most of a key, and of a value.
    key_place: Place
    value_place: Place


@dataclass(frozen=True, slots=True)
class UnknownSchema:
    """Why there is no schema of an id."""

    reason: str


@dataclass(slots=True)
class SchemaBook:
    """See the module."""

    schemas: dict[int, KnownSchema | UnknownSchema] = field(default_factory=dict)
    #: Ids that were asked for in vain.
    missing: set[int] = field(default_factory=set)
    _parsed: dict[int, AvroSchema | ProtobufSchema | UndecodableError] = field(default_factory=dict)
    _types: dict[int, MessageTypes] = field(default_factory=dict)
    _parsed_length: int = 0
    #: Whether a schema found no room that would find it in an empty book.
    is_full: bool = False

    def add(self, found: Mapping[int, KnownSchema | UnknownSchema]) -> None:
        """Add what was missing."""
        self.schemas.update(found)
        self.missing.clear()
        self.is_full = False

    def find(self, schema_id: int) -> KnownSchema:
        """Return a schema.

        Raises:
            UndecodableError: there is none, or it is missing here.
        """
        found = self.schemas.get(schema_id)
        if isinstance(found, KnownSchema):
            return found
        if found is not None:
            raise UndecodableError(found.reason)
        if len(self.schemas) + len(self.missing) >= SCHEMAS_MAX:
            self.is_full = True
            raise UndecodableError(f"more than {SCHEMAS_MAX} schemas are not looked up at once")
        self.missing.add(schema_id)
        raise UndecodableError(f"the schema {schema_id} was not looked up")

    def avro(self, schema: KnownSchema) -> AvroSchema:
        """Return a schema, parsed once.

        Raises:
            UndecodableError: it cannot be.
        """
        found = self._parse(schema)
        assert isinstance(found, AvroSchema)
        return found

    def protobuf(self, schema: KnownSchema) -> ProtobufSchema:
        """Return a schema, parsed once.

        Raises:
            UndecodableError: it cannot be.
        """
        found = self._parse(schema)
        assert isinstance(found, ProtobufSchema)
        return found

    def types(self, schema: KnownSchema) -> MessageTypes:
        """Return what is known of the types of a schema of Protocol Buffers."""
        return self._types.setdefault(schema.id, MessageTypes())

    def _parse(self, schema: KnownSchema) -> AvroSchema | ProtobufSchema:
        found = self._parsed.get(schema.id)
        if found is None:
            length = len(schema.text) + sum(map(len, schema.references.values()))
            if self._parsed_length + length > PARSED_LENGTH_MAX:
                self.is_full = self.is_full or length <= PARSED_LENGTH_MAX
                raise UndecodableError(
                    f"the schemas of what is shown have more than {PARSED_LENGTH_MAX} characters"
                )
            self._parsed_length += length
            make = AvroSchema if schema.type is SchemaType.AVRO else ProtobufSchema
            try:
                found = make(schema.text, schema.references)
            except InvalidSchema as refusal:
                found = UndecodableError(f"its schema {schema.id} cannot be understood: {refusal}")
            self._parsed[schema.id] = found
        if isinstance(found, UndecodableError):
            raise found
        return found
