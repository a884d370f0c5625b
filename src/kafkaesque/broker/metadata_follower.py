"""What a broker does when the cluster's metadata change, record by record."""

from collections.abc import Callable, Sequence

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.coordinators.registered_tables import RegisteredTables
from kafkaesque.broker.joining.gossip_driver import GossipDriver
from kafkaesque.broker.joining.registration import Registration
from kafkaesque.broker.life import Life
from kafkaesque.broker.metadata.cluster_state import ClusterState, TopicState
from kafkaesque.broker.metadata.features import LEVEL_WITH_ACCESS, METADATA
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.records import (
    AccessChanged,
    AnyMetadataRecord,
    BrokerConfigChanged,
    BrokerRegistered,
    BrokerRemoved,
    ClientQuotaChanged,
    FeatureLevelChanged,
    GroupConfigChanged,
    PartitionPlacement,
    PartitionsAdded,
    QueueCreated,
    ReplicasChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from kafkaesque.broker.options.tables import TOPIC_OPTIONS
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.partitions.topic_keys import TopicKeys
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.upkeep.group_recovery import GroupRecovery
from kafkaesque.env.clock import Clock
from kafkaesque.env.network import Address
from kafkaesque.model.ids import NO_NODE, GroupId, NodeId, TopicId, read_node
from kafkaesque.model.log_line import LogLine


def _nothing() -> None:
    """Nobody has asked to be told."""


class MetadataFollower:
    """Told of each record once it is committed and applied, and of each snapshot."""

    def __init__(
        self,
        *,
        clock: Clock,
        config: BrokerConfig,
        incarnation: int,
        life: Life,
        metadata: MetadataView,
        options: LiveOptions,
        peers: PeerNetwork,
        gossip: GossipDriver | None,
        partitions: PartitionTable,
        tables: Sequence[RegisteredTables],
        recovery: GroupRecovery,
        topic_keys: TopicKeys,
        registration: Registration,
        reports: Reports,
    ) -> None:
        self._clock = clock
        self._config = config
        self._incarnation = incarnation
        self._life = life
        self._metadata = metadata
        self._options = options
        self._peers = peers
        self._gossip = gossip
        self._partitions = partitions
        self._tables = tables
        self._recovery = recovery
        self._topic_keys = topic_keys
        self._registration = registration
        self._reports = reports
        #: Called once, in a later turn, when this process's registration is committed.
        self.on_ready: Callable[[], None] = _nothing
        #: Called when client quotas have changed in the metadata.
        self.on_quotas_changed: Callable[[], None] = _nothing
        #: Called when users, credentials or rules have changed in the metadata.
        self.on_access_changed: Callable[[], None] = _nothing

    def on_state_loaded(self, state: ClusterState) -> None:
        """The state is what a snapshot says, of this disk or of the controller."""
        self._refresh_options(state)
        self._topic_keys.follow(state.access)
        self._seal_gossip(state)
        for kind in self._tables:
            kind.tables.on_state_loaded(state)
        for topic in state.topics.values():
            self._tell_refused(topic)

    def on_snapshot_loaded(self, state: ClusterState) -> None:
        """A snapshot from the controller has taken the place of what was known."""
        self.on_state_loaded(state)
        for broker in state.brokers.values():
            self.on_record(broker)
        self._partitions.reconcile()
        self._recovery.follow_all()
        self.on_quotas_changed()
        self.on_access_changed()

    def on_record(self, record: AnyMetadataRecord) -> None:
        """A record was applied."""
        match record:
            case BrokerRegistered():
                self.on_broker_registered(record)
            case FeatureLevelChanged():
                self._seal_gossip(self._metadata.state)
                self._registration.maybe_renew()
            case BrokerRemoved():
                # Not within the turn of the controller's group: others lose a peer by it.
                self._clock.call_soon(lambda: self._forget_broker(NodeId(record.node)))
            case TopicCreated():
                self._tell_refused(self._topic(record.topic_id))
                self._open_soon(record.partitions)
            case PartitionsAdded() | QueueCreated():
                self._open_soon(record.partitions)
            case ReplicasChanged():
                self._partitions.on_replicas_changed(GroupId(record.placement.group))
            case TopicDeleted():
                self._partitions.reconcile_soon()
                for kind in self._tables:
                    kind.tables.on_topic_deleted(record)
            case TopicConfigChanged():
                topic = self._topic(record.topic_id)
                self._tell_changed("of a topic" if topic is None else f"of topic {topic.name}")
                self._tell_refused(topic)
                self._partitions.refresh_configs()
            case BrokerConfigChanged():
                node = read_node(record.node)
                self._tell_changed("of all brokers" if node == NO_NODE else f"of broker {node}")
                self._refresh_options(self._metadata.state)
                self._partitions.refresh_configs()
            case GroupConfigChanged():
                self._tell_changed(f"of group {record.group}")
                for kind in self._tables:
                    kind.tables.on_group_config(record)
            case ClientQuotaChanged():
                self.on_quotas_changed()
            case AccessChanged():
                self._topic_keys.follow(self._metadata.state.access)
                self.on_access_changed()
            case _:
                self._recovery.on_record(record)

    def _open_soon(self, placed: Sequence[PartitionPlacement]) -> None:
        self._partitions.open_soon(GroupId(each.group) for each in placed)

    def on_broker_registered(self, record: BrokerRegistered) -> None:
        """A broker is there, perhaps this one: link with it, or be ready."""
        node = NodeId(record.node)
        if node != self._config.node:
            # Where controllers are is for the configuration to say: they may have moved since.
            # Whoever takes part in gossip says itself where it is.
            is_known = self._gossip is not None and self._gossip.address(node) is not None
            if self._config.controllers.get(node) is None and not is_known:
                self._peers.add_peer(node, Address(record.peer_host, record.peer_port))
        elif record.incarnation != self._incarnation:
            if self._life.is_ready and not self._life.is_stopping:
                self._registration.on_overwritten(record)
        elif not self._life.is_ready:
            self._life.is_ready = True
            if not self._life.is_stopping:
                self._clock.call_soon(self.on_ready)

    def _seal_gossip(self, state: ClusterState) -> None:
        """Seal gossip from when no broker may be there that could not open it."""
        if self._gossip is not None:
            self._gossip.set_sealing(state.level(METADATA) >= LEVEL_WITH_ACCESS)

    def _topic(self, topic_id: bytes) -> TopicState | None:
        return self._metadata.state.owner(TopicId(topic_id))

    def _forget_broker(self, node: NodeId) -> None:
        if node not in self._metadata.state.brokers:
            self._peers.remove_peer(node)

    def _refresh_options(self, state: ClusterState) -> None:
        for sentence in self._options.refresh(state):
            self._reports.info(f"an option that was set is not applied: {sentence}")

    def _tell_changed(self, whose: str) -> None:
        # Before it is ready it is told again what it knew.
        if self._life.is_ready:
            sentence = f"options {whose} have changed"
            self._reports.info(LogLine("config.changed", sentence, what=whose))

    def _tell_refused(self, topic: TopicState | None) -> None:
        """Say which options of a topic are not applied, because an older release allowed more."""
        if topic is not None:
            for sentence in TOPIC_OPTIONS.parse_stored(topic.configs)[1].values():
                self._reports.info(f"an option of topic {topic.name} is not applied: {sentence}")
