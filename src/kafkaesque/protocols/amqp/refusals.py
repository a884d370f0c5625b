"""What nobody implements, and is refused wherever it comes: code and words are RabbitMQ's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import (
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    ChannelFlow,
    Method,
)

_REFUSED: dict[type[Method], tuple[Callable[[Any], bool], str]] = {
    BasicQos: (lambda qos: qos.prefetch_size != 0, "prefetch_size!=0 ({0.prefetch_size})"),
    BasicRecover: (lambda recover: not recover.requeue, "requeue=false"),
    BasicRecoverAsync: (lambda recover: not recover.requeue, "requeue=false"),
    ChannelFlow: (lambda flow: not flow.active, "active=false"),
}


def refusal(method: Method) -> AmqpError | None:
    """Return why a method is not implemented as it stands; None if it is."""
    found = _REFUSED.get(type(method))
    if found is None or not found[0](method):
        return None
    return not_implemented(type(method), found[1].format(method))


def not_implemented(kind: type[Method], what: str) -> AmqpError:
    """Return the error for what is not implemented."""
    return AmqpError(ReplyCode.NOT_IMPLEMENTED, what, kind.class_id, kind.method_id)
