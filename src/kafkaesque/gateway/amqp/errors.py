"""What a client of AMQP is told of what the broker refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
    TopicNameTaken,
    UnknownQueue,
)
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import Method
from kafkaesque.routing.exchanges import errors as e


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
    for kinds, code in _CODES:
        if isinstance(refusal, kinds):
            return failed(code, said, method)
    # It may or may not be done.
    return failed(ReplyCode.INTERNAL_ERROR, said, method)


_CODES: Final[Sequence[tuple[tuple[type[Exception], ...], ReplyCode]]] = (
    (
        (
            *(UnknownQueue, e.NoSuchVhost, e.NoSuchExchange, e.NoSuchQueue, e.NoSuchTopic),
            e.NoSuchTransformation,
        ),
        ReplyCode.NOT_FOUND,
    ),
    (
        (NotAuthorized, QueueInUse, e.ExchangeReserved, e.ExchangeInternal),
        ReplyCode.ACCESS_REFUSED,
    ),
    (
        (
            *(QueueExists, InvalidConfig, ConfigError, InvalidRequest, MessageTooLarge),
            TopicNameTaken,
            *(e.ExchangeInUse, e.InequivalentExchange, e.BadArgument, e.BadHeader),
        ),
        ReplyCode.PRECONDITION_FAILED,
    ),
    ((e.UnknownExchangeKind,), ReplyCode.COMMAND_INVALID),
    ((OverBound,), ReplyCode.RESOURCE_ERROR),
)
