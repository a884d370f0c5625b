"""AttachConsumer: consumers of queues, which last as long as their connection."""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.queue_lookups import ask_all, log_of, partitions_of, when_known
from kafkaesque.model.errors import InvalidRequest, QueueInUse, RequestRefused
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.kafka.messages.attach_consumer_request import AttachConsumerRequest
from kafkaesque.protocols.kafka.messages.attach_consumer_response import AttachConsumerResponse
from kafkaesque.protocols.kafka.messages.attach_consumer_response import Claim as AttachedClaim

#: So long a queue has to detach a consumer whose connection is gone.
TIMEOUT_MS: Final = 30_000
#: Consumers that one connection may attach.
CONSUMERS_MAX: Final = 1_000


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
        for number in partitions_of(self._context, log_id):
            detach = q.DetachConsumer(log_id=log_id, partition=number, consumer=name)
            self._context.doors.queues.ask(detach, Done, TIMEOUT_MS, lambda _: None)


def consumer_of(call: Call, vhost: str, queue: str, number: int) -> q.ConsumerName | None:
    """Return the name of a consumer that a request gives a number to; None: it gives none.

    Raises:
        InvalidRequest: it is not attached on this connection.
    """
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
