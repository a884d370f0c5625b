"""All tables of one kind on this broker: one for each partition of their topic that it leads.

The first who asks brings the topic into being. Kafka's clients ask again until that is done, but
not all of its administrators do, so requests wait for it for a bounded time: `when_found` for the
partitions' leaders, `step` for a table that has nothing to load yet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.coordinators.table_host import (
    NEW_WAIT_MS_MAX,
    NoticeT,
    RequestT,
    ResultT,
    TableHost,
    TableKind,
    TableT,
    WorkT,
)
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.internal_topics import sealing_of_internal_topics
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.records import GroupConfigChanged, TopicDeleted
from kafkaesque.broker.options.encryption import INTERNAL_ENCRYPTION
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.replication.leader_waits import LeaderWaits
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.coordinator_partition import coordinator_partition
from kafkaesque.model.errors import LeaderNotAvailable
from kafkaesque.model.ids import GroupId, TopicPartition
from kafkaesque.tables.log_table import RequestToken

CREATE_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableServices:
    """What the tables of every kind on one broker are given."""

    clock: Clock
    disk: Disk
    reports: Reports
    metadata: MetadataView
    leaders: LeadersTable
    leader_waits: LeaderWaits
    controller: ControllerClient
    options: LiveOptions


class TableHosts(Generic[TableT, RequestT, NoticeT, ResultT, WorkT]):
    """The tables, by the partitions that they live in."""

    def __init__(
        self,
        services: TableServices,
        kind: TableKind[TableT, RequestT, NoticeT, ResultT, WorkT],
    ) -> None:
        self._clock = services.clock
        self._disk = services.disk
        self._reports = services.reports
        self._metadata = services.metadata
        self._leaders = services.leaders
        self._leader_waits = services.leader_waits
        self._controller = services.controller
        self._options = services.options
        self._kind = kind
        self._by_group: dict[GroupId, TableHost[TableT, RequestT, NoticeT, ResultT, WorkT]] = {}
        self._last_token = 0
        self._is_creating = False

    def next_token(self) -> RequestToken:
        """Return a name for the next request."""
        self._last_token += 1
        return RequestToken(self._last_token)

    def all(self) -> list[TableHost[TableT, RequestT, NoticeT, ResultT, WorkT]]:
        """Return the tables on this broker, loaded or not."""
        return list(self._by_group.values())

    # -- where tables are

    def find(self, key: str) -> TopicPartition:
        """Return the partition whose leader coordinates what has this name.

        Raises:
            LeaderNotAvailable: the topic does not exist yet; it is being created.
        """
        name = self._kind.topic
        topic = self._metadata.state.topics.get(name)
        if topic is None:
            self._create_topic()
            raise LeaderNotAvailable(f"{name} is being created")
        return TopicPartition(name, coordinator_partition(key, len(topic.partitions)))

    def when_found(self, keys: Sequence[str], on_done: Callable[[], None]) -> None:
        """Call when it can be said where tables are, or the time is up.

        That is at once, unless the topic is just coming into being: a partition that has lost its
        leader is not waited for.
        """
        if any(map(self._is_coming, keys)):
            self._leader_waits.wait(self._kind.topic, NEW_WAIT_MS_MAX, on_done)
        else:
            on_done()

    def _is_coming(self, key: str) -> bool:
        try:
            where = self.find(key)
        except LeaderNotAvailable:
            return True
        return self._leaders.get(self._metadata.state.partition(where).group) is None

    def _create_topic(self) -> None:
        if self._is_creating:
            return
        self._is_creating = True
        kind = self._kind
        expected = self._controller.expected_brokers(self._metadata.state)
        command = CreateTopic(
            name=kind.topic,
            partition_count=int(self._options.get(kind.partition_count_option)),
            replication_factor=min(
                int(self._options.get(kind.replication_factor_option)), expected
            ),
            configs={
                "cleanup.policy": "compact",
                "segment.bytes": str(self._options.get(kind.segment_bytes_option)),
                **sealing_of_internal_topics(
                    self._options.get(INTERNAL_ENCRYPTION), self._metadata.state
                ),
            },
        )

        def on_done(_: object) -> None:
            self._is_creating = False

        self._controller.submit(command, CREATE_TIMEOUT_MS, on_done)

    # -- requests

    def step(self, key: str, event: RequestT, on_result: Callable[[ResultT], None]) -> None:
        """Bring a request to the table on this broker that has to do with this name.

        `on_result` gets the table's answer, or what the kind says where there is no table to ask.
        """
        if self._kind.topic in self._metadata.state.topics:
            self._step_now(key, event, on_result)
        else:
            self.when_found((key,), lambda: self._step_now(key, event, on_result))

    def _step_now(self, key: str, event: RequestT, on_result: Callable[[ResultT], None]) -> None:
        try:
            where = self.find(key)
        except LeaderNotAvailable:
            on_result(self._kind.not_available)
            return
        host = self._by_group.get(self._metadata.state.partition(where).group)
        if host is None:
            on_result(self._kind.not_coordinator)
        elif not host.is_loaded and host.is_empty:
            host.hold(event, on_result)
        elif not host.is_loaded:
            on_result(self._kind.is_loading)
        else:
            host.step(event, on_result)

    def error_of(self, key: str) -> ResultT | None:
        """Return why nothing can be asked here of what has this name; None if it can."""
        try:
            where = self.find(key)
        except LeaderNotAvailable:
            return self._kind.not_available
        host = self._by_group.get(self._metadata.state.partition(where).group)
        if host is None:
            return self._kind.not_coordinator
        return None if host.is_loaded else self._kind.is_loading

    def ask_all(
        self,
        make_event: Callable[[], RequestT],
        on_done: Callable[[list[ResultT] | None], None],
    ) -> None:
        """Ask every table on this broker the same; None says that one is still being loaded."""
        asked = [each for each in self.all() if each.is_loaded or not each.is_empty]
        if not all(each.is_loaded for each in asked):
            on_done(None)
            return
        results: list[ResultT] = []
        if not asked:
            on_done(results)
            return

        def on_result(result: ResultT) -> None:
            results.append(result)
            if len(results) == len(asked):
                on_done(results)

        for host in asked:
            host.step(make_event(), on_result)

    def notify_all(self, event: NoticeT) -> None:
        """Tell every table something that nobody waits for."""

        def tell() -> None:
            for host in self.all():
                host.notify(event)

        # Not within the controller's turn: tables append to other groups' logs.
        self._clock.call_soon(tell)

    def host_of(
        self, partition: Partition
    ) -> TableHost[TableT, RequestT, NoticeT, ResultT, WorkT] | None:
        """Return the table that lives in a partition, if that is led here."""
        return self._by_group.get(partition.state.group)

    # -- following leadership

    def on_leadership(self, partition: Partition) -> None:
        """A partition on this broker has a new leader, perhaps this broker."""
        if partition.state.topic != self._kind.topic:
            return
        self.on_removed(partition)
        if partition.is_leader:
            host = TableHost(
                partition, self._kind, clock=self._clock, disk=self._disk, reports=self._reports
            )
            self._by_group[partition.state.group] = host
            # Not within the group's turn: loading asks the log for its ends.
            self._clock.call_soon(host.load)

    def on_topic_deleted(self, record: TopicDeleted) -> None:
        """A topic is gone; those that keep something of it forget it."""

    def on_group_config(self, record: GroupConfigChanged) -> None:
        """A group's options have changed."""

    def on_state_loaded(self, state: ClusterState) -> None:
        """The metadata are what a snapshot says."""

    def on_removed(self, partition: Partition) -> None:
        """A partition, of whatever topic, is led here no more."""
        old = self._by_group.pop(partition.state.group, None)
        if old is not None:
            old.close()

    def close(self) -> None:
        """Coordinate nothing any more."""
        for host in self._by_group.values():
            host.close()
        self._by_group.clear()
