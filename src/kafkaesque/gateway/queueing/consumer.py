"""One consumer: asks its queue's leader for messages that the client may have, and sends them.

Theory of operation. It is attached to the queue under a name of its own, and shows itself again
every few seconds: a new leader has to know that it is there. One request at a time waits at the
leader (`TakeMessages`); what comes is sent at once, and the next request follows as soon as the
client may have more. Where the answer to a request is lost, the consumer attaches anew: the request
is over, and the consumer is told what it has, and gives back what it was not given to know. What
comes for a client that may have no more by now, or is gone, is given back as never attempted. Where
a new leader knows another consumer that has the queue for itself, this one is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from msgspec import UNSET

from kafkaesque.broker.metadata.client_quotas import CONSUMER_BYTE_RATE
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.gateway.queueing.link import QueueingLink
from kafkaesque.gateway.queueing.settlements import Delivery, Settlements
from kafkaesque.model.errors import QueueInUse, RequestRefused, UnknownQueue
from kafkaesque.model.message_headers import PRIORITY
from kafkaesque.queues.requests import TAKEN_MAX, Claim

#: Bytes of the messages of one request; one message alone may be larger.
TAKEN_BYTES_MAX: Final = 1024 * 1024
WAIT_MS: Final = q.WAIT_MS_MAX
TIMEOUT_MS: Final = 10_000
#: So often it shows itself.
ATTACH_MS: Final = 5_000
_PRIORITY_DIGITS_MAX: Final = 3
#: After a refusal.
AGAIN_MS: Final = 500


class Consumer(ABC):
    """See the module; how a delivery is written is the protocol's."""

    __slots__ = (
        "_is_recovering",
        "_is_taking",
        "_link",
        "_lock_ms",
        "_name",
        "_settlements",
        "is_exclusive",
        "is_over",
        "is_settled_when_sent",
        "prefetch",
        "priority",
        "queue",
        "unacked",
    )

    def __init__(
        self,
        link: QueueingLink,
        settlements: Settlements,
        queue: QueueState,
        *,
        prefetch: int,
        lock_ms: int,
        is_settled_when_sent: bool,
        priority: int = 0,
        is_exclusive: bool = False,
    ) -> None:
        self._link: Final = link
        self._settlements: Final = settlements
        self.queue: Final = queue
        #: Whether what was sent is done with: the client says nothing of it.
        self.is_settled_when_sent: Final = is_settled_when_sent
        #: Messages that it may have unacknowledged; 0: as many as the client may.
        self.prefetch: Final = 0 if is_settled_when_sent else prefetch
        #: 0: until the client says what becomes of a message, or goes.
        self._lock_ms: Final = lock_ms
        #: Consumers of a higher priority come first.
        self.priority: Final = priority
        self.is_exclusive: Final = is_exclusive
        self._name: Final = link.desk.doors.queues.new_consumer()
        self._is_taking = False
        self._is_recovering = False
        self.is_over = False
        #: Messages that the client has.
        self.unacked = 0

    # -- what a protocol brings

    @property
    @abstractmethod
    def credit_of_client(self) -> int:
        """How many more messages the client may have, over all its consumers."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether nobody hears what is sent."""

    @abstractmethod
    def may_deliver(self) -> bool:
        """Tell whether the client may still have messages of the queue; if not, it is told."""

    @abstractmethod
    def write(self, message: q.QueueMessage, delivery: Delivery, now_ms: int) -> bytes:
        """Return a delivery as it is sent; what is to be settled by the client is remembered."""

    @abstractmethod
    def on_deleted(self) -> None:
        """The queue is gone, or is another consumer's alone: this one is over."""

    # -- its beginning

    def attach(self, on_done: Callable[[RequestRefused | None], None]) -> None:
        """Be known to the queue's leader."""

        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
                return
            self._link.shared.clock.call_later(ATTACH_MS, self._show)
            self._link.desk.deletions.watch(self)
            on_done(None)

        self._ask_to_attach(on_attached)

    def _ask_to_attach(
        self,
        on_done: Callable[[q.AttachedConsumer | RequestRefused], None],
        *,
        is_anew: bool = False,
    ) -> None:
        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if self._is_gone:
                # It may have been asked once more, after it was detached.
                self._detach(is_failed=False)
            on_done(outcome)

        attach = q.AttachConsumer(
            log_id=self.queue.topic_id,
            consumer=self._name,
            priority=self.priority or UNSET,
            is_exclusive=self.is_exclusive or UNSET,
            is_leaving=self.is_over or UNSET,
            is_anew=is_anew or UNSET,
        )
        ask = self._link.desk.doors.queues.ask_whole
        ask(attach, q.AttachedConsumer, TIMEOUT_MS, on_attached)

    def _show(self) -> None:
        if self._is_gone:
            return
        if not self._is_recovering:
            self._ask_to_attach(self._on_shown)
        self._link.shared.clock.call_later(ATTACH_MS, self._show)

    def _on_shown(self, outcome: q.AttachedConsumer | RequestRefused) -> None:
        if isinstance(outcome, UnknownQueue | QueueInUse):
            self.on_lost()

    @property
    def _is_gone(self) -> bool:
        """Whether it has said its last: nothing that it has is waited for."""
        return self.is_over and not self.unacked

    # -- asking

    @property
    def _credit(self) -> int:
        left = self.credit_of_client
        if self.prefetch:
            left = min(left, self.prefetch - self.unacked)
        return min(left, TAKEN_MAX)

    def go_on(self) -> None:
        """Ask for messages, if the client may have some."""
        if self._is_taking or self._is_recovering or self.is_over:
            return
        count = self._credit
        if count <= 0 or self.is_closed or self._link.is_slow:
            return
        self._is_taking = True
        take = q.TakeMessages(
            log_id=self.queue.topic_id,
            consumer=self._name,
            messages_max=count,
            bytes_max=TAKEN_BYTES_MAX,
            lock_ms=self._lock_ms,
            wait_ms=WAIT_MS,
        )
        ask = self._link.desk.doors.queues.ask_whole
        ask(take, q.TakenMessages, WAIT_MS + TIMEOUT_MS, self._on_taken)

    def _on_taken(self, outcome: q.TakenMessages | RequestRefused) -> None:
        self._is_taking = False
        if isinstance(outcome, UnknownQueue):
            self.on_lost()
        elif isinstance(outcome, RequestRefused):
            self._recover()
        else:
            if outcome.messages:
                self._deliver(outcome)
            self.go_on()

    def _recover(self) -> None:
        """Attach again, and give back what it has and does not know."""
        if self.is_over or self._is_recovering:
            return
        self._is_recovering = True

        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if self.is_over:
                self._is_recovering = False
            elif isinstance(outcome, UnknownQueue | QueueInUse):
                self._is_recovering = False
                self.on_lost()
            elif isinstance(outcome, RequestRefused):
                self._link.shared.clock.call_later(AGAIN_MS, again)
            else:
                self._is_recovering = False
                self._give_back_unknown(outcome.claims)
                # Not at once: what was refused may be refused again.
                self._link.shared.clock.call_later(AGAIN_MS, self.go_on)

        def again() -> None:
            if self.is_over:
                self._is_recovering = False
            else:
                ask()

        def ask() -> None:
            # The request may still wait at the leader: what it gets would be nobody's.
            self._ask_to_attach(on_attached, is_anew=True)

        ask()

    def _give_back_unknown(self, claims: list[Claim]) -> None:
        known = {
            (each.offset, each.attempt)
            for each in self._settlements.held()
            if each.consumer is self
        }
        unknown = [
            Claim(offset, offset + 1, claim.attempt)
            for claim in claims
            for offset in range(claim.first, claim.end)
            if (offset, claim.attempt) not in known
        ]
        # Its client may have had one of them, and have said what becomes of it: that was lost, too.
        self._settlements.release(self.queue.topic_id, unknown)

    def _give_back(self, messages: list[q.QueueMessage], taken: q.TakenMessages) -> None:
        """The client was not sent these messages: others may have them."""
        for is_unsent in (True, False):
            claims = [each.claim for each in messages if taken.was_sent(each) is not is_unsent]
            self._settlements.release(self.queue.topic_id, claims, is_unsent=is_unsent)

    # -- sending

    def _by_priority(self, messages: list[q.QueueMessage]) -> list[q.QueueMessage]:
        """Return messages that came together, oldest first, as the queue gives them out."""
        highest = int(self.queue.options.get("max.priority", "0"))
        if not highest:
            return messages
        return sorted(messages, key=lambda each: min(_priority_of(each), highest), reverse=True)

    def _deliver(self, taken: q.TakenMessages) -> None:
        link, log_id = self._link, self.queue.topic_id
        messages = self._by_priority(taken.messages)
        if not self.may_deliver():
            # It was allowed when the client began to consume.
            self._give_back(messages, taken)
            return
        # A limit that is shared with others may be reached by now.
        count = 0 if self.is_over or self.is_closed else max(0, min(len(messages), self._credit))
        frames: list[bytes] = []
        size = 0
        now_ms = link.shared.clock.wall_ms()
        for message in messages[:count]:
            delivery = Delivery(log_id, message.offset, message.attempt, self)
            self.unacked += 1
            if message.attempt > 1:
                message = taken.told(message)
            frames.append(self.write(message, delivery, now_ms))
            size += len(message.value or b"")
        if frames:
            link.write(b"".join(frames))
            link.charge(CONSUMER_BYTE_RATE, size)
        if count < len(messages):
            self._give_back(messages[count:], taken)
        if self.is_settled_when_sent:
            self._settlements.flush(is_awaited=False)

    def on_settled(self, count: int = 1) -> None:
        """The client has said what becomes of messages."""
        self.unacked -= count
        if self._is_gone:
            self._link.shared.clock.call_soon(lambda: self._detach(is_failed=False))

    # -- its end

    def on_lost(self) -> None:
        """Its queue is gone, or is another consumer's alone."""
        if not self.is_over:
            self.is_over = True
            self.on_deleted()

    def end(self, *, is_failed: bool, then: Callable[[], None] | None = None) -> None:
        """No more is asked for, and what it has is given back."""
        self.is_over = True
        self.unacked = 0
        self._detach(is_failed=is_failed, then=then)

    def cancel(self, then: Callable[[], None]) -> None:
        """The client wants no more; what it has, it may still acknowledge."""
        self.is_over = True
        if self.unacked:
            # Others may have the queue for themselves now, or be the active one.
            self._ask_to_attach(lambda _: then())
        else:
            self._detach(is_failed=False, then=then)

    def _detach(self, *, is_failed: bool, then: Callable[[], None] | None = None) -> None:
        detach = q.DetachConsumer(
            log_id=self.queue.topic_id, consumer=self._name, is_failed=is_failed
        )

        def on_done(_: Done | RequestRefused) -> None:
            self._link.desk.on_detached(self.queue)
            if then is not None:
                then()

        self._link.desk.doors.queues.ask_whole(detach, Done, TIMEOUT_MS, on_done)


def _priority_of(message: q.QueueMessage) -> int:
    """Return the priority that a message was put with."""
    for name, value in message.headers:
        if name == PRIORITY and value is not None and value.isdigit():
            return int(value[:_PRIORITY_DIGITS_MAX])
    return 0
