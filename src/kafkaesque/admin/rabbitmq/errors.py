"""What is answered where something is refused: RabbitMQ's statuses and words."""

from typing import Final

import msgspec

from kafkaesque.model.errors import (
    ConfigError,
    LeaderNotAvailable,
    NotAuthorized,
    NotLeader,
    OverBound,
    QueueExists,
    RequestRefused,
    RequestTimedOut,
    UnknownQueue,
    UnknownTopicOrPartition,
)
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.routing.exchanges.errors import (
    ExchangeInternal,
    ExchangeReserved,
    NoSuchExchange,
    NoSuchQueue,
    NoSuchTransformation,
    NoSuchVhost,
)


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Why something was not done."""

    error: str
    reason: str


class ApiRefused(RequestRefused):
    """Something is refused with a status of HTTP."""

    def __init__(self, status: int, reason: str, word: str = "") -> None:
        """`word` is the kind of error, where RabbitMQ has another one than the status'."""
        super().__init__(reason)
        self.status: Final = status
        self.word: Final = word


#: What RabbitMQ answers where somebody may not do something, or nobody may: `rabbitmqadmin` says
#: that access is refused, and ends with a traceback at 403.
REFUSED: Final = 401

_WORDS: Final = {
    400: "bad_request",
    401: "not_authorised",
    404: "Object Not Found",
    405: "method_not_allowed",
    409: "conflict",
    429: "too_many_requests",
    501: "not_implemented",
}

_STATUSES: Final[tuple[tuple[tuple[type[Exception], ...], int], ...]] = (
    ((NotAuthorized, ExchangeReserved, ExchangeInternal), REFUSED),
    ((UnknownQueue, NoSuchVhost, NoSuchExchange, NoSuchQueue, UnknownTopicOrPartition), 404),
    ((NoSuchTransformation,), 404),
    # As RabbitMQ answers another declaration than the first.
    ((QueueExists,), 400),
    ((LeaderNotAvailable, NotLeader, OverBound, RequestTimedOut), 503),
)


def status_of(refusal: Exception) -> int:
    """Return the status for a refusal; 400 where the client can only ask for something else."""
    if isinstance(refusal, ApiRefused):
        return refusal.status
    if isinstance(refusal, AmqpError):
        return 404 if refusal.code is ReplyCode.NOT_FOUND else 400
    return next((status for kinds, status in _STATUSES if isinstance(refusal, kinds)), 400)


def body_of(status: int, reason: str, word: str = "") -> bytes:
    """Return the body of an answer that says why something was not done."""
    word = word or _WORDS.get(status, "unavailable" if status == 503 else "error")
    return msgspec.json.encode(ErrorBody(error=word, reason=reason))


#: What handlers may raise.
REFUSALS: Final = (RequestRefused, ConfigError, AmqpError)


def not_found(what: str) -> ApiRefused:
    """Return the refusal of something that does not exist, or that the client may not see."""
    return ApiRefused(404, what)
