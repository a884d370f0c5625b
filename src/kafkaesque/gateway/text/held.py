"""What a connection has of queues: it is one consumer of each, and holds messages until it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim

#: Messages that one connection has and has not said anything about.
HELD_MAX: Final = 100
#: Queues that one connection has asked for messages.
CONSUMERS_MAX: Final = 100
#: So often a consumer that holds messages shows itself: a new leader has to know that it is there.
ATTACH_MS: Final = 5_000
TIMEOUT_MS: Final = 10_000


class Held:
    """See the module."""

    __slots__ = ("_clock", "_consumers", "_doors", "_is_showing", "is_over", "messages")

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._clock: Clock = doors.clock
        self._consumers: dict[TopicId, q.ConsumerName] = {}
        self._is_showing = False
        #: By queue and offset: the queue's log, and what settles the message.
        self.messages: dict[tuple[str, int], tuple[TopicId, Claim]] = {}
        #: Whether the connection is gone.
        self.is_over = False

    @property
    def is_full(self) -> bool:
        """Whether no more may be taken before something is settled."""
        return len(self.messages) >= HELD_MAX

    def consumer(self, log_id: TopicId) -> q.ConsumerName | None:
        """Return this connection's name at a queue; None: it has too many already."""
        name = self._consumers.get(log_id)
        if name is None and len(self._consumers) < CONSUMERS_MAX:
            name = self._consumers[log_id] = self._doors.queues.new_consumer()
        return name

    def keep(self, queue: str, log_id: TopicId, claim: Claim) -> None:
        """A message was given to this connection."""
        self.messages[queue, claim.first] = log_id, claim
        if not self._is_showing:
            self._is_showing = True
            self._clock.call_later(ATTACH_MS, self._show)

    def _show(self) -> None:
        """Attach once more: after a change of leader, who does not loses what it has."""
        self._is_showing = bool(self.messages) and not self.is_over
        if not self._is_showing:
            return
        for log_id in {log_id for log_id, _ in self.messages.values()}:
            self.attach(log_id, self._consumers[log_id], lambda _: None)
        self._clock.call_later(ATTACH_MS, self._show)

    def attach(
        self,
        log_id: TopicId,
        consumer: q.ConsumerName,
        on_done: Callable[[q.AttachedConsumer | RequestRefused], None],
    ) -> None:
        """Be known to the queue's leader; harmless if it knows the consumer."""

        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if self.is_over:
                # It may have been asked once more, after the consumer was detached.
                self._detach(log_id, consumer, is_failed=True)
            on_done(outcome)

        attach = q.AttachConsumer(log_id=log_id, consumer=consumer)
        self._doors.queues.ask_whole(attach, q.AttachedConsumer, TIMEOUT_MS, on_attached)

    def close(self, *, is_failed: bool) -> None:
        """The connection is gone: what it holds is ready again, maybe as a failed attempt."""
        self.is_over = True
        self.messages.clear()
        consumers, self._consumers = self._consumers, {}
        for log_id, name in consumers.items():
            self._detach(log_id, name, is_failed=is_failed)

    def _detach(self, log_id: TopicId, consumer: q.ConsumerName, *, is_failed: bool) -> None:
        detach = q.DetachConsumer(log_id=log_id, consumer=consumer, is_failed=is_failed)
        self._doors.queues.ask_whole(detach, Done, TIMEOUT_MS, lambda _: None)
