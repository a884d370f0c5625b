"""A client's connection: requests in, answers out in the same order.

Theory of operation. Requests are begun in the order in which they come, without waiting for the
answers of earlier ones; answers leave in the order of the requests, as Kafka's clients expect. A
connection that has too many requests unanswered, or whose client does not read its answers, is not
read from until that has changed: TCP slows the client down and memory stays bounded. Nor is one
read from for the rest of a turn in which it has kept the loop for long, or, by a timer, while its
client is throttled (KIP-219).
"""

from collections import deque
from typing import TYPE_CHECKING

from kafkaesque.broker.metadata.client_quotas import ANONYMOUS_USER
from kafkaesque.env.clock import Timer
from kafkaesque.env.disk import FileRange
from kafkaesque.env.network import Connection
from kafkaesque.gateway.kafka.call import Call, Part
from kafkaesque.gateway.kafka.turns import TURN_MS_MAX
from kafkaesque.protocols.kafka.api import ApiKey, RequestHeader, read_request_header
from kafkaesque.protocols.kafka.errors import (
    MalformedRequest,
    UnsupportedApi,
    UnsupportedApiVersion,
)
from kafkaesque.protocols.kafka.frames import unsupported_api_versions_frame

if TYPE_CHECKING:
    from kafkaesque.gateway.kafka.gateway import KafkaGateway

#: What a controller does, whichever broker is asked for it.
BY_CONTROLLER = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    )
)
#: Requests of one connection that may be unanswered.
UNANSWERED_MAX = 256
#: Bytes of requests that are unanswered, and of answers that wait for earlier ones, of one
#: connection; the last request that is begun may go beyond.
HELD_BYTES_MAX = 16 * 1024 * 1024
#: Bytes of answers that a client may leave unread, beside what the kernel takes of them.
UNSENT_BYTES_MAX = 1024 * 1024


class KafkaConnection:
    """One client."""

    __slots__ = (
        "_admitted_host",
        "_answering",
        "_calls",
        "_gateway",
        "_held_bytes",
        "_is_held",
        "_is_paused",
        "_muted_until_ms",
        "_turn_begun_ms",
        "_unmute",
        "active_ms",
        "connection",
        "has_sought_brokers",
        "now_ns",
        "number",
        "unsent_bytes_seen",
    )

    def __init__(self, gateway: "KafkaGateway") -> None:
        self._gateway = gateway
        self.now_ns = gateway.clock.now_ns
        self._calls: deque[Call] = deque()
        self._is_paused = False
        #: Whether nothing more may be begun, whatever the bounds say: until `release`.
        self._is_held = False
        #: While its client is throttled: until when, and what ends it.
        self._muted_until_ms = 0
        self._unmute: Timer | None = None
        #: Of all unanswered calls together.
        self._held_bytes = 0
        self._answering = False
        self.connection: Connection | None = None
        #: In the order of acceptance: what comes over a lower one may have been overtaken.
        self.number = gateway.next_connection_number()
        #: The host that this connection is counted for, unless it was refused.
        self._admitted_host: str | None = None
        #: When the first of the requests was begun that have come with one another.
        self._turn_begun_ms = 0
        #: When the last request was dealt with, or the client was seen to read.
        self.active_ms = 0
        #: How much of its answers the client had not taken when that was last looked at.
        self.unsent_bytes_seen = 0
        #: Whether it was told of the brokers, and of no controller, while this one was cut off.
        self.has_sought_brokers = False

    @property
    def host(self) -> str:
        """The client's address, as group descriptions show it."""
        if self.connection is None:
            return "/"
        return "/" + self.connection.peer.rsplit(":", 1)[0]

    @property
    def user(self) -> str:
        """Who the client is, for quotas."""
        return ANONYMOUS_USER

    @property
    def is_muted(self) -> bool:
        """Whether its client is throttled at the moment."""
        return self._unmute is not None

    @property
    def is_open(self) -> bool:
        """Whether an answer would reach anybody."""
        return self.connection is not None

    # -- from the network

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        self.connection = connection
        if self._gateway.admission.refuses_late(connection, self.host):
            self.connection = None
            return
        if not self._gateway.admission.admit(self.host):
            self.connection = None
            connection.abort()
            return
        self._admitted_host = self.host
        self.active_ms = self._turn_begun_ms = self._gateway.clock.now_ms()
        self._gateway.connections[id(self)] = self

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        gateway = self._gateway
        begun_ms = gateway.clock.now_ms()
        if begun_ms - self.active_ms > 1:
            # It did not come with the last one: a turn of its own.
            self._turn_begun_ms = begun_ms
        frame = memoryview(data)
        try:
            header = read_request_header(frame, gateway.supported)
            call = Call(self, header, frame)
            self._calls.append(call)
            self._held_bytes += call.held_bytes
            if gateway.throttling.is_active:
                gateway.throttling.handle(gateway, call)
            else:
                gateway.handle(call)
            call.forget_frame()
        except MalformedRequest as error:
            self._refuse(f"a request that cannot be read: {error}")
        except UnsupportedApi as error:
            self._on_unsupported(error)
        self.active_ms = gateway.clock.now_ms()
        if self.active_ms - self._turn_begun_ms >= TURN_MS_MAX and not self._is_held:
            # There may be more to come of the kind: others come first.
            self.hold()
            gateway.release_in_turn(self)
        else:
            self._maybe_pause()

    def _on_unsupported(self, error: UnsupportedApi) -> None:
        if isinstance(error, UnsupportedApiVersion) and error.api_key == ApiKey.API_VERSIONS:
            # In its turn, as any other answer.
            header = RequestHeader(error.api_key, 0, error.correlation_id, None, 0)
            call = Call(self, header, memoryview(b""))
            self._calls.append(call)
            answer = unsupported_api_versions_frame(error.correlation_id, self._gateway.advertised)
            call.answer_parts((answer,))
        else:
            self._refuse(str(error))

    def refuse_unanswered(self) -> None:
        """Close: a request failed whose client reads no answers and can be told in no other way."""
        self._refuse("a request failed to which no answer is wanted")

    def on_unanswerable(self, call: Call, error: Exception) -> None:
        """Close: there is an answer that the protocol has no form for."""
        key, version = call.header.api_key, call.header.api_version
        self._refuse(f"no form for the answer to API {key} version {version}: {error!r}")

    def _is_in_vain(self, call: Call) -> bool:
        return call.is_in_vain or (
            call.header.api_key in BY_CONTROLLER and self._gateway.is_cut_off()
        )

    def _send_elsewhere(self, connection: Connection) -> None:
        """Close: other brokers may know, or do, what this one cannot that is cut off from them.

        Clients that are connected with it would ask it for as long as it answers.
        """
        self._gateway.refusals.say(
            f"closing the connection from {connection.peer}: this broker is cut off from the others"
        )
        connection.close()

    def _refuse(self, reason: str) -> None:
        """Close: after a request that was not understood nothing else can be."""
        connection = self.connection
        if connection is not None:
            self._gateway.refusals.say(f"closing the connection from {connection.peer}: {reason}")
            connection.abort()

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""
        self._maybe_resume()

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self.connection = None
        if self._unmute is not None:
            self._unmute.cancel()
        self._calls.clear()
        self._held_bytes = 0
        if self._admitted_host is not None:
            self._gateway.admission.release(self._admitted_host)
            self._gateway.connections.pop(id(self), None)

    # -- answers

    def on_answered(self, call: Call) -> None:
        """Send the answers that are complete, as far as none before them is missing."""
        calls = self._calls
        connection = self.connection
        if connection is None or not calls:
            return
        if self._answering or calls[0].parts is None:
            self._count_waiting(call)
            return
        parts: list[Part] = []
        is_in_vain = False
        activity, now_ns = self._gateway.doors.activity, self.now_ns()
        while calls and calls[0].parts is not None:
            sent = calls.popleft()
            self._held_bytes -= sent.held_bytes
            parts.extend(sent.parts or ())
            is_in_vain = is_in_vain or self._is_in_vain(sent)
            activity.note_request(sent.header.api_key, now_ns - sent.begun_ns)
        if parts:
            self._answering = True
            connection.write(parts)
            self._answering = False
        if is_in_vain:
            self._send_elsewhere(connection)
        elif self._is_paused:
            self._maybe_resume()

    def _count_waiting(self, call: Call) -> None:
        """Count an answer that waits for earlier ones, in place of its request."""
        size = sum(len(part) for part in call.parts or () if not isinstance(part, FileRange))
        self._held_bytes += size - call.held_bytes
        call.held_bytes = size
        self._maybe_pause()
        self._maybe_resume()

    def hold(self) -> None:
        """Begin no more requests until `release`."""
        self._is_held = True
        if self.connection is not None and not self._is_paused:
            self._is_paused = True
            self.connection.pause_reading()

    def release(self) -> None:
        """Go on, if nothing else stands against it."""
        self._is_held = False
        self._turn_begun_ms = self._gateway.clock.now_ms()
        self._maybe_resume()

    def mute(self, delay_ms: int) -> None:
        """Begin no more requests for so long from now, or for longer if that was said before."""
        clock = self._gateway.clock
        until_ms = clock.now_ms() + delay_ms
        if self.connection is None or until_ms <= self._muted_until_ms:
            return
        self._muted_until_ms = until_ms
        if self._unmute is None:
            self._unmute = clock.call_later(delay_ms, self._on_unmute)
        if not self._is_paused:
            self._is_paused = True
            self.connection.pause_reading()

    def _on_unmute(self) -> None:
        clock = self._gateway.clock
        self.active_ms = clock.now_ms()
        left_ms = self._muted_until_ms - self.active_ms
        if left_ms > 0:
            # It was told to wait for longer meanwhile.
            self._unmute = clock.call_later(left_ms, self._on_unmute)
            return
        self._unmute = None
        self._maybe_resume()

    def _maybe_pause(self) -> None:
        connection = self.connection
        if connection is None or self._is_paused:
            return
        if (
            len(self._calls) >= UNANSWERED_MAX
            or self._held_bytes > HELD_BYTES_MAX
            or connection.unsent_bytes() > UNSENT_BYTES_MAX
            or self._gateway.is_overloaded()
        ):
            self._is_paused = True
            connection.pause_reading()
            if self._gateway.is_overloaded():
                self._gateway.resume_when_relieved(self)

    def _maybe_resume(self) -> None:
        connection = self.connection
        if connection is None or not self._is_paused or self._is_held or self._unmute is not None:
            return
        if self._gateway.is_overloaded():
            self._gateway.resume_when_relieved(self)
            return
        if (
            len(self._calls) < UNANSWERED_MAX // 2
            and self._held_bytes <= HELD_BYTES_MAX // 2
            and connection.unsent_bytes() <= UNSENT_BYTES_MAX // 2
        ):
            self._is_paused = False
            connection.resume_reading()

    def on_relieved(self) -> None:
        """The broker can take more again."""
        self._maybe_resume()
