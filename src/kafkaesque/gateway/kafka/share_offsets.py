"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import ResourceType
from kafkaesque.broker.metadata.queue_names import share_queue
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import LATEST, Done, FetchResult
from kafkaesque.broker.requests.queue_commands import CreateShareQueue, QueueResult
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.data_changes import tell_parts
from kafkaesque.gateway.kafka.errors import code_of, code_of_group_error, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.groups.errors import GroupError
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicId, TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import alter_share_group_offsets_response as altering
from kafkaesque.protocols.kafka.messages import delete_share_group_offsets_response as deleting
from kafkaesque.protocols.kafka.messages import describe_share_group_offsets_response as describing
from kafkaesque.protocols.kafka.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
)

#: The requests say no time; clients wait this long by default.
TIMEOUT_MS: Final = 30_000
_NOT_BEGUN: Final = -1

Piece = Callable[[Callable[[], None]], None]
Described = describing.DescribeShareGroupOffsetsResponsePartition


# -- describing


def on_describe(context: Context, call: Call) -> None:
    """Say where groups are: the first record that is not done with, and how many are left."""
    request: DescribeShareGroupOffsetsRequest = call.read()
    groups: list[describing.DescribeShareGroupOffsetsResponseGroup] = []
    pieces: list[Piece] = []
    for asked in request.groups:
        found = context.doors.groups.share.find(asked.group_id)
        topics: list[describing.DescribeShareGroupOffsetsResponseTopic] = []
        shown = describing.DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, topics=topics, error_message=None
        )
        groups.append(shown)
        if isinstance(found, GroupError):
            shown.error_code = code_of_group_error(found)
            continue
        for name, numbers in _wanted(context, asked):
            topic = describing.DescribeShareGroupOffsetsResponseTopic(name, bytes(16), [])
            topics.append(topic)
            pieces += _describe_topic(context, asked.group_id, topic, numbers)
    response = describing.DescribeShareGroupOffsetsResponse(groups=groups)
    Queue(context.clock, pieces, lambda: call.answer(response)).start()


def _wanted(context: Context, asked: Any) -> list[tuple[str, list[int] | None]]:
    """Return topics with partitions; None stands for all."""
    if asked.topics is not None:
        return [(each.topic_name, list(each.partitions)) for each in asked.topics]
    topics = context.doors.cluster.state.topics_by_id
    cursors = context.doors.groups.share.cursors(asked.group_id)
    found = [topics.get(each.source) for each in cursors if each.source is not None]
    return [(each.name, None) for each in found if each is not None]


def _describe_topic(
    context: Context,
    group_id: str,
    shown: describing.DescribeShareGroupOffsetsResponseTopic,
    numbers: list[int] | None,
) -> list[Piece]:
    state = context.doors.cluster.state
    topic = state.topics.get(shown.topic_name)
    queue = None if topic is None else state.queues.get(share_queue(group_id, topic.topic_id))
    if topic is not None:
        shown.topic_id = topic.topic_id
    if numbers is None:
        numbers = [] if queue is None else list(range(len(queue.partitions)))
    pieces: list[Piece] = []
    partitions = [Described(number, _NOT_BEGUN, 0, error_message=None) for number in numbers]
    shown.partitions = partitions
    for number, partition in zip(numbers, partitions, strict=True):
        if topic is None or not 0 <= number < len(topic.partitions):
            partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif queue is not None and number < len(queue.partitions):
            where = TopicPartition(topic.name, number)
            pieces.append(_describe_partition(context, queue.topic_id, where, partition))
    return pieces


def _describe_partition(
    context: Context, log_id: TopicId, where: TopicPartition, shown: Described
) -> Piece:
    def start(on_done: Callable[[], None]) -> None:
        def on_counts(outcome: q.QueueCounts | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                shown.error_code, shown.error_message = code_of(outcome), message_of(outcome)
                on_done()
            elif not outcome.has_begun:
                on_done()
            else:
                shown.start_offset = outcome.floor
                counts = outcome
                context.doors.reading.fetch(
                    where, LATEST, 1, TIMEOUT_MS, lambda found: on_end(counts, found)
                )

        def on_end(counts: q.QueueCounts, found: FetchResult | RequestRefused) -> None:
            if isinstance(found, FetchResult):
                # Behind the last record may be ends of transactions, and what was aborted.
                read_to = counts.end if counts.read_to is UNSET else counts.read_to
                unread = max(0, found.last_stable_offset - read_to)
                shown.lag = unread + counts.ready + counts.delayed + counts.in_flight
            on_done()

        request = q.AskQueue(log_id=log_id, partition=where.partition)
        context.doors.queues.ask(request, q.QueueCounts, TIMEOUT_MS, on_counts)

    return start


# -- changing


def _group_error(context: Context, group_id: str) -> GroupError:
    """Return why a group's offsets cannot be changed: only one without members may be."""
    found = context.doors.groups.share.find(group_id)
    if isinstance(found, GroupError):
        return GroupError.NONE if found is GroupError.GROUP_ID_NOT_FOUND else found
    return GroupError.NON_EMPTY_GROUP if found.members else GroupError.NONE


def on_alter(context: Context, call: Call) -> None:
    """Let a group without members go on elsewhere."""
    request: AlterShareGroupOffsetsRequest = call.read()
    error = _group_error(context, request.group_id)
    if error is not GroupError.NONE:
        call.answer(
            altering.AlterShareGroupOffsetsResponse(
                error_code=code_of_group_error(error), error_message=None, responses=[]
            )
        )
        return
    topics: list[altering.AlterShareGroupOffsetsResponseTopic] = []
    pieces: list[Piece] = []
    for asked in request.topics:
        topic = context.doors.cluster.state.topics.get(asked.topic_name)
        topic_id = bytes(16) if topic is None else topic.topic_id
        partitions: list[altering.AlterShareGroupOffsetsResponsePartition] = []
        topics.append(
            altering.AlterShareGroupOffsetsResponseTopic(asked.topic_name, topic_id, partitions)
        )
        for each in asked.partitions:
            partition = altering.AlterShareGroupOffsetsResponsePartition(
                each.partition_index, error_message=None
            )
            partitions.append(partition)
            if topic is None or not 0 <= each.partition_index < len(topic.partitions):
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offset = each.start_offset
                pieces.append(_seek(context, request.group_id, topic.topic_id, partition, offset))
    response = altering.AlterShareGroupOffsetsResponse(error_message=None, responses=topics)

    def answer() -> None:
        wanted = [each.start_offset for asked in request.topics for each in asked.partitions]
        shown = [(each.topic_name, part) for each in topics for part in each.partitions]
        parts = [
            (part.error_code, f"{name}-{part.partition_index}={offset}")
            for (name, part), offset in zip(shown, wanted, strict=True)
        ]
        change, group = DataChange.COMMIT_OFFSETS, request.group_id
        tell_parts(context, call, change, ResourceType.GROUP, group, parts)
        call.answer(response)

    Queue(context.clock, pieces, answer, under_way_max=1).start()


def _seek(
    context: Context,
    group_id: str,
    topic_id: TopicId,
    shown: altering.AlterShareGroupOffsetsResponsePartition,
    offset: int,
) -> Piece:
    def start(on_done: Callable[[], None]) -> None:
        def refuse(refusal: RequestRefused) -> None:
            shown.error_code, shown.error_message = code_of(refusal), message_of(refusal)
            on_done()

        def on_cursor(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                refuse(outcome)
            elif isinstance(outcome, QueueResult):
                seek = q.SeekCursor(
                    log_id=outcome.log_id, partition=shown.partition_index, offset=offset
                )
                context.doors.queues.ask(seek, Done, TIMEOUT_MS, on_sought)

        def on_sought(outcome: Done | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                refuse(outcome)
            else:
                on_done()

        command = CreateShareQueue(group=group_id, topic_id=topic_id)
        context.doors.cluster.submit(command, TIMEOUT_MS, on_cursor)

    return start


def on_delete(context: Context, call: Call) -> None:
    """Forget what a group without members knows of topics."""
    request: DeleteShareGroupOffsetsRequest = call.read()
    found = context.doors.groups.share.find(request.group_id)
    error = _group_error(context, request.group_id)
    if found is GroupError.GROUP_ID_NOT_FOUND:
        error = found
    if error is not GroupError.NONE:
        call.answer(
            deleting.DeleteShareGroupOffsetsResponse(
                error_code=code_of_group_error(error), error_message=None, responses=[]
            )
        )
        return
    topics: list[deleting.DeleteShareGroupOffsetsResponseTopic] = []
    pieces: list[Piece] = []
    for asked in request.topics:
        topic = context.doors.cluster.state.topics.get(asked.topic_name)
        topic_id = bytes(16) if topic is None else topic.topic_id
        shown = deleting.DeleteShareGroupOffsetsResponseTopic(
            asked.topic_name, topic_id, error_message=None
        )
        topics.append(shown)
        if topic is None:
            shown.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            pieces.append(_forget(context, request.group_id, topic.topic_id, shown))
    response = deleting.DeleteShareGroupOffsetsResponse(error_message=None, responses=topics)

    def answer() -> None:
        parts = [(each.error_code, each.topic_name) for each in topics]
        change, group = DataChange.DELETE_OFFSETS, request.group_id
        tell_parts(context, call, change, ResourceType.GROUP, group, parts)
        call.answer(response)

    Queue(context.clock, pieces, answer, under_way_max=1).start()


def _forget(
    context: Context,
    group_id: str,
    topic_id: TopicId,
    shown: deleting.DeleteShareGroupOffsetsResponseTopic,
) -> Piece:
    def start(on_done: Callable[[], None]) -> None:
        def on_deleted(error: GroupError) -> None:
            shown.error_code = code_of_group_error(error)
            on_done()

        context.doors.groups.share.delete_cursor(group_id, topic_id, on_deleted)

    return start
