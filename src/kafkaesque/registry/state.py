"""What is registered: made of the entries of the log, in order, on every broker alike."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from kafkaesque.registry.errors import (
    SchemaNotFound,
    SubjectNotFound,
    VersionNotFound,
)
from kafkaesque.registry.records import (
    ConfigKey,
    ConfigValue,
    Entry,
    IdsKey,
    IdsValue,
    ModeKey,
    ModeValue,
    SchemaKey,
    SchemaValue,
)
from kafkaesque.registry.schemas import Schema, SchemaType

FIRST_ID: Final = 1
#: The last version, wherever a number may stand.
LATEST: Final = -1


class Compatibility(Enum):
    """What a new version has to fit."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class Mode(Enum):
    """What may be changed."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    #: Versions and ids are given by who registers.
    IMPORT = "IMPORT"


DEFAULT_COMPATIBILITY: Final = Compatibility.BACKWARD
DEFAULT_MODE: Final = Mode.READWRITE
_TYPES: Final = frozenset(each.value for each in SchemaType)


class RegistryState:
    """See the module."""

    __slots__ = (
        "_by_id",
        "_configs",
        "_ids",
        "_ids_of",
        "_modes",
        "_next_id",
        "_referenced_by",
        "_subjects",
        "text_bytes",
        "version_count",
    )

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, SchemaValue]] = {}
        #: Where a schema stands, by its id.
        self._by_id: dict[int, dict[SchemaKey, SchemaValue]] = {}
        #: The id of a schema, by its fingerprint.
        self._ids: dict[bytes, int] = {}
        #: The ids of a subject, once somebody has asked.
        self._ids_of: dict[str, frozenset[int]] = {}
        #: Who refers to a version.
        self._referenced_by: dict[tuple[str, int], set[SchemaKey]] = {}
        self._configs: dict[str | None, Compatibility] = {}
        self._modes: dict[str | None, Mode] = {}
        self._next_id = FIRST_ID
        self.version_count = 0
        self.text_bytes = 0

    # -- entries

    def apply(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        match entry.key, entry.value:
            case SchemaKey() as key, SchemaValue() | None as value:
                self._remove(key)
                self._ids_of.pop(key.subject, None)
                if value is not None and value.schema_type in _TYPES:
                    self._add(key, value)
            case ConfigKey(subject=subject), ConfigValue(compatibility_level=level):
                self._configs[subject] = Compatibility(level)
            case ConfigKey(subject=subject), _:
                self._configs.pop(subject, None)
            case ModeKey(subject=subject), ModeValue(mode=mode):
                self._modes[subject] = Mode(mode)
            case ModeKey(subject=subject), _:
                self._modes.pop(subject, None)
            case IdsKey(), IdsValue(next_id=next_id):
                self._next_id = max(self._next_id, next_id)

    def _add(self, key: SchemaKey, value: SchemaValue) -> None:
        self._subjects.setdefault(key.subject, {})[key.version] = value
        self._by_id.setdefault(value.id, {})[key] = value
        self._ids[value.as_schema.fingerprint] = value.id
        for each in value.references:
            self._referenced_by.setdefault((each.subject, each.version), set()).add(key)
        self._next_id = max(self._next_id, value.id + 1)
        self.version_count += 1
        self.text_bytes += len(value.schema)

    def _remove(self, key: SchemaKey) -> None:
        versions = self._subjects.get(key.subject, {})
        value = versions.pop(key.version, None)
        if value is None:
            return
        if not versions:
            del self._subjects[key.subject]
        places = self._by_id[value.id]
        del places[key]
        if not places:
            del self._by_id[value.id]
            self._ids.pop(value.as_schema.fingerprint, None)
        for each in value.references:
            users = self._referenced_by.get((each.subject, each.version), set())
            users.discard(key)
            if not users:
                self._referenced_by.pop((each.subject, each.version), None)
        self.version_count -= 1
        self.text_bytes -= len(value.schema)

    # -- subjects

    @property
    def next_id(self) -> int:
        """The id of the next new schema."""
        return self._next_id

    def subjects(self, *, deleted: bool = False) -> Iterator[str]:
        """Return those with a version that is not deleted; with `deleted` all, in order."""
        for subject in sorted(self._subjects):
            if deleted or any(not each.deleted for each in self._subjects[subject].values()):
                yield subject

    def all_versions(self, subject: str) -> Mapping[int, SchemaValue]:
        """Return all versions of a subject, deleted ones too; none if there is no such subject."""
        return self._subjects.get(subject, {})

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaValue]:
        """Return a subject's versions in order.

        Raises:
            SubjectNotFound: it has none.
        """
        found = [
            each
            for _, each in sorted(self.all_versions(subject).items())
            if deleted or not each.deleted
        ]
        if not found:
            raise SubjectNotFound(f"Subject {subject!r} not found.")
        return found

    def version(self, subject: str, version: int, *, deleted: bool = False) -> SchemaValue:
        """Return one version of a subject, or the `LATEST`.

        Raises:
            SubjectNotFound: it has none.
            VersionNotFound: it does not have this one.
        """
        found = self.versions(subject, deleted=deleted)
        if version == LATEST:
            return found[-1]
        for each in found:
            if each.version == version:
                return each
        raise VersionNotFound(f"Version {version} not found.")

    # -- schemas

    def id_of(self, schema: Schema) -> int | None:
        """Return the id of a schema, wherever it is registered."""
        return self._ids.get(schema.fingerprint)

    def places(self, schema_id: int) -> list[SchemaValue]:
        """Return where a schema is registered, deleted versions too.

        Raises:
            SchemaNotFound: no schema has this id.
        """
        found = self._by_id.get(schema_id)
        if not found:
            raise SchemaNotFound(f"Schema {schema_id} not found.")
        return [found[key] for key in sorted(found)]

    def ids_of(self, subject: str) -> frozenset[int]:
        """Return the ids of a subject's schemas that are not deleted."""
        found = self._ids_of.get(subject)
        if found is None:
            versions = self.all_versions(subject).values()
            found = frozenset(each.id for each in versions if not each.deleted)
            if versions:
                self._ids_of[subject] = found
        return found

    def referenced_by(self, subject: str, version: int) -> list[SchemaKey]:
        """Return the versions that refer to one."""
        return sorted(self._referenced_by.get((subject, version), ()))

    # -- settings

    def compatibility(self, subject: str | None) -> Compatibility | None:
        """Return the level that is set for a subject, or for all."""
        return self._configs.get(subject)

    def effective_compatibility(self, subject: str) -> Compatibility:
        """Return the level that a subject's versions are held to."""
        return self._configs.get(subject) or self._configs.get(None) or DEFAULT_COMPATIBILITY

    def mode(self, subject: str | None) -> Mode | None:
        """Return the mode that is set for a subject, or for all."""
        return self._modes.get(subject)

    def effective_mode(self, subject: str) -> Mode:
        """Return the mode that a subject is in; READONLY_OVERRIDE of all comes before its own."""
        of_all = self._modes.get(None, DEFAULT_MODE)
        if of_all is Mode.READONLY_OVERRIDE:
            return of_all
        return self._modes.get(subject, of_all)
