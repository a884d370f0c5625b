"""AlterPartitionReassignments and ListPartitionReassignments: replicas that move (ADR 17)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkaesque.broker.requests.commands import (
    AskMoves,
    ControllerResult,
    MoveReplicas,
    MovesResult,
    MovesView,
    MovingPartition,
    WantedReplicas,
)
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, code_of_named, message_of
from kafkaesque.gateway.kafka.topic_admin import TIMEOUT_MS_MAX
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
)
from kafkaesque.protocols.kafka.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafkaesque.protocols.kafka.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from kafkaesque.protocols.kafka.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def on_alter_partition_reassignments(context: Context, call: Call) -> None:
    """Have replicas moved, or moves stopped; answered when that is decided, not when it is done."""
    request: AlterPartitionReassignmentsRequest = call.read()
    wanted = [
        WantedReplicas(
            topic=topic.name,
            partition=partition.partition_index,
            replicas=None if partition.replicas is None else list(partition.replicas),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    may_change_factor = request.allow_replication_factor_change

    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        call.answer(_answer(wanted, outcome, may_change_factor=may_change_factor))

    command = MoveReplicas(partitions=wanted, may_change_factor=may_change_factor)
    timeout_ms = max(0, min(request.timeout_ms, TIMEOUT_MS_MAX))
    context.doors.cluster.submit(call.on_behalf(command), timeout_ms, on_outcome)


def _answer(
    wanted: list[WantedReplicas],
    outcome: ControllerResult | RequestRefused,
    *,
    may_change_factor: bool,
) -> AlterPartitionReassignmentsResponse:
    answer = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor, error_message=None
    )
    if not isinstance(outcome, MovesResult):
        assert isinstance(outcome, RequestRefused)
        answer.error_code, answer.error_message = code_of(outcome), message_of(outcome)
        return answer
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    for each, refusal in zip(wanted, outcome.refusals, strict=True):
        result = ReassignablePartitionResponse(each.partition, ErrorCode.NONE, None)
        if refusal is not None:
            result.error_code = code_of_named(refusal.error)
            result.error_message = refusal.message
        topics.setdefault(each.topic, []).append(result)
    answer.responses = [ReassignableTopicResponse(name, parts) for name, parts in topics.items()]
    return answer


def on_list_partition_reassignments(context: Context, call: Call) -> None:
    """Say which replicas move, of all partitions or of those that are named.

    Whoever leads the controllers says so: this broker may not have heard yet of a move that its
    client was told of, and what is not listed is taken for done.
    """
    request: ListPartitionReassignmentsRequest = call.read()
    named = None
    if request.topics is not None:
        named = {(each.name, index) for each in request.topics for index in each.partition_indexes}

    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        answer = ListPartitionReassignmentsResponse(error_message=None)
        if isinstance(outcome, MovesView):
            moving = outcome.moving
            answer.topics = _by_topic(
                each for each in moving if named is None or (each.topic, each.partition) in named
            )
        else:
            assert isinstance(outcome, RequestRefused)
            answer.error_code, answer.error_message = code_of(outcome), message_of(outcome)
        call.answer(answer)

    context.doors.cluster.submit(
        call.on_behalf(AskMoves()),
        max(0, min(request.timeout_ms, TIMEOUT_MS_MAX)),
        on_outcome,
    )


def _by_topic(moving: Iterable[MovingPartition]) -> list[OngoingTopicReassignment]:
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for each in moving:
        topics.setdefault(each.topic, []).append(
            OngoingPartitionReassignment(each.partition, each.replicas, each.adding, each.removing)
        )
    return [OngoingTopicReassignment(name, partitions) for name, partitions in topics.items()]
