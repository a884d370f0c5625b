"""Topics and their partitions: what is allowed of requests that name them.

Whether a topic exists is looked at only where its name is allowed: what is forbidden and what does
not exist are answered alike.
"""

from __future__ import annotations

from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.topic_views import all_readable, find_readable_by_id
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.guards.filtering import Guard, keep_allowed, topics_guard
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_partitions_response import (
    CreatePartitionsTopicResult,
)
from kafkaesque.protocols.kafka.messages.create_topics_response import CreatableTopicResult
from kafkaesque.protocols.kafka.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import DeleteTopicState
from kafkaesque.protocols.kafka.messages.delete_topics_response import DeletableTopicResult
from kafkaesque.protocols.kafka.messages.describe_producers_response import (
    PartitionResponse,
    TopicResponse,
)
from kafkaesque.protocols.kafka.messages.describe_topic_partitions_request import TopicRequest
from kafkaesque.protocols.kafka.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from kafkaesque.protocols.kafka.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)
from kafkaesque.protocols.kafka.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderTopicResult,
)

FORBIDDEN: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MESSAGE: Final = "Topic authorization failed."
_TOPIC: Final = ResourceType.TOPIC
_NO_OFFSET: Final = -1
_VERSION_WITH_TOPIC_STATES: Final = 6


def _refused_offsets(topic: Any) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        topic.name,
        [
            ListOffsetsPartitionResponse(each.partition_index, FORBIDDEN)
            for each in topic.partitions
        ],
    )


def _refused_epochs(topic: Any) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic.topic, [EpochEndOffset(FORBIDDEN, each.partition) for each in topic.partitions]
    )


def _refused_deletion(topic: Any) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        topic.name,
        [
            DeleteRecordsPartitionResult(each.partition_index, _NO_OFFSET, FORBIDDEN)
            for each in topic.partitions
        ],
    )


def _refused_producers(topic: Any) -> TopicResponse:
    return TopicResponse(
        topic.name,
        [PartitionResponse(each, FORBIDDEN, MESSAGE) for each in topic.partition_indexes],
    )


def _refused_growth(topic: Any) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, FORBIDDEN, MESSAGE)


list_offsets: Final[Guard] = topics_guard(Operation.DESCRIBE, "topics", _refused_offsets)
offset_for_leader_epoch: Final[Guard] = topics_guard(
    Operation.DESCRIBE, "topics", _refused_epochs, name="topic"
)
delete_records: Final[Guard] = topics_guard(Operation.DELETE, "topics", _refused_deletion)
describe_producers: Final[Guard] = topics_guard(Operation.READ, "topics", _refused_producers)
create_partitions: Final[Guard] = topics_guard(Operation.ALTER, "results", _refused_growth)


def create_topics(rights: Rights, context: Context, call: Call) -> bool:
    """Create on the cluster allows all names; and options are for those who may describe them."""
    request = call.read()
    may_any = rights.could_cluster(Operation.CREATE)
    keep_allowed(
        call,
        request,
        "topics",
        lambda topic: may_any or rights.may(Operation.CREATE, _TOPIC, topic.name),
        "topics",
        lambda topic: CreatableTopicResult(
            name=topic.name, error_code=FORBIDDEN, error_message=MESSAGE
        ),
    )

    def hide_options(answer: Any) -> None:
        for each in answer.topics:
            may_see = rights.could(Operation.DESCRIBE_CONFIGS, _TOPIC, each.name)
            if each.error_code == 0 and not may_see:
                each.topic_config_error_code = FORBIDDEN
                each.num_partitions = each.replication_factor = -1
                each.configs = None

    call.prepare(request, hide_options)
    return True


def delete_topics(rights: Rights, context: Context, call: Call) -> bool:
    """Whoever may delete a topic and not describe it is told what others are told."""
    request = call.read()
    has_states = call.version >= _VERSION_WITH_TOPIC_STATES

    def is_allowed(wanted: Any) -> bool:
        name = _name_of(context, wanted) if has_states else wanted
        if name is None:
            return True  # There is no topic with this id.
        return rights.may(Operation.DESCRIBE, _TOPIC, name) and rights.may(
            Operation.DELETE, _TOPIC, name
        )

    def refuse(wanted: Any) -> DeletableTopicResult:
        state = wanted if has_states else DeleteTopicState(name=wanted)
        return DeletableTopicResult(
            name=told_name(state),
            topic_id=bytes(state.topic_id),
            error_code=FORBIDDEN,
            error_message=MESSAGE,
        )

    def told_name(state: DeleteTopicState) -> str | None:
        if state.name is not None:
            return state.name
        name = _name_of(context, state)
        may_see = name is not None and rights.could(Operation.DESCRIBE, _TOPIC, name)
        return name if may_see else None

    asked = "topics" if has_states else "topic_names"
    keep_allowed(call, request, asked, is_allowed, "responses", refuse)
    return True


def _name_of(context: Context, wanted: Any) -> str | None:
    if wanted.name is not None:
        name: str = wanted.name
        return name
    cluster = context.doors.cluster.state
    topic = find_readable_by_id(cluster, TopicId(bytes(wanted.topic_id)))
    return None if topic is None else topic.name


def describe_topic_partitions(rights: Rights, context: Context, call: Call) -> bool:
    """Of all topics those that may be described; of named ones, the others are refused."""
    request = call.read()
    is_all = not request.topics
    asked = all_readable(context.doors.cluster.state) if is_all else request.topics
    names = [each.name for each in asked]
    ask = rights.could if is_all else rights.may
    allowed = [each for each in names if ask(Operation.DESCRIBE, _TOPIC, each)]
    refused = [] if is_all else [each for each in names if each not in set(allowed)]
    refusals = [
        DescribeTopicPartitionsResponseTopic(error_code=FORBIDDEN, name=each)
        for each in dict.fromkeys(refused)
    ]
    cursor = request.cursor
    if cursor is not None and cursor.topic_name not in allowed:
        # What comes after it; that it is there need not be known.
        allowed = [each for each in allowed if each > cursor.topic_name]
        request.cursor = None
    if not allowed:
        call.answer(DescribeTopicPartitionsResponse(topics=refusals))
        return False
    request.topics = [TopicRequest(each) for each in allowed]

    def amend(answer: Any) -> None:
        for each in answer.topics:
            each.topic_authorized_operations = rights.bits(_TOPIC, each.name)
        answer.topics = [*answer.topics, *refusals]

    call.prepare(request, amend)
    return True
