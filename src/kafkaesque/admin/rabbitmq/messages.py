"""Publishing a message, and fetching some: for trying things out, as with RabbitMQ.

What is published is routed as a message of AMQP's port is, and what is fetched is shown as a
consumer there gets it. A message that is to stay is given back without counting as an attempt.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import CHANGE_MS_MAX, Context
from kafkaesque.admin.rabbitmq.errors import ApiRefused
from kafkaesque.admin.rabbitmq.exchanges import ExchangePages
from kafkaesque.admin.rabbitmq.queues import QueuePages
from kafkaesque.admin.rabbitmq.values import (
    MessageShown,
    NewMessage,
    Routed,
    WantedMessages,
)
from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.effective_options import effective_options
from kafkaesque.broker.metadata.queue_names import QueueName, exchange_resource, queue_resource
from kafkaesque.broker.options.queues import STREAM_TOPIC
from kafkaesque.broker.requests.queue_requests import (
    AnyQueueRequest,
    AskQueue,
    ClaimsResult,
    QueueCounts,
    QueueMessage,
    RejectMessages,
    ReleaseMessages,
    SettleMessages,
    TakeMessages,
    TakenMessages,
)
from kafkaesque.chassis.amqp.arguments import has_dead_letters
from kafkaesque.chassis.amqp.incoming import read_incoming
from kafkaesque.chassis.amqp.outgoing import read_outgoing
from kafkaesque.chassis.meanings import plain, shown_headers
from kafkaesque.chassis.routing_keys import ExchangesView
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.events import Published
from kafkaesque.protocols.amqp.properties import Properties, read_properties, write_properties
from kafkaesque.protocols.amqp.wire import MALFORMED, SHORT_STRING_BYTES_MAX, Timestamp
from kafkaesque.routing.exchanges.topology import DEFAULT_EXCHANGE

#: Of one request.
MESSAGES_MAX: Final = 1_000
#: Bodies of all messages of an answer together; at least one is shown.
BYTES_MAX: Final = 4 * 1024 * 1024
#: So long a message is locked while its answer is written.
LOCK_MS: Final = 10_000
STRING: Final = "string"
BASE64: Final = "base64"
_OCTET_MAX: Final = 255

ResultT = TypeVar("ResultT")

KEEP: Final = ("ack_requeue_true", "reject_requeue_true")
SETTLE: Final = "ack_requeue_false"
REJECT: Final = "reject_requeue_false"
ACK_MODES: Final = (*KEEP, SETTLE, REJECT)


class MessagePages:
    """See the module."""

    def __init__(self, context: Context, exchanges: ExchangePages, queues: QueuePages) -> None:
        self._context: Final = context
        self._exchanges: Final = exchanges
        self._queues: Final = queues

    def routes(self) -> list[Route]:
        """Return the operations."""
        publish = "/exchanges/{vhost}/{exchange}/publish"
        return [
            Route(method="POST", path=publish, handle=self.publish),
            Route(method="POST", path="/queues/{vhost}/{queue}/get", handle=self.get),
        ]

    # -- publish

    def publish(self, call: Call) -> None:
        """Publish a message; the answer says whether a queue or a topic has it, committed."""
        body = call.body(NewMessage)
        self._exchanges.find(call)
        event = Published(
            channel=0,
            exchange=call.exchange,
            routing_key=body.routing_key,
            mandatory=False,
            properties=_properties(body),
            body=_payload(body),
        )
        if len(body.routing_key.encode()) > SHORT_STRING_BYTES_MAX:
            raise ApiRefused(400, f"a routing key has at most {SHORT_STRING_BYTES_MAX} bytes")
        outgoing = read_outgoing(event, call.user, self._context.doors.clock.wall_ms())
        _check_publish(call, self._context.doors.exchanges, outgoing.keys)
        message = outgoing.message(event)
        shown = shown_headers(message.headers)
        publication = Publication(outgoing.routed(event), message, shown, show=shown_headers)

        def on_done(outcomes: Sequence[int | RequestRefused]) -> None:
            (outcome,) = outcomes
            if isinstance(outcome, RequestRefused):
                call.refuse(outcome)
            else:
                call.answer(Routed(routed=outcome > 0))

        self._context.doors.exchanges.publish(
            call.vhost, call.exchange, [publication], CHANGE_MS_MAX, on_done
        )

    # -- get

    def get(self, call: Call) -> None:
        """Fetch messages, and give them back or be done with them, as `ackmode` says."""
        wanted = call.body(WantedMessages)
        if wanted.ackmode not in ACK_MODES:
            raise ApiRefused(400, f"ackmode is one of {', '.join(ACK_MODES)}")
        if not 1 <= wanted.count <= MESSAGES_MAX:
            raise ApiRefused(400, f"count is a number from 1 to {MESSAGES_MAX}")
        if wanted.encoding not in ("auto", BASE64):
            raise ApiRefused(400, "encoding is auto or base64")
        queue = self._queues.find(call)
        if queue.options.get(STREAM_TOPIC):
            raise ApiRefused(400, "a stream is read with a consumer")
        if queue.source is not None and len(queue.partitions) > 1:
            raise ApiRefused(400, "a queue over a topic of several partitions is not read here")
        call.need(Operation.READ, ResourceType.QUEUE, queue_resource(queue.queue))
        take = TakeMessages(
            log_id=queue.topic_id,
            messages_max=wanted.count,
            bytes_max=BYTES_MAX,
            lock_ms=LOCK_MS,
        )

        def on_taken(taken: TakenMessages) -> None:
            if taken.messages:
                self._end(call, queue, wanted, taken.messages)
            else:
                call.answer([])

        self._ask(call, take, TakenMessages, on_taken)

    def _end(
        self,
        call: Call,
        queue: QueueState,
        wanted: WantedMessages,
        messages: Sequence[QueueMessage],
    ) -> None:
        claims = [each.claim for each in messages]
        request: AnyQueueRequest
        if wanted.ackmode in KEEP:
            request = ReleaseMessages(log_id=queue.topic_id, claims=claims)
        elif wanted.ackmode == REJECT and self._has_dead_letters(queue):
            request = RejectMessages(log_id=queue.topic_id, claims=claims)
        else:
            request = SettleMessages(log_id=queue.topic_id, claims=claims)

        def on_counted(counts: QueueCounts) -> None:
            now_ms = self._context.doors.clock.wall_ms()
            # Each says how many were left when it had been taken, also where it was given back.
            left = counts.ready if wanted.ackmode in KEEP else counts.ready + len(messages)
            call.answer(
                [
                    _shown(each, queue, wanted, max(0, left - place), now_ms)
                    for place, each in enumerate(messages, start=1)
                ]
            )

        count = AskQueue(log_id=queue.topic_id)
        self._ask(
            call, request, ClaimsResult, lambda _: self._ask(call, count, QueueCounts, on_counted)
        )

    def _has_dead_letters(self, queue: QueueState) -> bool:
        return has_dead_letters(effective_options(self._context.doors.cluster.state, queue))

    def _ask(
        self,
        call: Call,
        request: AnyQueueRequest,
        kind: type[ResultT],
        then: Callable[[ResultT], None],
    ) -> None:
        def on_done(outcome: ResultT | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse(outcome)
            else:
                call.guard(lambda: then(outcome))

        self._context.doors.queues.ask_whole(request, kind, CHANGE_MS_MAX, on_done)


def _payload(body: NewMessage) -> bytes:
    """Return the body of a message that is published.

    Raises:
        ApiRefused: it is not written as it says to be.
    """
    if body.payload_encoding == STRING:
        return body.payload.encode()
    if body.payload_encoding != BASE64:
        raise ApiRefused(400, f"payload_encoding is {STRING} or {BASE64}")
    try:
        return base64.b64decode(body.payload, validate=True)
    except (binascii.Error, ValueError):
        raise ApiRefused(400, "the payload is no base64") from None


def _properties(body: NewMessage) -> bytes:
    """Return the properties of a message that is published, as the wire has them.

    Raises:
        ApiRefused: one does not exist, or has a value that it cannot have.
    """
    given = dict(body.properties)
    strange = sorted(given.keys() - set(Properties.__struct_fields__))
    if strange:
        known = ", ".join(Properties.__struct_fields__)
        raise ApiRefused(400, f"there is no property {strange[0]!r}; there are {known}")
    number = given.get("timestamp")
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63:
        given["timestamp"] = Timestamp(number)
    for name in ("delivery_mode", "priority"):
        octet = given.get(name)
        if isinstance(octet, int) and not 0 <= octet <= _OCTET_MAX:
            raise ApiRefused(400, f"{name} is a number from 0 to {_OCTET_MAX}")
    if isinstance(given.get("headers"), dict) and not given["headers"]:
        # How JSON's writers say that there are none.
        del given["headers"]
    try:
        return write_properties(msgspec.convert(given, Properties))
    except (msgspec.ValidationError, AmqpError, *MALFORMED) as error:
        raise ApiRefused(400, f"the properties are not what they should be: {error}") from None


def _check_publish(call: Call, exchanges: ExchangesView, keys: Sequence[str]) -> None:
    """Check that a client may publish: to the exchange, or to the queues that are named.

    Raises:
        ApiRefused: no rule allows it.
    """
    vhost, exchange = call.vhost, call.exchange
    if exchange != DEFAULT_EXCHANGE:
        resource = exchange_resource(vhost, exchange)
        call.need(Operation.WRITE, ResourceType.EXCHANGE, resource)
        call.need_keys(exchanges, Operation.WRITE, vhost, exchange, keys)
        return
    for key in keys:
        resource = queue_resource(QueueName(vhost, key))
        call.need(Operation.WRITE, ResourceType.QUEUE, resource)


def _shown(
    message: QueueMessage, queue: QueueState, wanted: WantedMessages, left: int, now_ms: int
) -> MessageShown:
    """Return a message as it is shown."""
    incoming = read_incoming(message, queue, now_ms)
    body = message.value or b""
    shown = body if wanted.truncate is None else body[: max(0, wanted.truncate)]
    payload, encoding = _as_text(shown, is_auto=wanted.encoding == "auto")
    said = read_properties(incoming.properties)
    properties = {
        name: plain(value)
        for name in Properties.__struct_fields__
        if (value := getattr(said, name)) is not None
    }
    return MessageShown(
        payload=payload,
        payload_bytes=len(body),
        payload_encoding=encoding,
        properties=properties or [],
        routing_key=incoming.routing_key,
        exchange=incoming.exchange,
        redelivered=incoming.is_redelivered,
        message_count=left,
    )


def _as_text(body: bytes, *, is_auto: bool) -> tuple[str, str]:
    if is_auto:
        try:
            return body.decode(), STRING
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), BASE64
