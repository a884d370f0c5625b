"""DescribeLogs: where the logs are that are no topics, those of queues and of share groups."""

from heapq import nsmallest
from typing import Final

from kafkaesque.broker.metadata.cluster_state import ClusterState, PartitionState, QueueState
from kafkaesque.broker.metadata.queue_names import share_group_of
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.model.ids import NO_NODE, NodeId, home_of
from kafkaesque.protocols.kafka.messages.describe_logs_request import DescribeLogsRequest
from kafkaesque.protocols.kafka.messages.describe_logs_response import (
    DescribedLog,
    DescribeLogsResponse,
    LogPartition,
)

#: Logs that one answer describes; there may be 100,000 of them.
LOGS_MAX: Final = 1_000


def on_describe_logs(context: Context, call: Call) -> None:
    """Describe logs by their ids, from the one after that which is named; answered at once."""
    request: DescribeLogsRequest = call.read()
    state, leaders = context.doors.cluster.state, context.doors.cluster.leaders
    most = min(request.logs_max, LOGS_MAX) if request.logs_max > 0 else LOGS_MAX
    # A queue in a broker's memory has no log.
    logs_of = state.queues_by_log.items()
    later = (log_id for log_id, each in logs_of if log_id > request.after and each.home is None)
    found = nsmallest(most + 1, later)
    logs = [_described(state, leaders, state.queues_by_log[log_id]) for log_id in found[:most]]
    call.answer(DescribeLogsResponse(logs=logs, has_more=len(found) > most))


def _described(state: ClusterState, leaders: LeadersTable, queue: QueueState) -> DescribedLog:
    source = None if queue.source is None else state.topics_by_id.get(queue.source)
    group = share_group_of(queue.queue)
    return DescribedLog(
        log_id=queue.topic_id,
        log=queue.name,
        vhost="" if group is not None else queue.queue.vhost,
        queue="" if group is not None else queue.queue.name,
        share_group=group or "",
        topic="" if source is None else source.name,
        partitions=[
            LogPartition(
                each.partition,
                leader_of(leaders, each),
                list(each.replicas),
                in_sync_of(leaders, each),
            )
            for each in queue.partitions
        ],
    )


def leader_of(leaders: LeadersTable, partition: PartitionState) -> NodeId:
    """Return who leads a part of a log; -1: nobody, as far as is heard."""
    leader = leaders.leader(partition.group)
    return NO_NODE if leader is None else leader


def in_sync_of(leaders: LeadersTable, partition: PartitionState) -> list[int]:
    """Return which replicas are in sync, as the leader said last."""
    if home_of(partition.group) is not None:
        return list(partition.replicas)
    report = leaders.get(partition.group)
    return [] if report is None else list(report.in_sync)
