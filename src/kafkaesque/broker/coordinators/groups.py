"""The group coordinators on this broker: one for each partition of the offsets topic it leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkaesque.broker.coordinators.offset_topics import NameWatch
from kafkaesque.broker.coordinators.table_host import TableHost, TableKind
from kafkaesque.broker.coordinators.table_hosts import TableHosts, TableServices
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.records import GroupConfigChanged, TopicDeleted
from kafkaesque.broker.metadata.topic_catalog import TopicCatalogSource
from kafkaesque.broker.metadata.topic_names import OFFSETS_TOPIC
from kafkaesque.broker.options.groups import consumer_times
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.config import (
    ConsumerConfig,
    ConsumerTimes,
    MigrationPolicy,
)
from kafkaesque.groups.consumer.events import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    TopicsChanged,
)
from kafkaesque.groups.consumer.results import ConsumerHeartbeatResult
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeletedTopic,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    Notice,
    Request,
    SyncGroup,
    TopicsDeleted,
    TransactionEnded,
)
from kafkaesque.groups.results import (
    AppendInTransaction,
    CommitResult,
    FetchResult,
    HeartbeatResult,
    JoinResult,
    ListedGroup,
    ListResult,
    Result,
    SyncResult,
)
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.batch_encoder import BatchOptions, MarkerType, decode_end_marker
from kafkaesque.model.log_line import LogLine
from kafkaesque.model.records import Record

if TYPE_CHECKING:
    from kafkaesque.groups.table import GroupTable

#: What those hear who ask: the table's answer, or why there is no table to ask.
Answer = Result | GroupError
GroupHost = TableHost["GroupTable", Request, Notice, Answer, AppendInTransaction]


class GroupCoordinators(TableHosts["GroupTable", Request, Notice, Answer, AppendInTransaction]):
    """All group coordinators of a broker."""

    def __init__(self, services: TableServices) -> None:
        #: For lines that clients can cause.
        self._limit = ReportLimit(services.reports.info, services.clock.call_later)
        #: Partitions whose groups are as many as they may be.
        self._full: dict[str, None] = {}
        #: What was set for groups, by their names: what their tables go by from then on.
        self._times: dict[str, ConsumerTimes] = {}
        self._topics = TopicCatalogSource()
        #: Whether a group is a share group, whose members are no consumers of this kind.
        self.is_share_group: Callable[[str], bool] = lambda _: False
        self._names = NameWatch(clock=services.clock, metadata=services.metadata)
        kind: TableKind[GroupTable, Request, Notice, Answer, AppendInTransaction] = TableKind(
            topic=OFFSETS_TOPIC,
            what="groups",
            partition_count_option="offsets.topic.num.partitions",
            replication_factor_option="offsets.topic.replication.factor",
            segment_bytes_option="offsets.topic.segment.bytes",
            make_table=self._make_table,
            step=lambda table, event, now: table.step(event, now),
            take_ready=lambda table: table.take_ready(),
            is_loading=GroupError.COORDINATOR_LOAD_IN_PROGRESS,
            not_coordinator=GroupError.NOT_COORDINATOR,
            not_available=GroupError.COORDINATOR_NOT_AVAILABLE,
            restore=_restore,
            make_ended=_make_ended,
            perform=_perform,
            on_event=self._on_event,
            before_request=self._bring_topics,
            is_final=_is_final,
        )
        super().__init__(services, kind)

    def _make_table(self, _: Partition) -> GroupTable:
        # Loaded when this broker first leads a partition of the offsets topic: where no client has
        # a group, nobody needs it.
        from kafkaesque.groups.table import GroupTable

        return GroupTable(self.config(), self._times)

    def step(self, key: str, event: Request, on_result: Callable[[Answer], None]) -> None:
        """Bring a request to the group's coordinator on this broker."""
        if isinstance(event, CommitOffsets | CommitOffsetsInTransaction) and event.is_by_name:
            self._names.on_commit()
        is_heartbeat = isinstance(event, ConsumerGroupHeartbeat)
        if isinstance(event, JoinGroup | ConsumerGroupHeartbeat) and self.is_share_group(key):
            on_result(
                GroupError.GROUP_ID_NOT_FOUND
                if is_heartbeat
                else GroupError.INCONSISTENT_GROUP_PROTOCOL
            )
        elif is_heartbeat and not self._metadata.is_caught_up:
            # Topics that this broker has not heard of again would be taken from their consumers.
            on_result(GroupError.COORDINATOR_LOAD_IN_PROGRESS)
        elif isinstance(event, JoinGroup):
            super().step(key, event, self._telling(event.group_id, on_result))
        else:
            super().step(key, event, on_result)

    def has_group(self, group_id: str) -> bool:
        """Whether there is a classic or a consumer group of the name, coordinated here."""
        where = self.find(group_id)
        host = self._by_group.get(self._metadata.state.partition(where).group)
        return host is not None and host.is_loaded and host.table.has_group(group_id)

    def _telling(self, group: str, on_result: Callable[[Answer], None]) -> Callable[[Answer], None]:
        """Tell in the log of a generation that begins: its leader is the one who hears of all."""

        def on_joined(result: Answer) -> None:
            if isinstance(result, JoinResult) and result.members:
                count = len(result.members)
                sentence = f"group {group}: generation {result.generation} begins, members: {count}"
                self._reports.info(
                    LogLine(
                        "group.rebalanced",
                        sentence,
                        group=group,
                        generation=result.generation,
                        members=count,
                    )
                )
            on_result(result)

        return on_joined

    def list_groups(
        self, states: tuple[str, ...], types: tuple[str, ...], on_done: Callable[[ListResult], None]
    ) -> None:
        """List the groups that this broker coordinates."""

        def make_event() -> ListGroups:
            return ListGroups(token=self.next_token(), states=states, types=types)

        def on_results(results: list[Answer] | None) -> None:
            if results is None:
                on_done(ListResult(error=GroupError.COORDINATOR_LOAD_IN_PROGRESS))
                return
            found: list[ListedGroup] = []
            for result in results:
                if isinstance(result, ListResult):
                    found.extend(result.groups)
            on_done(ListResult(error=GroupError.NONE, groups=tuple(found)))

        self.ask_all(make_event, on_results)

    def on_topic_deleted(self, record: TopicDeleted) -> None:
        """A topic is gone: forget what was committed for it.

        What was committed by name after the deletion, before this broker heard of it, stays. Until
        it was confirmed that the topic was there, that is certain; then the clocks tell.
        """
        since_wall_ms = None
        if record.at_ms:
            since_wall_ms = max(record.at_ms, self._names.confirmed_wall_ms)
        gone = DeletedTopic(record.name, record.topic_id, since_wall_ms)
        self.notify_all(TopicsDeleted(topics=(gone,)))

    def on_state_loaded(self, state: ClusterState) -> None:
        """See `TableHosts`."""
        self._times.clear()
        for group, own in state.group_configs.items():
            self._take_group_config(group, own)

    def on_group_config(self, record: GroupConfigChanged) -> None:
        """See `TableHosts`."""
        self._take_group_config(record.group, record.configs)

    def _take_group_config(self, group: str, configs: Mapping[str, str]) -> None:
        """Have a group go by its options: its members from their next heartbeats on."""
        self._times.pop(group, None)
        if configs:
            self._times[group], refused = consumer_times(configs, self._options.get)
            for sentence in refused:
                self._reports.info(f"an option of group {group} is not applied: {sentence}")

    def _on_event(self, host: GroupHost) -> None:
        """Say in the log what clients, who are told to ask again, have no error for.

        Deadlines of members that a table was loaded with need the topics, too.
        """
        if host.is_loaded and host.table.lacks_topics:
            self._tell_topics(host)
        is_full = host.table.is_full
        if is_full == (host.name in self._full):
            return
        if is_full:
            self._full[host.name] = None
            what = "its maximum: new groups are refused until one of them is deleted"
        else:
            del self._full[host.name]
            what = "and accepts new ones again"
        self._limit.say(f"{host.name} keeps {host.table.group_count} groups, {what}")

    def _bring_topics(self, host: GroupHost, event: Request) -> None:
        """Tell the table what topics there are before it has to assign them."""
        if isinstance(event, ConsumerGroupHeartbeat | ConsumerGroupDescribe) or (
            isinstance(event, JoinGroup | SyncGroup | Heartbeat | LeaveGroup)
            and host.table.assigns(event.group_id)
        ):
            self._tell_topics(host)

    def _tell_topics(self, host: GroupHost) -> None:
        if not self._metadata.is_caught_up:
            return
        topics = self._topics.current(self._metadata.state)
        if host.table.topics is not topics:
            host.notify(TopicsChanged(topics))

    def config(self) -> GroupConfig:
        """Return the options in force for tables that are made from now on."""
        option = self._options.get
        return GroupConfig(
            session_timeout_ms_min=int(option("group.min.session.timeout.ms")),
            session_timeout_ms_max=int(option("group.max.session.timeout.ms")),
            group_members_max=int(option("group.max.size")),
            initial_rebalance_delay_ms=int(option("group.initial.rebalance.delay.ms")),
            offset_metadata_length_max=int(option("offset.metadata.max.bytes")),
            offsets_retention_ms=int(option("offsets.retention.minutes")) * 60_000,
            consumer=self._consumer_config(),
        )

    def _consumer_config(self) -> ConsumerConfig:
        """Return the options of groups of the new kind."""
        option = self._options.get
        assignors = str(option("group.consumer.assignors")).split(",")
        return ConsumerConfig(
            session_timeout_ms=int(option("group.consumer.session.timeout.ms")),
            heartbeat_interval_ms=int(option("group.consumer.heartbeat.interval.ms")),
            members_max=int(option("group.consumer.max.size")),
            migration_policy=MigrationPolicy(str(option("group.consumer.migration.policy"))),
            assignors=tuple(dict.fromkeys(each.strip() for each in assignors)),
        )


def _restore(table: GroupTable, header: BatchHeader, records: list[Record]) -> None:
    if header.is_control:
        marker = decode_end_marker(records[0]) if records else None
        if marker is not None:
            table.restore_end(_make_ended(header.producer_id, marker.type is MarkerType.COMMIT))
        return
    pairs = ((record.key, record.value) for record in records)
    if header.is_transactional:
        table.restore_in_transaction(header.producer_id, pairs)
    else:
        table.restore(pairs)


def _make_ended(producer_id: int, is_commit: bool) -> TransactionEnded:
    return TransactionEnded(producer_id=producer_id, is_commit=is_commit)


def _is_final(result: Answer) -> bool:
    """Return whether a consumer acts upon an answer for good; most errors only have it join again.

    Offsets it consumes from, and a static member that is shut out ends.
    """
    match result:
        case FetchResult():
            return True
        case JoinResult() | SyncResult() | HeartbeatResult() | ConsumerHeartbeatResult():
            return result.error is GroupError.FENCED_INSTANCE_ID
        case CommitResult():
            errors = (each.error for each in result.partitions)
            return any(error is GroupError.FENCED_INSTANCE_ID for error in errors)
        case _:
            return False


def _perform(host: GroupHost, item: AppendInTransaction) -> None:
    producer_id, producer_epoch = item.producer_id, item.producer_epoch
    options = BatchOptions(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=host.partition.producers.next_sequence(producer_id, producer_epoch),
        transactional=True,
    )
    host.append(item.token, item.records, options)
