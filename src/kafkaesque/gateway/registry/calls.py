"""One request of a client, its parts by name, and where its answer goes."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.registry.errors import HttpRefused
from kafkaesque.model.errors import RequestRefused
from kafkaesque.registry.errors import InvalidSchema, InvalidVersion
from kafkaesque.registry.schemas import Reference, Schema, SchemaType
from kafkaesque.registry.state import LATEST

VERSION_MAX: Final = 2**31 - 1
BodyT = TypeVar("BodyT")


def _not_kept(body: msgspec.Struct) -> str | None:
    """Return which field is set of those that only Confluent's registry has: they have no type."""
    for field in msgspec.structs.fields(body):
        if field.type is object and _says_anything(getattr(body, field.name)):
            return field.encode_name
    return None


def _says_anything(value: object) -> bool:
    if isinstance(value, dict):
        return any(_says_anything(each) for each in value.values())
    return bool(value)


class ReferenceBody(msgspec.Struct, kw_only=True):
    """See `Reference`."""

    name: str
    subject: str
    version: int


class SchemaBody(msgspec.Struct, kw_only=True, rename="camel"):
    """A schema that is registered, looked up or tried."""

    schema: str
    schema_type: str | None = None
    references: list[ReferenceBody] | None = None
    version: int | None = None
    id: int | None = None
    metadata: object = None
    rule_set: object = None
    schema_tags_to_add: object = None
    schema_tags_to_remove: object = None

    def as_schema(self) -> Schema:
        """Return the schema alone.

        Raises:
            InvalidSchema: it is of no known type, or comes with what the registry does not keep.
        """
        # Without its rules, a field that they encrypt would be written in the clear.
        if (name := _not_kept(self)) is not None:
            raise InvalidSchema(f"this registry does not keep {name!r} of a schema: leave it out")
        try:
            kind = SchemaType((self.schema_type or SchemaType.AVRO.value).upper())
        except ValueError:
            raise InvalidSchema(f"there is no type of schemas {self.schema_type!r}") from None
        references = tuple(
            Reference(name=each.name, subject=each.subject, version=each.version)
            for each in self.references or ()
        )
        return Schema(type=kind, text=self.schema, references=references)


class CompatibilityBody(msgspec.Struct, kw_only=True, rename="camel"):
    """The compatibility level that is set."""

    compatibility: str
    alias: object = None
    normalize: object = None
    validate_fields: object = None
    validate_rules: object = None
    compatibility_group: object = None
    default_metadata: object = None
    override_metadata: object = None
    default_rule_set: object = None
    override_rule_set: object = None

    def level(self) -> str:
        """Return the level that is named, in capital letters.

        Raises:
            HttpRefused: an option that this registry does not have is set, too.
        """
        if (name := _not_kept(self)) is not None:
            raise HttpRefused(422, f"this registry has no option {name!r}: leave it out")
        return self.compatibility.upper()


class ModeBody(msgspec.Struct, kw_only=True):
    """The mode that is set."""

    mode: str


class Answers(Protocol):
    """Where an answer is sent."""

    def answer(self, outcome: object) -> None:
        """Send a value as JSON, a `PlainText`, or a refusal; called once."""


class PlainText(msgspec.Struct, frozen=True):
    """An answer that is sent as it is."""

    text: str


class Call:
    """See the module."""

    __slots__ = ("_answers", "_body", "params", "query", "rights")

    def __init__(
        self,
        *,
        params: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
        rights: Rights | None,
        answers: Answers,
    ) -> None:
        #: Parts of the path by the names that the table of routes gives them.
        self.params: Final = params
        self.query: Final = query
        #: What the client may do; None: everything.
        self.rights: Final = rights
        self._body = body
        self._answers = answers

    def done(self, value: object) -> None:
        """Answer with a value, or with a refusal."""
        self._answers.answer(value)

    def try_to(self, act: Callable[[], object]) -> None:
        """Answer with what is returned, or refused."""
        try:
            outcome = act()
        except RequestRefused as refusal:
            outcome = refusal
        self.done(outcome)

    @property
    def subject(self) -> str:
        """The subject that the path names."""
        return self.params["subject"]

    @property
    def version(self) -> int:
        """The version that the path names.

        Raises:
            InvalidVersion: it is none.
        """
        return read_version(self.params["version"])

    @property
    def id(self) -> int:
        """The id of a schema that the path names.

        Raises:
            HttpRefused: it is no number.
        """
        text = self.params["id"]
        if not text.isascii() or not text.isdigit() or len(text) > 10:
            raise HttpRefused(404, "HTTP 404 Not Found")
        return int(text)

    def flag(self, name: str) -> bool:
        """Tell whether the query says so."""
        return self.query.get(name, "false").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a number of the query.

        Raises:
            HttpRefused: it is none.
        """
        text = self.query.get(name, str(default))
        try:
            return int(text[:11])
        except ValueError:
            raise HttpRefused(400, f"{name}={text!r} is no number") from None

    def body(self, kind: type[BodyT]) -> BodyT:
        """Return the request's body.

        Raises:
            HttpRefused: it is none of this kind.
        """
        try:
            return msgspec.json.decode(self._body, type=kind)
        except msgspec.ValidationError as error:
            raise HttpRefused(422, f"the body is not what it should be: {error}") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise HttpRefused(400, f"the body is no JSON: {error}") from None
        except UnicodeDecodeError:
            raise HttpRefused(400, "the body is no UTF-8") from None


def read_version(text: str) -> int:
    """Return a version's number; `LATEST` for "latest" and -1.

    Raises:
        InvalidVersion: it is neither.
    """
    if text in ("latest", "-1"):
        return LATEST
    if text.isascii() and text.isdigit() and 0 < int(text[:11]) <= VERSION_MAX:
        return int(text)
    raise InvalidVersion(
        f"The specified version '{text}' is not a valid version id: a number from 1 to "
        f'{VERSION_MAX}, or "latest"'
    )
