"""What is asked of the registry, and the entries that do it: decided on the state as it is.

Whoever appends these entries appends them only if the log still ends where the state was read to,
and otherwise decides anew: so that two brokers that decide at the same time give no id twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafkaesque.registry.compatibility import differences, parse
from kafkaesque.registry.errors import (
    CompatibilityNotSet,
    IdMismatch,
    IncompatibleSchema,
    InvalidSubject,
    ModeNotSet,
    OperationNotPermitted,
    ReferenceExists,
    SchemaNotFound,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    TooManySchemas,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
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
    value_of,
)
from kafkaesque.registry.schemas import ParsedSchema, Schema
from kafkaesque.registry.state import LATEST, Compatibility, Mode, RegistryState

SUBJECT_LENGTH_MAX: Final = 512
#: Of all subjects together; all brokers keep all of them in memory.
VERSIONS_MAX: Final = 50_000
TEXT_BYTES_MAX: Final = 128 * 1024 * 1024
ID_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What a schema has become, and what is to be written for it; nothing if it was there."""

    value: SchemaValue
    entries: Sequence[Entry] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """Which versions go, and what is to be written for it."""

    versions: Sequence[int]
    entries: Sequence[Entry]


def check_subject(subject: str) -> None:
    """Check that a subject may be called so.

    Raises:
        InvalidSubject: it is empty, too long, or has control characters.
    """
    if not subject or len(subject) > SUBJECT_LENGTH_MAX or not subject.isprintable():
        raise InvalidSubject(
            f"a subject has 1 to {SUBJECT_LENGTH_MAX} characters that can be printed: {subject!r}"
        )


def understand(
    state: RegistryState, schema: Schema, *, normalize: bool
) -> tuple[ParsedSchema, Schema]:
    """Parse a schema; return it as it is kept, too.

    Raises:
        InvalidSchema: it is none.
    """
    references = tuple(
        each
        if each.version != LATEST
        else type(each)(
            name=each.name,
            subject=each.subject,
            version=state.version(each.subject, LATEST).version,
        )
        for each in schema.references
    )
    written = Schema(type=schema.type, text=schema.text, references=references)
    parsed = parse(state, written)
    text = parsed.normalized if normalize else parsed.text
    return parsed, Schema(type=schema.type, text=text, references=references)


def plan_registration(
    state: RegistryState,
    subject: str,
    schema: Schema,
    *,
    normalize: bool = False,
    version: int | None = None,
    schema_id: int | None = None,
) -> Registered:
    """Register a schema; one that the subject has already is returned as it is.

    `version` and `schema_id` are taken in the mode IMPORT alone.

    Raises:
        RegistryRefused: it is no schema, does not fit, or may not be registered.
    """
    check_subject(subject)
    mode = state.effective_mode(subject)
    if mode in (Mode.READONLY, Mode.READONLY_OVERRIDE):
        raise OperationNotPermitted(f"Subject {subject!r} is in read-only mode.")
    is_import = mode is Mode.IMPORT
    if (version is not None or schema_id is not None) and not is_import:
        raise OperationNotPermitted(f"Subject {subject!r} is not in import mode.")
    parsed, kept = understand(state, schema, normalize=normalize)
    versions = state.all_versions(subject)
    for each in versions.values():
        if not each.deleted and _is(each, kept, parsed) and schema_id in (None, each.id):
            return Registered(value=each)
    if not is_import:
        _check_compatible(state, subject, parsed, schema)
    _check_bounds(state, kept)
    known = state.id_of(kept)
    given = known if known is not None else state.next_id
    if schema_id is not None:
        _check_id(state, kept, parsed, schema_id)
        given = schema_id
    number = version or max(versions, default=0) + 1
    value = value_of(subject, number, given, kept)
    return Registered(
        value=value, entries=[Entry(SchemaKey(subject=subject, version=number), value)]
    )


def _check_compatible(
    state: RegistryState, subject: str, parsed: ParsedSchema, schema: Schema
) -> None:
    level = state.effective_compatibility(subject)
    before = [each for _, each in sorted(state.all_versions(subject).items()) if not each.deleted]
    reasons = differences(state, parsed, schema.type, level, before)
    if reasons:
        raise IncompatibleSchema(
            f"Schema being registered is incompatible with an earlier schema for subject "
            f'"{subject}" ({level.value}): {"; ".join(reasons)}',
            reasons,
        )


def _is(value: SchemaValue, kept: Schema, parsed: ParsedSchema) -> bool:
    """Tell whether a version is a schema, as it is kept now or was by earlier releases."""
    there = value.as_schema
    if there.text in parsed.former:
        there = replace(there, text=kept.text)
    return there == kept


def _check_id(state: RegistryState, schema: Schema, parsed: ParsedSchema, schema_id: int) -> None:
    if not 0 < schema_id <= ID_MAX:
        raise IdMismatch(f"{schema_id} is no id of a schema")
    try:
        there = state.places(schema_id)[0]
    except SchemaNotFound:
        return
    if not _is(there, schema, parsed):
        raise IdMismatch(f"the id {schema_id} belongs to another schema")


def _check_bounds(state: RegistryState, schema: Schema) -> None:
    if state.version_count >= VERSIONS_MAX:
        raise TooManySchemas(f"{VERSIONS_MAX} versions are registered: delete some permanently")
    if state.text_bytes + len(schema.text) > TEXT_BYTES_MAX:
        raise TooManySchemas(f"all schemas together have at most {TEXT_BYTES_MAX} bytes")


def find_registered(
    state: RegistryState, subject: str, schema: Schema, *, normalize: bool, deleted: bool
) -> SchemaValue:
    """Return the version of a subject that a schema is.

    Raises:
        SubjectNotFound: nothing is registered there.
        SchemaNotFound: this is not.
        InvalidSchema: it is no schema.
    """
    versions = state.versions(subject, deleted=deleted)
    parsed, kept = understand(state, schema, normalize=normalize)
    for each in reversed(versions):
        if _is(each, kept, parsed):
            return each
    raise SchemaNotFound("Schema not found")


# -- deletions


def plan_subject_deletion(state: RegistryState, subject: str, *, permanent: bool) -> Deleted:
    """Delete all versions of a subject; permanently only after a deletion that is not.

    Raises:
        RegistryRefused: it is not there, in the wrong state, or others refer to it.
    """
    _check_may_delete(state, subject)
    versions = state.versions(subject, deleted=True)
    alive = [each for each in versions if not each.deleted]
    if permanent and alive:
        raise SubjectNotSoftDeleted(
            f"Subject {subject!r} was not deleted first before being permanently deleted"
        )
    if not permanent and not alive:
        raise SubjectSoftDeleted(
            f"Subject {subject!r} was soft deleted. Set permanent=true to delete permanently"
        )
    gone = versions if permanent else alive
    for each in gone:
        _check_unused(state, each)
    entries = _deletions(state, gone, permanent=permanent)
    if permanent:
        if state.compatibility(subject) is not None:
            entries.append(Entry(ConfigKey(subject=subject), None))
        if state.mode(subject) is not None:
            entries.append(Entry(ModeKey(subject=subject), None))
    return Deleted(versions=[each.version for each in gone], entries=entries)


def plan_version_deletion(
    state: RegistryState, subject: str, version: int, *, permanent: bool
) -> Deleted:
    """Delete one version; permanently only after a deletion that is not.

    Raises:
        RegistryRefused: it is not there, in the wrong state, or others refer to it.
    """
    _check_may_delete(state, subject)
    value = state.version(subject, version, deleted=version != LATEST)
    if permanent and not value.deleted:
        raise VersionNotSoftDeleted(
            f"Subject {subject!r} Version {value.version} was not deleted first before being "
            "permanently deleted"
        )
    if not permanent and value.deleted:
        raise VersionSoftDeleted(
            f"Subject {subject!r} Version {value.version} was soft deleted. Set permanent=true to "
            "delete permanently"
        )
    _check_unused(state, value)
    entries = _deletions(state, [value], permanent=permanent)
    return Deleted(versions=[value.version], entries=entries)


def _deletions(
    state: RegistryState, gone: Sequence[SchemaValue], *, permanent: bool
) -> list[Entry]:
    if not permanent:
        return [Entry(_key_of(each), _as_deleted(each)) for each in gone]
    entries = [Entry(_key_of(each), None) for each in gone]
    return [*entries, Entry(IdsKey(), IdsValue(next_id=state.next_id))]


def _key_of(value: SchemaValue) -> SchemaKey:
    return SchemaKey(subject=value.subject, version=value.version)


def _as_deleted(value: SchemaValue) -> SchemaValue:
    return SchemaValue(
        subject=value.subject,
        version=value.version,
        id=value.id,
        schema=value.schema,
        schema_type=value.schema_type,
        references=value.references,
        deleted=True,
    )


def _check_may_delete(state: RegistryState, subject: str) -> None:
    if state.effective_mode(subject) in (Mode.READONLY, Mode.READONLY_OVERRIDE):
        raise OperationNotPermitted(f"Subject {subject!r} is in read-only mode.")


def _check_unused(state: RegistryState, value: SchemaValue) -> None:
    users = state.referenced_by(value.subject, value.version)
    if users:
        first = users[0]
        raise ReferenceExists(
            f"{first.subject!r} version {first.version} refers to {value.subject!r} version "
            f"{value.version}"
        )


# -- settings


def plan_compatibility(subject: str | None, level: Compatibility) -> Sequence[Entry]:
    """Set the level of a subject, or of all.

    Raises:
        InvalidSubject: a subject cannot be called so.
    """
    if subject is not None:
        check_subject(subject)
    return [Entry(ConfigKey(subject=subject), ConfigValue(compatibility_level=level.value))]


def plan_compatibility_removal(state: RegistryState, subject: str | None) -> Sequence[Entry]:
    """Have a subject follow what holds for all; without one, all follow the default.

    Raises:
        CompatibilityNotSet: it does.
    """
    if subject is not None and state.compatibility(subject) is None:
        raise CompatibilityNotSet(
            f"Subject {subject!r} does not have subject-level compatibility configured"
        )
    return [Entry(ConfigKey(subject=subject), None)]


def plan_mode(
    state: RegistryState, subject: str | None, mode: Mode, *, force: bool
) -> Sequence[Entry]:
    """Set the mode of a subject, or of all.

    Raises:
        OperationNotPermitted: there are schemas already, so that ids could be given twice.
    """
    if subject is not None:
        check_subject(subject)
    if mode is Mode.IMPORT and not force:
        is_used = state.all_versions(subject) if subject is not None else state.version_count
        if is_used:
            raise OperationNotPermitted("Cannot import since found existing subjects")
    return [Entry(ModeKey(subject=subject), ModeValue(mode=mode.value))]


def plan_mode_removal(state: RegistryState, subject: str | None) -> Sequence[Entry]:
    """Have a subject follow what holds for all; without one, all follow the default.

    Raises:
        ModeNotSet: it does.
    """
    if subject is not None and state.mode(subject) is None:
        raise ModeNotSet(f"Subject {subject!r} does not have subject-level mode configured")
    return [Entry(ModeKey(subject=subject), None)]
