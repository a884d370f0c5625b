"""The groups of one partition of the offsets topic, behind one door.

Theory of operation. A table belongs to the leader of one partition of `__consumer_offsets`, for as
long as it leads. It is *loading* while the log is replayed into it (`restore`), *active* from
`activate` on, and *unloaded* for good when leadership is lost (`unload`); a new leader makes a new
table from the log. Everything that happens is `step`, `tick`, `on_appended` or `on_append_failed`;
what is to be done comes out of `take_ready`, in order: answers, and records to append. Nothing is
answered that depends on a record before that record is committed, and readers see no offset before
that either.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kafkaesque.groups.admin import Admin
from kafkaesque.groups.commits import Commits
from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.classic_members import ClassicMembers
from kafkaesque.groups.consumer.config import ConsumerTimes
from kafkaesque.groups.consumer.describe import Describer
from kafkaesque.groups.consumer.events import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    TopicsChanged,
)
from kafkaesque.groups.consumer.heartbeats import Heartbeats
from kafkaesque.groups.consumer.journal import Journal
from kafkaesque.groups.consumer.migration import Migration
from kafkaesque.groups.consumer.records import read_consumer_key
from kafkaesque.groups.consumer.restoring import ConsumerGroupLoader
from kafkaesque.groups.consumer.topics import TopicCatalog
from kafkaesque.groups.context import CONSUMER_TIMERS, Context
from kafkaesque.groups.errors import TABLE_ERRORS, BadGroupRecord, GroupError
from kafkaesque.groups.events import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    Event,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    Notice,
    SyncGroup,
    TopicsDeleted,
    TransactionEnded,
)
from kafkaesque.groups.group import Group, GroupState, restored_group
from kafkaesque.groups.membership import Membership
from kafkaesque.groups.offsets import OffsetChange
from kafkaesque.groups.rebalance import Rebalancer
from kafkaesque.groups.records import (
    GroupKey,
    GroupRecord,
    read_group_value,
    read_key,
    read_offset_value,
)
from kafkaesque.groups.refusals import refusal
from kafkaesque.groups.results import CommittedOffset, JoinResult, SyncResult, Work
from kafkaesque.groups.transactional_commits import TransactionalCommits
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.core import TableCore, TableState

#: Requests that may need a write.
_WRITING = (
    JoinGroup,
    SyncGroup,
    LeaveGroup,
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeleteOffsets,
    DeleteGroups,
)


class GroupTable(TableCore[Event, GroupError, Work]):
    """The coordinator of the groups that hash to one partition."""

    __slots__ = (
        "_admin",
        "_context",
        "_handlers",
        "_heartbeats",
        "_journal",
        "_loaded_consumers",
        "_loaded_groups",
        "_rebalancer",
        "_transactional",
    )

    def __init__(
        self, config: GroupConfig, times: Mapping[str, ConsumerTimes] = MappingProxyType({})
    ) -> None:
        """`times` has what was set for groups, by their ids; it may change at any time."""
        context = Context(config, times)
        rebalancer = Rebalancer(context)
        journal = Journal(context)
        heartbeats = Heartbeats(context, journal, Migration(context, journal, rebalancer))
        classic_members = ClassicMembers(context, journal, heartbeats)
        membership = Membership(context, rebalancer, heartbeats, classic_members)
        commits = Commits(context, rebalancer)
        admin = Admin(context)
        transactional = TransactionalCommits(context, commits)
        super().__init__(context, TABLE_ERRORS, (context.timers,))
        self._context = context
        self._rebalancer = rebalancer
        self._admin = admin
        self._journal = journal
        self._transactional = transactional
        self._heartbeats = heartbeats
        self._loaded_groups: dict[str, GroupRecord] = {}
        self._loaded_consumers = ConsumerGroupLoader()
        self._handlers: dict[type, Callable[[Any], None]] = {
            JoinGroup: membership.on_join,
            SyncGroup: membership.on_sync,
            Heartbeat: membership.on_heartbeat,
            LeaveGroup: membership.on_leave,
            CommitOffsets: commits.on_commit,
            CommitOffsetsInTransaction: transactional.on_commit,
            TransactionEnded: transactional.on_ended,
            FetchOffsets: commits.on_fetch,
            DeleteOffsets: commits.on_delete_offsets,
            DescribeGroups: admin.on_describe,
            ListGroups: admin.on_list,
            DeleteGroups: admin.on_delete,
            ConsumerGroupHeartbeat: heartbeats.on_heartbeat,
            ConsumerGroupDescribe: Describer(context).on_describe,
            TopicsDeleted: lambda event: commits.on_topics_deleted(event.topics),
            TopicsChanged: self._on_topics_changed,
        }

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return self._context.group_count

    def groups_with_offsets(self) -> list[str]:
        """Return the groups that have committed offsets."""
        return self._context.offsets.groups()

    def committed_positions(self, group_id: str) -> list[tuple[TopicPartition, int]]:
        """Return where a group goes on, in each partition that it has committed."""
        committed = self._context.offsets.committed(group_id)
        return [(partition, each.offset) for partition, each in committed.items()]

    def committed_offsets(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return all that a group has committed, to be read only."""
        return self._context.offsets.committed(group_id)

    @property
    def is_full(self) -> bool:
        """Whether new groups are refused, because there are as many as there may be."""
        return self._context.is_full

    def has_group(self, group_id: str) -> bool:
        """Whether there is a classic or a consumer group of the name."""
        context = self._context
        return group_id in context.groups or group_id in context.consumer_groups

    def assigns(self, group_id: str) -> bool:
        """Whether the group is one whose partitions are assigned here, by the topics."""
        return group_id in self._context.consumer_groups

    @property
    def lacks_topics(self) -> bool:
        """Whether there are such groups, and nobody has said yet which topics there are."""
        return not self._context.knows_topics and bool(self._context.consumer_groups)

    @property
    def topics(self) -> TopicCatalog:
        """The topics that it was last told of."""
        return self._context.topics

    # -- loading

    def restore_in_transaction(
        self, producer_id: int, records: Iterable[tuple[bytes | None, bytes | None]]
    ) -> None:
        """Replay records of a producer's transaction: they count when its end is replayed."""
        self._expect(TableState.LOADING)
        for key, value in records:
            try:
                self._replay_pending(producer_id, key, value)
            except BadGroupRecord:
                self._records_skipped += 1

    def restore_end(self, ended: TransactionEnded) -> None:
        """Replay the marker that ends a producer's transaction."""
        self._expect(TableState.LOADING)
        self._transactional.on_ended(ended)

    # -- see `TableCore`

    def _on_active(self) -> None:
        """Every member has its full session time from now."""
        context = self._context
        for group_id, record in self._loaded_groups.items():
            context.groups[group_id] = restored_group(group_id, record)
        self._loaded_groups = {}
        self._activate_consumers()
        for group_id in (*context.offsets.groups(), *context.pending.groups()):
            if group_id not in context.groups and group_id not in context.consumer_groups:
                context.groups[group_id] = Group(group_id, context.now.wall_ms)
        for group in context.groups.values():
            for member in group.members.values():
                self._rebalancer.renew_session(group, member)
            if len(group.members) > context.config.group_members_max:
                # The bound was lowered; a rebalance sorts out who stays.
                self._rebalancer.prepare(group)

    def _on_unloaded(self) -> None:
        context = self._context
        error = GroupError.NOT_COORDINATOR
        for group in context.groups.values():
            group.transition(GroupState.DEAD, context.now.wall_ms)
            for member in group.members.values():
                token = group.unpark_join(member)
                if token is not None:
                    result = JoinResult(error=error, member_id=member.member_id)
                    context.respond(token, result)
            for _, token in group.take_parked_syncs():
                context.respond(token, SyncResult(error=error))
        context.writes.abandon(error)

    def _handle(self, event: Event) -> None:
        context = self._context
        if not context.knows_topics and self._needs_topics(event):
            # Members would be told to give up what they have.
            self._refuse(event, GroupError.COORDINATOR_LOAD_IN_PROGRESS)
        elif context.is_over_bound and isinstance(event, _WRITING):
            self._refuse(event, GroupError.COORDINATOR_NOT_AVAILABLE)
        else:
            self._handlers[type(event)](event)

    def _refuse(self, event: Event, error: GroupError) -> None:
        result = refusal(event, error)
        if result is not None and not isinstance(event, Notice):
            self._context.respond(event.token, result)

    def _on_due(self) -> None:
        timers, now_ms = self._context.timers, self._context.now.now_ms
        # One by one, because each may cancel or put off the next. It ends, because deadlines that
        # are set on the way lie ahead.
        while (key := timers.pop_due(now_ms)) is not None:
            if key[1] in CONSUMER_TIMERS:
                self._heartbeats.on_timer(key)
            else:
                self._rebalancer.on_timer(key)

    def _expire(self) -> None:
        self._admin.expire()

    @property
    def _expiry_interval_ms(self) -> int:
        return self._context.config.offsets_retention_check_interval_ms

    def _replay(self, key: bytes, value: bytes | None) -> None:
        read = read_key(key)
        if read is None:
            consumer = read_consumer_key(key)
            if consumer is not None:
                self._loaded_consumers.replay(*consumer, value)
            return
        if isinstance(read, GroupKey):
            if value is None:
                self._loaded_groups.pop(read.group_id, None)
            else:
                self._loaded_groups[read.group_id] = read_group_value(value)
            return
        partition = TopicPartition(read.topic, read.partition)
        committed = None if value is None else read_offset_value(value)
        self._context.offsets.apply(OffsetChange(read.group_id, partition, committed))
        self._context.pending.overtake(read.group_id, partition)

    def _replay_pending(self, producer_id: int, key: bytes | None, value: bytes | None) -> None:
        read = None if key is None else read_key(key)
        if read is None or isinstance(read, GroupKey) or value is None:
            raise BadGroupRecord("only offsets are stored within a transaction")
        partition = TopicPartition(read.topic, read.partition)
        committed = read_offset_value(value)
        self._context.pending.add(producer_id, read.group_id, partition, committed)

    # -- inside

    def _needs_topics(self, event: Event) -> bool:
        """Whether the answer depends on which topics there are."""
        if isinstance(event, JoinGroup | SyncGroup | Heartbeat | LeaveGroup):
            return self.assigns(event.group_id)
        return isinstance(event, ConsumerGroupHeartbeat)

    def _activate_consumers(self) -> None:
        context = self._context
        for group in self._loaded_consumers.take(context.groups, context.leftovers):
            context.consumer_groups[group.group_id] = group
            for member_id in group.members:
                self._journal.renew_session(group, member_id)
                self._journal.watch_revocation(group, member_id)

    def _on_topics_changed(self, event: TopicsChanged) -> None:
        # Each group looks its own topics up with the next heartbeat.
        self._context.topics = event.topics
        self._context.knows_topics = True
