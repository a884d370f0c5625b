"""Groups, their members and offsets."""

from collections.abc import Callable
from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.topic_views import find_readable_by_id
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.guards.filtering import Guard, keep_allowed
from kafkaesque.gateway.kafka.guards.topics import FORBIDDEN as TOPIC_FORBIDDEN
from kafkaesque.gateway.kafka.guards.topics import MESSAGE as TOPIC_MESSAGE
from kafkaesque.gateway.kafka.operation_bits import OPERATIONS_OMITTED
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.consumer_group_describe_response import (
    DescribedGroup as DescribedConsumerGroup,
)
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from kafkaesque.protocols.kafka.messages.delete_groups_response import DeletableGroupResult
from kafkaesque.protocols.kafka.messages.describe_groups_response import DescribedGroup
from kafkaesque.protocols.kafka.messages.heartbeat_response import HeartbeatResponse
from kafkaesque.protocols.kafka.messages.join_group_response import JoinGroupResponse
from kafkaesque.protocols.kafka.messages.leave_group_response import LeaveGroupResponse
from kafkaesque.protocols.kafka.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkaesque.protocols.kafka.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafkaesque.protocols.kafka.messages.sync_group_response import SyncGroupResponse

FORBIDDEN: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
MESSAGE: Final = "Group authorization failed."
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
#: From this version on, OffsetCommit and OffsetFetch name topics by their ids.
_WITH_TOPIC_IDS: Final = 10
_FETCH_WITH_ERROR: Final = 2
_FETCH_WITH_GROUPS: Final = 8


def _member_guard(refuse: Callable[[Any], Any]) -> Guard:
    def guard(rights: Rights, context: Context, call: Call) -> bool:
        request = call.read()
        if rights.may(Operation.READ, _GROUP, request.group_id):
            call.prepare(request)
            return True
        call.answer(refuse(request))
        return False

    return guard


join_group: Final[Guard] = _member_guard(
    lambda request: JoinGroupResponse(
        error_code=FORBIDDEN, member_id=request.member_id, protocol_name=""
    )
)
sync_group: Final[Guard] = _member_guard(lambda _: SyncGroupResponse(error_code=FORBIDDEN))
heartbeat: Final[Guard] = _member_guard(lambda _: HeartbeatResponse(error_code=FORBIDDEN))
leave_group: Final[Guard] = _member_guard(lambda _: LeaveGroupResponse(error_code=FORBIDDEN))


def consumer_group_heartbeat(rights: Rights, context: Context, call: Call) -> bool:
    """A member may read the group, and describe all topics that it names."""
    request = call.read()
    code = None
    if not rights.may(Operation.READ, _GROUP, request.group_id):
        code, message = FORBIDDEN, MESSAGE
    elif not all(
        rights.may(Operation.DESCRIBE, _TOPIC, each)
        for each in request.subscribed_topic_names or ()
    ):
        code, message = TOPIC_FORBIDDEN, TOPIC_MESSAGE
    if code is None:
        call.prepare(request)
        return True
    call.answer(ConsumerGroupHeartbeatResponse(error_code=code, error_message=message))
    return False


# -- offsets


def offset_commit(rights: Rights, context: Context, call: Call) -> bool:
    """Read the group, and each topic."""
    request = call.read()
    has_ids = call.version >= _WITH_TOPIC_IDS

    def refuse(topic: Any, code: ErrorCode = TOPIC_FORBIDDEN) -> OffsetCommitResponseTopic:
        return OffsetCommitResponseTopic(
            topic_id=topic.topic_id,
            name=topic.name,
            partitions=[
                OffsetCommitResponsePartition(each.partition_index, code)
                for each in topic.partitions
            ],
        )

    if not rights.may(Operation.READ, _GROUP, request.group_id):
        topics = [refuse(each, FORBIDDEN) for each in request.topics]
        call.answer(OffsetCommitResponse(topics=topics))
        return False
    is_allowed = _by_name_or_id(rights, context, Operation.READ, has_ids=has_ids)
    keep_allowed(call, request, "topics", is_allowed, "topics", refuse)
    return True


def _by_name_or_id(
    rights: Rights, context: Context, operation: Operation, *, has_ids: bool
) -> Callable[[Any], bool]:
    def is_allowed(topic: Any) -> bool:
        name = topic.name
        if has_ids:
            cluster = context.doors.cluster.state
            state = find_readable_by_id(cluster, TopicId(bytes(topic.topic_id)))
            if state is None:
                return True  # There is none with this id, and that is what is answered.
            name = state.name
        return rights.may(operation, _TOPIC, name)

    return is_allowed


def offset_fetch(rights: Rights, context: Context, call: Call) -> bool:
    """Describe the groups, and each topic; of all topics, those that may be described."""
    request = call.read()
    if call.version >= _FETCH_WITH_GROUPS:
        _fetch_groups(rights, context, call, request)
        return True
    if rights.may(Operation.DESCRIBE, _GROUP, request.group_id):
        call.prepare(request)
        _fetch_topics(rights, call, request)
        return True
    answer = OffsetFetchResponse(error_code=FORBIDDEN)
    if call.version < _FETCH_WITH_ERROR:
        answer.topics = [_refused_topic(each, FORBIDDEN) for each in request.topics or ()]
    call.answer(answer)
    return False


def _fetch_topics(rights: Rights, call: Call, request: Any) -> None:
    def may_describe(topic: Any) -> bool:
        return rights.may(Operation.DESCRIBE, _TOPIC, topic.name)

    def could_describe(topic: Any) -> bool:
        return rights.could(Operation.DESCRIBE, _TOPIC, topic.name)

    if request.topics is not None:
        keep_allowed(call, request, "topics", may_describe, "topics", _refused_topic)
        return

    def hide(answer: Any) -> None:
        answer.topics = [each for each in answer.topics if could_describe(each)]

    call.prepare(request, hide)


def _refused_topic(topic: Any, code: ErrorCode = TOPIC_FORBIDDEN) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=each, committed_offset=-1, metadata="", error_code=code
            )
            for each in topic.partition_indexes
        ],
    )


def _fetch_groups(rights: Rights, context: Context, call: Call, request: Any) -> None:
    keep_allowed(
        call,
        request,
        "groups",
        lambda group: rights.may(Operation.DESCRIBE, _GROUP, group.group_id),
        "groups",
        lambda group: OffsetFetchResponseGroup(group_id=group.group_id, error_code=FORBIDDEN),
    )
    has_ids = call.version >= _WITH_TOPIC_IDS
    may_describe = _by_name_or_id(rights, context, Operation.DESCRIBE, has_ids=has_ids)
    refusals: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in request.groups:
        if group.topics is None:
            continue
        allowed: list[Any] = []
        refused: list[Any] = []
        for each in group.topics:
            (allowed if may_describe(each) else refused).append(each)
        group.topics = allowed
        refusals[group.group_id] = [_refused_topics(each) for each in refused]

    def amend(answer: Any) -> None:
        for group in answer.groups:
            # By name, which the answer has; where all topics were asked for, none was refused.
            refused = refusals.get(group.group_id)
            if group.error_code == 0 and refused:
                group.topics = [*group.topics, *refused]
            elif refused is None:
                group.topics = [
                    each
                    for each in group.topics
                    if rights.could(Operation.DESCRIBE, _TOPIC, each.name)
                ]

    call.prepare(request, amend)


def _refused_topics(topic: Any) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=each, committed_offset=-1, metadata="", error_code=TOPIC_FORBIDDEN
            )
            for each in topic.partition_indexes
        ],
    )


def offset_delete(rights: Rights, context: Context, call: Call) -> bool:
    """Delete for the group, Read for each topic."""
    request = call.read()
    if not rights.may(Operation.DELETE, _GROUP, request.group_id):
        call.answer(OffsetDeleteResponse(error_code=FORBIDDEN))
        return False
    keep_allowed(
        call,
        request,
        "topics",
        lambda topic: rights.may(Operation.READ, _TOPIC, topic.name),
        "topics",
        lambda topic: OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(each.partition_index, TOPIC_FORBIDDEN)
                for each in topic.partitions
            ],
        ),
    )
    return True


# -- for those who look after groups


def list_groups(rights: Rights, context: Context, call: Call) -> bool:
    """Those that may be described; Describe on the cluster is for all."""
    if rights.could_cluster(Operation.DESCRIBE):
        return True

    def hide(answer: Any) -> None:
        answer.groups = [
            each
            for each in answer.groups
            if rights.could(Operation.DESCRIBE, _GROUP, each.group_id)
        ]

    call.prepare(call.read(), hide)
    return True


def _show_operations(rights: Rights, answer: Any) -> None:
    for group in answer.groups:
        if group.authorized_operations != OPERATIONS_OMITTED:
            group.authorized_operations = rights.bits(_GROUP, group.group_id)


def describe_groups(rights: Rights, context: Context, call: Call) -> bool:
    """Describe for each group."""
    request = call.read()
    call.prepare(request, lambda answer: _show_operations(rights, answer))
    keep_allowed(
        call,
        request,
        "groups",
        lambda group_id: rights.may(Operation.DESCRIBE, _GROUP, group_id),
        "groups",
        lambda group_id: DescribedGroup(error_code=FORBIDDEN, group_id=group_id),
    )
    return True


def consumer_group_describe(rights: Rights, context: Context, call: Call) -> bool:
    """Describe for each group, and for all topics that its members have or name."""
    request = call.read()

    def hide(answer: Any) -> None:
        answer.groups = [
            each if _may_see_topics(rights, each) else _hidden(each) for each in answer.groups
        ]
        _show_operations(rights, answer)

    call.prepare(request, hide)
    keep_allowed(
        call,
        request,
        "group_ids",
        lambda group_id: rights.may(Operation.DESCRIBE, _GROUP, group_id),
        "groups",
        lambda group_id: DescribedConsumerGroup(
            error_code=FORBIDDEN, error_message=MESSAGE, group_id=group_id
        ),
    )
    return True


def _may_see_topics(rights: Rights, group: Any) -> bool:
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    names.update(name for member in group.members for name in member.subscribed_topic_names)
    return all(rights.could(Operation.DESCRIBE, _TOPIC, each) for each in names)


def _hidden(group: Any) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        error_code=TOPIC_FORBIDDEN,
        error_message="The group has topics that may not be described.",
        group_id=group.group_id,
    )


def delete_groups(rights: Rights, context: Context, call: Call) -> bool:
    """Delete for each group."""
    request = call.read()
    keep_allowed(
        call,
        request,
        "groups_names",
        lambda group_id: rights.may(Operation.DELETE, _GROUP, group_id),
        "results",
        lambda group_id: DeletableGroupResult(group_id=group_id, error_code=FORBIDDEN),
    )
    return True
