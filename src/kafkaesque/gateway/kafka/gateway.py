"""The Kafka port: accepts clients and brings each request to its handler."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import Address, Framing, Listener, ListenOptions
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.gateway.kafka.admission import Admission
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.cluster_view import ClusterView
from kafkaesque.gateway.kafka.connection import KafkaConnection
from kafkaesque.gateway.kafka.fetch_sessions import FetchSessions
from kafkaesque.gateway.kafka.handlers import HANDLERS, Handler
from kafkaesque.gateway.kafka.metadata_cache import MetadataCache
from kafkaesque.gateway.kafka.throttling import Throttling
from kafkaesque.gateway.kafka.topic_creator import TopicCreator
from kafkaesque.protocols.kafka.api import ADVERTISED, SUPPORTED, VersionRange

CONNECTIONS_MAX = 20_000
RELIEF_MS = 5


class KafkaGateway:
    """One broker's Kafka port."""

    def __init__(self, doors: Doors, report: Callable[[str], None]) -> None:
        self.doors: Doors = doors
        self.clock = doors.clock
        #: What strangers send that cannot be understood; they can send it as often as they like.
        self.refusals: Final = ReportLimit(report, self.clock.call_later)
        self.sessions: FetchSessions = FetchSessions(
            doors.dice,
            lambda: int(doors.configuration.get("max.incremental.fetch.session.cache.slots")),
        )
        self.metadata_cache = MetadataCache()
        self.topic_creator = TopicCreator(doors)
        self.throttling = Throttling(doors)
        self.admission = Admission(doors, self.throttling, report)
        self.connections: dict[int, KafkaConnection] = {}
        self._connection_count = 0
        self.supported: Mapping[int, VersionRange] = {
            key: versions for key, versions in SUPPORTED.items() if key in HANDLERS
        }
        self.advertised: Mapping[int, VersionRange] = {
            key: versions for key, versions in ADVERTISED.items() if key in HANDLERS
        }
        self._handlers: dict[int, Handler] = dict(HANDLERS)
        self._unrelieved: dict[int, KafkaConnection] = {}
        self._taking_turns: deque[KafkaConnection] = deque()
        self._sweep: Timer | None = None
        self._listener: Listener | None = None

    def start(self, address: Address) -> Address:
        """Listen; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = ListenOptions(
            framing=Framing.LENGTH_PREFIXED,
            frame_bytes_max=int(self.doors.configuration.get("socket.request.max.bytes")),
            connections_max=CONNECTIONS_MAX,
        )
        self._listener = self.doors.network.listen(address, options, lambda: KafkaConnection(self))
        self._on_sweep()
        self.doors.configuration.on_quotas_changed(self.throttling.reload)
        self.throttling.reload()
        return self._listener.address

    def stop(self) -> None:
        """Accept no more and close what is open."""
        if self._listener is not None:
            self._listener.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections.values()):
            if connection.connection is not None:
                connection.connection.close()

    def handle(self, call: Call) -> None:
        """Begin a request.

        Raises:
            MalformedRequest: its body cannot be read.
        """
        self._handlers[call.header.api_key](self, call)

    def is_cut_off(self) -> bool:
        """Whether other brokers know, and may do, what this one cannot."""
        return ClusterView(self.doors).is_cut_off

    # -- bounds

    def is_overloaded(self) -> bool:
        """Whether so much waits to be synced that nothing more should be read from clients."""
        return self.doors.publishing.is_overloaded

    def resume_when_relieved(self, connection: KafkaConnection) -> None:
        """Call the connection when the broker can take more."""
        if not self._unrelieved:
            self.clock.call_later(RELIEF_MS, self._on_relief)
        self._unrelieved[id(connection)] = connection

    def release_in_turn(self, connection: KafkaConnection) -> None:
        """Release a connection that has kept the loop for long, one such in each turn."""
        self._taking_turns.append(connection)
        if len(self._taking_turns) == 1:
            self.clock.call_soon(self._on_turn)

    def next_connection_number(self) -> int:
        """Return a number above those of all connections so far."""
        self._connection_count += 1
        return self._connection_count

    def _on_turn(self) -> None:
        self._taking_turns.popleft().release()
        if self._taking_turns:
            self.clock.call_soon(self._on_turn)

    def _on_relief(self) -> None:
        if self.is_overloaded():
            self.clock.call_later(RELIEF_MS, self._on_relief)
            return
        waiting, self._unrelieved = self._unrelieved, {}
        for connection in waiting.values():
            connection.on_relieved()

    def _on_sweep(self) -> None:
        """Close connections whose client has said nothing for long."""
        next_ms = self.admission.sweep(list(self.connections.values()))
        self._sweep = self.clock.call_later(next_ms, self._on_sweep)
