"""ShareGroupHeartbeat and ShareGroupDescribe: members of share groups (KIP-932)."""

from collections.abc import Iterable

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of_group_error
from kafkaesque.gateway.kafka.operation_bits import GROUP_OPERATIONS, OPERATIONS_OMITTED
from kafkaesque.groups.consumer.topics import TopicIdPartition
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.share.group import ShareGroup, ShareHeartbeat
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.kafka.messages import share_group_describe_response as describing
from kafkaesque.protocols.kafka.messages import share_group_heartbeat_response as heartbeating
from kafkaesque.protocols.kafka.messages.share_group_describe_request import (
    ShareGroupDescribeRequest,
)
from kafkaesque.protocols.kafka.messages.share_group_heartbeat_request import (
    ShareGroupHeartbeatRequest,
)

#: What Kafka calls its assignor that spreads partitions evenly.
ASSIGNOR = "simple"
#: Characters of a member's id: clients draw a UUID.
MEMBER_ID_LENGTH_MAX = 36


def on_heartbeat(context: Context, call: Call) -> None:
    """Bring a member one step further, and tell it where it is."""
    request: ShareGroupHeartbeatRequest = call.read()
    share = context.doors.groups.share
    if not request.group_id or not 0 < len(request.member_id) <= MEMBER_ID_LENGTH_MAX:
        call.answer(
            heartbeating.ShareGroupHeartbeatResponse(
                error_code=code_of_group_error(GroupError.INVALID_REQUEST),
                error_message="a group's and a member's id are needed",
            )
        )
        return
    names = request.subscribed_topic_names
    asked = ShareHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topic_names=None if names is None else frozenset(names),
        client_id=call.header.client_id or "",
        client_host=call.connection.host,
    )

    def answer() -> None:
        result = share.heartbeat(asked)
        heartbeat_ms = share.settings(asked.group_id).heartbeat_ms
        if result.again_ms is not None:
            heartbeat_ms = min(heartbeat_ms, result.again_ms)
        assignment = None
        if result.assignment is not None:
            assignment = heartbeating.Assignment(
                [
                    heartbeating.TopicPartitions(topic_id, partitions)
                    for topic_id, partitions in _by_topic(result.assignment)
                ]
            )
        call.answer(
            heartbeating.ShareGroupHeartbeatResponse(
                error_code=code_of_group_error(result.error),
                error_message=None,
                member_id=asked.member_id,
                member_epoch=result.member_epoch,
                heartbeat_interval_ms=heartbeat_ms,
                assignment=assignment,
            )
        )

    # The topic whose partitions say who coordinates may be just coming into being.
    context.doors.groups.when_found((asked.group_id,), answer)


def _by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[TopicId, list[int]]]:
    found: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return list(found.items())


def on_describe(context: Context, call: Call) -> None:
    """Show share groups, and their members."""
    request: ShareGroupDescribeRequest = call.read()
    state, groups = context.doors.cluster.state, []
    for group_id in dict.fromkeys(request.group_ids):
        found = context.doors.groups.share.find(group_id)
        if isinstance(found, GroupError):
            groups.append(_absent(group_id, found))
            continue
        shown = _described(state, found)
        if request.include_authorized_operations:
            shown.authorized_operations = GROUP_OPERATIONS
        groups.append(shown)
    call.answer(describing.ShareGroupDescribeResponse(groups=groups))


def _absent(group_id: str, error: GroupError) -> describing.DescribedGroup:
    is_unknown = error is GroupError.GROUP_ID_NOT_FOUND
    return describing.DescribedGroup(
        error_code=code_of_group_error(error),
        error_message=f"Group {group_id} not found." if is_unknown else None,
        group_id=group_id,
        group_state="Dead" if is_unknown else "",
        assignor_name="",
        members=[],
        authorized_operations=OPERATIONS_OMITTED,
    )


def _described(state: ClusterState, group: ShareGroup) -> describing.DescribedGroup:
    return describing.DescribedGroup(
        error_message=None,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=ASSIGNOR,
        members=[
            describing.Member(
                member_id=each.member_id,
                rack_id=each.rack_id,
                member_epoch=each.epoch,
                client_id=each.client_id,
                client_host=each.client_host,
                subscribed_topic_names=sorted(each.topic_names),
                assignment=_assignment(state, each.assignment),
            )
            for each in group.members.values()
        ],
    )


def _assignment(
    state: ClusterState, partitions: Iterable[TopicIdPartition]
) -> describing.Assignment:
    return describing.Assignment(
        [
            describing.TopicPartitions(topic_id, topic.name, numbers)
            for topic_id, numbers in _by_topic(partitions)
            if (topic := state.topics_by_id.get(topic_id)) is not None
        ]
    )
