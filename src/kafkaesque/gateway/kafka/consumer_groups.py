"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the new kind (KIP-848)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable

from kafkaesque.broker.doors import Doors
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of_group_error
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.groups import error_of
from kafkaesque.gateway.kafka.operation_bits import (
    GROUP_OPERATIONS,
    OPERATIONS_OMITTED,
)
from kafkaesque.groups.consumer import events, results
from kafkaesque.groups.consumer.topics import Partitions, TopicIdPartition
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import Result
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.kafka.messages import (
    consumer_group_describe_response as describe_response,
)
from kafkaesque.protocols.kafka.messages import (
    consumer_group_heartbeat_response as heartbeat_response,
)
from kafkaesque.protocols.kafka.messages.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)

#: From this version of ConsumerGroupHeartbeat on, members choose their ids (KIP-1082).
_HEARTBEAT_WITH_MEMBER_ID = 1
#: "As before", for a rebalance timeout.
_AS_BEFORE = -1
#: What ConsumerGroupDescribe calls members by the protocol that they speak.
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


# -- ConsumerGroupHeartbeat


def on_consumer_group_heartbeat(context: Context, call: Call) -> None:
    """Bring a member one step further, and tell it where it is."""
    request: ConsumerGroupHeartbeatRequest = call.read()
    coordinators = context.doors.groups
    timeout_ms = request.rebalance_timeout_ms
    names = request.subscribed_topic_names
    event = events.ConsumerGroupHeartbeat(
        token=coordinators.next_token(),
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if timeout_ms == _AS_BEFORE else timeout_ms,
        topic_names=None if names is None else tuple(names),
        topic_expression=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=_owned(request),
        client_id=call.header.client_id or "",
        client_host=call.connection.host,
        new_member_id=_new_member_id(context.doors.dice.unique_bytes(16)),
        requires_member_id=call.version >= _HEARTBEAT_WITH_MEMBER_ID,
    )

    def on_result(result: Result | GroupError) -> None:
        if not isinstance(result, results.ConsumerHeartbeatResult):
            result = results.ConsumerHeartbeatResult(error=error_of(result))
        call.answer(_heartbeat_response(result))

    coordinators.step(event.group_id, event, on_result)


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return frozenset(
        TopicIdPartition(TopicId(bytes(topic.topic_id)), each)
        for topic in request.topic_partitions
        for each in topic.partitions
    )


def _new_member_id(drawn: bytes) -> str:
    """Return sixteen bytes as Kafka writes a UUID."""
    return urlsafe_b64encode(drawn).rstrip(b"=").decode()


def _heartbeat_response(
    result: results.ConsumerHeartbeatResult,
) -> heartbeat_response.ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = heartbeat_response.Assignment(
            [
                heartbeat_response.TopicPartitions(topic_id, partitions)
                for topic_id, partitions in _by_topic(result.assignment)
            ]
        )
    return heartbeat_response.ConsumerGroupHeartbeatResponse(
        error_code=code_of_group_error(result.error),
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def _by_topic(partitions: Partitions) -> Iterable[tuple[bytes, list[int]]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return found.items()


# -- ConsumerGroupDescribe


def on_consumer_group_describe(context: Context, call: Call) -> None:
    """Show groups of the new kind, and their members."""
    request: ConsumerGroupDescribeRequest = call.read()
    group_ids = dict.fromkeys(request.group_ids)
    pieces = [_Description(context.doors, group_id) for group_id in group_ids]

    def answer() -> None:
        groups = [_described(piece.found) for piece in pieces]
        if request.include_authorized_operations:
            for group in groups:
                is_there = group.error_code == 0
                group.authorized_operations = GROUP_OPERATIONS if is_there else OPERATIONS_OMITTED
        call.answer(describe_response.ConsumerGroupDescribeResponse(groups=groups))

    Queue(context.doors.clock, [piece.start for piece in pieces], answer).start()


class _Description:
    """One group of a ConsumerGroupDescribe; `found` is there when `start` has called back."""

    __slots__ = ("_doors", "found")

    def __init__(self, doors: Doors, group_id: str) -> None:
        self._doors = doors
        self.found = results.DescribedConsumerGroup(
            error=GroupError.UNKNOWN_SERVER_ERROR, group_id=group_id
        )

    def start(self, on_done: Callable[[], None]) -> None:
        """Ask the coordinator."""
        group_id = self.found.group_id

        def on_result(result: Result | GroupError) -> None:
            if isinstance(result, results.ConsumerDescribeResult):
                (self.found,) = result.groups
            else:
                self.found = results.DescribedConsumerGroup(
                    error=error_of(result), group_id=group_id
                )
            on_done()

        coordinators = self._doors.groups
        event = events.ConsumerGroupDescribe(token=coordinators.next_token(), group_ids=(group_id,))
        coordinators.step(group_id, event, on_result)


def _described(found: results.DescribedConsumerGroup) -> describe_response.DescribedGroup:
    return describe_response.DescribedGroup(
        error_code=code_of_group_error(found.error),
        error_message=found.message,
        group_id=found.group_id,
        group_state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.target_epoch,
        assignor_name=found.assignor,
        members=[
            describe_response.Member(
                member_id=each.member_id,
                instance_id=each.instance_id,
                rack_id=each.rack_id,
                member_epoch=each.member_epoch,
                client_id=each.client_id,
                client_host=each.client_host,
                subscribed_topic_names=each.topic_names,
                subscribed_topic_regex=each.topic_expression,
                assignment=_assignment(each.assignment),
                target_assignment=_assignment(each.target_assignment),
                member_type=_CLASSIC_MEMBER if each.is_classic else _CONSUMER_MEMBER,
            )
            for each in found.members
        ],
    )


def _assignment(partitions: Iterable[results.NamedPartitions]) -> describe_response.Assignment:
    return describe_response.Assignment(
        [
            describe_response.TopicPartitions(each.topic_id, each.topic_name, each.partitions)
            for each in partitions
        ]
    )
