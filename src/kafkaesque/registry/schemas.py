"""What a schema is, before anybody understands it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Final, Protocol

#: The longest schema, in UTF-8.
SCHEMA_BYTES_MAX: Final = 512 * 1024
#: Others that one schema names, and how deep these go.
REFERENCES_MAX: Final = 100
REFERENCE_DEPTH_MAX: Final = 16
#: Differences that are told of one comparison.
REASONS_MAX: Final = 20


class SchemaType(Enum):
    """The languages that schemas are written in."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Another schema that a schema uses."""

    #: What the schema calls it: a full name (Avro), a URI (JSON), a file to import (Protobuf).
    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema as it was written, or as it is kept: then equal schemas have equal texts."""

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()

    @property
    def fingerprint(self) -> bytes:
        """Equal for equal schemas alone."""
        parts = [self.type.value, self.text]
        for each in self.references:
            parts += [each.name, each.subject, str(each.version)]
        digest = sha256()
        for part in parts:
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return digest.digest()


#: Texts of referenced schemas by the names they are called; the used ones before their users.
References = Mapping[str, str]


class ParsedSchema(Protocol):
    """A schema that is understood."""

    @property
    def text(self) -> str:
        """What is kept of it."""

    @property
    def normalized(self) -> str:
        """The same for schemas that differ by order and spelling alone."""

    @property
    def former(self) -> tuple[str, ...]:
        """What earlier releases kept of it: the same schema."""

    def cannot_read(self, written: "ParsedSchema") -> Iterator[str]:
        """Say where a reader with this schema fails at data of another one, of the same type."""
