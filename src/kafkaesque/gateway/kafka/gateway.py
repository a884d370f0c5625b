"""The Kafka port: accepts clients and brings each request to its handler."""

from collections import deque
from collections.abc import Callable, Mapping

from kafkaesque.broker.broker import Broker
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import Address, Framing, Listener, ListenOptions
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.connection import KafkaConnection
from kafkaesque.gateway.kafka.fetch_sessions import FetchSessions
from kafkaesque.gateway.kafka.handlers import HANDLERS, Handler
from kafkaesque.gateway.kafka.metadata_cache import MetadataCache
from kafkaesque.gateway.kafka.topic_creator import TopicCreator
from kafkaesque.protocols.kafka.api import ADVERTISED, SUPPORTED, VersionRange

REQUEST_BYTES_MAX = 100 * 1024 * 1024
CONNECTIONS_MAX = 20_000
CONNECTION_IDLE_MS_MAX = 600_000
SWEEP_MS = 30_000
RELIEF_MS = 5


class KafkaGateway:
    """One broker's Kafka port."""

    def __init__(self, broker: Broker, report: Callable[[str], None]) -> None:
        self.broker: Broker = broker
        self.clock = broker.env.clock
        self.report = report
        self.sessions: FetchSessions = FetchSessions(broker.env.dice)
        self.metadata_cache = MetadataCache()
        self.topic_creator = TopicCreator(broker)
        self.connections: dict[int, KafkaConnection] = {}
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
            frame_bytes_max=REQUEST_BYTES_MAX,
            connections_max=CONNECTIONS_MAX,
        )
        self._listener = self.broker.env.network.listen(
            address, options, lambda: KafkaConnection(self)
        )
        self._sweep = self.clock.call_later(SWEEP_MS, self._on_sweep)
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

    # -- bounds

    def is_overloaded(self) -> bool:
        """Whether so much waits to be synced that nothing more should be read from clients."""
        return self.broker.store.over_bound

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
        limit_ms = self.clock.now_ms() - CONNECTION_IDLE_MS_MAX
        for connection in list(self.connections.values()):
            if connection.active_ms < limit_ms and connection.connection is not None:
                connection.connection.abort()
        self._sweep = self.clock.call_later(SWEEP_MS, self._on_sweep)
