"""A client's connection: requests in, answers out in the same order.

Theory of operation. Requests are begun in the order in which they come, without waiting for the
answers of earlier ones; answers leave in the order of the requests, as Kafka's clients expect. A
connection that has too many requests unanswered, or whose client does not read its answers, is not
read from until that has changed: TCP slows the client down and memory stays bounded.
"""

from collections import deque
from typing import TYPE_CHECKING

from kafkaesque.env.network import Connection
from kafkaesque.gateway.kafka.call import Call, Part
from kafkaesque.protocols.kafka.api import ApiKey, read_request_header
from kafkaesque.protocols.kafka.errors import (
    MalformedRequest,
    UnsupportedApi,
    UnsupportedApiVersion,
)
from kafkaesque.protocols.kafka.frames import unsupported_api_versions_frame

if TYPE_CHECKING:
    from kafkaesque.gateway.kafka.gateway import KafkaGateway

#: Requests of one connection that may be unanswered.
UNANSWERED_MAX = 256
#: Bytes of answers that a client may leave unread.
UNSENT_BYTES_MAX = 16 * 1024 * 1024


class KafkaConnection:
    """One client."""

    __slots__ = (
        "_answering",
        "_calls",
        "_gateway",
        "_is_paused",
        "active_ms",
        "connection",
    )

    def __init__(self, gateway: "KafkaGateway") -> None:
        self._gateway = gateway
        self._calls: deque[Call] = deque()
        self._is_paused = False
        self._answering = False
        self.connection: Connection | None = None
        self.active_ms = 0

    @property
    def host(self) -> str:
        """The client's address, as group descriptions show it."""
        if self.connection is None:
            return "/"
        return "/" + self.connection.peer.rsplit(":", 1)[0]

    @property
    def is_open(self) -> bool:
        """Whether an answer would reach anybody."""
        return self.connection is not None

    # -- from the network

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        self.connection = connection
        self.active_ms = self._gateway.clock.now_ms()
        self._gateway.connections[id(self)] = self

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        self.active_ms = self._gateway.clock.now_ms()
        frame = memoryview(data)
        try:
            header = read_request_header(frame, self._gateway.supported)
            call = Call(self, header, frame)
            self._calls.append(call)
            self._gateway.handle(call)
        except MalformedRequest as error:
            self._refuse(f"a request that cannot be read: {error}")
        except UnsupportedApi as error:
            self._on_unsupported(error)
        self._maybe_pause()

    def _on_unsupported(self, error: UnsupportedApi) -> None:
        if isinstance(error, UnsupportedApiVersion) and error.api_key == ApiKey.API_VERSIONS:
            frame = unsupported_api_versions_frame(error.correlation_id, self._gateway.advertised)
            if self.connection is not None:
                self.connection.write((frame,))
        else:
            self._refuse(str(error))

    def _refuse(self, reason: str) -> None:
        """Close: after a request that was not understood nothing else can be."""
        connection = self.connection
        if connection is not None:
            self._gateway.report(f"closing the connection from {connection.peer}: {reason}")
            connection.abort()

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""
        self._maybe_resume()

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self.connection = None
        self._calls.clear()
        self._gateway.connections.pop(id(self), None)

    # -- answers

    def on_answered(self) -> None:
        """Send the answers that are complete, as far as none before them is missing."""
        calls = self._calls
        connection = self.connection
        if connection is None or self._answering or not calls or calls[0].parts is None:
            return
        parts: list[Part] = []
        while calls and calls[0].parts is not None:
            parts.extend(calls.popleft().parts or ())
        if parts:
            self._answering = True
            connection.write(parts)
            self._answering = False
        if self._is_paused:
            self._maybe_resume()

    def _maybe_pause(self) -> None:
        connection = self.connection
        if connection is None or self._is_paused:
            return
        if (
            len(self._calls) >= UNANSWERED_MAX
            or connection.unsent_bytes() > UNSENT_BYTES_MAX
            or self._gateway.is_overloaded()
        ):
            self._is_paused = True
            connection.pause_reading()
            if self._gateway.is_overloaded():
                self._gateway.resume_when_relieved(self)

    def _maybe_resume(self) -> None:
        connection = self.connection
        if connection is None or not self._is_paused:
            return
        if (
            len(self._calls) < UNANSWERED_MAX // 2
            and connection.unsent_bytes() <= UNSENT_BYTES_MAX // 2
            and not self._gateway.is_overloaded()
        ):
            self._is_paused = False
            connection.resume_reading()

    def on_relieved(self) -> None:
        """The broker can take more again."""
        self._maybe_resume()
