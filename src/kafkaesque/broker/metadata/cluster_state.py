"""The cluster's metadata, as one broker has it: the state machine behind the controller group.

It changes only by `apply`, with committed records in the log's order, so that every broker that has
applied the same records has the same state. Whatever decides (validation, placement, new ids) has
decided before a record is proposed.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from kafkaesque.access.records import read_access_image, write_access_image
from kafkaesque.access.state import AccessState
from kafkaesque.broker.metadata.client_quotas import QuotaEntity
from kafkaesque.broker.metadata.features import UNSAID
from kafkaesque.broker.metadata.queue_names import (
    DEFAULT_VHOST,
    QueueName,
    id_of_queue_log,
    is_own_vhost,
    queue_log,
)
from kafkaesque.broker.metadata.records import (
    AccessChanged,
    AnyMetadataRecord,
    BrokerConfigChanged,
    BrokerRegistered,
    BrokerRemoved,
    ClientQuotaChanged,
    ControllersChanged,
    FeatureLevelChanged,
    GroupConfigChanged,
    GroupReformed,
    Home,
    PartitionPlacement,
    PartitionsAdded,
    ProducerIdsAllocated,
    QueueChanged,
    QueueCreated,
    RecordsGivenUp,
    RecoveryBegun,
    ReplicasChanged,
    RoutingChanged,
    SurvivorTold,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY, RecoveryState
from kafkaesque.broker.metadata.topic_names import is_internal
from kafkaesque.broker.options.queues import KAFKA_TOPIC, STREAM_TOPIC
from kafkaesque.model.errors import (
    InvariantBroken,
    TopicShowsQueue,
    UnknownQueue,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import (
    NO_NODE,
    GroupId,
    NodeId,
    TopicId,
    TopicPartition,
    group_at,
    home_of,
    read_node,
    write_node,
)
from kafkaesque.routing.exchanges.records import (
    AnyRoutingRecord,
    QueueAdded,
    QueueRemoved,
    VhostAdded,
)
from kafkaesque.routing.exchanges.topology import Topology
from kafkaesque.routing.policies import Policies


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """One partition's placement; see `PartitionPlacement`."""

    topic: str
    topic_id: TopicId
    partition: int
    group: GroupId
    #: Whoever has a copy, or is to get one.
    replicas: tuple[NodeId, ...]
    target: tuple[NodeId, ...] = ()
    origin: tuple[NodeId, ...] = ()
    founders: tuple[NodeId, ...] = ()
    late: tuple[NodeId, ...] = ()
    move: int = 0
    mover_term: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_moving(self) -> bool:
        """Whether replicas are added or removed at the moment."""
        return bool(self.target)

    @property
    def wanted(self) -> tuple[NodeId, ...]:
        """The replicas that there are to be in the end."""
        return self.target or self.replicas

    @property
    def remaining(self) -> tuple[NodeId, ...]:
        """The replicas that have been there and are to stay."""
        return tuple(node for node in self.settled if node in self.wanted)

    @property
    def settled(self) -> tuple[NodeId, ...]:
        """The replicas that there were before the move, if there is one."""
        return self.origin or self.replicas

    @property
    def first_voters(self) -> tuple[NodeId, ...]:
        """The voters of the group before any change."""
        return self.founders or self.replicas

    @property
    def adding(self) -> tuple[NodeId, ...]:
        """The replicas that a move brings."""
        return tuple(node for node in self.target if node not in self.origin)

    @property
    def serving(self) -> tuple[NodeId, ...]:
        """The replicas that have been there, and serve until a move is over."""
        return tuple(node for node in self.replicas if node not in self.adding)

    @property
    def removing(self) -> tuple[NodeId, ...]:
        """The replicas that a move takes away."""
        target = self.target
        return tuple(node for node in self.replicas if node not in target) if target else ()

    def place(self, placement: PartitionPlacement) -> None:
        """Take over a placement."""
        self.replicas = _nodes(placement.replicas)
        self.target, self.origin = _nodes(placement.target), _nodes(placement.origin)
        self.founders, self.late = _nodes(placement.founders), _nodes(placement.late)
        self.move, self.mover_term = placement.move, placement.mover_term

    def placement(self) -> PartitionPlacement:
        """Return the placement as it is written down."""
        return PartitionPlacement(
            group=self.group,
            replicas=self.replicas,
            target=self.target,
            origin=self.origin,
            founders=self.founders,
            late=self.late,
            move=self.move,
            mover_term=self.mover_term,
        )


def _nodes(numbers: tuple[int, ...]) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


@dataclass(slots=True, kw_only=True)
class TopicState:
    """One topic; `configs` holds only what differs from the default."""

    name: str
    topic_id: TopicId
    partitions: list[PartitionState]
    configs: dict[str, str]
    #: Unix time of the controller that created it; 0 for not known.
    created_ms: int = 0

    @property
    def is_internal(self) -> bool:
        """Whether the brokers keep state of their own in it."""
        return is_internal(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveOptions:
    """The options of a queue that hold, and what they were made of: see `effective_options`."""

    own: dict[str, str]
    policies: Policies
    options: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class QueueState(TopicState):
    """One queue: its log, which has a name of its own, and the options that are set."""

    queue: QueueName
    options: dict[str, str]
    #: The topic that it is a cursor over; None: its messages are in its own log.
    source: TopicId | None = None
    #: Who has made it; empty: not known.
    owner: str = ""
    #: The process of a broker that has it in memory alone; None: it has a log.
    home: Home | None = None
    #: As they were worked out last.
    effective: EffectiveOptions | None = field(default=None, repr=False, compare=False)


def _partition_of(log: TopicState, where: TopicPartition) -> PartitionState:
    if not 0 <= where.partition < len(log.partitions):
        raise UnknownTopicOrPartition(
            f"topic {log.name!r} has partitions 0 to {len(log.partitions) - 1}, not "
            f"{where.partition}"
        )
    return log.partitions[where.partition]


def _at_home(queue: QueueState, node: NodeId) -> PartitionState:
    """Return the one part of a queue that is in one broker's memory: no group is behind it."""
    return PartitionState(
        topic=queue.name,
        topic_id=queue.topic_id,
        partition=0,
        group=group_at(node),
        replicas=(node,),
    )


def _shows_queue(name: str, queue: QueueState) -> TopicShowsQueue:
    return TopicShowsQueue(
        f"topic {name!r} shows the queue {queue.queue}, and can only be read: use the queue for "
        "anything else"
    )


def _first_routing() -> Topology:
    """Return the virtual host that every cluster has; it is written down nowhere."""
    routing = Topology()
    routing.apply(VhostAdded(vhost=DEFAULT_VHOST))
    return routing


def _is_kept(record: AnyRoutingRecord) -> bool:
    """Tell whether a record is written down; queues have records of their own."""
    is_first = isinstance(record, VhostAdded) and record.vhost == DEFAULT_VHOST
    return not is_first and not isinstance(record, QueueAdded)


#: Key of the dynamic options that hold for all brokers.
ALL_BROKERS = NO_NODE


class SnapshotImage(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state, as a list of records that rebuild it, and the two counters."""

    records: list[AnyMetadataRecord]
    next_group: int
    next_producer_id: int
    version: int = 1
    #: See `ClusterState.first_groups`.
    first_groups: dict[int, int] = msgspec.field(default_factory=dict)
    recoveries: dict[int, RecoveryState] = msgspec.field(default_factory=dict)
    #: What `AccessState.dump` gives; empty where nothing has changed yet.
    access: bytes = b""


@dataclass(slots=True)
class ClusterState:
    """All metadata; read freely, change by `apply` only."""

    brokers: dict[NodeId, BrokerRegistered] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    topics_by_id: dict[TopicId, TopicState] = field(default_factory=dict)
    #: Queues have a namespace of their own, and their logs are not among the topics.
    queues: dict[QueueName, QueueState] = field(default_factory=dict)
    queues_by_log: dict[TopicId, QueueState] = field(default_factory=dict)
    queues_by_vhost: dict[str, dict[str, QueueState]] = field(default_factory=dict)
    #: Those that Kafka's clients see as topics, by the topics' names: see `topic_views`.
    topic_views: dict[str, QueueState] = field(default_factory=dict)
    #: How many a user has made; only of those that have any.
    queue_counts: Counter[str] = field(default_factory=Counter)
    partitions_by_group: dict[GroupId, PartitionState] = field(default_factory=dict)
    #: Of groups that are or ever were recovered without a majority (ADR 16).
    recoveries: dict[GroupId, RecoveryState] = field(default_factory=dict)
    #: Those of them whose replicas move.
    moving: dict[GroupId, PartitionState] = field(default_factory=dict)
    #: Levels that were written down, and how often one was.
    features: dict[str, int] = field(default_factory=dict)
    features_epoch: int = 0
    #: Who is to vote in the controllers' group; empty: that was not written down yet.
    controllers: tuple[NodeId, ...] = ()
    broker_configs: dict[NodeId, dict[str, str]] = field(default_factory=dict)
    #: Of groups that have any.
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Of entities that have any.
    client_quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    #: Users, what they prove it by, and rules.
    access: AccessState = field(default_factory=AccessState)
    #: Virtual hosts, exchanges, bindings, and the names of queues that messages can be routed to.
    routing: Topology = field(default_factory=_first_routing)
    #: Group ids below it have been given to a partition once.
    next_group: int = 1
    next_producer_id: int = 0
    #: Per broker: partitions of this group id and above were placed when the data directory that
    #: is registered was so already. Group ids grow, so they tell what came first.
    first_groups: dict[NodeId, int] = field(default_factory=dict)
    #: Grows with every record; for caches of what is derived from the state.
    version: int = 0

    def level(self, feature: str) -> int:
        """Return the level of a feature that is in force."""
        return self.features.get(feature, UNSAID[0])

    def topic(self, name: str) -> TopicState:
        """Return a topic by name.

        Raises:
            UnknownTopicOrPartition: there is none.
            TopicShowsQueue: Kafka's clients see a queue by that name.
        """
        state = self.topics.get(name)
        if state is None:
            if name in self.topic_views:
                raise _shows_queue(name, self.topic_views[name])
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
        return state

    def topic_by_id(self, topic_id: TopicId) -> TopicState:
        """Return a topic by id.

        Raises:
            UnknownTopicId: there is none.
            TopicShowsQueue: Kafka's clients see a queue by that id.
        """
        state = self.topics_by_id.get(topic_id)
        if state is None:
            queue = self.queues_by_log.get(topic_id)
            if queue is not None and queue.options.get(KAFKA_TOPIC):
                raise _shows_queue(queue.options[KAFKA_TOPIC], queue)
            raise UnknownTopicId(f"no topic has the id {topic_id.hex()}")
        return state

    def queues_of(self, vhost: str) -> list[QueueState]:
        """Return the queues of a virtual host."""
        return list(self.queues_by_vhost.get(vhost, {}).values())

    def queue(self, name: QueueName) -> QueueState:
        """Return a queue by name.

        Raises:
            UnknownQueue: there is none.
        """
        state = self.queues.get(name)
        if state is None:
            raise UnknownQueue(f"queue {name} does not exist")
        return state

    def configs_of(self, partition: PartitionState) -> dict[str, str]:
        """Return what is set of a partition's topic, or of the log of its queue.

        Raises:
            InvariantBroken: the topic, or the queue, is gone.
        """
        return self._existing(partition.topic_id).configs

    def owner(self, log_id: TopicId) -> TopicState | None:
        """Return the topic or the queue that has a log, if it still exists."""
        return self.topics_by_id.get(log_id) or self.queues_by_log.get(log_id)

    def partition(self, where: TopicPartition) -> PartitionState:
        """Return a partition's placement.

        Raises:
            UnknownTopicOrPartition: no such topic, or it has fewer partitions.
        """
        return _partition_of(self.topic(where.topic), where)

    def placed(self, where: TopicPartition) -> PartitionState:
        """Return the placement of a partition, or of a part of a queue's log by the log's name.

        Raises:
            UnknownTopicOrPartition: no such topic or log, or it has fewer partitions.
        """
        log_id = id_of_queue_log(where.topic)
        queue = None if log_id is None else self.queues_by_log.get(log_id)
        if queue is None or queue.home is not None:
            return self.partition(where)
        return _partition_of(queue, where)

    def apply(self, record: AnyMetadataRecord) -> None:
        """Take a committed record.

        Raises:
            InvariantBroken: the record does not fit the state; the controller let through what it
                should have refused.
        """
        self.version += 1
        match record:
            case BrokerRegistered():
                self._on_registered(NodeId(record.node), record)
            case BrokerRemoved():
                self.brokers.pop(NodeId(record.node), None)
                self.first_groups.pop(NodeId(record.node), None)
            case ControllersChanged():
                self.controllers = tuple(NodeId(node) for node in record.voters)
            case AccessChanged():
                self.access = self.access.apply(record.change)
            case RoutingChanged():
                self.routing.apply(record.change)
            case FeatureLevelChanged():
                self.features[record.name] = record.level
                self.features_epoch = record.epoch
            case TopicCreated():
                self._on_topic_created(record)
            case QueueCreated():
                self._on_queue_created(record)
            case QueueChanged():
                queue = self.queues_by_log[TopicId(record.log_id)]
                self.topic_views.pop(queue.options.get(KAFKA_TOPIC, ""), None)
                queue.options = dict(record.options)
                self._show(queue)
            case PartitionsAdded():
                topic = self._existing(record.topic_id)
                self._add_partitions(topic, record.partitions)
            case ReplicasChanged():
                self._on_replicas_changed(record.placement)
            case TopicDeleted():
                self._on_topic_deleted(record)
            case TopicConfigChanged():
                self._existing(record.topic_id).configs = dict(record.configs)
            case BrokerConfigChanged():
                self.broker_configs[read_node(record.node)] = dict(record.configs)
            case GroupConfigChanged():
                self._on_group_config_changed(record)
            case ClientQuotaChanged():
                self._on_quotas_changed(record)
            case ProducerIdsAllocated():
                self.next_producer_id = max(self.next_producer_id, record.next_producer_id)
            case RecoveryBegun() | SurvivorTold() | GroupReformed() | RecordsGivenUp():
                self._on_recovery(record)

    def _on_registered(self, node: NodeId, record: BrokerRegistered) -> None:
        known = self.brokers.get(node)
        if known is None or known.directory_id != record.directory_id:
            self.first_groups[node] = self.next_group
        self.brokers[node] = record

    def may_have_lost(self, node: NodeId, directory_id: str, group: GroupId) -> bool:
        """Tell whether a broker may have had a replica of which its directory knows nothing.

        Not if the partition was placed after this directory was registered.
        """
        known = self.brokers.get(node)
        return (
            known is None
            or known.directory_id != directory_id
            or group < self.first_groups.get(node, self.next_group)
        )

    def _existing(self, topic_id: bytes) -> TopicState:
        topic = self.owner(TopicId(topic_id))
        if topic is None:
            raise InvariantBroken(f"a metadata record names the unknown topic {topic_id.hex()}")
        return topic

    def _on_topic_created(self, record: TopicCreated) -> None:
        if record.name in self.topics:
            raise InvariantBroken(f"topic {record.name!r} was created twice")
        topic = TopicState(
            name=record.name,
            topic_id=TopicId(record.topic_id),
            partitions=[],
            configs=dict(record.configs),
            created_ms=record.at_ms,
        )
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        self._add_partitions(topic, record.partitions)

    def _on_queue_created(self, record: QueueCreated) -> None:
        name, log_id = QueueName(record.vhost, record.name), TopicId(record.log_id)
        if name in self.queues:
            raise InvariantBroken(f"queue {name} was created twice")
        queue = QueueState(
            name=queue_log(log_id),
            topic_id=log_id,
            partitions=[],
            configs=dict(record.configs),
            created_ms=record.at_ms,
            queue=name,
            options=dict(record.options),
            source=TopicId(record.source) if isinstance(record.source, bytes) else None,
            owner=record.owner if isinstance(record.owner, str) else "",
            home=record.home if isinstance(record.home, Home) else None,
        )
        if queue.home is not None:
            queue.partitions.append(_at_home(queue, NodeId(queue.home.node)))
        if queue.owner:
            self.queue_counts[queue.owner] += 1
        self.queues[name] = self.queues_by_log[log_id] = queue
        self.queues_by_vhost.setdefault(name.vhost, {})[name.name] = queue
        if queue.source is None and not is_own_vhost(name.vhost):
            # Virtual hosts come with their first queue, too.
            self.routing.apply(VhostAdded(vhost=name.vhost))
            topic = record.options.get(STREAM_TOPIC, "")
            self.routing.apply(QueueAdded(vhost=name.vhost, name=name.name, topic=topic))
        self._show(queue)
        self._add_partitions(queue, record.partitions)

    def _show(self, queue: QueueState) -> None:
        if queue.options.get(KAFKA_TOPIC):
            self.topic_views[queue.options[KAFKA_TOPIC]] = queue

    def _add_partitions(
        self, topic: TopicState, placements: tuple[PartitionPlacement, ...]
    ) -> None:
        for placement in placements:
            group = GroupId(placement.group)
            if group in self.partitions_by_group:
                raise InvariantBroken(f"group {group} was given to two partitions")
            state = PartitionState(
                topic=topic.name,
                topic_id=topic.topic_id,
                partition=len(topic.partitions),
                group=group,
                replicas=(),
            )
            topic.partitions.append(state)
            self.partitions_by_group[group] = state
            self.next_group = max(self.next_group, group + 1)
            self._place(state, placement)

    def _on_replicas_changed(self, placement: PartitionPlacement) -> None:
        state = self.partitions_by_group.get(GroupId(placement.group))
        if state is None:
            raise InvariantBroken(f"a metadata record moves the unknown group {placement.group}")
        self._place(state, placement)

    def _place(self, state: PartitionState, placement: PartitionPlacement) -> None:
        state.place(placement)
        if state.is_moving:
            self.moving[state.group] = state
        else:
            self.moving.pop(state.group, None)

    def _on_topic_deleted(self, record: TopicDeleted) -> None:
        topic = self._existing(record.topic_id)
        if isinstance(topic, QueueState):
            del self.queues[topic.queue]
            self.topic_views.pop(topic.options.get(KAFKA_TOPIC, ""), None)
            of_vhost = self.queues_by_vhost[topic.queue.vhost]
            del of_vhost[topic.queue.name]
            if not of_vhost:
                del self.queues_by_vhost[topic.queue.vhost]
            del self.queues_by_log[topic.topic_id]
            if topic.owner:
                self._count_less(topic.owner)
            if topic.queue.vhost in self.routing.vhosts:
                self.routing.apply(QueueRemoved(vhost=topic.queue.vhost, name=topic.queue.name))
        else:
            del self.topics[topic.name]
            del self.topics_by_id[topic.topic_id]
            self.routing.remove_topic(topic.name)
        for partition in topic.partitions:
            if home_of(partition.group) is not None:
                continue
            del self.partitions_by_group[partition.group]
            self.recoveries.pop(partition.group, None)
            self.moving.pop(partition.group, None)

    def _count_less(self, owner: str) -> None:
        self.queue_counts[owner] -= 1
        if not self.queue_counts[owner]:
            del self.queue_counts[owner]

    def _on_recovery(
        self, record: RecoveryBegun | SurvivorTold | GroupReformed | RecordsGivenUp
    ) -> None:
        group = GroupId(record.group)
        if group not in self.partitions_by_group:
            raise InvariantBroken(f"a metadata record recovers the unknown group {group}")
        recovery = self.recoveries.get(group, NO_RECOVERY)
        match record:
            case RecoveryBegun():
                recovery = recovery.begun(record.formation, record.at_ms)
            case SurvivorTold():
                recovery = recovery.told(record.report)
            case GroupReformed():
                recovery = recovery.decided(record.plan)
            case RecordsGivenUp():
                recovery = recovery.gave_up(record.count)
        self.recoveries[group] = recovery

    def _on_quotas_changed(self, record: ClientQuotaChanged) -> None:
        if record.quotas:
            self.client_quotas[record.entity] = dict(record.quotas)
        else:
            self.client_quotas.pop(record.entity, None)

    def _on_group_config_changed(self, record: GroupConfigChanged) -> None:
        if record.configs:
            self.group_configs[record.group] = dict(record.configs)
        else:
            self.group_configs.pop(record.group, None)

    def write_snapshot(self) -> bytes:
        """Return the whole state as bytes."""
        records: list[AnyMetadataRecord] = list(self.brokers.values())
        records += [
            FeatureLevelChanged(name=name, level=level, epoch=self.features_epoch)
            for name, level in self.features.items()
        ]
        if self.controllers:
            records.append(ControllersChanged(voters=self.controllers))
        for topic in self.topics.values():
            placements = tuple(partition.placement() for partition in topic.partitions)
            records.append(
                TopicCreated(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=placements,
                    configs=topic.configs,
                    at_ms=topic.created_ms,
                )
            )
        records += [
            QueueCreated(
                vhost=queue.queue.vhost,
                name=queue.queue.name,
                log_id=queue.topic_id,
                partitions=tuple(
                    partition.placement()
                    for partition in queue.partitions
                    if home_of(partition.group) is None
                ),
                options=queue.options,
                configs=queue.configs,
                source=msgspec.UNSET if queue.source is None else queue.source,
                at_ms=queue.created_ms,
                owner=queue.owner or msgspec.UNSET,
                home=msgspec.UNSET if queue.home is None else queue.home,
            )
            for queue in self.queues.values()
        ]
        records += [
            RoutingChanged(change=each) for each in self.routing.records() if _is_kept(each)
        ]
        for node, configs in self.broker_configs.items():
            records.append(BrokerConfigChanged(node=write_node(node), configs=configs))
        for group, configs in self.group_configs.items():
            records.append(GroupConfigChanged(group=group, configs=configs))
        for entity, quotas in self.client_quotas.items():
            records.append(ClientQuotaChanged(entity=entity, quotas=quotas))
        image = SnapshotImage(
            records=records,
            next_group=self.next_group,
            next_producer_id=self.next_producer_id,
            first_groups={int(node): group for node, group in self.first_groups.items()},
            recoveries={int(group): each for group, each in self.recoveries.items()},
            access=write_access_image(self.access.dump()) if self.access.epoch else b"",
        )
        return msgspec.msgpack.encode(image)

    @staticmethod
    def read_snapshot(payload: bytes | memoryview) -> "ClusterState":
        """Return the state that `write_snapshot` wrote.

        Raises:
            InvariantBroken: the bytes are not a snapshot of this release.
        """
        try:
            image = msgspec.msgpack.decode(payload, type=SnapshotImage)
        except msgspec.MsgspecError as error:
            raise InvariantBroken(f"the controller's snapshot cannot be read: {error}") from error
        state = ClusterState()
        for record in image.records:
            state.apply(record)
        if image.access:
            state.access = AccessState.load(read_access_image(image.access))
        state.next_group = max(state.next_group, image.next_group)
        state.next_producer_id = image.next_producer_id
        state.recoveries = {GroupId(group): each for group, each in image.recoveries.items()}
        for node in state.brokers:
            state.first_groups[node] = image.first_groups.get(node, state.next_group)
        return state
