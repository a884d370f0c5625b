"""What the registry answers, as Confluent's names it."""

import msgspec

from kafkaesque.registry.records import ReferenceValue, SchemaValue
from kafkaesque.registry.schemas import SchemaType


class RegisteredId(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a schema that was registered."""

    id: int


class SchemaText(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A schema by its id; Avro is not named."""

    schema: str
    schema_type: str = SchemaType.AVRO.value
    references: tuple[ReferenceValue, ...] = ()
    max_id: int | None = None


class SchemaVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = SchemaType.AVRO.value
    references: tuple[ReferenceValue, ...] = ()


class SubjectVersion(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schema is registered."""

    subject: str
    version: int


class CompatibilityAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a schema would fit, and why not."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


class ConfigAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A compatibility level that holds."""

    compatibility_level: str


class ConfigSet(msgspec.Struct, frozen=True, kw_only=True):
    """A compatibility level that was set."""

    compatibility: str


class ModeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A mode."""

    mode: str


class ClusterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Which cluster the schemas are kept in."""

    id: str
    scope: dict[str, object]


class ReleaseAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What answers."""

    version: str
    commit_id: str


def version_of(value: SchemaValue, text: str | None = None) -> SchemaVersion:
    """Return a version as it is answered, with another text if one is given."""
    return SchemaVersion(
        subject=value.subject,
        version=value.version,
        id=value.id,
        schema=value.schema if text is None else text,
        schema_type=value.schema_type,
        references=value.references,
    )
