"""The answer to each kind of request when nothing at all can be done for it."""

from kafkaesque.groups.consumer.events import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    TopicsChanged,
)
from kafkaesque.groups.consumer.results import (
    ConsumerDescribeResult,
    ConsumerHeartbeatResult,
    DescribedConsumerGroup,
)
from kafkaesque.groups.errors import GroupError
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
    SyncGroup,
    TopicsDeleted,
    TransactionEnded,
)
from kafkaesque.groups.results import (
    CommitResult,
    DeleteGroupsResult,
    DeleteOffsetsResult,
    DescribedGroup,
    DescribeResult,
    FetchResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    ListResult,
    PartitionError,
    Result,
    SyncResult,
)


def refusal(event: Event, error: GroupError) -> Result | None:
    """Return the answer that says `error` and nothing else; None if nobody waits for one."""
    match event:
        case JoinGroup():
            return JoinResult(error=error, member_id=event.member_id)
        case SyncGroup():
            return SyncResult(error=error)
        case Heartbeat():
            # While a coordinator loads, its members are believed to live.
            is_loading = error is GroupError.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResult(error=GroupError.NONE if is_loading else error)
        case LeaveGroup():
            return LeaveResult(error=error)
        case CommitOffsets():
            return _commit_refused(event, error)
        case CommitOffsetsInTransaction():
            return _commit_refused(event.commit, error)
        case FetchOffsets():
            return FetchResult(error=error)
        case DeleteOffsets():
            return DeleteOffsetsResult(error=error)
        case DescribeGroups():
            described = (
                DescribedGroup(error=error, group_id=group_id, state="")
                for group_id in event.group_ids
            )
            return DescribeResult(groups=tuple(described))
        case ListGroups():
            return ListResult(error=error)
        case DeleteGroups():
            return DeleteGroupsResult(groups=tuple((each, error) for each in event.group_ids))
        case ConsumerGroupHeartbeat():
            return ConsumerHeartbeatResult(error=error)
        case ConsumerGroupDescribe():
            consumers = (
                DescribedConsumerGroup(error=error, group_id=group_id)
                for group_id in event.group_ids
            )
            return ConsumerDescribeResult(groups=tuple(consumers))
        case TopicsDeleted() | TopicsChanged() | TransactionEnded():
            return None


def _commit_refused(commit: CommitOffsets, error: GroupError) -> CommitResult:
    each_error = (PartitionError(each.partition, error) for each in commit.offsets)
    return CommitResult(partitions=tuple(each_error))
