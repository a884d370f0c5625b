"""Share groups: their members, what these read, and where groups are."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.guards.filtering import Guard, keep_allowed
from kafkaesque.gateway.kafka.guards.groups import FORBIDDEN, MESSAGE
from kafkaesque.gateway.kafka.guards.topics import FORBIDDEN as TOPIC_FORBIDDEN
from kafkaesque.gateway.kafka.guards.topics import MESSAGE as TOPIC_MESSAGE
from kafkaesque.gateway.kafka.operation_bits import OPERATIONS_OMITTED
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kafkaesque.protocols.kafka.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponseTopic,
)
from kafkaesque.protocols.kafka.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup,
)
from kafkaesque.protocols.kafka.messages.share_group_describe_response import DescribedGroup

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_NO_ID: Final = bytes(16)


def _refuse(call: Call, code: int, message: str) -> bool:
    name = ApiKey(call.header.api_key).name
    module = import_module(f"kafkaesque.protocols.kafka.messages.{name.lower()}_response")
    kind = "".join(word.capitalize() for word in name.split("_")) + "Response"
    call.answer(getattr(module, kind)(error_code=code, error_message=message))
    return False


def _group_guard(operation: Operation) -> Guard:
    def guard(rights: Rights, context: Context, call: Call) -> bool:
        request = call.read()
        if not rights.may(operation, _GROUP, request.group_id or ""):
            return _refuse(call, FORBIDDEN, MESSAGE)
        call.prepare(request)
        return True

    return guard


share_fetch: Final[Guard] = _group_guard(Operation.READ)
share_acknowledge: Final[Guard] = _group_guard(Operation.READ)


def heartbeat(rights: Rights, context: Context, call: Call) -> bool:
    """A member may read the group, and describe all topics that it names."""
    request = call.read()
    if not rights.may(Operation.READ, _GROUP, request.group_id):
        return _refuse(call, FORBIDDEN, MESSAGE)
    names = request.subscribed_topic_names or ()
    if not all(rights.may(Operation.DESCRIBE, _TOPIC, each) for each in names):
        return _refuse(call, TOPIC_FORBIDDEN, TOPIC_MESSAGE)
    call.prepare(request)
    return True


def describe(rights: Rights, context: Context, call: Call) -> bool:
    """Describe for each group, and for all topics that its members have or name."""
    request = call.read()

    def hide(answer: Any) -> None:
        answer.groups = [
            each if _may_see_topics(rights, each) else _hidden(each) for each in answer.groups
        ]
        for group in answer.groups:
            if group.authorized_operations != OPERATIONS_OMITTED:
                group.authorized_operations = rights.bits(_GROUP, group.group_id)

    call.prepare(request, hide)
    keep_allowed(
        call,
        request,
        "group_ids",
        lambda group_id: rights.may(Operation.DESCRIBE, _GROUP, group_id),
        "groups",
        lambda group_id: _shown(group_id, FORBIDDEN, MESSAGE),
    )
    return True


def _may_see_topics(rights: Rights, group: Any) -> bool:
    names = {
        topic.topic_name for member in group.members for topic in member.assignment.topic_partitions
    }
    names.update(name for member in group.members for name in member.subscribed_topic_names)
    return all(rights.could(Operation.DESCRIBE, _TOPIC, each) for each in names)


def _hidden(group: Any) -> DescribedGroup:
    return _shown(
        group.group_id, TOPIC_FORBIDDEN, "The group has topics that may not be described."
    )


def _shown(group_id: str, code: int, message: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        assignor_name="",
        members=[],
    )


# -- offsets


def describe_offsets(rights: Rights, context: Context, call: Call) -> bool:
    """Describe for each group; of its topics those that may be described."""
    request = call.read()

    def hide(answer: Any) -> None:
        for group in answer.groups:
            group.topics = [
                each
                for each in group.topics
                if rights.could(Operation.DESCRIBE, _TOPIC, each.topic_name)
            ]

    call.prepare(request, hide)
    keep_allowed(
        call,
        request,
        "groups",
        lambda group: rights.may(Operation.DESCRIBE, _GROUP, group.group_id),
        "groups",
        lambda group: DescribeShareGroupOffsetsResponseGroup(
            group_id=group.group_id, topics=[], error_code=FORBIDDEN, error_message=MESSAGE
        ),
    )
    return True


def _offsets_guard(operation: Operation, refused: Callable[[Any], Any]) -> Guard:
    """Ask for the group, and Read for each topic."""

    def guard(rights: Rights, context: Context, call: Call) -> bool:
        request = call.read()
        if not rights.may(operation, _GROUP, request.group_id):
            return _refuse(call, FORBIDDEN, MESSAGE)
        keep_allowed(
            call,
            request,
            "topics",
            lambda topic: rights.may(Operation.READ, _TOPIC, topic.topic_name),
            "responses",
            refused,
        )
        return True

    return guard


alter_offsets: Final[Guard] = _offsets_guard(
    Operation.READ,
    lambda topic: AlterShareGroupOffsetsResponseTopic(
        topic.topic_name,
        _NO_ID,
        [
            AlterShareGroupOffsetsResponsePartition(
                each.partition_index, TOPIC_FORBIDDEN, TOPIC_MESSAGE
            )
            for each in topic.partitions
        ],
    ),
)
delete_offsets: Final[Guard] = _offsets_guard(
    Operation.DELETE,
    lambda topic: DeleteShareGroupOffsetsResponseTopic(
        topic.topic_name, _NO_ID, TOPIC_FORBIDDEN, TOPIC_MESSAGE
    ),
)
