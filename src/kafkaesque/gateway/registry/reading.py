"""What is asked about schemas: answered from this broker's copy, after reading to its end."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from kafkaesque import __version__
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.schemas.schema_log import SchemaLog
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.registry.calls import Call, PlainText, SchemaBody
from kafkaesque.gateway.registry.errors import HttpRefused
from kafkaesque.gateway.registry.values import (
    ClusterAnswer,
    CompatibilityAnswer,
    ConfigAnswer,
    ModeAnswer,
    ReleaseAnswer,
    SchemaText,
    SchemaVersion,
    SubjectVersion,
    version_of,
)
from kafkaesque.registry.compatibility import differences, parse
from kafkaesque.registry.errors import CompatibilityNotSet, ModeNotSet, SchemaNotFound
from kafkaesque.registry.planner import find_registered, understand
from kafkaesque.registry.protobuf import ProtobufSchema
from kafkaesque.registry.records import SchemaValue
from kafkaesque.registry.schemas import SchemaType
from kafkaesque.registry.state import (
    DEFAULT_COMPATIBILITY,
    DEFAULT_MODE,
    Compatibility,
    RegistryState,
)

#: Of one answer that lists something.
ROWS_MAX: Final = 10_000
#: Of one answer with schemas.
TEXTS_LENGTH_MAX: Final = 8 * 1024 * 1024
RowT = TypeVar("RowT")


class Reading:
    """Answers; each is called when the state is as new as it can be."""

    __slots__ = ("_cluster_id", "_log")

    def __init__(self, log: SchemaLog, cluster_id: str) -> None:
        self._log: Final = log
        self._cluster_id: Final = cluster_id

    @property
    def _state(self) -> RegistryState:
        return self._log.state

    # -- what stays the same

    def root(self, _: Call) -> object:
        """GET /: shows that a registry is there."""
        return {}

    def types(self, _: Call) -> object:
        """GET /schemas/types."""
        return [each.value for each in (SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO)]

    def contexts(self, _: Call) -> object:
        """GET /contexts: there is one."""
        return ["."]

    def cluster(self, _: Call) -> object:
        """GET /v1/metadata/id."""
        clusters = {"kafka-cluster": self._cluster_id, "schema-registry-cluster": "kafkaesque"}
        return ClusterAnswer(id="", scope={"path": [], "clusters": clusters})

    def release(self, _: Call) -> object:
        """GET /v1/metadata/version."""
        return ReleaseAnswer(version=__version__, commit_id="")

    # -- subjects

    def subjects(self, call: Call) -> object:
        """GET /subjects."""
        prefix = call.query.get("subjectPrefix", "")
        if prefix.startswith(":*:"):
            prefix = prefix[3:]
        deleted = call.flag("deleted") or call.flag("deletedOnly")
        found = self._state.subjects(deleted=deleted)
        if call.flag("deletedOnly"):
            alive = set(self._state.subjects())
            found = (each for each in found if each not in alive)
        return _page(call, [each for each in _seen(call.rights, found) if each.startswith(prefix)])

    def versions(self, call: Call) -> object:
        """GET /subjects/{subject}/versions."""
        only_deleted = call.flag("deletedOnly") or call.flag("deleted_only")
        deleted = call.flag("deleted") or only_deleted
        found = self._state.versions(call.subject, deleted=deleted)
        rows = [each.version for each in found if each.deleted or not only_deleted]
        return _page(call, rows)

    def version(self, call: Call) -> object:
        """GET /subjects/{subject}/versions/{version}."""
        value = self._version(call)
        return version_of(value, self._text(call, value))

    def version_text(self, call: Call) -> object:
        """GET /subjects/{subject}/versions/{version}/schema."""
        value = self._version(call)
        return PlainText(self._text(call, value))

    def _version(self, call: Call) -> SchemaValue:
        return self._state.version(call.subject, call.version, deleted=call.flag("deleted"))

    def referenced_by(self, call: Call) -> object:
        """GET /subjects/{subject}/versions/{version}/referencedby: ids of the users' schemas."""
        value = self._state.version(call.subject, call.version, deleted=True)
        keys = self._state.referenced_by(value.subject, value.version)
        ids = {
            self._state.all_versions(key.subject)[key.version].id
            for key in keys
            if _may_see(call.rights, key.subject)
        }
        return _page(call, sorted(ids))

    def lookup(self, call: Call) -> object:
        """POST /subjects/{subject}: the version that a schema is."""
        value = find_registered(
            self._state,
            call.subject,
            call.body(SchemaBody).as_schema(),
            normalize=call.flag("normalize"),
            deleted=call.flag("deleted"),
        )
        return version_of(value, self._text(call, value))

    # -- schemas by their ids

    def schemas(self, call: Call) -> object:
        """GET /schemas."""
        prefix, deleted = call.query.get("subjectPrefix", ""), call.flag("deleted")
        found: list[SchemaVersion] = []
        for subject in _seen(call.rights, self._state.subjects(deleted=deleted)):
            if subject.startswith(prefix):
                versions = self._state.versions(subject, deleted=deleted)
                found += map(version_of, versions[-1:] if call.flag("latestOnly") else versions)
        page = _page(call, found)
        if sum(len(each.schema) for each in page) > TEXTS_LENGTH_MAX:
            # It would wait in memory for as long as a client takes to read it.
            most = f"an answer has schemas of at most {TEXTS_LENGTH_MAX} characters"
            raise HttpRefused(400, f"{most}: ask for fewer, with limit and offset")
        return page

    def by_id(self, call: Call) -> object:
        """GET /schemas/ids/{id}."""
        value = self._by_id(call)
        return SchemaText(
            schema=self._text(call, value),
            schema_type=value.schema_type,
            references=value.references,
            max_id=self._state.next_id - 1 if call.flag("fetchMaxId") else None,
        )

    def text_by_id(self, call: Call) -> object:
        """GET /schemas/ids/{id}/schema."""
        return PlainText(self._text(call, self._by_id(call)))

    def subjects_of_id(self, call: Call) -> object:
        """GET /schemas/ids/{id}/subjects."""
        return _page(call, sorted({each.subject for each in self._places(call)}))

    def versions_of_id(self, call: Call) -> object:
        """GET /schemas/ids/{id}/versions."""
        rows = [
            SubjectVersion(subject=each.subject, version=each.version)
            for each in self._places(call)
        ]
        return _page(call, rows)

    def _by_id(self, call: Call) -> SchemaValue:
        """Return one of the places of a schema that the client may see."""
        return self._visible(call)[0]

    def _places(self, call: Call) -> list[SchemaValue]:
        wanted = call.query.get("subject")
        return [
            each
            for each in self._visible(call)
            if (call.flag("deleted") or not each.deleted) and wanted in (None, "", each.subject)
        ]

    def _visible(self, call: Call) -> list[SchemaValue]:
        places = self._state.places(call.id)
        seen = [each for each in places if _may_see(call.rights, each.subject)]
        if not seen:
            raise SchemaNotFound(f"Schema {call.id} not found.")
        return seen

    def _text(self, call: Call, value: SchemaValue) -> str:
        """Return a schema's text, or its descriptor if `format` asks for that."""
        if call.query.get("format") != "serialized":
            return value.schema
        parsed = parse(self._state, value.as_schema)
        return parsed.serialized if isinstance(parsed, ProtobufSchema) else value.schema

    # -- what would fit

    def try_one(self, call: Call) -> object:
        """POST /compatibility/subjects/{subject}/versions/{version}."""
        before = self._state.version(call.subject, call.version)
        return self._try(call, [before])

    def try_all(self, call: Call) -> object:
        """POST /compatibility/subjects/{subject}/versions."""
        has_any = any(not each.deleted for each in self._state.all_versions(call.subject).values())
        return self._try(call, self._state.versions(call.subject) if has_any else [])

    def _try(self, call: Call, before: Sequence[SchemaValue]) -> CompatibilityAnswer:
        schema = call.body(SchemaBody).as_schema()
        parsed, _ = understand(self._state, schema, normalize=call.flag("normalize"))
        level = self._state.effective_compatibility(call.subject)
        reasons = differences(self._state, parsed, schema.type, level, before)
        said = tuple(reasons) if call.flag("verbose") else ()
        return CompatibilityAnswer(is_compatible=not reasons, messages=said)

    # -- settings

    def config(self, call: Call) -> object:
        """GET /config."""
        level = self._state.compatibility(None) or DEFAULT_COMPATIBILITY
        return ConfigAnswer(compatibility_level=level.value)

    def subject_config(self, call: Call) -> object:
        """GET /config/{subject}."""
        level: Compatibility | None = self._state.compatibility(call.subject)
        if level is None and call.flag("defaultToGlobal"):
            level = self._state.effective_compatibility(call.subject)
        if level is None:
            raise CompatibilityNotSet(
                f"Subject '{call.subject}' does not have subject-level compatibility configured"
            )
        return ConfigAnswer(compatibility_level=level.value)

    def mode(self, call: Call) -> object:
        """GET /mode."""
        return ModeAnswer(mode=(self._state.mode(None) or DEFAULT_MODE).value)

    def subject_mode(self, call: Call) -> object:
        """GET /mode/{subject}."""
        mode = self._state.mode(call.subject)
        if mode is None and call.flag("defaultToGlobal"):
            mode = self._state.effective_mode(call.subject)
        if mode is None:
            raise ModeNotSet(
                f"Subject '{call.subject}' does not have subject-level mode configured"
            )
        return ModeAnswer(mode=mode.value)


def _page(call: Call, rows: Sequence[RowT]) -> Sequence[RowT]:
    offset, limit = max(0, call.number("offset", 0)), call.number("limit", -1)
    most = ROWS_MAX if limit < 0 else min(limit, ROWS_MAX)
    return rows[offset : offset + most]


def _may_see(rights: Rights | None, subject: str) -> bool:
    return rights is None or rights.could(Operation.DESCRIBE, ResourceType.SUBJECT, subject)


def _seen(rights: Rights | None, subjects: Iterable[str]) -> Iterable[str]:
    return (each for each in subjects if _may_see(rights, each))
