"""One request of a client, from its frame to its answer."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from struct import error as struct_error
from typing import Any, Protocol

from kafkaesque.broker.metadata.client_quotas import ANONYMOUS_USER
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.chassis.link import ClientConnection, Shared
from kafkaesque.chassis.login import OnStep
from kafkaesque.chassis.rights import CommandT
from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.gateway.kafka.throttling import Meter
from kafkaesque.protocols.kafka.api import RequestHeader
from kafkaesque.protocols.kafka.frames import read_request, write_response

Part = Buffer | FileRange

_NO_FRAME = memoryview(b"")


class Sasl(Protocol):
    """A log-in under way."""

    def step(self, data: bytes, on_step: OnStep) -> None:
        """Take what the client has sent."""


class Belongings(Protocol):
    """What a client has only as long as it is connected."""

    def close(self) -> None:
        """The connection is gone."""


class Caller(ClientConnection):
    """A client's connection, as its calls and their handlers see it."""

    __slots__ = ("consumers", "has_sought_brokers", "mechanism", "now_ns", "sasl", "sessions")

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.now_ns = shared.clock.now_ns
        #: Whether it was told of the brokers, and of no controller, while this one was cut off.
        self.has_sought_brokers = False
        #: The log-in that is under way, and the mechanism of the newest one.
        self.sasl: Sasl | None = None
        self.mechanism = ""
        #: Of queues, if it has attached any.
        self.consumers: Belongings | None = None
        #: Of share groups, if it has begun any.
        self.sessions: Belongings | None = None

    @property
    def host(self) -> str:
        """The client's address, as group descriptions show it."""
        return "/" if self.identity is None else "/" + self.identity.host

    @property
    def user(self) -> str:
        """Who the client is, for quotas."""
        return ANONYMOUS_USER if self.identity is None else self.identity.user

    def refuse_unanswered(self) -> None:
        """Close: a request failed whose client reads no answers and can be told in no other way."""
        self.refuse("a request failed to which no answer is wanted")

    def on_unanswerable(self, key: int, version: int, error: Exception) -> None:
        """Close: there is an answer that the protocol has no form for."""
        self.refuse(f"no form for the answer to API {key} version {version}: {error!r}")

    @abstractmethod
    def on_answered(self, call: "Call") -> None:
        """Send the answers that are complete, as far as none before them is missing."""


class _Prepared:
    """What a guard has left of a request, and what it does to the answer."""

    __slots__ = ("amendments", "message")

    def __init__(self, message: Any) -> None:
        self.message = message
        self.amendments: list[Callable[[Any], None]] = []


class Call:
    """A request that is to be answered, or not, exactly once."""

    __slots__ = (
        "begun_ns",
        "connection",
        "frame",
        "header",
        "held_bytes",
        "is_in_vain",
        "meter",
        "parts",
        "prepared",
    )

    def __init__(self, connection: Caller, header: RequestHeader, frame: memoryview) -> None:
        self.connection = connection
        #: When the whole request was there.
        self.begun_ns = connection.now_ns()
        self.header = header
        self.frame = frame
        #: What it is counted with while its answer has not been written: its frame's bytes, or
        #: those of its answer if that waits for earlier ones.
        self.held_bytes = len(frame)
        #: The answer's frame, once it is there; empty where none is to be sent.
        self.parts: Sequence[Part] | None = None
        #: What it uses of its client's quotas, if that has any.
        self.meter: Meter | None = None
        #: Whether its client is to ask another broker: this one is cut off from them.
        self.is_in_vain = False
        #: Where a guard has looked at it.
        self.prepared: _Prepared | None = None

    @property
    def version(self) -> int:
        """The request's version of its API."""
        return self.header.api_version

    def read(self) -> Any:
        """Return the request's message; what a guard has left of it, if one has looked at it.

        Raises:
            MalformedRequest: the body is not what the header says.
        """
        if self.prepared is not None:
            return self.prepared.message
        return read_request(self.header, self.frame)

    def on_behalf(self, command: CommandT) -> CommandT:
        """Return a command for the controller that says for whom it is, where that is known."""
        rights = self.connection.rights
        return command if rights is None else rights.sign(command)

    @property
    def client(self) -> OnBehalfOf | None:
        """For whom the controller is asked, where that is known."""
        rights = self.connection.rights
        return None if rights is None else rights.client

    def prepare(self, message: Any, amend: Callable[[Any], None] | None = None) -> None:
        """Have the handler read this message, and change its answer, after earlier changes."""
        if self.prepared is None:
            self.prepared = _Prepared(message)
        if amend is not None:
            self.prepared.amendments.append(amend)

    def forget_frame(self) -> None:
        """The handler has begun and keeps what it needs: the frame need not wait for the answer."""
        self.frame = _NO_FRAME

    def answer(self, message: Any) -> None:
        """Answer with a message of the same API and version."""
        header = self.header
        if self.prepared is not None:
            for amend in self.prepared.amendments:
                amend(message)
        if self.meter is not None:
            throttle_ms = self.meter.on_answer()
            if throttle_ms and hasattr(message, "throttle_time_ms"):
                message.throttle_time_ms = throttle_ms
        try:
            frame = write_response(
                header.api_key, header.api_version, header.correlation_id, message
            )
        except (struct_error, ValueError) as error:
            # Our mistake, and somebody else may be calling: it costs this client and nobody else.
            self.connection.on_unanswerable(header.api_key, header.api_version, error)
            return
        self.parts = (frame,)
        self.connection.on_answered(self)

    def answer_parts(self, parts: Sequence[Part]) -> None:
        """Answer with a frame that is ready."""
        self.parts = parts if self.meter is None else self.meter.write_into(parts)
        self.connection.on_answered(self)

    def answer_nothing(self) -> None:
        """The client expects no answer."""
        self.answer_parts(())
