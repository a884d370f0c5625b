"""The records of the controller's log: every change to the cluster's metadata, one by one.

Each is written as the value of one record in a Kafka record batch, as MessagePack with its kind in
the field `kind`. A field that is added later gets a default, so that old logs stay readable; a kind
that is not known stops the broker, because skipping it would make its copy differ from the others.
"""

import msgspec

from kafkaesque.access.records import AnyAccessRecord
from kafkaesque.broker.listeners import ADMIN, KAFKA, TEXT
from kafkaesque.broker.metadata.recovery_state import FormationPlan
from kafkaesque.broker.requests.survivor_report import SurvivorReport
from kafkaesque.env.network import Address
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.routing.exchanges.records import AnyRoutingRecord


class MetadataRecord(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True):
    """Base of all metadata records."""


class Endpoint(msgspec.Struct, frozen=True):
    """What clients of a protocol are told to connect to."""

    protocol: str
    host: str
    port: int


class BrokerRegistered(MetadataRecord, tag="broker", frozen=True, kw_only=True):
    """A broker is part of the cluster, with these addresses; a later record replaces an earlier."""

    node: int
    host: str
    kafka_port: int
    text_port: int
    peer_host: str
    peer_port: int
    rack: str | None = None
    #: Drawn anew at every start of the process.
    incarnation: int = 0
    #: Drawn when its data directory was made; empty: by a release that did not know of this.
    directory_id: str = ""
    #: The first and the last level that it knows, of each feature.
    features: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    #: At `host`, for operators that want to know why the Kafka port does not answer; 0: none.
    admin_port: int = 0
    #: By the names of its listeners. Empty, and only the ports above are known, where a release
    #: that did not know of listeners has written this.
    endpoints: dict[str, Endpoint] = msgspec.field(default_factory=dict)

    def endpoint(self, protocol: str, listener: str = "") -> Address | None:
        """Return what clients of a listener are told; without a name, of the protocol's first."""
        for name, found in (self.endpoints or self._endpoints_of_before()).items():
            if found.protocol == protocol and listener in ("", name):
                return Address(found.host, found.port)
        return None

    def _endpoints_of_before(self) -> dict[str, Endpoint]:
        ports = {KAFKA: self.kafka_port, TEXT: self.text_port, ADMIN: self.admin_port}
        return {name: Endpoint(name, self.host, port) for name, port in ports.items() if port}


class AccessChanged(MetadataRecord, tag="access", frozen=True, kw_only=True):
    """Users, roles, credentials or rules have changed."""

    change: AnyAccessRecord


class RoutingChanged(MetadataRecord, tag="routing", frozen=True, kw_only=True):
    """Virtual hosts, exchanges or bindings have changed."""

    change: AnyRoutingRecord


class FeatureLevelChanged(MetadataRecord, tag="feature", frozen=True, kw_only=True):
    """What the cluster may use from here on."""

    name: str
    level: int
    #: Grows with every change of any feature.
    epoch: int


class BrokerRemoved(MetadataRecord, tag="broker-removed", frozen=True, kw_only=True):
    """A broker has left for good."""

    node: int


class ControllersChanged(MetadataRecord, tag="controllers", frozen=True, kw_only=True):
    """These brokers are to vote in the controllers' group (ADR 19)."""

    voters: tuple[int, ...]


class PartitionPlacement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a partition's replicas are; the first is the preferred leader.

    What is not the default here comes of moves of replicas (ADR 17).
    """

    group: int
    #: Whoever has a copy, or is to get one.
    replicas: tuple[int, ...]
    #: While they move: those that are to be left, and those that were before the first move.
    target: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()
    #: The voters that the group began with; empty: `replicas`.
    founders: tuple[int, ...] = ()
    #: Brokers that a move has brought a copy, then or earlier.
    late: tuple[int, ...] = ()
    #: Counts what was asked for; and the newest term whose leader has taken up a move.
    move: int = 0
    mover_term: int = 0


class TopicCreated(MetadataRecord, tag="topic", frozen=True, kw_only=True):
    """A topic exists from here on."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionPlacement, ...]
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    #: Unix time of the controller when it was decided; 0 in records of before.
    at_ms: int = 0


class Home(msgspec.Struct, frozen=True, array_like=True):
    """One process of a broker."""

    node: int
    incarnation: int


class QueueCreated(MetadataRecord, tag="queue", frozen=True, kw_only=True):
    """A queue exists from here on, with a log that no client sees as a topic."""

    vhost: str
    name: str
    #: Of its log; a `TopicDeleted` of this id ends the queue.
    log_id: bytes
    partitions: tuple[PartitionPlacement, ...]
    #: The queue's options that are set to other than the default.
    options: dict[str, str] = msgspec.field(default_factory=dict)
    #: The log's: options of topics.
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    #: The topic that it is a cursor over: the log has as many partitions, and no messages.
    source: bytes | msgspec.UnsetType = msgspec.UNSET
    at_ms: int = 0
    #: Who has made it; unset: a client of an open listener, or the brokers themselves.
    owner: str | msgspec.UnsetType = msgspec.UNSET
    #: The process of a broker that has it in memory alone; then there are no partitions.
    home: Home | msgspec.UnsetType = msgspec.UNSET


class QueueChanged(MetadataRecord, tag="queue-options", frozen=True, kw_only=True):
    """A queue's options that are set to other than the default, all of them."""

    log_id: bytes
    options: dict[str, str]


class PartitionsAdded(MetadataRecord, tag="partitions", frozen=True, kw_only=True):
    """A topic has more partitions, numbered after those it had."""

    topic_id: bytes
    partitions: tuple[PartitionPlacement, ...]


class ReplicasChanged(MetadataRecord, tag="replicas", frozen=True, kw_only=True):
    """Replicas of a partition are to move, somebody moves them, or they have moved."""

    placement: PartitionPlacement


class TopicDeleted(MetadataRecord, tag="topic-deleted", frozen=True, kw_only=True):
    """A topic is gone; its id is never used again."""

    topic_id: bytes
    #: For those who keep something under it and hear of the record after it was applied.
    name: str = ""
    #: Unix time of the controller when it was decided; 0 in records of before.
    at_ms: int = 0


class TopicConfigChanged(MetadataRecord, tag="topic-config", frozen=True, kw_only=True):
    """A topic's options that are set to other than the default, all of them."""

    topic_id: bytes
    configs: dict[str, str]


class BrokerConfigChanged(MetadataRecord, tag="broker-config", frozen=True, kw_only=True):
    """Dynamic broker options, all of them, of one broker or the defaults for all brokers."""

    #: As `write_node` writes it; 0 stands for all.
    node: int
    configs: dict[str, str]


class GroupConfigChanged(MetadataRecord, tag="group-config", frozen=True, kw_only=True):
    """The options of a group, whether it exists or not, all of them; none takes the entry away."""

    group: str
    configs: dict[str, str]


class ProducerIdsAllocated(MetadataRecord, tag="producer-ids", frozen=True, kw_only=True):
    """Producer ids below `next_producer_id` have been given away."""

    node: int
    next_producer_id: int


class ClientQuotaChanged(MetadataRecord, tag="client-quota", frozen=True, kw_only=True):
    """The quotas of an entity, all of them; none takes the entity away."""

    #: Pairs of type and name, in the order of the types; None is the default of the type.
    entity: tuple[tuple[str, str | None], ...]
    quotas: dict[str, float]


class RecoveryBegun(MetadataRecord, tag="recovery-begun", frozen=True, kw_only=True):
    """The recovery of a group has begun: its replicas enter the formation and report their logs."""

    group: int
    formation: int
    #: When, by some broker's clock; 0: that was not written down.
    at_ms: int = 0


class SurvivorTold(MetadataRecord, tag="survivor-told", frozen=True, kw_only=True):
    """A replica has entered a formation, and has told what it has."""

    group: int
    formation: int
    report: SurvivorReport


class GroupReformed(MetadataRecord, tag="group-reformed", frozen=True, kw_only=True):
    """A formation begins."""

    group: int
    plan: FormationPlan


class RecordsGivenUp(MetadataRecord, tag="records-given-up", frozen=True, kw_only=True):
    """A replica that came back had so many records that an unclean decision has given up."""

    group: int
    count: int


AnyMetadataRecord = (
    BrokerRegistered
    | BrokerRemoved
    | ControllersChanged
    | TopicCreated
    | QueueCreated
    | QueueChanged
    | PartitionsAdded
    | ReplicasChanged
    | FeatureLevelChanged
    | AccessChanged
    | RoutingChanged
    | TopicDeleted
    | TopicConfigChanged
    | BrokerConfigChanged
    | GroupConfigChanged
    | ProducerIdsAllocated
    | ClientQuotaChanged
    | RecoveryBegun
    | SurvivorTold
    | GroupReformed
    | RecordsGivenUp
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMetadataRecord)


def write_metadata_record(record: AnyMetadataRecord) -> bytes:
    """Return the record as the value of a log record."""
    return _encoder.encode(record)


def read_metadata_record(value: bytes | memoryview) -> AnyMetadataRecord:
    """Return the record that a log record's value holds.

    Raises:
        InvariantBroken: not a metadata record that this release knows.
    """
    try:
        record: AnyMetadataRecord = _decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise InvariantBroken(
            f"the controller's log holds a record that this release cannot read: {error}; "
            "was the data written by a newer release?"
        ) from error
    return record
