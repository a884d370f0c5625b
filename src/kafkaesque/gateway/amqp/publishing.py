"""Publishes of one channel: to their queues, and their returns and confirms.

Theory of operation. Each queue that a channel publishes to has a lane: messages wait there while
one request is under way, so that their order is that of the channel. A message is confirmed when
all its queues have committed it. One that a queue has no room for, or of which nobody knows what
has become, is refused (basic.nack); some of its queues may have it. One without a queue is
confirmed at once, behind its return. Before a message is said to have no queue or no exchange, this
broker finds out whether it has heard of all that there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.client_quotas import PRODUCER_BYTE_RATE
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.amqp.authorization import check_publish
from kafkaesque.gateway.amqp.desk import CURRENT_MS_MAX
from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.gateway.amqp.outgoing import Outgoing, read_outgoing
from kafkaesque.gateway.amqp.routing import Routed
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.content_path import write_ack
from kafkaesque.protocols.amqp.errors import ReplyCode
from kafkaesque.protocols.amqp.events import Published

if TYPE_CHECKING:
    from kafkaesque.gateway.amqp.channel import Channel

PUT_TIMEOUT_MS: Final = 30_000
#: Messages of one request to a queue, and their bytes; a larger one goes alone.
BATCH_MAX: Final = 512
BATCH_BYTES_MAX: Final = 1024 * 1024


class _Pending:
    """A message that is on its way to its queues."""

    __slots__ = ("is_refused", "left", "on_done", "size")

    def __init__(self, left: int, size: int, on_done: Callable[[bool], None]) -> None:
        self.left = left
        self.size = size
        self.is_refused = False
        self.on_done = on_done


class _Item(NamedTuple):
    message: NewMessage
    size: int
    pending: _Pending


class _Lane:
    """What one channel sends to one queue, in order."""

    __slots__ = ("_log_id", "_publishing", "is_busy", "waiting")

    def __init__(self, publishing: Publishing, log_id: TopicId) -> None:
        self._publishing = publishing
        self._log_id = log_id
        self.waiting: Final[deque[_Item]] = deque()
        self.is_busy = False

    def go_on(self) -> None:
        """Send what waits, unless something is under way."""
        if self.is_busy or not self.waiting:
            return
        sent: list[_Item] = []
        size = 0
        while self.waiting and len(sent) < BATCH_MAX:
            size += self.waiting[0].size
            if sent and size > BATCH_BYTES_MAX:
                break
            sent.append(self.waiting.popleft())
        self.is_busy = True
        put = self._publishing.channel.connection.desk.doors.queues.put
        put(
            self._log_id,
            [each.message for each in sent],
            PUT_TIMEOUT_MS,
            lambda outcome: self._on_put(sent, outcome),
        )

    def _on_put(self, sent: list[_Item], outcome: q.PutResult | RequestRefused) -> None:
        self.is_busy = False
        refused = isinstance(outcome, RequestRefused)
        for number, each in enumerate(sent):
            is_in = not refused and outcome.offsets[number] >= 0  # type: ignore[union-attr]
            self._publishing.on_put(each.pending, is_in=is_in)
        self._publishing.on_lane(self._log_id)


class Publishing:
    """See the module."""

    __slots__ = (
        "_confirmed",
        "_idle",
        "_is_flush_due",
        "_lanes",
        "_next_sequence",
        "_under_way",
        "channel",
        "is_confirming",
        "known_until",
    )

    def __init__(self, channel: Channel) -> None:
        self.channel: Final = channel
        self.is_confirming = False
        self._lanes: Final[dict[TopicId, _Lane]] = {}
        self._next_sequence = 1
        #: By sequence number, rising: None: on its way; else whether it is in all its queues.
        self._confirmed: Final[dict[int, bool | None]] = {}
        self._is_flush_due = False
        #: Messages that are on their way, and who waits for there to be none.
        self._under_way = 0
        self._idle: list[Callable[[], None]] = []
        #: The last event of the channel at whose coming this broker knew of all that there was.
        self.known_until = 0

    def select(self, method: m.ConfirmSelect) -> None:
        """Confirm what is published from now on.

        Raises:
            AmqpError: the channel has transactions.
        """
        if self.channel.transaction.is_on:
            what = "cannot switch from tx to confirm mode"
            raise failed(ReplyCode.PRECONDITION_FAILED, what, method)
        self.is_confirming = True
        if not method.nowait:
            self.channel.send(m.ConfirmSelectOk())

    # -- one message

    def take(self, event: Published) -> None:
        """Publish a message, or keep it until its transaction is committed.

        Raises:
            AmqpError: the exchange does not exist, or a property is not what it has to be.
        """
        self.channel.connection.charge(PRODUCER_BYTE_RATE, len(event.body))
        if self.channel.transaction.is_on:
            self.channel.transaction.add_publish(event)
            return
        self.publish(event, None)

    def publish(self, event: Published, on_done: Callable[[bool], None] | None) -> None:
        """Publish a message; `on_done` tells whether all its queues have it.

        Raises:
            AmqpError: the exchange does not exist, or a property is not what it has to be.
        """
        channel = self.channel
        connection = channel.connection
        outgoing = read_outgoing(event, connection.user, connection.shared.clock.wall_ms())
        outgoing = channel.consuming.replies.name_reply(outgoing)
        check_publish(channel, event.exchange, outgoing.keys)
        router = connection.desk.router
        routed = router.route(connection.vhost, event.exchange, outgoing.keys, outgoing.headers)
        has_queues = bool(routed.queues or routed.delayed)
        if not has_queues and channel.carried > self.known_until:
            self._find_out(event, on_done)
            return
        if routed.is_missing:
            what = f"no exchange '{event.exchange}' in vhost '{connection.vhost}'"
            raise failed(ReplyCode.NOT_FOUND, what, m.BasicPublish)
        if not has_queues and event.mandatory:
            self._return(event)
        sequence = self._number()
        if not has_queues:
            self._note(sequence, on_done, is_in=True)
            return
        self._send(event, outgoing, routed, sequence, on_done)

    def _find_out(self, event: Published, on_done: Callable[[bool], None] | None) -> None:
        """Publish once this broker has heard of all that there is now."""
        self.find_out(lambda: self.publish(event, on_done))

    def find_out(self, then: Callable[[], None]) -> None:
        """Go on once this broker has heard of all that there was when the last event came."""
        channel = self.channel
        channel.begin()
        until = channel.arrived

        def on_current(_: bool) -> None:
            self.known_until = max(self.known_until, until)
            channel.go_on_with(then)

        channel.connection.desk.doors.cluster.when_current(CURRENT_MS_MAX, on_current)

    def _send(
        self,
        event: Published,
        outgoing: Outgoing,
        routed: Routed,
        sequence: int,
        on_done: Callable[[bool], None] | None,
    ) -> None:
        size = len(event.body)
        pending = _Pending(
            len(routed.queues) + len(routed.delayed),
            size,
            lambda is_in: self._note(sequence, on_done, is_in=is_in),
        )
        self._under_way += 1
        self.channel.connection.add_waiting(1, size)
        message = outgoing.message(event)
        for queue in routed.queues:
            self._lane(queue.topic_id).waiting.append(_Item(message, size, pending))
        if routed.delayed:
            later = message._replace(not_before_ms=routed.not_before_ms)
            for queue in routed.delayed:
                self._lane(queue.topic_id).waiting.append(_Item(later, size, pending))

    def _lane(self, log_id: TopicId) -> _Lane:
        lane = self._lanes.get(log_id)
        if lane is None:
            lane = self._lanes[log_id] = _Lane(self, log_id)
        return lane

    def flush(self) -> None:
        """Send what waits in lanes."""
        for lane in list(self._lanes.values()):
            lane.go_on()

    def on_put(self, pending: _Pending, *, is_in: bool) -> None:
        """A queue has a message, or does not take it."""
        pending.left -= 1
        pending.is_refused = pending.is_refused or not is_in
        if pending.left:
            return
        self._under_way -= 1
        self.channel.connection.add_waiting(-1, -pending.size)
        pending.on_done(not pending.is_refused)

    def on_lane(self, log_id: TopicId) -> None:
        """A queue has answered."""
        lane = self._lanes[log_id]
        lane.go_on()
        if not lane.is_busy and not lane.waiting:
            del self._lanes[log_id]
        if not self._under_way:
            waiting, self._idle = self._idle, []
            for each in waiting:
                each()

    def when_idle(self, on_done: Callable[[], None]) -> None:
        """Call when nothing is on its way."""
        self.flush()
        if self._under_way:
            self._idle.append(on_done)
        else:
            on_done()

    # -- returns and confirms

    def _return(self, event: Published) -> None:
        channel = self.channel
        codec = channel.connection.codec
        if channel.is_over or not codec.can_deliver(channel.number):
            return
        method = m.BasicReturn(
            reply_code=ReplyCode.NO_ROUTE,
            reply_text="NO_ROUTE",
            exchange=event.exchange,
            routing_key=event.routing_key,
        )
        channel.connection.write(
            codec.send_content(channel.number, method, event.properties, event.body)
        )

    def _number(self) -> int:
        """Return the number of a publish; 0: nobody wants to know."""
        if not self.is_confirming:
            return 0
        sequence = self._next_sequence
        self._next_sequence += 1
        self._confirmed[sequence] = None
        return sequence

    def _note(self, sequence: int, on_done: Callable[[bool], None] | None, *, is_in: bool) -> None:
        if on_done is not None:
            on_done(is_in)
        if not sequence:
            return
        self._confirmed[sequence] = is_in
        if not self._is_flush_due:
            # More of the same turn may follow.
            self._is_flush_due = True
            self.channel.connection.shared.clock.call_soon(self._confirm)

    def _confirm(self) -> None:
        """Confirm what is done: as many as possible at once, from the first on."""
        self._is_flush_due = False
        first: list[int] = []
        others: list[int] = []
        is_contiguous = True
        for sequence, is_in in self._confirmed.items():
            if is_in is None:
                is_contiguous = False
            elif is_in and is_contiguous:
                first.append(sequence)
            else:
                others.append(sequence)
        channel = self.channel
        number, frames = channel.number, []
        for sequence in others:
            if self._confirmed[sequence]:
                frames.append(write_ack(number, sequence))
            elif not channel.is_over and channel.connection.codec.can_deliver(number):
                nack = m.BasicNack(delivery_tag=sequence, requeue=False)
                frames.append(channel.connection.codec.send(number, nack))
        if first:
            frames.insert(0, write_ack(number, first[-1], multiple=len(first) > 1))
        for sequence in (*first, *others):
            del self._confirmed[sequence]
        if not channel.is_over and channel.connection.codec.can_deliver(number):
            channel.connection.write(b"".join(frames))
