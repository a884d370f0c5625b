"""What stands in the registry's log: keys and values in JSON, as Confluent's registry keeps them.

A key that is written again replaces its value, and a key without a value is deleted, so the topic
is compacted.
"""

from typing import Any, Final

import msgspec

from kafkaesque.registry.schemas import Reference, Schema, SchemaType


class SchemaKey(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="keytype", tag="SCHEMA", order=True
):
    """One version of a subject."""

    subject: str
    version: int
    magic: int = 1


class ConfigKey(msgspec.Struct, frozen=True, kw_only=True, tag_field="keytype", tag="CONFIG"):
    """A compatibility level: of a subject, or without one of all that have none."""

    subject: str | None
    magic: int = 0


class ModeKey(msgspec.Struct, frozen=True, kw_only=True, tag_field="keytype", tag="MODE"):
    """A mode: of a subject, or without one of all that have none."""

    subject: str | None
    magic: int = 0


class IdsKey(msgspec.Struct, frozen=True, kw_only=True, tag_field="keytype", tag="IDS"):
    """The next id: kept so that the ids of schemas that are gone are not given again."""

    magic: int = 0


class ReferenceValue(msgspec.Struct, frozen=True, kw_only=True):
    """See `Reference`."""

    name: str
    subject: str
    version: int


class SchemaValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is registered."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = SchemaType.AVRO.value
    references: tuple[ReferenceValue, ...] = ()
    deleted: bool = False

    @property
    def as_schema(self) -> Schema:
        """The schema alone."""
        references = tuple(
            Reference(name=each.name, subject=each.subject, version=each.version)
            for each in self.references
        )
        return Schema(type=SchemaType(self.schema_type), text=self.schema, references=references)


class ConfigValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A compatibility level."""

    compatibility_level: str


class ModeValue(msgspec.Struct, frozen=True, kw_only=True):
    """A mode."""

    mode: str


class IdsValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The next id."""

    next_id: int


Key = SchemaKey | ConfigKey | ModeKey | IdsKey
Value = SchemaValue | ConfigValue | ModeValue | IdsValue

_KEYS: Final = msgspec.json.Decoder(Key)
_VALUES: Final[dict[type, msgspec.json.Decoder[Any]]] = {
    SchemaKey: msgspec.json.Decoder(SchemaValue),
    ConfigKey: msgspec.json.Decoder(ConfigValue),
    ModeKey: msgspec.json.Decoder(ModeValue),
    IdsKey: msgspec.json.Decoder(IdsValue),
}
_ENCODER: Final = msgspec.json.Encoder()


class Entry(msgspec.Struct, frozen=True):
    """A key and its value; None: the key is deleted."""

    key: Key
    value: Value | None


def write_entry(entry: Entry) -> tuple[bytes, bytes | None]:
    """Return an entry's bytes."""
    value = None if entry.value is None else _ENCODER.encode(entry.value)
    return _ENCODER.encode(entry.key), value


def read_entry(key: bytes, value: bytes | None) -> Entry | None:
    """Return the entry that bytes say; None: a later release has written something else."""
    try:
        read = _KEYS.decode(key)
        return Entry(read, None if value is None else _VALUES[type(read)].decode(value))
    except msgspec.ValidationError:
        return None


def value_of(subject: str, version: int, schema_id: int, schema: Schema) -> SchemaValue:
    """Return what is registered of a schema."""
    return SchemaValue(
        subject=subject,
        version=version,
        id=schema_id,
        schema=schema.text,
        schema_type=schema.type.value,
        references=tuple(
            ReferenceValue(name=each.name, subject=each.subject, version=each.version)
            for each in schema.references
        ),
    )
