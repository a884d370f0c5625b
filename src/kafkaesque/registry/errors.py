"""Why the registry does not do what it is asked; the gateway chooses the codes."""

from collections.abc import Sequence
from typing import Final

from kafkaesque.model.errors import RequestRefused


class RegistryRefused(RequestRefused):
    """The registry is as it was before."""


class SubjectNotFound(RegistryRefused):
    """Nothing is registered under this subject, or all of it is deleted."""


class VersionNotFound(RegistryRefused):
    """The subject has no such version, or it is deleted."""


class SchemaNotFound(RegistryRefused):
    """No schema has this id, or the subject does not have this schema."""


class SubjectSoftDeleted(RegistryRefused):
    """The subject is deleted already; only a permanent deletion is left."""


class SubjectNotSoftDeleted(RegistryRefused):
    """A permanent deletion comes after a soft one, and there was none."""


class VersionSoftDeleted(RegistryRefused):
    """The version is deleted already; only a permanent deletion is left."""


class VersionNotSoftDeleted(RegistryRefused):
    """A permanent deletion of a version comes after a soft one, and there was none."""


class CompatibilityNotSet(RegistryRefused):
    """The subject has no compatibility level of its own."""


class ModeNotSet(RegistryRefused):
    """The subject has no mode of its own."""


class IncompatibleSchema(RegistryRefused):
    """The schema does not fit those before it; `reasons` say where."""

    def __init__(self, said: str, reasons: Sequence[str]) -> None:
        super().__init__(said)
        self.reasons: Final = tuple(reasons)


class InvalidSchema(RegistryRefused):
    """The text is no schema of its type, or it refers to what is not there."""


class SchemaTooLarge(InvalidSchema):
    """The text is longer than a schema may be."""


class InvalidVersion(RegistryRefused):
    """It is no version's number."""


class InvalidCompatibility(RegistryRefused):
    """There is no such compatibility level."""


class InvalidMode(RegistryRefused):
    """There is no such mode."""


class OperationNotPermitted(RegistryRefused):
    """The mode of the subject does not allow it."""


class ReferenceExists(RegistryRefused):
    """Other schemas refer to this version."""


class IdMismatch(RegistryRefused):
    """The id that was asked for belongs to another schema."""


class InvalidSubject(RegistryRefused):
    """A subject cannot be called so."""


class TooManySchemas(RegistryRefused):
    """A bound of the registry is reached."""
