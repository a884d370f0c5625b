"""A client's connection: requests in, answers out in the same order.

Theory of operation. Requests are begun in the order in which they come, without waiting for the
answers of earlier ones; answers leave in the order of the requests, as Kafka's clients expect. When
a connection is not read from, and when again, is what `chassis/link.py` says: here, that too many
requests are unanswered, or too many bytes of them and of answers that wait for earlier ones.
"""

from collections import deque
from collections.abc import Callable

from kafkaesque.chassis.link import Shared
from kafkaesque.chassis.relief import TURN_MS_MAX
from kafkaesque.env.disk import FileRange
from kafkaesque.env.network import Connection
from kafkaesque.gateway.kafka.call import Call, Caller, Part
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.throttling import Meter
from kafkaesque.protocols.kafka.api import ApiKey, RequestHeader, read_request_header
from kafkaesque.protocols.kafka.errors import (
    MalformedRequest,
    UnsupportedApi,
    UnsupportedApiVersion,
)
from kafkaesque.protocols.kafka.frames import unsupported_api_versions_frame

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


class KafkaConnection(Caller):
    """One client."""

    __slots__ = ("_answering", "_calls", "_context", "_handle", "_held_bytes")

    def __init__(self, context: Context, handle: Callable[[Call], None], shared: Shared) -> None:
        super().__init__(shared)
        self._context = context
        self._handle = handle
        self._calls: deque[Call] = deque()
        #: Of all unanswered calls together.
        self._held_bytes = 0
        self._answering = False

    # -- from the network

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        context, shared = self._context, self.shared
        begun_ms = shared.clock.now_ms()
        if begun_ms - self.active_ms > 1:
            # It did not come with the last one: a turn of its own.
            self._turn_begun_ms = begun_ms
        frame = memoryview(data)
        try:
            header = read_request_header(frame, context.supported)
            call = Call(self, header, frame)
            self.client_id = header.client_id or ""
            self._calls.append(call)
            self._held_bytes += call.held_bytes
            shared.meter.requests += 1
            if context.quotas.is_active:
                self._handle_metered(call)
            else:
                self._handle(call)
            call.forget_frame()
        except MalformedRequest as error:
            self.refuse(f"a request that cannot be read: {error}")
        except UnsupportedApi as error:
            self._on_unsupported(error)
        self.active_ms = shared.clock.now_ms()
        if self.active_ms - self._turn_begun_ms >= TURN_MS_MAX and not self._is_held:
            # There may be more to come of the kind: others come first.
            self.give_way()
        else:
            self.maybe_pause()

    def _on_unsupported(self, error: UnsupportedApi) -> None:
        if isinstance(error, UnsupportedApiVersion) and error.api_key == ApiKey.API_VERSIONS:
            # In its turn, as any other answer.
            header = RequestHeader(error.api_key, 0, error.correlation_id, None, 0)
            call = Call(self, header, memoryview(b""))
            self._calls.append(call)
            answer = unsupported_api_versions_frame(error.correlation_id, self._context.advertised)
            call.answer_parts((answer,))
        else:
            self.refuse(str(error))

    def _handle_metered(self, call: Call) -> None:
        quotas = self._context.quotas
        limits = quotas.limits(self.user, call.header.client_id or "")
        if not limits:
            self._handle(call)
            return
        meter = call.meter = Meter(quotas, limits, call.header, self.mute)
        meter.begin(call.held_bytes)
        self._handle(call)
        meter.on_begun()

    def _is_in_vain(self, call: Call) -> bool:
        return call.is_in_vain or (
            call.header.api_key in BY_CONTROLLER and self._context.doors.cluster.is_cut_off()
        )

    def _send_elsewhere(self, connection: Connection) -> None:
        """Close: other brokers may know, or do, what this one cannot that is cut off from them.

        Clients that are connected with it would ask it for as long as it answers.
        """
        self._say_closing("this broker is cut off from the others")
        connection.close()

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        self._calls.clear()
        self._held_bytes = 0
        for belongings in (self.consumers, self.sessions):
            if belongings is not None:
                belongings.close()

    def is_full(self) -> bool:
        """See `ClientConnection`."""
        return len(self._calls) >= UNANSWERED_MAX or self._held_bytes > HELD_BYTES_MAX

    def has_room(self) -> bool:
        """See `ClientConnection`."""
        return len(self._calls) < UNANSWERED_MAX // 2 and self._held_bytes <= HELD_BYTES_MAX // 2

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return bool(self._calls)

    # -- answers

    def on_answered(self, call: Call) -> None:
        """See `Caller`."""
        calls = self._calls
        connection = self.connection
        if connection is None or not calls:
            return
        if self._answering or calls[0].parts is None:
            self._count_waiting(call)
            return
        parts: list[Part] = []
        is_in_vain = False
        activity, now_ns = self._context.doors.activity, self.now_ns()
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
            self.maybe_resume()

    def _count_waiting(self, call: Call) -> None:
        """Count an answer that waits for earlier ones, in place of its request."""
        size = sum(len(part) for part in call.parts or () if not isinstance(part, FileRange))
        self._held_bytes += size - call.held_bytes
        call.held_bytes = size
        self.maybe_pause()
        self.maybe_resume()
