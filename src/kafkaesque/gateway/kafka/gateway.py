"""The Kafka port: accepts clients and brings each request to its handler."""

from collections.abc import Mapping

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import KAFKA
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.env.network import Address, Framing
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.connection import KafkaConnection
from kafkaesque.gateway.kafka.fetch_sessions import FetchSessions
from kafkaesque.gateway.kafka.handlers import HANDLERS, Handler
from kafkaesque.gateway.kafka.metadata_cache import MetadataCache
from kafkaesque.gateway.kafka.topic_creator import TopicCreator
from kafkaesque.protocols.kafka.api import ADVERTISED, SUPPORTED, VersionRange

CONNECTIONS_MAX = 20_000
#: Bytes of answers that a client may leave unread, beside what the kernel takes of them.
UNSENT_BYTES_MAX = 1024 * 1024


class KafkaGateway(Gateway):
    """One broker's Kafka ports."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        self.doors: Doors = doors
        self.clock = doors.clock
        self.sessions: FetchSessions = FetchSessions(
            doors.dice,
            lambda: int(doors.configuration.get("max.incremental.fetch.session.cache.slots")),
        )
        self.metadata_cache = MetadataCache()
        self.topic_creator = TopicCreator(doors)
        self.quotas = chassis.quotas
        self.supported: Mapping[int, VersionRange] = {
            key: versions for key, versions in SUPPORTED.items() if key in HANDLERS
        }
        self.advertised: Mapping[int, VersionRange] = {
            key: versions for key, versions in ADVERTISED.items() if key in HANDLERS
        }
        self._handlers: dict[int, Handler] = dict(HANDLERS)

    def start(self, address: Address, listener: str = KAFKA, tls: str = "") -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = PortOptions(
            protocol=KAFKA,
            listener=listener,
            tls=tls,
            framing=Framing.LENGTH_PREFIXED,
            frame_bytes_max=int(self.doors.configuration.get("socket.request.max.bytes")),
            connections_max=CONNECTIONS_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
            idle_ms_max=lambda: int(self.doors.configuration.get("connections.max.idle.ms")),
        )
        return self.listen(address, options, lambda shared: KafkaConnection(self, shared))

    def handle(self, call: Call) -> None:
        """Begin a request.

        Raises:
            MalformedRequest: its body cannot be read.
        """
        self._handlers[call.header.api_key](self, call)

    def is_cut_off(self) -> bool:
        """Whether other brokers know, and may do, what this one cannot."""
        return self.doors.cluster.is_cut_off()
