"""What is consumed on one channel: consumers, single messages, and how much the client may have."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.options.queues import STREAM_TOPIC
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.amqp.arguments import declaration_of
from kafkaesque.chassis.amqp.incoming import read_incoming
from kafkaesque.chassis.channel_facts import ConsumerFacts
from kafkaesque.gateway.amqp.consumer import ChannelConsumer
from kafkaesque.gateway.amqp.errors import error_of, failed, no_queue
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.amqp.replies import Replies
from kafkaesque.gateway.amqp.settling import GET_LOCK_MS, Settling
from kafkaesque.gateway.amqp.stream_consumer import StreamConsumer
from kafkaesque.gateway.queueing.consumer import TIMEOUT_MS
from kafkaesque.gateway.queueing.own_queues import REPLY_TO
from kafkaesque.gateway.queueing.settlements import UNACKED_MAX, Delivery
from kafkaesque.model.errors import QueueInUse, RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.queues.requests import Claim
from kafkaesque.routing.exchanges.kinds import FILTER

CONSUMERS_MAX: Final = 1_000
#: The least that is asked for; a message is sent whole, however large it is.
_BYTES: Final = 1024 * 1024
_TAG_BYTES: Final = 16
PRIORITY: Final = "x-priority"
CONSUMER_TIMEOUT: Final = "x-consumer-timeout"


#: A queue's, or a stream's.
AnyConsumer = ChannelConsumer | StreamConsumer


class Consuming:
    """See the module."""

    __slots__ = (
        "_cancelled",
        "_channel",
        "_consumers",
        "_replies",
        "_settling",
        "_turn",
        "prefetch",
        "prefetch_together",
    )

    def __init__(self, channel: ChannelPort, settling: Settling, replies: Replies) -> None:
        self._channel = channel
        self._settling = settling
        self._replies = replies
        #: By consumer tag.
        self._consumers: Final[dict[str, AnyConsumer]] = {}
        #: Those that have messages which the client may still acknowledge.
        self._cancelled: list[AnyConsumer] = []
        #: Of the next consumers each, and of all of the channel together; 0: no limit.
        self.prefetch = 0
        self.prefetch_together = 0
        self._turn = 0

    @property
    def credit(self) -> int:
        """How many more messages the channel may have."""
        return (self.prefetch_together or UNACKED_MAX) - len(self._settling.unacked)

    @property
    def count(self) -> int:
        """How many consumers there are."""
        return len(self._consumers)

    def describe(self, consumers_max: int) -> list[ConsumerFacts]:
        """Return what the admin port shows of so many consumers."""
        return [
            ConsumerFacts(
                tag=tag,
                queue=each.queue.queue.name,
                needs_ack=not each.is_settled_when_sent,
                is_exclusive=each.is_exclusive,
                prefetch=each.prefetch,
                priority=each.priority,
            )
            for tag, each in islice(self._consumers.items(), consumers_max)
        ]

    def go_on(self) -> None:
        """Ask for messages where the client may have more; each time another one comes first."""
        if not self._consumers:
            return
        self._turn += 1
        consumers = list(self._consumers.values())
        first = self._turn % len(consumers)
        for each in consumers[first:] + consumers[:first]:
            each.go_on()

    def take(self, method: m.Method) -> None:
        """Carry out a method.

        Raises:
            AmqpError: it is not allowed, or not as things are.
        """
        match method:
            case m.BasicQos():
                if method.is_global:
                    self.prefetch_together = method.prefetch_count
                else:
                    self.prefetch = method.prefetch_count
                self._channel.send(m.BasicQosOk())
            case m.BasicConsume():
                self._consume(method)
            case m.BasicCancel():
                self._cancel(method)
            case m.BasicGet():
                self._get(method)

    # -- consumers

    def _consume(self, method: m.BasicConsume) -> None:
        channel = self._channel
        tag = method.consumer_tag or self._new_tag()
        if tag in self._consumers:
            what = f"attempt to reuse consumer tag '{tag}'"
            raise failed(ReplyCode.NOT_ALLOWED, what, method)
        if len(self._consumers) >= CONSUMERS_MAX:
            what = f"a channel has at most {CONSUMERS_MAX} consumers"
            raise failed(ReplyCode.RESOURCE_ERROR, what, method)
        _check_number(method, PRIORITY, least=-(2**31))
        _check_number(method, CONSUMER_TIMEOUT)
        if method.queue == REPLY_TO:
            channel.begin()
            self._replies.make(method, lambda queue: self._begin(queue, method, tag))
            return
        name = channel.queue_name(method.queue, method)
        self._with_queue(name, method, lambda queue: self._begin(queue, method, tag))

    def _new_tag(self) -> str:
        raw = self._channel.connection.desk.doors.dice.unique_bytes(_TAG_BYTES)
        return "amq.ctag-" + base64.urlsafe_b64encode(raw).decode().rstrip("=")

    def _begin(self, queue: QueueState, method: m.BasicConsume, tag: str) -> None:
        channel = self._channel
        consumer: AnyConsumer
        if queue.options.get(STREAM_TOPIC):
            consumer = StreamConsumer(
                self, channel, self._settling, queue, method, tag, prefetch=self.prefetch
            )
            self._attach(consumer, queue, method, tag)
            return
        if method.arguments.get(FILTER) is not None:
            what = (
                f"{FILTER} is for streams: the consumers of queue '{queue.queue.name}' in vhost "
                f"'{channel.connection.vhost}' share its messages; bind a queue with {FILTER}"
            )
            raise failed(ReplyCode.PRECONDITION_FAILED, what, method)
        priority = method.arguments.get(PRIORITY, 0)
        lock_ms = _consumer_timeout(channel, queue, method)
        consumer = ChannelConsumer(
            self,
            channel,
            self._settling,
            queue,
            method,
            tag,
            prefetch=self.prefetch,
            lock_ms=lock_ms,
            priority=priority if isinstance(priority, int) else 0,
        )
        self._attach(consumer, queue, method, tag)

    def _attach(
        self, consumer: AnyConsumer, queue: QueueState, method: m.BasicConsume, tag: str
    ) -> None:
        channel = self._channel
        channel.begin()

        def on_attached(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                consumer.is_over = True
                if isinstance(refusal, QueueInUse):
                    raise _in_use(queue, method)
                raise error_of(refusal, method)
            if channel.is_over:
                consumer.end(is_failed=False)
                return
            self._consumers[tag] = consumer
            if not method.nowait:
                channel.send(m.BasicConsumeOk(consumer_tag=tag))

        consumer.attach(lambda refusal: channel.go_on_with(partial(on_attached, refusal)))

    def _cancel(self, method: m.BasicCancel) -> None:
        channel = self._channel
        consumer = self._consumers.pop(method.consumer_tag, None)

        def answer() -> None:
            if not method.nowait:
                channel.send(m.BasicCancelOk(consumer_tag=method.consumer_tag))
            channel.done()

        channel.begin()
        if consumer is None:
            answer()
            return
        self._settling.flush()
        self._cancelled = [each for each in (*self._cancelled, consumer) if each.unacked]
        consumer.cancel(answer)

    def on_deleted(self, tag: str) -> None:
        """A consumer's queue is gone, or is another one's alone."""
        consumer = self._consumers.pop(tag, None)
        if consumer is None:
            return
        if self._channel.connection.knows_cancel:
            self._channel.send(m.BasicCancel(consumer_tag=tag, nowait=True))

    # -- single messages

    def _get(self, method: m.BasicGet) -> None:
        channel = self._channel
        if self.credit_of_channel <= 0:
            what = f"a channel has at most {UNACKED_MAX} messages unacknowledged"
            raise failed(ReplyCode.RESOURCE_ERROR, what, method)
        name = channel.queue_name(method.queue, method)

        def take(queue: QueueState) -> None:
            if queue.options.get(STREAM_TOPIC):
                what = f"basic.get not supported by stream queue '{name}': consume from it"
                raise failed(ReplyCode.NOT_IMPLEMENTED, what, method)
            if queue.options.get("sharing", "all") != "all":
                what = (
                    f"cannot obtain access to queue '{name}' in vhost "
                    f"'{channel.connection.vhost}': it has a single active consumer"
                )
                raise failed(ReplyCode.RESOURCE_LOCKED, what, method)
            channel.begin()
            request = q.TakeMessages(log_id=queue.topic_id, bytes_max=_BYTES, lock_ms=GET_LOCK_MS)
            ask = channel.connection.desk.doors.queues.ask_whole
            on_got = partial(self._on_got, queue, method)
            # What the channel has published before is to be had.
            channel.when_published(lambda: ask(request, q.TakenMessages, TIMEOUT_MS, on_got))

        self._with_queue(name, method, take)

    @property
    def credit_of_channel(self) -> int:
        """How many more messages a channel may have, whatever its prefetch is."""
        return UNACKED_MAX - len(self._settling.unacked)

    def _on_got(
        self, queue: QueueState, method: m.BasicGet, outcome: q.TakenMessages | RequestRefused
    ) -> None:
        channel = self._channel
        if isinstance(outcome, RequestRefused):
            channel.go_on_with(partial(_raise, error_of(outcome, method)))
            return
        if not outcome.messages:
            channel.send(m.BasicGetEmpty())
            channel.done()
            return
        (message,) = outcome.messages
        if channel.is_over:
            self._settling.release(queue.topic_id, [message.claim])
            channel.done()
            return

        def on_counted(counts: q.QueueCounts | RequestRefused) -> None:
            ready = 0 if isinstance(counts, RequestRefused) else counts.ready
            told = outcome.told(message)
            channel.go_on_with(lambda: self._send(queue, method, message.claim, told, ready))

        ask = channel.connection.desk.doors.queues.ask_whole
        ask(q.AskQueue(log_id=queue.topic_id), q.QueueCounts, TIMEOUT_MS, on_counted)

    def _send(
        self,
        queue: QueueState,
        method: m.BasicGet,
        claim: Claim,
        message: q.QueueMessage,
        ready: int,
    ) -> None:
        channel = self._channel
        connection = channel.connection
        if channel.is_over or not connection.codec.can_deliver(channel.number):
            self._settling.release(queue.topic_id, [claim])
            return
        now_ms = connection.shared.clock.wall_ms()
        incoming = read_incoming(message, queue, now_ms)
        delivery = Delivery(queue.topic_id, claim.first, claim.attempt, None)
        settling = self._settling
        tag = settling.next_tag() if method.no_ack else settling.add(delivery)
        got = m.BasicGetOk(
            delivery_tag=tag,
            redelivered=incoming.is_redelivered,
            exchange=incoming.exchange,
            routing_key=incoming.routing_key,
            message_count=ready,
        )
        body = message.value or b""
        codec = connection.codec
        connection.write(codec.send_content(channel.number, got, incoming.properties, body))
        if method.no_ack:
            settling.settle(delivery)

    # -- both

    def _with_queue(self, name: str, method: m.Method, then: Callable[[QueueState], None]) -> None:
        """Go on with a queue that this connection may use."""
        channel = self._channel
        connection = channel.connection

        def on_found(queue: QueueState | None) -> None:
            if queue is None:
                raise no_queue(name, connection.vhost, method)
            check_owner(channel, queue, method)
            then(queue)

        channel.begin()
        found = QueueName(connection.vhost, name)
        connection.desk.find(found, lambda queue: channel.go_on_with(lambda: on_found(queue)))

    def end(self, *, is_failed: bool) -> None:
        """What consumers have is given back."""
        consumers = list(self._consumers.values())
        self._consumers.clear()
        for each in consumers:
            each.end(is_failed=is_failed)
        cancelled, self._cancelled = self._cancelled, []
        for each in cancelled:
            if each.unacked:
                each.end(is_failed=is_failed)
        self._replies.end()


def check_owner(channel: ChannelPort, queue: QueueState, method: m.Method) -> None:
    """Check that a queue is not another connection's own.

    Raises:
        AmqpError: it is.
    """
    said = declaration_of(queue)
    if said is not None and said.owner not in ("", channel.connection.owner):
        raise _locked(queue, method)


def check_exclusive(queue: QueueState, method: m.QueueDeclare) -> None:
    """Check that a queue is declared as exclusive again if it is, and only then.

    Raises:
        AmqpError: it is not.
    """
    said = declaration_of(queue)
    is_exclusive = said is not None and said.is_exclusive
    if is_exclusive != method.exclusive:
        raise _locked(queue, method)


def _locked(queue: QueueState, method: m.Method) -> AmqpError:
    what = (
        f"cannot obtain exclusive access to locked queue '{queue.queue.name}' in vhost "
        f"'{queue.queue.vhost}'. It could be originally declared on another connection or the "
        "exclusive property value does not match that of the original declaration."
    )
    return failed(ReplyCode.RESOURCE_LOCKED, what, method)


def _in_use(queue: QueueState, method: m.Method) -> AmqpError:
    what = f"queue '{queue.queue.name}' in vhost '{queue.queue.vhost}' in exclusive use"
    return failed(ReplyCode.ACCESS_REFUSED, what, method)


def _raise(error: AmqpError) -> None:
    raise error


def _check_number(method: m.BasicConsume, name: str, least: int = 0) -> None:
    value = method.arguments.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        what = f"invalid arg '{name}': a whole number from {least} on is expected"
        raise failed(ReplyCode.PRECONDITION_FAILED, what, method)


def _consumer_timeout(channel: ChannelPort, queue: QueueState, method: m.BasicConsume) -> int:
    """Return how long a message is a consumer's; 0: until it says what becomes of it."""
    said = method.arguments.get(CONSUMER_TIMEOUT)
    return said if isinstance(said, int) else channel.connection.desk.consumer_timeout_ms(queue)
