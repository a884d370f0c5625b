"""TxnOffsetCommit: offsets that count when their transaction is committed (KIP-98, KIP-447)."""

from kafkaesque.groups.commits import Commits, record_of
from kafkaesque.groups.context import Context
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    NO_MEMBER_ID,
    CommitOffsets,
    CommitOffsetsInTransaction,
    TransactionEnded,
)
from kafkaesque.groups.offsets import OffsetChange
from kafkaesque.groups.results import CommitResult, PartitionError
from kafkaesque.model.ids import TopicPartition


class TransactionalCommits:
    """Handles offsets in transactions."""

    __slots__ = ("_commits", "_context")

    def __init__(self, context: Context, commits: Commits) -> None:
        self._context = context
        self._commits = commits

    def on_commit(self, request: CommitOffsetsInTransaction) -> None:
        """Have offsets written as part of a transaction; answered when they are in the log."""
        commit = request.commit
        error = self._check(commit)
        if error is not GroupError.NONE:
            self._answer(commit, {each.partition: error for each in commit.offsets})
            return
        self._commits.note(commit)
        errors: dict[TopicPartition, GroupError] = {}
        changes: dict[TopicPartition, OffsetChange] = {}
        for each in commit.offsets:
            error = self._commits.check_offset(commit.group_id, each, len(changes))
            if error is GroupError.NONE:
                changes[each.partition] = self._commits.change(commit, each)
            else:
                errors[each.partition] = error
        if changes:
            self._write(request, changes, errors)
        else:
            self._answer(commit, errors)

    def _write(
        self,
        request: CommitOffsetsInTransaction,
        changes: dict[TopicPartition, OffsetChange],
        errors: dict[TopicPartition, GroupError],
    ) -> None:
        context = self._context
        token = context.append_in_transaction(
            [record_of(change) for change in changes.values()],
            request.producer_id,
            request.producer_epoch,
        )
        for group_id, partition, committed in changes.values():
            if committed is not None:
                context.pending.stage(group_id, partition, committed)

        def on_written(error: GroupError) -> None:
            is_written = error is GroupError.NONE
            for group_id, partition, _ in changes.values():
                context.pending.settle(
                    request.producer_id, group_id, partition, is_written=is_written
                )

        def on_answer(error: GroupError) -> None:
            if error is GroupError.UNKNOWN_SERVER_ERROR:
                error = GroupError.INVALID_COMMIT_OFFSET_SIZE
            self._answer(request.commit, dict.fromkeys(changes, error) | errors)

        context.writes.then(token, on_written)
        context.writes.then_answer(token, on_answer)

    def _check(self, commit: CommitOffsets) -> GroupError:
        """Return whether this client may commit now.

        Producers that do not say for whom they commit (before KIP-447) always may.
        """
        is_anonymous = commit.member_id == NO_MEMBER_ID and commit.instance_id is None
        if commit.generation < 0 and is_anonymous:
            return self._commits.check_room(commit)
        error = self._commits.check(commit)
        # What a transactional producer can be told.
        if error in (GroupError.STALE_MEMBER_EPOCH, GroupError.GROUP_ID_NOT_FOUND):
            return GroupError.ILLEGAL_GENERATION
        return error

    def _answer(self, commit: CommitOffsets, errors: dict[TopicPartition, GroupError]) -> None:
        partitions = [each.partition for each in commit.offsets]
        answer = tuple(PartitionError(each, errors[each]) for each in partitions)
        self._context.respond(commit.token, CommitResult(partitions=answer))

    def on_ended(self, ended: TransactionEnded) -> None:
        """A transaction's marker is committed to this log: its offsets count, or are gone."""
        for change in self._context.pending.end(ended.producer_id, is_commit=ended.is_commit):
            self._context.offsets.apply(change)
