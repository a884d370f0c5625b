"""What conversion rules say, once they have been read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkaesque.spark.errors import ConnectorError

#: What a field may be taken from beside the message's fields, with Spark's types.
METADATA = {
    "@key": "string",
    "@topic": "string",
    "@partition": "int",
    "@offset": "bigint",
    "@timestamp": "timestamp",
}


class WrongRules(ConnectorError):
    """Rules that cannot be meant like that; the message has one sentence for each mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """How a text is made unreadable."""

    kind: str
    #: Of `keep-last`: how many characters stay.
    keep: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """How one field is made, in this order: taken, split, looked up, cast, defaulted, masked."""

    target: str
    #: Paths of fields, or one of METADATA; none: `value` is given.
    sources: tuple[str, ...] = ()
    value: Any = None
    join: str | None = None
    split: str | None = None
    #: From 1; from the end if negative.
    part: int = 0
    lookup: Mapping[str, str] | None = None
    format: str | None = None
    zone: str = "UTC"
    unit: str | None = None
    default: Any = None
    mask: Mask | None = None
    #: Of a list of objects: how each is made.
    each: tuple[FieldRule, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How values look: their schema, and how they are written down."""

    kind: str
    #: A Spark StructType.
    schema: Any
    separator: str = ","
    #: Of XML: the name of the outermost element.
    root: str = ""
    #: Of Avro: the schema as JSON. Of Protobuf: the message's name, and the descriptor set.
    avro_schema: str = ""
    message: str = ""
    descriptors: bytes = b""
    #: In the framing of schema registries; when written, with this number.
    framed: bool = False
    schema_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """A form that all share, and the topic that has it."""

    name: str
    version: int
    topic: str
    schema: Any
    required: tuple[str, ...] = ()
    #: The field that becomes the messages' key.
    key: str | None = None

    @property
    def title(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """From a form to the canonical one, or from the canonical one to a form."""

    name: str
    version: int
    canonical: Canonical
    #: Of a producer: its topics. Of a consumer: one topic.
    topics: tuple[str, ...]
    form: Form
    fields: tuple[FieldRule, ...]
    #: Of a consumer: the canonical field that becomes the messages' key.
    key: str | None = None

    @property
    def title(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A whole repository."""

    canonical: tuple[Canonical, ...] = ()
    producers: tuple[Rule, ...] = ()
    consumers: tuple[Rule, ...] = ()
    #: For masks of the kind hash.
    salt: bytes = field(default=b"", repr=False)
