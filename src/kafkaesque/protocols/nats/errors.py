"""What a peer can do wrong, in nats-server's words: clients know some of them by heart."""

from __future__ import annotations

from enum import Enum

from kafkaesque.model.errors import KafkaesqueError


class ErrorText(Enum):
    """What stands behind `-ERR`."""

    UNKNOWN_OPERATION = "Unknown Protocol Operation"
    LINE_TOO_LONG = "maximum control line exceeded"
    PAYLOAD_TOO_LARGE = "Maximum Payload Violation"
    INVALID_SUBJECT = "Invalid Subject"
    INVALID_PUBLISH_SUBJECT = "Invalid Publish Subject"
    NO_RESPONDERS_NEED_HEADERS = "no responders requires headers support"
    AUTHORIZATION_VIOLATION = "Authorization Violation"
    AUTHENTICATION_TIMEOUT = "Authentication Timeout"
    AUTHENTICATION_EXPIRED = "User Authentication Expired"
    STALE_CONNECTION = "Stale Connection"
    SLOW_CONSUMER = "Slow Consumer"
    MAXIMUM_CONNECTIONS = "maximum connections exceeded"
    MAXIMUM_SUBSCRIPTIONS = "maximum subscriptions exceeded"


class NatsError(KafkaesqueError):
    """A peer's mistake; without a text the connection just ends."""

    def __init__(self, text: ErrorText | None, what: str) -> None:
        super().__init__(what)
        self.text = text


def silent(what: str) -> NatsError:
    """Return the error for arguments that mean nothing, of which nats-server does not tell."""
    return NatsError(None, what)


def permissions_violation(operation: str, subject: str, queue: str = "") -> str:
    """Return what is said of a subject that is not allowed, for `write_error`; the client stays.

    `operation` is "Publish" or "Subscription".
    """
    using = f' using queue "{queue}"' if queue else ""
    return f'Permissions Violation for {operation} to "{subject}"{using}'
