"""What a client of AMQP is told of what the broker refuses."""

from __future__ import annotations

from kafkaesque.model.errors import (
    ConfigError,
    InvalidConfig,
    InvalidRequest,
    MessageTooLarge,
    NotAuthorized,
    OverBound,
    QueueExists,
    QueueInUse,
    RequestRefused,
    UnknownQueue,
)
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import Method


def failed(code: ReplyCode, what: str, method: Method | type[Method] | None = None) -> AmqpError:
    """Return an error of a method."""
    if method is None:
        return AmqpError(code, what)
    return AmqpError(code, what, method.class_id, method.method_id)


def no_queue(name: str, vhost: str, method: Method) -> AmqpError:
    """Return what is said of a queue that does not exist, or is hidden."""
    return failed(ReplyCode.NOT_FOUND, f"no queue '{name}' in vhost '{vhost}'", method)


def error_of(refusal: RequestRefused | ConfigError, method: Method) -> AmqpError:
    """Return what a client is told of a refusal of the broker's."""
    said = str(refusal)
    match refusal:
        case UnknownQueue():
            code = ReplyCode.NOT_FOUND
        case NotAuthorized():
            code = ReplyCode.ACCESS_REFUSED
        case QueueInUse():
            code = ReplyCode.ACCESS_REFUSED
        case QueueExists() | InvalidConfig() | ConfigError() | InvalidRequest():
            code = ReplyCode.PRECONDITION_FAILED
        case MessageTooLarge():
            code = ReplyCode.PRECONDITION_FAILED
        case OverBound():
            code = ReplyCode.RESOURCE_ERROR
        case _:
            # It may or may not be done.
            code = ReplyCode.INTERNAL_ERROR
    return failed(code, said, method)
