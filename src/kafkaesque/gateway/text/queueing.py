"""PUT, GET, ACK, NACK and QUEUES: a queue's messages, wherever its log is led.

Theory of operation. A connection is a consumer of each queue that it has asked with GET. A message
that it was given is its own until ACK or NACK, or until the connection ends: then the broker
detaches the consumer, and what it held is ready again. A GET that waits is answered before the next
line is carried out, as every line is; so its wait has a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.meanings import shown_headers, shown_key
from kafkaesque.gateway.text.authorization import no_queue
from kafkaesque.gateway.text.held import CONSUMERS_MAX, HELD_MAX, TIMEOUT_MS
from kafkaesque.gateway.text.reply import Reply
from kafkaesque.model.errors import RequestRefused, RequestTimedOut, UnknownQueue
from kafkaesque.model.ids import TopicId
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.protocols.text.answers import (
    GivenLine,
    QueueLine,
    write_error,
    write_given,
    write_ok,
    write_queues,
)
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import ACK, GET, NACK, PUT, QUEUES
from kafkaesque.protocols.text.messages import TextMessage
from kafkaesque.protocols.text.queue_commands import Ack, Get, Nack, Put
from kafkaesque.queues.arrival import identity_of
from kafkaesque.queues.requests import Claim

#: Queues whose messages one QUEUES counts.
COUNTED_MAX: Final = 1_000
COUNT_TIMEOUT_MS: Final = 3_000
PUT_TIMEOUT_MS: Final = 30_000
#: The least that is asked for; a message is shown whole, however large it is.
_BYTES: Final = 1024 * 1024
#: Until the connection says what becomes of it, or ends.
_WITHOUT_END: Final = 0
_SHOWN: Final = ("ready", "in_flight", "delayed", "parked")


class QueueDesk:
    """Carries out what people ask of queues."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def _log_of(self, queue: str) -> TopicId:
        try:
            return self._doors.queues.find(QueueName(DEFAULT_VHOST, queue)).topic_id
        except UnknownQueue:
            raise no_queue(queue) from None

    def put(self, command: Put, reply: Reply) -> None:
        """Append a message; answered when it is committed.

        Raises:
            BadCommand: there is no such queue.
        """
        queue, message = command.queue, command.message
        log_id = self._log_of(queue)
        new = NewMessage(
            message.value,
            message.key,
            message.headers,
            priority=command.priority,
            group=command.group.encode(),
            delay_ms=command.delay_ms,
            time_to_live_ms=command.expires_ms,
            identity=identity_of(command.message_id.encode()) if command.message_id else b"",
        )

        def on_done(outcome: q.PutResult | RequestRefused) -> None:
            if isinstance(outcome, RequestTimedOut):
                what = f"it is not known whether the message is in queue {queue!r}: {outcome}"
                reply.end(write_error(what, PUT))
            elif isinstance(outcome, RequestRefused):
                reply.end(write_error(f"the message is not in queue {queue!r}: {outcome}", PUT))
            elif outcome.offsets[0] < 0:
                reply.end(write_error(f"the message is not put: queue {queue!r} is full", QUEUES))
            else:
                reply.end(write_ok(queue, outcome.offsets[0]))

        self._doors.queues.put(log_id, [new], PUT_TIMEOUT_MS, on_done, is_strict=True)

    # -- taking

    def get(self, command: Get, reply: Reply) -> None:
        """Be given a message.

        Raises:
            BadCommand: there is no such queue, or the connection holds too much.
        """
        log_id, held = self._log_of(command.queue), reply.held
        if held.is_full:
            what = f"this connection holds {HELD_MAX} messages; say ACK or NACK first"
            raise BadCommand(what, ACK)
        consumer = held.consumer(log_id)
        if consumer is None:
            what = f"a connection gets messages of at most {CONSUMERS_MAX} queues"
            raise BadCommand(what, GET)
        ask = self._doors.queues.ask_whole

        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                reply.end(write_error(f"queue {command.queue!r}: {outcome}", GET))
                return
            if not reply.is_wanted:
                return
            take = q.TakeMessages(
                log_id=log_id,
                consumer=consumer,
                bytes_max=_BYTES,
                lock_ms=_WITHOUT_END,
                wait_ms=command.wait_ms,
            )
            on_taken = partial(self._on_taken, command, log_id, reply)
            ask(take, q.TakenMessages, command.wait_ms + TIMEOUT_MS, on_taken)

        # Each time: a leader that is new does not know the consumer.
        held.attach(log_id, consumer, on_attached)

    def _on_taken(
        self,
        command: Get,
        log_id: TopicId,
        reply: Reply,
        outcome: q.TakenMessages | RequestRefused,
    ) -> None:
        queue = command.queue
        if isinstance(outcome, RequestRefused):
            reply.end(write_error(f"queue {queue!r}: {outcome}", GET))
            return
        if not outcome.messages:
            reply.end(write_ok("0 messages"))
            return
        (message,) = outcome.messages
        if not reply.is_wanted:
            # Its consumer was detached before, or is about to be: either way it is ready again.
            release = q.ReleaseMessages(log_id=log_id, claims=[message.claim])
            self._doors.queues.ask_whole(release, q.ClaimsResult, TIMEOUT_MS, lambda _: None)
            return
        if reply.rights is not None and not reply.rights.may(
            Operation.READ, ResourceType.QUEUE, queue
        ):
            # The rule has gone while GET waited.
            release = q.ReleaseMessages(log_id=log_id, claims=[message.claim])
            self._doors.queues.ask_whole(release, q.ClaimsResult, TIMEOUT_MS, lambda _: None)
            words = reply.rights.refusal(Operation.READ, ResourceType.QUEUE, queue)
            reply.end(write_error(words, QUEUES))
            return
        reply.held.keep(queue, log_id, message.claim)
        headers = tuple(
            each for each in shown_headers(message.headers) if not each[0].startswith(PREFIX)
        )
        key = shown_key(message.headers, message.key)
        shown = TextMessage(headers=headers, key=key, value=message.value)
        given = GivenLine(queue, message.offset, message.attempt, message.timestamp_ms, shown)
        reply.end(write_given(given))

    # -- what becomes of it

    def ack(self, command: Ack, reply: Reply) -> None:
        """A message is done with.

        Raises:
            BadCommand: the connection does not hold it.
        """
        log_id, claim = self._held(command.queue, command.offset, reply)
        settle = q.SettleMessages(log_id=log_id, claims=[claim], may_be_late=True)
        self._ask(settle, command, reply, ACK)

    def nack(self, command: Nack, reply: Reply) -> None:
        """A message is to be tried by others.

        Raises:
            BadCommand: the connection does not hold it.
        """
        log_id, claim = self._held(command.queue, command.offset, reply)
        release = q.ReleaseMessages(
            log_id=log_id, claims=[claim], is_failed=True, delay_ms=command.delay_ms
        )
        self._ask(release, command, reply, NACK)

    def _held(self, queue: str, offset: int, reply: Reply) -> tuple[TopicId, Claim]:
        found = reply.held.messages.get((queue, offset))
        if found is None:
            raise BadCommand(
                f"this connection does not hold message {offset} of queue {queue!r}", GET
            )
        return found

    def _ask(
        self, request: q.AnyQueueRequest, command: Ack | Nack, reply: Reply, example: str
    ) -> None:
        queue, offset = command.queue, command.offset

        def on_done(outcome: q.ClaimsResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                # It is held as before: whoever says it again learns more.
                what = f"it is not known what has become of message {offset}: {outcome}"
                reply.end(write_error(what, example))
                return
            reply.held.messages.pop((queue, offset), None)
            if outcome.stale:
                what = f"too late: message {offset} of queue {queue!r} is not held here any more"
                reply.end(write_error(what, GET))
            else:
                reply.end(write_ok(queue, offset))

        self._doors.queues.ask_whole(request, q.ClaimsResult, TIMEOUT_MS, on_done)

    # -- listing

    def list_all(self, reply: Reply) -> None:
        """Show the queues that a client may see, with what is in them."""
        rights = reply.rights
        states = [
            each
            for each in self._doors.queues.all()
            if each.queue.vhost == DEFAULT_VHOST
            and (
                rights is None
                or rights.could(Operation.DESCRIBE, ResourceType.QUEUE, each.queue.name)
            )
        ]
        counting = _Counting(states, lambda lines: reply.end(write_queues(lines)))
        counting.begin(self._doors)


class _Counting:
    """Asks the leaders how many messages there are."""

    def __init__(
        self, states: Sequence[QueueState], on_done: Callable[[Sequence[QueueLine]], None]
    ) -> None:
        self._states = states
        self._lines = [QueueLine(each.queue.name, None) for each in states]
        self._left = 1
        self._on_done = on_done

    def begin(self, doors: Doors) -> None:
        for number, state in enumerate(self._states[:COUNTED_MAX]):
            self._left += 1
            ask = q.AskQueue(log_id=state.topic_id)
            on_counts = partial(self._on_counts, number)
            doors.queues.ask_whole(ask, q.QueueCounts, COUNT_TIMEOUT_MS, on_counts)
        self._count_down()

    def _on_counts(self, number: int, outcome: q.QueueCounts | RequestRefused) -> None:
        if isinstance(outcome, q.QueueCounts):
            counts = tuple((each.replace("_", "-"), getattr(outcome, each)) for each in _SHOWN)
            self._lines[number] = QueueLine(self._lines[number].name, counts)
        self._count_down()

    def _count_down(self) -> None:
        self._left -= 1
        if not self._left:
            self._on_done(self._lines)
