"""What clients are told of a refusal: the HTTP status, and Confluent's code."""

from typing import Final, NamedTuple

import msgspec

from kafkaesque.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    NotAuthorized,
    OverBound,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.registry.errors import (
    CompatibilityNotSet,
    IdMismatch,
    IncompatibleSchema,
    InvalidCompatibility,
    InvalidMode,
    InvalidSchema,
    InvalidSubject,
    InvalidVersion,
    ModeNotSet,
    OperationNotPermitted,
    ReferenceExists,
    SchemaNotFound,
    SchemaTooLarge,
    SubjectNotFound,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    TooManySchemas,
    VersionNotFound,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
)


class Code(NamedTuple):
    """What an error is told as."""

    status: int
    code: int


class HttpRefused(RequestRefused):
    """The request itself is wrong: its status is told."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status: Final = status


_CODES: Final[tuple[tuple[type[RequestRefused], Code], ...]] = (
    (SubjectNotFound, Code(404, 40401)),
    (VersionNotFound, Code(404, 40402)),
    (SchemaNotFound, Code(404, 40403)),
    (SubjectSoftDeleted, Code(404, 40404)),
    (SubjectNotSoftDeleted, Code(404, 40405)),
    (VersionSoftDeleted, Code(404, 40406)),
    (VersionNotSoftDeleted, Code(404, 40407)),
    (CompatibilityNotSet, Code(404, 40408)),
    (ModeNotSet, Code(404, 40409)),
    (IncompatibleSchema, Code(409, 409)),
    (SchemaTooLarge, Code(422, 42209)),
    (InvalidSchema, Code(422, 42201)),
    (InvalidVersion, Code(422, 42202)),
    (InvalidCompatibility, Code(422, 42203)),
    (InvalidMode, Code(422, 42204)),
    (OperationNotPermitted, Code(422, 42205)),
    (ReferenceExists, Code(422, 42206)),
    (IdMismatch, Code(422, 42207)),
    (InvalidSubject, Code(422, 42208)),
    (TooManySchemas, Code(500, 50001)),
    (NotAuthorized, Code(403, 40301)),
    (InvalidRequest, Code(400, 400)),
    (OverBound, Code(429, 42901)),
    (LeaderNotAvailable, Code(500, 50004)),
    (RequestTimedOut, Code(500, 50002)),
)


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a refusal."""

    error_code: int
    message: str


def code_of(refusal: RequestRefused) -> Code:
    """Return what a refusal is told as; what has no code of its own is an error of the store."""
    if isinstance(refusal, HttpRefused):
        return Code(refusal.status, refusal.status)
    for kind, code in _CODES:
        if isinstance(refusal, kind):
            return code
    return Code(500, 50001)


def body_of(refusal: RequestRefused) -> ErrorBody:
    """Return the body that a client is sent."""
    return ErrorBody(error_code=code_of(refusal).code, message=str(refusal))
