"""What JetStream's parts share: which streams and consumers there are, and the ways out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests.client_command import ClientCommand
from kafkaesque.broker.requests.queue_requests import AnyQueueRequest
from kafkaesque.chassis.known import when_known
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.nats.jetstream.consumers import Consumers
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.streams import Streams
from kafkaesque.model.errors import KafkaesqueError, RequestRefused

#: What the controller or a queue is asked for may take so long.
TIMEOUT_MS: Final = 10_000
_TYPE: Final = "io.nats.jetstream.api.v1."

ResultT = TypeVar("ResultT")


class Outgoing(Protocol):
    """How messages leave."""

    def __call__(
        self, to: str, *, subject: str = "", reply: str = "", headers: bytes = b"", payload: bytes
    ) -> bool:
        """Send to those who are subscribed to `to`; say whether there is anybody.

        They are shown `subject`, if that is another one.
        """


class Requester(Protocol):
    """A client that asks for something."""

    @property
    def rights(self) -> Rights | None:
        """What it may do; None: everything."""

    @property
    def is_open(self) -> bool:
        """Whether it is still connected."""


class NobodyListens(KafkaesqueError):
    """A request is for something that is not there, so that nobody would take it."""


class Entitled:
    """A client that waits for something, as long as a rule allows it what it needs."""

    __slots__ = ("_need", "_requester")

    def __init__(
        self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> None:
        self._requester: Final = requester
        self._need: Final = (operation, resource_type, name)

    @property
    def rights(self) -> Rights | None:
        """See `Requester`."""
        return self._requester.rights

    @property
    def has_rule(self) -> bool:
        """Whether it may have what it waits for, by the rules of now."""
        rights = self.rights
        return rights is None or rights.could(*self._need)

    @property
    def is_open(self) -> bool:
        """Whether it is still connected, and may have what it waits for."""
        return self._requester.is_open and self.has_rule


class Request:
    """One request to the API."""

    __slots__ = ("_office", "is_answered", "payload", "reply", "requester", "words")

    def __init__(
        self, office: Office, requester: Requester, words: list[str], reply: str, payload: bytes
    ) -> None:
        self._office: Final = office
        self.requester: Final = requester
        #: The tokens of the subject behind what names the operation.
        self.words: Final = words
        self.reply: Final = reply
        self.payload: Final = payload
        self.is_answered = False

    def answer(self, kind: str, **body: object) -> None:
        """Answer; nothing is sent to who wants no answer, and nothing twice."""
        if self.reply and not self.is_answered:
            self.is_answered = True
            raw = msgspec.json.encode({"type": f"{_TYPE}{kind}_response", **body})
            self._office.send(self.reply, payload=raw)

    def fail(self, kind: str, error: ApiError) -> None:
        """Answer with an error."""
        self.answer(kind, error=error.body)

    def check(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Check that the client may do something.

        Raises:
            ApiError: no rule allows it.
        """
        rights = self.requester.rights
        if rights is not None and not rights.may(operation, resource_type, name):
            what = f"{operation.name.lower()} of {resource_type.name.lower()} {name} is not allowed"
            raise ApiError(ApiCode.NOT_ALLOWED, what)

    def tell_deleted(self, stream: str, detail: Mapping[str, str]) -> None:
        """Tell the audit log that the client has removed messages of a stream."""
        rights = self.requester.rights
        self._office.doors.access.audit.change_of_data(
            None if rights is None else rights.client,
            DataChange.DELETE_RECORDS,
            ResourceType.TOPIC,
            stream,
            detail,
        )


class Office:
    """See the module."""

    __slots__ = ("consumers", "doors", "send", "streams")

    def __init__(self, doors: Doors, send: Outgoing) -> None:
        self.doors: Final = doors
        self.send: Final = send
        self.streams: Final = Streams(doors)
        self.consumers: Final = Consumers(doors)

    def submit(
        self,
        command: ClientCommand,
        rights: Rights | None,
        on_done: Callable[[RequestRefused | None], None],
    ) -> None:
        """Have the controller carry out a command, on behalf of a client."""
        signed = command if rights is None else rights.sign(command)
        self.doors.cluster.submit(
            signed,  # type: ignore[arg-type]
            TIMEOUT_MS,
            lambda outcome: on_done(outcome if isinstance(outcome, RequestRefused) else None),
        )

    def ask(
        self,
        request: AnyQueueRequest,
        result_type: type[ResultT],
        on_done: Callable[[ResultT | RequestRefused], None],
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """Ask the leader of a consumer's queue."""
        # Clients are told which attempt a delivery is, and the time that they have goes by it.
        self.doors.queues.ask(request, result_type, timeout_ms, on_done, may_stay=False)

    def when(self, is_so: Callable[[], bool], then: Callable[[bool], None]) -> None:
        """Call once this broker has heard of something that is done, or after a while."""
        when_known(self.doors.clock, is_so, then, timeout_ms=TIMEOUT_MS)


def refused(refusal: RequestRefused, code: ApiCode) -> ApiError:
    """Return what a client is told of a refusal."""
    return ApiError(code, str(refusal))
