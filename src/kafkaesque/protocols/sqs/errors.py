"""Errors of SQS, as clients of either protocol are told them."""

from typing import Final

from kafkaesque.protocols.sqs.service import ERRORS

#: Errors that the description of the service does not list, because every service of Amazon has
#: them: what JSON's `__type` calls them, and their status, by the code of the query protocol.
_COMMON: Final = {
    "AccessDenied": ("com.amazon.coral.service#AccessDeniedException", 403),
    "IncompleteSignature": ("com.amazon.coral.service#IncompleteSignatureException", 403),
    "InternalFailure": ("com.amazon.coral.service#InternalFailure", 500),
    "InvalidAction": ("com.amazon.coral.service#InvalidActionException", 400),
    "InvalidClientTokenId": ("com.amazon.coral.service#UnrecognizedClientException", 403),
    "InvalidParameterCombination": ("com.amazon.coral.service#InvalidParameterCombination", 400),
    "InvalidParameterValue": ("com.amazon.coral.service#InvalidParameterValueException", 400),
    "MalformedQueryString": ("com.amazon.coral.service#MalformedQueryStringException", 400),
    "MissingAction": ("com.amazon.coral.service#MissingActionException", 400),
    "MissingAuthenticationToken": (
        "com.amazon.coral.service#MissingAuthenticationTokenException",
        403,
    ),
    "MissingParameter": ("com.amazon.coral.service#MissingRequiredParameterException", 400),
    "RequestExpired": ("com.amazon.coral.service#RequestExpiredException", 403),
    "RequestEntityTooLarge": ("com.amazon.coral.service#RequestEntityTooLargeException", 413),
    "SerializationException": ("com.amazon.coral.service#SerializationException", 400),
    "ServiceUnavailable": ("com.amazon.coral.service#ServiceUnavailableException", 503),
    "SignatureDoesNotMatch": ("com.amazon.coral.service#InvalidSignatureException", 403),
}


class SqsError(Exception):
    """A request is not done, and why."""

    def __init__(self, name: str, message: str) -> None:
        """`name` is one of the service's errors, or a code that all services have."""
        super().__init__(message)
        self.name: Final = name
        self.message: Final = message

    @property
    def code(self) -> str:
        """What the query protocol calls it."""
        return ERRORS[self.name][0] if self.name in ERRORS else self.name

    @property
    def json_type(self) -> str:
        """What the JSON protocol calls it."""
        return f"com.amazonaws.sqs#{self.name}" if self.name in ERRORS else _COMMON[self.name][0]

    @property
    def query_status(self) -> int:
        """The HTTP status in the query protocol."""
        return (ERRORS if self.name in ERRORS else _COMMON)[self.name][1]

    @property
    def json_status(self) -> int:
        """The HTTP status in the JSON protocol, where all errors of the service have 400."""
        return 400 if self.name in ERRORS else self.query_status

    @property
    def is_senders(self) -> bool:
        """Whether the same request would fail again."""
        return self.query_status < 500


def invalid_value(message: str) -> SqsError:
    """Return that a parameter has a value that it may not have."""
    return SqsError("InvalidParameterValue", message)
