"""PutMessages, TakeMessages, SettleMessages, AttachConsumer and PeekMessages: queues' messages.

Kafka has no queues, so these APIs are ours, with numbers far beyond Kafka's. Any broker serves any
queue. Answers come in the order of requests: who waits for messages does it on a connection that
nothing else is asked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.metadata.queue_planner import MESSAGE_BYTES_MAX
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.chassis.meanings import shown_headers, shown_key
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.model.batch import check_batches
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    QueueInUse,
    QueueNotAuthorized,
    RequestRefused,
    UnknownQueue,
)
from kafkaesque.model.ids import TopicId
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.messages.attach_consumer_request import AttachConsumerRequest
from kafkaesque.protocols.kafka.messages.attach_consumer_response import AttachConsumerResponse
from kafkaesque.protocols.kafka.messages.attach_consumer_response import Claim as AttachedClaim
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
#: Consumers that one connection may attach.
CONSUMERS_MAX: Final = 1_000
#: How long a request for a queue that is unknown here waits for the metadata of now.
METADATA_MS_MAX: Final = 5_000

ResultT = TypeVar("ResultT")


class Action(IntEnum):
    """What becomes of messages that were taken."""

    ACCEPT = 0
    RELEASE = 1
    REJECT = 2
    EXTEND = 3


def log_of(context: Context, vhost: str, queue: str) -> TopicId:
    """Return the id of a queue's log.

    Raises:
        UnknownQueue: there is no such queue.
    """
    return context.doors.queues.find(QueueName(vhost, queue)).topic_id


def look_up(
    context: Context, queues: Iterable[QueueName], on_known: Callable[[bool], None]
) -> None:
    """Call with True at once, or, if one of these queues is unknown here, when it is sure.

    Who has made a queue over another broker may be ahead of this one. With False where it cannot be
    found out, as there is no controller.
    """
    names = list(queues)

    def is_known() -> bool:
        known = context.doors.cluster.state.queues
        return all(each in known for each in names)

    if is_known():
        on_known(True)
    else:
        context.doors.cluster.when_current(
            METADATA_MS_MAX, lambda is_current: on_known(is_current or is_known())
        )


def doubtful() -> RequestRefused:
    """Return what is said of a queue that is unknown here, if it is not sure: ask again."""
    return LeaderNotAvailable("this broker cannot find out whether there is such a queue")


def when_known(
    context: Context,
    call: Call,
    queues: Iterable[QueueName],
    response: Callable[..., Any],
    go_on: Callable[[], None],
) -> None:
    """Go on when these queues are known, or there are none; else answer with a `response`."""

    def on_known(is_sure: bool) -> None:
        if is_sure:
            go_on()
            return
        refusal = doubtful()
        call.answer(response(error_code=code_of(refusal), error_message=message_of(refusal)))

    look_up(context, queues, on_known)


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
            consumer=_consumer(call, request.vhost, request.queue, request.consumer),
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


# -- consumers


class Consumers:
    """The consumers that one connection has attached; they are detached when it is gone."""

    __slots__ = ("_context", "_known")

    def __init__(self, context: Context) -> None:
        self._context = context
        #: By queue and by the client's own number: the log, and the name that the queue knows.
        self._known: dict[tuple[str, str, int], tuple[TopicId, q.ConsumerName]] = {}

    def find(self, vhost: str, queue: str, number: int) -> q.ConsumerName:
        """Return a consumer's name.

        Raises:
            InvalidRequest: it is not attached on this connection.
        """
        known = self._known.get((vhost, queue, number))
        if known is None:
            raise InvalidRequest(f"consumer {number} of queue {queue!r} is not attached here")
        return known[1]

    def make(self, vhost: str, queue: str, number: int, log_id: TopicId) -> q.ConsumerName:
        """Return a name for a consumer, or the one that it has.

        Raises:
            QueueInUse: the connection has too many.
        """
        key = vhost, queue, number
        known = self._known.get(key)
        if known is not None and known[0] == log_id:
            return known[1]
        if len(self._known) >= CONSUMERS_MAX:
            raise QueueInUse(f"a connection has at most {CONSUMERS_MAX} consumers")
        name = self._context.doors.queues.new_consumer()
        self._known[key] = log_id, name
        return name

    def forget(self, vhost: str, queue: str, number: int) -> None:
        """It was detached."""
        self._known.pop((vhost, queue, number), None)

    def close(self) -> None:
        """The connection is gone: what its consumers have is ready again."""
        known, self._known = self._known, {}
        for log_id, name in known.values():
            self.detach(log_id, name)

    def detach(self, log_id: TopicId, name: q.ConsumerName) -> None:
        """A consumer's connection is gone."""
        for number in _partitions_of(self._context, log_id):
            detach = q.DetachConsumer(log_id=log_id, partition=number, consumer=name)
            self._context.doors.queues.ask(detach, Done, TIMEOUT_MS, lambda _: None)


def _consumer(call: Call, vhost: str, queue: str, number: int) -> q.ConsumerName | None:
    if not number:
        return None
    consumers = call.connection.consumers
    if not isinstance(consumers, Consumers):
        raise InvalidRequest(f"consumer {number} of queue {queue!r} is not attached here")
    return consumers.find(vhost, queue, number)


def on_attach(context: Context, call: Call) -> None:
    """Attach a consumer, or detach it."""
    request: AttachConsumerRequest = call.read()
    name = QueueName(request.vhost, request.queue)
    when_known(
        context, call, [name], AttachConsumerResponse, lambda: _attach(context, call, request)
    )


def _attach(context: Context, call: Call, request: AttachConsumerRequest) -> None:
    vhost, queue, number = request.vhost, request.queue, request.consumer
    if call.connection.consumers is None:
        call.connection.consumers = Consumers(context)
    consumers = call.connection.consumers

    def answer(outcome: q.AttachedConsumer | Done | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            code, message = code_of(outcome), message_of(outcome)
            call.answer(AttachConsumerResponse(error_code=code, error_message=message))
        elif isinstance(outcome, Done):
            call.answer(AttachConsumerResponse())
        else:
            claims = [AttachedClaim(*each) for each in outcome.claims]
            call.answer(AttachConsumerResponse(is_active=outcome.is_active, claims=claims))

    timeout_ms = max(1, request.timeout_ms)
    try:
        if number <= 0 or not isinstance(consumers, Consumers):
            raise InvalidRequest("the number of a consumer is above 0")
        log_id = log_of(context, vhost, queue)
        if request.is_leaving:
            name = consumers.find(vhost, queue, number)
            leave = q.DetachConsumer(log_id=log_id, consumer=name, is_failed=False)

            def on_detached(outcome: Done | RequestRefused) -> None:
                # One that may be attached yet is detached with the connection.
                if isinstance(outcome, Done):
                    consumers.forget(vhost, queue, number)
                answer(outcome)

            ask_all(context, leave, Done, timeout_ms, on_detached)
        else:
            name = consumers.make(vhost, queue, number, log_id)
            attach = q.AttachConsumer(log_id=log_id, consumer=name)

            def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
                if not call.connection.is_open:
                    # It was detached before it was attached, perhaps: and would be there for ever.
                    consumers.detach(log_id, name)
                answer(outcome)

            ask_all(context, attach, q.AttachedConsumer, timeout_ms, on_attached)
    except RequestRefused as refusal:
        answer(refusal)


def _partitions_of(context: Context, log_id: TopicId) -> range:
    queue = context.doors.cluster.state.queues_by_log.get(log_id)
    return range(0 if queue is None else len(queue.partitions))


def ask_all(
    context: Context,
    request: q.AnyQueueRequest,
    result_type: type[ResultT],
    timeout_ms: int,
    answer: Callable[[ResultT | RequestRefused], None],
) -> None:
    """Ask all partitions of a queue; the answer is the first one's, or a refusal of any."""
    numbers = _partitions_of(context, TopicId(request.log_id))
    outcomes: dict[int, ResultT | RequestRefused] = {}

    def on_done(number: int, outcome: ResultT | RequestRefused) -> None:
        outcomes[number] = outcome
        if len(outcomes) == len(numbers):
            refused = [each for each in outcomes.values() if isinstance(each, RequestRefused)]
            answer(refused[0] if refused else outcomes[numbers[0]])

    for number in numbers:
        each = replace(request, partition=number)
        context.doors.queues.ask(each, result_type, timeout_ms, partial(on_done, number))
    if not numbers:
        answer(UnknownQueue("the queue does not exist any more"))


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
