"""OffsetCommit, OffsetFetch and OffsetDelete."""

from collections.abc import Mapping, Sequence

from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.context import Context
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    NO_MEMBER_ID,
    NOT_GIVEN,
    CommitOffsets,
    DeletedTopic,
    DeleteOffsets,
    FetchOffsets,
    OffsetToCommit,
)
from kafkaesque.groups.group import Group, GroupState
from kafkaesque.groups.offsets import OffsetChange
from kafkaesque.groups.rebalance import Rebalancer
from kafkaesque.groups.records import write_offset_key, write_offset_value
from kafkaesque.groups.results import (
    CommitResult,
    CommittedOffset,
    DeleteOffsetsResult,
    FetchedOffset,
    FetchResult,
    PartitionError,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import LogRecord, WriteToken


def write_changes(
    context: Context, changes: Sequence[OffsetChange], *records: LogRecord
) -> WriteToken:
    """Have changes written, and other records after them; readers see them once committed."""
    token = context.append([*map(record_of, changes), *records])
    for change in changes:
        context.offsets.stage(change)

    def on_written(error: GroupError) -> None:
        is_written = error is GroupError.NONE
        for change in changes:
            context.offsets.settle(change, is_written=is_written)
            if is_written:
                context.pending.overtake(change.group_id, change.partition)

    context.writes.then(token, on_written)
    return token


def write_in_parts(
    context: Context, changes: Sequence[OffsetChange], *records: LogRecord
) -> list[WriteToken]:
    """Have changes written in writes of bounded size, and other records after them."""
    count = len(changes)
    return [
        write_changes(
            context,
            changes[part],
            *records[max(part.start - count, 0) : max(part.stop - count, 0)],
        )
        for part in context.parts([*map(record_of, changes), *records])
    ]


def record_of(change: OffsetChange) -> LogRecord:
    """Return what is written down of a change."""
    group_id, (topic, partition), committed = change
    key = write_offset_key(group_id, topic, partition)
    return LogRecord(key, None if committed is None else write_offset_value(committed))


class Commits:
    """Handles committed offsets."""

    __slots__ = ("_context", "_rebalancer")

    def __init__(self, context: Context, rebalancer: Rebalancer) -> None:
        self._context = context
        self._rebalancer = rebalancer

    # --- OffsetCommit ---

    def on_commit(self, commit: CommitOffsets) -> None:
        """Store offsets; answered when they are committed to the log."""
        context = self._context
        error = self.check(commit)
        if error is not GroupError.NONE:
            self._answer_commit(commit, dict.fromkeys(_partitions(commit), error))
            return
        self.note(commit)
        errors: dict[TopicPartition, GroupError] = {}
        changes: dict[TopicPartition, OffsetChange] = {}
        for each in commit.offsets:
            error = self.check_offset(commit.group_id, each, len(changes))
            if error is GroupError.NONE:
                changes[each.partition] = self.change(commit, each)
            else:
                errors[each.partition] = error
        if not changes:
            self._answer_commit(commit, errors)
            return
        token = write_changes(context, list(changes.values()))

        def on_written(error: GroupError) -> None:
            if error is GroupError.UNKNOWN_SERVER_ERROR:
                error = GroupError.INVALID_COMMIT_OFFSET_SIZE
            self._answer_commit(commit, dict.fromkeys(changes, error) | errors)

        context.writes.then_answer(token, on_written)

    def note(self, commit: CommitOffsets) -> None:
        """Take note of a client that may commit: a member lives, a new group is there."""
        context = self._context
        if commit.group_id in context.consumer_groups:
            return
        group = context.groups.get(commit.group_id)
        if group is None:
            # Somebody who only stores offsets: a group of no members and no protocol.
            group = Group(commit.group_id, context.now.wall_ms)
            context.groups[commit.group_id] = group
        member = group.members.get(commit.member_id)
        if member is not None and group.state in (
            GroupState.STABLE,
            GroupState.PREPARING_REBALANCE,
        ):
            self._rebalancer.renew_session(group, member)

    def check(self, commit: CommitOffsets) -> GroupError:
        """Return whether this client may commit now."""
        consumers = self._context.consumer_groups.get(commit.group_id)
        if consumers is not None:
            return _check_consumer_commit(consumers, commit)
        return self._check_commit(self._context.groups.get(commit.group_id), commit)

    def _check_commit(self, group: Group | None, commit: CommitOffsets) -> GroupError:
        """Return whether this client may commit now.

        Somebody who manages its partitions by itself has no generation, and may as long as nobody
        else manages the group's.
        """
        if group is None:
            return self.check_room(commit)
        is_empty = group.state is GroupState.EMPTY
        if commit.generation < 0 and is_empty:
            return GroupError.NONE
        is_anonymous = commit.member_id == NO_MEMBER_ID and commit.instance_id is None
        if commit.generation < 0 and is_anonymous:
            return GroupError.UNKNOWN_MEMBER_ID
        error = group.check_member(commit.member_id, commit.instance_id)
        if error is not GroupError.NONE:
            return error
        if commit.generation != group.generation:
            return GroupError.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            return GroupError.REBALANCE_IN_PROGRESS
        return GroupError.NONE

    def check_room(self, commit: CommitOffsets) -> GroupError:
        """Return whether a client without a group may begin one; it may where there is one."""
        context = self._context
        if commit.group_id in context.groups or commit.group_id in context.consumer_groups:
            return GroupError.NONE
        if commit.generation >= 0:
            return GroupError.GROUP_ID_NOT_FOUND
        if len(commit.group_id.encode()) > context.config.name_bytes_max:
            return GroupError.INVALID_GROUP_ID
        if context.is_full:
            return GroupError.OVER_BOUND
        return GroupError.NONE

    def check_offset(self, group_id: str, each: OffsetToCommit, added: int) -> GroupError:
        """Return whether an offset may be stored, beside some others of the request."""
        config = self._context.config
        length_max = config.offset_metadata_length_max
        if 2 * len(each.metadata) > length_max and _utf16_length(each.metadata) > length_max:
            return GroupError.OFFSET_METADATA_TOO_LARGE
        store = self._context.offsets
        size_max = store.size_max(group_id) + len(self._context.pending.partitions(group_id))
        is_full = size_max + added >= config.offsets_per_group_max
        if is_full and not store.knows(group_id, each.partition):
            return GroupError.INVALID_COMMIT_OFFSET_SIZE
        return GroupError.NONE

    def change(self, commit: CommitOffsets, each: OffsetToCommit) -> OffsetChange:
        """Return what an offset of a request changes."""
        wall_ms = self._context.now.wall_ms
        keeps_default = commit.retention_ms == NOT_GIVEN
        committed = CommittedOffset(
            offset=each.offset,
            leader_epoch=each.leader_epoch,
            metadata=each.metadata,
            commit_wall_ms=wall_ms,
            expire_wall_ms=NOT_GIVEN if keeps_default else wall_ms + commit.retention_ms,
            topic_id=each.topic_id,
            is_by_name=each.is_by_name,
        )
        return OffsetChange(commit.group_id, each.partition, committed)

    def _answer_commit(
        self, commit: CommitOffsets, errors: dict[TopicPartition, GroupError]
    ) -> None:
        answer = tuple(
            PartitionError(partition, errors[partition]) for partition in _partitions(commit)
        )
        self._context.respond(commit.token, CommitResult(partitions=answer))

    # --- OffsetFetch ---

    def on_fetch(self, fetch: FetchOffsets) -> None:
        """Read what is committed to the log; a group that is not known has nothing."""
        consumers = self._context.consumer_groups.get(fetch.group_id)
        if consumers is not None:
            error = _check_consumer_fetch(consumers, fetch)
            if error is not GroupError.NONE:
                self._context.respond(fetch.token, FetchResult(error=error))
                return
        committed = self._context.offsets.committed(fetch.group_id)
        unstable: Mapping[TopicPartition, int] = {}
        if fetch.require_stable:
            unstable = self._context.pending.partitions(fetch.group_id)
        partitions = fetch.partitions
        if partitions is None:
            partitions = tuple(dict.fromkeys((*committed, *unstable)))
        offsets = tuple(
            FetchedOffset(each, committed.get(each), each in unstable) for each in partitions
        )
        self._context.respond(fetch.token, FetchResult(error=GroupError.NONE, offsets=offsets))

    # --- OffsetDelete ---

    def on_delete_offsets(self, delete: DeleteOffsets) -> None:
        """Remove offsets of topics that the group does not consume."""
        context = self._context
        group: Group | ConsumerGroup | None = context.groups.get(
            delete.group_id
        ) or context.consumer_groups.get(delete.group_id)
        if group is None:
            error = GroupError.GROUP_ID_NOT_FOUND
            context.respond(delete.token, DeleteOffsetsResult(error=error))
            return
        if not group.is_empty and not group.uses_consumer_protocol:
            # Nobody but its members knows what such a group consumes.
            error = GroupError.NON_EMPTY_GROUP
            context.respond(delete.token, DeleteOffsetsResult(error=error))
            return
        answer = tuple(
            PartitionError(
                each,
                GroupError.GROUP_SUBSCRIBED_TO_TOPIC
                if group.is_subscribed(each.topic)
                else GroupError.NONE,
            )
            for each in delete.partitions
        )
        changes = [
            OffsetChange(delete.group_id, each, None)
            for each in dict.fromkeys(each for each, error in answer if error is GroupError.NONE)
            if context.offsets.knows(delete.group_id, each)
            or each in context.pending.partitions(delete.group_id)
        ]
        result = DeleteOffsetsResult(error=GroupError.NONE, partitions=answer)
        if not changes:
            context.respond(delete.token, result)
            return

        def on_written(error: GroupError) -> None:
            is_good = error is GroupError.NONE
            context.respond(delete.token, result if is_good else DeleteOffsetsResult(error=error))

        context.writes.then_answer(write_changes(context, changes), on_written)

    # --- deleted topics ---

    def on_topics_deleted(self, topics: Sequence[DeletedTopic]) -> None:
        """Remove all groups' offsets of topics that are gone.

        An offset that was stored with its topic's id outlives a namesake of that topic; one that
        was committed by name outlives it, too, if it was the new topic that had the name then.
        """
        gone: dict[str, list[DeletedTopic]] = {}
        for topic in topics:
            gone.setdefault(topic.name, []).append(topic)
        context = self._context
        known = (
            OffsetChange(group_id, partition, committed)
            for group_id in context.offsets.groups()
            for partition, committed in context.offsets.known_items(group_id)
        )
        #: By place, whether all that there is goes: a removal takes what is pending along.
        places: dict[tuple[str, TopicPartition], bool] = {}
        for group_id, partition, committed in (*known, *context.pending.changes()):
            if committed is not None and partition.topic in gone:
                place = (group_id, partition)
                of_gone = any(_is_of(committed, topic) for topic in gone[partition.topic])
                places[place] = of_gone and places.get(place, True)
        changes = [OffsetChange(*place, None) for place, goes in places.items() if goes]
        write_in_parts(context, changes)


def _check_consumer_commit(group: ConsumerGroup, commit: CommitOffsets) -> GroupError:
    """Return whether this client may commit to a group of the new kind.

    As with classic groups, anybody may while there are no members.
    """
    if commit.generation < 0 and group.is_empty:
        return GroupError.NONE
    current = group.currents.get(commit.member_id)
    if current is None:
        return GroupError.UNKNOWN_MEMBER_ID
    is_current = commit.generation == current.epoch
    if group.members[commit.member_id].classic is not None:
        return GroupError.NONE if is_current else GroupError.ILLEGAL_GENERATION
    if not commit.knows_member_epochs:
        return GroupError.UNSUPPORTED_VERSION
    return GroupError.NONE if is_current else GroupError.STALE_MEMBER_EPOCH


def _check_consumer_fetch(group: ConsumerGroup, fetch: FetchOffsets) -> GroupError:
    """Return whether somebody who says to be a member is one; others may read, too."""
    if fetch.member_id is None and fetch.member_epoch < 0:
        return GroupError.NONE
    current = group.currents.get(fetch.member_id or "")
    if current is None:
        return GroupError.UNKNOWN_MEMBER_ID
    is_current = fetch.member_epoch == current.epoch
    return GroupError.NONE if is_current else GroupError.STALE_MEMBER_EPOCH


def _is_of(committed: CommittedOffset, gone: DeletedTopic) -> bool:
    if committed.topic_id is None or gone.topic_id is None:
        return True
    is_later = (
        committed.is_by_name
        and gone.since_wall_ms is not None
        and committed.commit_wall_ms >= gone.since_wall_ms
    )
    return committed.topic_id == gone.topic_id and not is_later


def _partitions(commit: CommitOffsets) -> list[TopicPartition]:
    return [each.partition for each in commit.offsets]


def _utf16_length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
