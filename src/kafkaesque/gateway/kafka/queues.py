"""PutMessages, TakeMessages, SettleMessages and PeekMessages: queues' messages.

Kafka has no queues, so these APIs are ours, with numbers far beyond Kafka's. Any broker serves any
queue. Answers come in the order of requests: who waits for messages does it on a connection that
nothing else is asked on.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeVar

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.metadata.queue_planner import MESSAGE_BYTES_MAX
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.meanings import shown_headers, shown_key
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.queue_consumers import consumer_of
from kafkaesque.gateway.kafka.queue_lookups import log_of, when_known
from kafkaesque.model.batch import check_batches
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import InvalidRequest, QueueNotAuthorized, RequestRefused
from kafkaesque.model.ids import TopicId
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.messages.peek_messages_request import PeekMessagesRequest
from kafkaesque.protocols.kafka.messages.peek_messages_response import (
    MessageState,
    PeekMessagesResponse,
)
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.protocols.kafka.messages.put_messages_response import PutMessagesResponse
from kafkaesque.protocols.kafka.messages.settle_messages_request import SettleMessagesRequest
from kafkaesque.protocols.kafka.messages.settle_messages_response import Claim as StaleClaim
from kafkaesque.protocols.kafka.messages.settle_messages_response import SettleMessagesResponse
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest
from kafkaesque.protocols.kafka.messages.take_messages_response import TakeMessagesResponse
from kafkaesque.queues.requests import Claim

#: What a request without a time of its own is given, beyond the wait that it asks for.
TIMEOUT_MS: Final = 30_000

ResultT = TypeVar("ResultT")


class Action(IntEnum):
    """What becomes of messages that were taken."""

    ACCEPT = 0
    RELEASE = 1
    REJECT = 2
    EXTEND = 3


def on_put(context: Context, call: Call) -> None:
    """Put messages; answered at their commit."""
    request: PutMessagesRequest = call.read()
    name = QueueName(request.vhost, request.queue)
    when_known(context, call, [name], PutMessagesResponse, lambda: _put(context, call, request))


def _put(context: Context, call: Call, request: PutMessagesRequest) -> None:

    def refuse(refusal: RequestRefused) -> None:
        call.answer(
            PutMessagesResponse(error_code=code_of(refusal), error_message=message_of(refusal))
        )

    def on_done(outcome: q.PutResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            refuse(outcome)
        else:
            call.answer(PutMessagesResponse(offsets=outcome.offsets))

    try:
        if request.records is None:
            raise InvalidRequest("there are no records")
        # The leader checks it again, but its words do not say so well what is wrong.
        check_batches(request.records, MESSAGE_BYTES_MAX)
        put = q.PutMessages(
            log_id=log_of(context, request.vhost, request.queue),
            records=bytes(request.records),
            timeout_ms=max(1, request.timeout_ms),
            is_strict=True,
        )
    except RequestRefused as refusal:
        refuse(refusal)
    else:
        context.doors.queues.ask_whole(put, q.PutResult, put.timeout_ms, on_done)


def on_take(context: Context, call: Call) -> None:
    """Take messages, now or as soon as there are any; answered when their locks are committed."""
    request: TakeMessagesRequest = call.read()
    name = QueueName(request.vhost, request.queue)
    when_known(context, call, [name], TakeMessagesResponse, lambda: _take(context, call, request))


def _take(context: Context, call: Call, request: TakeMessagesRequest) -> None:

    def refuse(refusal: RequestRefused) -> None:
        call.answer(
            TakeMessagesResponse(error_code=code_of(refusal), error_message=message_of(refusal))
        )

    def on_taken(partition: int, outcome: q.TakenMessages | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            refuse(outcome)
        elif not call.connection.is_open:
            _give_back(context, take, partition, outcome.messages)
        elif not _may_still_take(call, request):
            _give_back(context, take, partition, outcome.messages)
            refuse(QueueNotAuthorized("Queue authorization failed."))
        else:
            call.answer(_taken(outcome.messages, partition))

    try:
        queue = context.doors.queues.find(QueueName(request.vhost, request.queue))
        take = q.TakeMessages(
            log_id=queue.topic_id,
            consumer=consumer_of(call, request.vhost, request.queue, request.consumer),
            messages_max=request.messages_max,
            bytes_max=request.bytes_max,
            lock_ms=None if request.lock_ms < 0 else request.lock_ms,
            wait_ms=min(max(0, request.wait_ms), q.WAIT_MS_MAX),
        )
    except RequestRefused as refusal:
        refuse(refusal)
        return
    if len(queue.partitions) == 1:
        doors, timeout_ms = context.doors, take.wait_ms + TIMEOUT_MS
        doors.queues.ask(take, q.TakenMessages, timeout_ms, lambda found: on_taken(0, found))
    else:
        context.doors.queues.take_any(queue, take, on_taken)


def _may_still_take(call: Call, request: TakeMessagesRequest) -> bool:
    """Tell whether the rule is still there: it may have gone while the request waited."""
    rights, name = call.connection.rights, QueueName(request.vhost, request.queue)
    return rights is None or rights.may(Operation.READ, ResourceType.QUEUE, queue_resource(name))


def _give_back(
    context: Context, take: q.TakeMessages, partition: int, messages: list[q.QueueMessage]
) -> None:
    """Nobody is there to whom messages could be handed: others may have them."""
    if messages:
        claims = [each.claim for each in messages]
        release = q.ReleaseMessages(log_id=take.log_id, partition=partition, claims=claims)
        context.doors.queues.ask(release, q.ClaimsResult, TIMEOUT_MS, lambda _: None)


def _taken(messages: list[q.QueueMessage], partition: int) -> TakeMessagesResponse:
    if not messages:
        return TakeMessagesResponse(records=None)
    return TakeMessagesResponse(
        partition=partition,
        records=_batch(messages),
        attempts=[each.attempt for each in messages],
        failures=[each.failures for each in messages],
    )


def _batch(messages: list[q.QueueMessage]) -> bytes:
    """Return messages as one batch, with the offsets that they have."""
    records = [
        Record(
            each.offset,
            each.timestamp_ms,
            shown_key(each.headers, each.key),
            each.value,
            shown_headers(each.headers),
        )
        for each in messages
    ]
    return bytes(encode_batch(records))


def on_settle(context: Context, call: Call) -> None:
    """Say what becomes of messages that were taken."""
    request: SettleMessagesRequest = call.read()

    def refuse(refusal: RequestRefused) -> None:
        call.answer(
            SettleMessagesResponse(error_code=code_of(refusal), error_message=message_of(refusal))
        )

    def on_done(outcome: q.ClaimsResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            refuse(outcome)
        else:
            call.answer(SettleMessagesResponse(stale=[StaleClaim(*each) for each in outcome.stale]))

    try:
        settlement = _settlement(log_of(context, request.vhost, request.queue), request)
    except RequestRefused as refusal:
        refuse(refusal)
    else:
        timeout_ms = max(1, request.timeout_ms)
        context.doors.queues.ask(settlement, q.ClaimsResult, timeout_ms, on_done)


def _settlement(log_id: TopicId, request: SettleMessagesRequest) -> q.AnyQueueRequest:
    number = request.partition
    claims = [Claim(each.first_offset, each.end_offset, each.attempt) for each in request.claims]
    match request.action:
        case Action.ACCEPT:
            return q.SettleMessages(
                log_id=log_id, partition=number, claims=claims, may_be_late=request.may_be_late
            )
        case Action.RELEASE:
            return q.ReleaseMessages(
                log_id=log_id,
                partition=number,
                claims=claims,
                is_failed=request.is_failed,
                to_tail=request.to_tail,
                delay_ms=None if request.delay_ms < 0 else request.delay_ms,
            )
        case Action.REJECT:
            return q.RejectMessages(log_id=log_id, partition=number, claims=claims)
        case Action.EXTEND:
            lock_ms = max(0, request.lock_ms)
            return q.ExtendLocks(log_id=log_id, partition=number, claims=claims, lock_ms=lock_ms)
        case _:
            raise InvalidRequest(f"no action has the number {request.action}")


# -- looking


def on_peek(context: Context, call: Call) -> None:
    """Show messages without taking them."""
    request: PeekMessagesRequest = call.read()
    name = QueueName(request.vhost, request.queue)
    when_known(context, call, [name], PeekMessagesResponse, lambda: _peek(context, call, request))


def _peek(context: Context, call: Call, request: PeekMessagesRequest) -> None:
    def answer(outcome: q.PeekedMessages | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            code, message = code_of(outcome), message_of(outcome)
            call.answer(PeekMessagesResponse(error_code=code, error_message=message))
            return
        peeked = outcome.messages
        states = [
            MessageState(
                place=each.place,
                attempt=each.message.attempt,
                failures=each.message.failures,
                not_before_ms=each.not_before_ms,
                not_after_ms=each.not_after_ms,
            )
            for each in peeked
        ]
        records = _batch([each.message for each in peeked]) if peeked else None
        call.answer(PeekMessagesResponse(records=records, states=states))

    _ask(
        context,
        lambda: q.PeekMessages(
            log_id=log_of(context, request.vhost, request.queue),
            partition=request.partition,
            start=request.start_offset,
            messages_max=request.messages_max,
            bytes_max=request.bytes_max,
        ),
        q.PeekedMessages,
        request.timeout_ms,
        answer,
    )


def _ask(
    context: Context,
    make: Callable[[], q.AnyQueueRequest],
    result_type: type[ResultT],
    timeout_ms: int,
    answer: Callable[[ResultT | RequestRefused], None],
) -> None:
    try:
        request = make()
    except RequestRefused as refusal:
        answer(refusal)
    else:
        context.doors.queues.ask(request, result_type, max(1, timeout_ms), answer)
