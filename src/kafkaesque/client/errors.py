"""What a caller of the client is told, and which error codes of brokers say it."""

from collections.abc import Sequence
from typing import Final

from kafkaesque.protocols.kafka.error_codes import ErrorCode


class KafkaesqueError(Exception):
    """The base of all errors of the client, for whoever wants to catch any of them."""


class InvalidArgument(KafkaesqueError, ValueError):
    """An argument makes no sense; nothing was sent."""


class Closed(KafkaesqueError):
    """The client, worker or consumer was closed."""


class BrokerUnavailable(KafkaesqueError, ConnectionError):
    """No broker could be reached in time; nothing was done."""


class NotABroker(KafkaesqueError):
    """What answers at an address does not speak this protocol, or is too old for it."""


class LogInRefused(KafkaesqueError):
    """The broker does not accept the user, the password, the token or the mechanism."""


class BrokerNotTrusted(KafkaesqueError):
    """The broker has not shown that it is one of the cluster's."""


class NotAuthorized(KafkaesqueError):
    """No rule allows the user to do this."""


class Timeout(KafkaesqueError, TimeoutError):
    """It was not done in time; nothing was done."""


class Empty(Timeout):
    """No message came in time."""


class OutcomeUnknown(KafkaesqueError):
    """The request was sent and no answer came: it may be done, or may still be done."""


class QueueNotFound(KafkaesqueError):
    """There is no queue of this name."""


class QueueExists(KafkaesqueError):
    """There is a queue of this name with other options."""


class QueueInUse(KafkaesqueError):
    """The queue gives messages only to a consumer that is attached, or has too many."""


class QueueFull(KafkaesqueError):
    """The queue has no room for some of the messages."""

    def __init__(self, text: str, refused: Sequence[int] = ()) -> None:
        super().__init__(text)
        #: Positions of the refused messages among those that were put, from 0 on.
        self.refused = tuple(refused)


class TopicNotFound(KafkaesqueError):
    """There is no topic of this name, or no such partition."""


class Fenced(KafkaesqueError):
    """Another producer has the transactional id now; this one can do nothing any more."""


class Aborted(KafkaesqueError):
    """The transaction was aborted: none of it was done."""


class LockLost(KafkaesqueError):
    """The lock of a message had ended: it was settled before, or somebody else may have it now."""


class MessageTooLarge(KafkaesqueError):
    """A message is larger than the broker accepts."""


class RequestRefused(KafkaesqueError):
    """The broker refuses the request; the text says why. Nothing was done."""

    def __init__(self, text: str, code: int = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(text)
        #: Kafka's code of the error.
        self.code = code


#: Nothing was done, and it may succeed when it is asked again.
PASSING: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
#: Nobody knows whether it was done.
UNCERTAIN: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR})

_KINDS: Final[dict[int, type[KafkaesqueError]]] = {
    ErrorCode.UNKNOWN_QUEUE: QueueNotFound,
    ErrorCode.QUEUE_ALREADY_EXISTS: QueueExists,
    ErrorCode.QUEUE_IN_USE: QueueInUse,
    ErrorCode.QUEUE_AUTHORIZATION_FAILED: NotAuthorized,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: NotAuthorized,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: NotAuthorized,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: NotAuthorized,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NotAuthorized,
    ErrorCode.MESSAGE_TOO_LARGE: MessageTooLarge,
}


def name_of(code: int) -> str:
    """Return Kafka's name of an error code, or the number if it has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def error_of(code: int, said: str | None, what: str) -> KafkaesqueError:
    """Return the error for a broker's refusal; `what` is what was being done."""
    text = f"{what}: {said or name_of(code)}"
    kind = _KINDS.get(code)
    return RequestRefused(text, code) if kind is None else kind(text)
