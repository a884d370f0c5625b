"""One request of a client, and where its answer goes."""

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.chassis.rights import Rights
from kafkaesque.model.errors import (
    ConfigError,
    InvalidConfig,
    InvalidRequest,
    InvariantBroken,
    MessageTooLarge,
    NotAuthorized,
    OverBound,
    QueueExists,
    RequestRefused,
    UnknownQueue,
)
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.names import write_url
from kafkaesque.protocols.sqs.shapes import Operation, Shape

RequestT = TypeVar("RequestT", bound=Shape)
CommandT = TypeVar("CommandT", bound=ClientCommand)

NO_QUEUE: Final = "The specified queue does not exist."


class Answers(Protocol):
    """Where an answer is sent."""

    @property
    def is_wanted(self) -> bool:
        """Whether an answer would reach anybody."""

    def answer(self, outcome: Shape | SqsError | None) -> None:
        """Send a result or an error; called once."""

    def fail(self, error: Exception) -> None:
        """Send that it could not be done, for a reason that is ours."""


class Call(Generic[RequestT]):
    """See the module."""

    __slots__ = ("_answers", "base_url", "operation", "request", "rights", "user")

    def __init__(
        self,
        *,
        operation: Operation,
        request: RequestT,
        rights: Rights | None,
        user: str,
        base_url: str,
        answers: Answers,
    ) -> None:
        self.operation: Final = operation
        self.request: Final = request
        #: What the client may do; None: everything.
        self.rights: Final = rights
        #: Empty where it has not said who it is.
        self.user: Final = user
        #: Where the client has sent its request: URLs of queues begin so.
        self.base_url: Final = base_url
        self._answers = answers

    @property
    def is_wanted(self) -> bool:
        """Whether an answer would reach anybody."""
        return self._answers.is_wanted

    def done(self, result: Shape | None = None) -> None:
        """Answer that it is done."""
        self._answers.answer(result)

    def fail(self, error: SqsError | RequestRefused | ConfigError) -> None:
        """Answer that it is not done, or that nobody knows."""
        self._answers.answer(error if isinstance(error, SqsError) else error_of(error))

    def try_to(self, act: Callable[[], None]) -> None:
        """Go on in a later turn: what is raised then is answered, too."""
        try:
            act()
        except (SqsError, RequestRefused, ConfigError) as error:
            self.fail(error)
        except InvariantBroken:
            raise
        except Exception as error:
            # A defect of ours, which a client has found: it costs its request, not the broker.
            self._answers.fail(error)

    def url_of(self, name: str) -> str:
        """Return a queue's URL, as this client reaches it."""
        return write_url(self.base_url, name)

    @property
    def client(self) -> OnBehalfOf | None:
        """Who it is, where that is known."""
        return None if self.rights is None else self.rights.client

    def sign(self, command: CommandT) -> CommandT:
        """Return a command for the controller that says for whom it is."""
        return command if self.rights is None else self.rights.sign(command)


def error_of(refusal: RequestRefused | ConfigError) -> SqsError:
    """Return what a client is told of a refusal of the broker's."""
    said = str(refusal)
    match refusal:
        case UnknownQueue():
            return SqsError("QueueDoesNotExist", NO_QUEUE)
        case NotAuthorized():
            return SqsError("AccessDenied", said)
        case QueueExists():
            return SqsError("QueueNameExists", said)
        case InvalidConfig() | ConfigError():
            return SqsError("InvalidAttributeValue", said)
        case InvalidRequest() | MessageTooLarge():
            return SqsError("InvalidParameterValue", said)
        case OverBound():
            return SqsError("RequestThrottled", said)
        case _:
            return SqsError("ServiceUnavailable", f"It may or may not be done: {said}")


def queue_name(name: str) -> QueueName:
    """Return what the broker calls a queue."""
    return QueueName(DEFAULT_VHOST, name)


#: Goes on with a queue that was found.
OnQueue = Callable[[QueueState], None]
