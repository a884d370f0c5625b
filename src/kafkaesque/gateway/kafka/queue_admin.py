"""DescribeQueues, CreateQueue, AlterQueue, DeleteQueue and MaintainQueue."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import ResourceType
from kafkaesque.broker.controller.client import OnOutcome
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.options.mqtt_sessions import shown_options
from kafkaesque.broker.options.queues import QUEUE_OPTIONS
from kafkaesque.broker.queues.counting import whole_counts
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import ControllerResult, Done
from kafkaesque.broker.requests.queue_commands import (
    ChangeQueue,
    ClientQueueCommand,
    CreateQueue,
    DeleteQueue,
    QueueResult,
)
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.data_changes import tell
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.logs import in_sync_of, leader_of
from kafkaesque.gateway.kafka.queue_lookups import (
    METADATA_MS_MAX,
    ask_all,
    doubtful,
    log_of,
    look_up,
    when_known,
)
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.model.options import write_value
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_queue_request import AlterQueueRequest
from kafkaesque.protocols.kafka.messages.alter_queue_response import AlterQueueResponse
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest
from kafkaesque.protocols.kafka.messages.create_queue_response import CreateQueueResponse
from kafkaesque.protocols.kafka.messages.delete_queue_request import DeleteQueueRequest
from kafkaesque.protocols.kafka.messages.delete_queue_response import DeleteQueueResponse
from kafkaesque.protocols.kafka.messages.describe_queues_request import DescribeQueuesRequest
from kafkaesque.protocols.kafka.messages.describe_queues_response import (
    DescribedQueue,
    DescribeQueuesResponse,
    QueueCount,
    QueueOption,
    QueuePartition,
)
from kafkaesque.protocols.kafka.messages.maintain_queue_request import MaintainQueueRequest
from kafkaesque.protocols.kafka.messages.maintain_queue_response import MaintainQueueResponse

#: Queues whose messages are counted in one request.
COUNTED_MAX = 10_000


class Maintenance(IntEnum):
    """What can be done to a whole queue."""

    PURGE = 0
    REDRIVE = 1
    UNPARK = 2


_CHANGES: Final[dict[int, DataChange]] = {
    Maintenance.PURGE: DataChange.PURGE,
    Maintenance.REDRIVE: DataChange.REDRIVE,
    Maintenance.UNPARK: DataChange.UNPARK,
}


def on_create(context: Context, call: Call) -> None:
    """Let a queue exist."""
    request: CreateQueueRequest = call.read()
    unset = [each.name for each in request.options if each.value is None]
    if unset:
        refusal = InvalidRequest(f"option {unset[0]} has no value")
        call.answer(_refused(CreateQueueResponse, refusal))
        return
    command = CreateQueue(
        vhost=request.vhost,
        name=request.queue,
        options={each.name: each.value or "" for each in request.options},
        replication_factor=request.replication_factor,
    )
    _submit(
        context,
        call,
        command,
        request.timeout_ms,
        CreateQueueResponse,
        lambda result: CreateQueueResponse(
            log_id=result.log_id if isinstance(result, QueueResult) else bytes(16)
        ),
    )


def on_alter(context: Context, call: Call) -> None:
    """Change a queue's options; null sets one back."""
    request: AlterQueueRequest = call.read()
    changes = {each.name: each.value for each in request.options}
    command = ChangeQueue(vhost=request.vhost, name=request.queue, changes=changes)
    _submit(
        context,
        call,
        command,
        request.timeout_ms,
        AlterQueueResponse,
        lambda _: AlterQueueResponse(),
    )


def on_delete(context: Context, call: Call) -> None:
    """Delete a queue with all it holds."""
    request: DeleteQueueRequest = call.read()
    command = DeleteQueue(vhost=request.vhost, name=request.queue)
    _submit(
        context,
        call,
        command,
        request.timeout_ms,
        DeleteQueueResponse,
        lambda _: DeleteQueueResponse(),
    )


def _refused(response: Callable[..., Any], refusal: RequestRefused) -> Any:
    return response(error_code=code_of(refusal), error_message=message_of(refusal))


def _submit(
    context: Context,
    call: Call,
    command: ClientQueueCommand,
    timeout_ms: int,
    response: Callable[..., Any],
    make: Callable[[ControllerResult], Any],
) -> None:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            call.answer(_refused(response, outcome))
        else:
            call.answer(make(outcome))

    told: OnOutcome = on_outcome
    context.doors.cluster.submit(call.on_behalf(command), max(1, timeout_ms), told)


def on_maintain(context: Context, call: Call) -> None:
    """Purge a queue, redrive it, or let what is parked be ready again."""
    request: MaintainQueueRequest = call.read()
    names = [QueueName(request.vhost, each) for each in (request.queue, request.target) if each]
    when_known(
        context, call, names, MaintainQueueResponse, lambda: _maintain(context, call, request)
    )


def _maintain(context: Context, call: Call, request: MaintainQueueRequest) -> None:
    def answer(outcome: Done | RequestRefused) -> None:
        _tell(context, call, request, outcome)
        if isinstance(outcome, RequestRefused):
            call.answer(_refused(MaintainQueueResponse, outcome))
        else:
            call.answer(MaintainQueueResponse())

    try:
        asked = _maintenance(context, request)
    except RequestRefused as refusal:
        answer(refusal)
    else:
        ask_all(context, asked, Done, max(1, request.timeout_ms), answer)


def _tell(
    context: Context,
    call: Call,
    request: MaintainQueueRequest,
    outcome: Done | RequestRefused,
) -> None:
    change = _CHANGES.get(request.action)
    if change is not None:
        name = queue_resource(QueueName(request.vhost, request.queue))
        code = code_of(outcome) if isinstance(outcome, RequestRefused) else ErrorCode.NONE
        detail = f"to {request.target}" if request.target else ""
        tell(context, call, change, ResourceType.QUEUE, name, code, detail)


def _maintenance(context: Context, request: MaintainQueueRequest) -> q.AnyQueueRequest:
    log_id = log_of(context, request.vhost, request.queue)
    match request.action:
        case Maintenance.PURGE:
            return q.PurgeQueue(log_id=log_id)
        case Maintenance.REDRIVE:
            if request.target:
                log_of(context, request.vhost, request.target)
            return q.RedriveQueue(log_id=log_id, target=request.target)
        case Maintenance.UNPARK:
            return q.UnparkMessages(log_id=log_id)
        case _:
            raise InvalidRequest(f"no action has the number {request.action}")


# -- describing


def on_describe(context: Context, call: Call) -> None:
    """Describe queues, with how many messages they have if that is asked."""
    request: DescribeQueuesRequest = call.read()

    def describe(is_sure: bool) -> None:
        _describe(context, call, request, is_sure=is_sure)

    if request.queues is None:
        # Who has made one over another broker expects it in the list.
        context.doors.cluster.when_current(METADATA_MS_MAX, describe)
    else:
        look_up(context, [QueueName(each.vhost, each.queue) for each in request.queues], describe)


def _describe(
    context: Context, call: Call, request: DescribeQueuesRequest, *, is_sure: bool
) -> None:
    described: list[DescribedQueue] = []
    found: list[tuple[DescribedQueue, QueueState]] = []
    if request.queues is None:
        found = [(_described(context, each), each) for each in context.doors.queues.all()]
        described = [shown for shown, _ in found]
    else:
        for each in request.queues:
            try:
                state = context.doors.queues.find(QueueName(each.vhost, each.queue))
            except RequestRefused as refusal:
                said = refusal if is_sure else doubtful()
                described.append(_absent(each.vhost, each.queue, said))
            else:
                shown = _described(context, state)
                described.append(shown)
                found.append((shown, state))
    if not request.with_counts:
        call.answer(DescribeQueuesResponse(queues=described))
    elif len(found) > COUNTED_MAX:
        too_many = InvalidRequest(f"messages of at most {COUNTED_MAX} queues are counted at a time")
        call.answer(_refused(DescribeQueuesResponse, too_many))
    else:
        _Counting(context, call, described, request.timeout_ms).begin(found)


def _absent(vhost: str, name: str, refusal: RequestRefused) -> DescribedQueue:
    return DescribedQueue(
        error_code=code_of(refusal), error_message=message_of(refusal), vhost=vhost, queue=name
    )


def _described(context: Context, state: QueueState) -> DescribedQueue:
    partition, leaders = state.partitions[0], context.doors.cluster.leaders
    own = QUEUE_OPTIONS.parse_stored(shown_options(state.options))[0]
    values = {**QUEUE_OPTIONS.defaults(), **own}
    return DescribedQueue(
        vhost=state.queue.vhost,
        queue=state.queue.name,
        log_id=state.topic_id,
        leader_id=leader_of(leaders, partition),
        partition_count=len(state.partitions),
        replicas=list(partition.replicas),
        created_ms=state.created_ms,
        partitions=[
            QueuePartition(
                each.partition,
                leader_of(leaders, each),
                list(each.replicas),
                in_sync_of(leaders, each),
            )
            for each in state.partitions
        ],
        options=[
            QueueOption(name, write_value(value), name in state.options)
            for name, value in values.items()
        ],
    )


class _Counting:
    """Asks the leader of each queue how many messages there are."""

    __slots__ = ("_call", "_context", "_described", "_left", "_timeout_ms")

    def __init__(
        self, context: Context, call: Call, described: list[DescribedQueue], timeout_ms: int
    ) -> None:
        self._context = context
        self._call = call
        self._described = described
        self._timeout_ms = max(1, timeout_ms)
        self._left = 1

    def begin(self, found: list[tuple[DescribedQueue, QueueState]]) -> None:
        self._left += sum(len(state.partitions) for _, state in found)
        for shown, state in found:
            told: list[q.QueueCounts] = []
            for number in range(len(state.partitions)):
                self._ask(shown, state, number, told)
        self._count_down()

    def _ask(
        self, shown: DescribedQueue, state: QueueState, number: int, told: list[q.QueueCounts]
    ) -> None:
        def on_done(outcome: q.QueueCounts | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                shown.error_code, shown.error_message = code_of(outcome), message_of(outcome)
            else:
                told.append(outcome)
                shown.counts = _counts(whole_counts(told))
            self._count_down()

        request = q.AskQueue(log_id=state.topic_id, partition=number)
        self._context.doors.queues.ask(request, q.QueueCounts, self._timeout_ms, on_done)

    def _count_down(self) -> None:
        self._left -= 1
        if not self._left:
            self._call.answer(DescribeQueuesResponse(queues=self._described))


def _counts(counts: q.QueueCounts) -> list[QueueCount]:
    names = (
        "ready",
        "delayed",
        "in_flight",
        "parked",
        "moving",
        "consumers",
        "oldest_ms",
        "arrived",
        "log_start",
        "log_end",
        "log_bytes",
        "newest_ms",
        "head_failures",
        "in_flight_max",
        "unwanted_ms",
    )
    shown = [QueueCount(name, getattr(counts, name)) for name in names]
    shown.append(QueueCount("head_delayed", counts.head_place == "delayed"))
    shown.append(QueueCount("held_by_message", counts.held_by == "message"))
    return shown + [QueueCount(f"removed_{why}", count) for why, count in counts.removed.items()]
