"""What one connection gets of one queue, and what becomes of it there.

Theory of operation. It is attached to the queue under a name of its own, and shows itself again
every few seconds: a new leader has to know that it is there. One request at a time waits at the
leader; what comes is given to the owner at once. Where the answer to a request is lost, the feed
attaches again, is told what it has, and gives back what it was not given to know. A queue that is
for one connection at a time refuses a feed that another one has taken over from: it is over then.
What the owner says of messages within one turn of the loop goes in one request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.gateway.mqtt.desk import Desk
from kafkaesque.model.errors import QueueInUse, RequestRefused, UnknownQueue
from kafkaesque.queues.requests import Claim

#: Messages of one request, and their bytes; one alone may be larger.
TAKEN_MAX: Final = 256
TAKEN_BYTES_MAX: Final = 1024 * 1024
WAIT_MS: Final = q.WAIT_MS_MAX
TIMEOUT_MS: Final = 10_000
#: A settlement is asked again for so long; a message whose settlement never arrives comes again.
SETTLE_MS_MAX: Final = 60_000
#: So often it shows itself.
ATTACH_MS: Final = 5_000
#: After a refusal.
AGAIN_MS: Final = 500
_TAKEN_OVER: Final = QueueInUse("another connection has the queue now")


class FeedOwner(Protocol):
    """Whose feed it is."""

    def credit(self, feed: Feed) -> int:
        """How many more messages it may have."""

    def on_taken(self, feed: Feed, messages: list[q.QueueMessage]) -> None:
        """Take messages, each of which has to be settled or released."""

    def on_lost(self, feed: Feed, *, is_taken_over: bool) -> None:
        """The queue is gone, or another connection has it."""


class Feed:
    """See the module."""

    __slots__ = (
        "_desk",
        "_held",
        "_is_flush_due",
        "_is_recovering",
        "_is_taking",
        "_owner",
        "_settled",
        "asked",
        "is_over",
        "name",
        "queue",
        "wait_ms",
    )

    def __init__(
        self, desk: Desk, queue: QueueState, owner: FeedOwner, name: q.ConsumerName | None = None
    ) -> None:
        self._desk = desk
        self._owner = owner
        self.queue: Final = queue
        self.name: Final = name or desk.doors.queues.new_consumer()
        #: By offset: attempts of messages that it has, and has said nothing of.
        self._held: Final[dict[int, int]] = {}
        self._settled: list[Claim] = []
        #: How long a request waits at the leader; the owner is told when one that waits for
        #: nothing finds nothing.
        self.wait_ms = WAIT_MS
        #: How many messages the last request was for.
        self.asked = 0
        self._is_flush_due = False
        self._is_taking = False
        self._is_recovering = False
        self.is_over = False

    # -- its beginning

    def attach(self, on_done: Callable[[RequestRefused | None], None]) -> None:
        """Be known to the queue's leader."""

        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
                return
            self._desk.doors.clock.call_later(ATTACH_MS, self._show)
            on_done(None)

        self._ask_to_attach(on_attached)

    def _ask_to_attach(
        self,
        on_done: Callable[[q.AttachedConsumer | RequestRefused], None],
        *,
        is_anew: bool = False,
    ) -> None:
        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if self.is_over and not isinstance(outcome, RequestRefused):
                # It may have been asked once more, after it was detached.
                self._detach(is_failed=True)
            on_done(outcome)

        attach = q.AttachConsumer(
            log_id=self.queue.topic_id, consumer=self.name, is_anew=is_anew or msgspec.UNSET
        )
        self._desk.doors.queues.ask(attach, q.AttachedConsumer, TIMEOUT_MS, on_attached)

    def _show(self) -> None:
        if self.is_over:
            return
        if not self._is_recovering:
            self._ask_to_attach(self._on_shown)
        self._desk.doors.clock.call_later(ATTACH_MS, self._show)

    def _on_shown(self, outcome: q.AttachedConsumer | RequestRefused) -> None:
        if isinstance(outcome, UnknownQueue | QueueInUse):
            self._lose(outcome)

    def hear_of_take_over(self) -> None:
        """Be over when another connection says that it takes this one's place."""
        self._desk.doors.queues.when_taken_over(self.name, lambda: self._lose(_TAKEN_OVER))

    def _lose(self, refusal: RequestRefused) -> None:
        if not self.is_over:
            self._set_over()
            self._owner.on_lost(self, is_taken_over=isinstance(refusal, QueueInUse))

    # -- asking

    def go_on(self) -> None:
        """Ask for messages, if the owner may have some."""
        if self._is_taking or self._is_recovering or self.is_over:
            return
        count = min(self._owner.credit(self), TAKEN_MAX)
        if count <= 0:
            return
        self._is_taking = True
        take = q.TakeMessages(
            log_id=self.queue.topic_id,
            consumer=self.name,
            messages_max=count,
            bytes_max=TAKEN_BYTES_MAX,
            lock_ms=0,
            wait_ms=self.wait_ms,
        )
        self.asked = count
        ask = self._desk.doors.queues.ask
        ask(take, q.TakenMessages, WAIT_MS + TIMEOUT_MS, self._on_taken)

    def _on_taken(self, outcome: q.TakenMessages | RequestRefused) -> None:
        self._is_taking = False
        if isinstance(outcome, UnknownQueue | QueueInUse):
            self._lose(outcome)
        elif isinstance(outcome, RequestRefused):
            self._recover()
        elif self.is_over:
            self.release([each.claim for each in outcome.messages])
        else:
            if outcome.messages or not self.wait_ms:
                for each in outcome.messages:
                    self._held[each.offset] = each.attempt
                self._owner.on_taken(self, outcome.messages)
            self.go_on()

    def _recover(self) -> None:
        """Attach again, and give back what it has and does not know."""
        if self.is_over or self._is_recovering:
            return
        self._is_recovering = True

        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if isinstance(outcome, UnknownQueue | QueueInUse):
                self._is_recovering = False
                self._lose(outcome)
            elif isinstance(outcome, RequestRefused):
                self._desk.doors.clock.call_later(AGAIN_MS, again)
            else:
                self._is_recovering = False
                self._give_back_unknown(outcome.claims)
                # Not at once: what was refused may be refused again.
                self._desk.doors.clock.call_later(AGAIN_MS, self.go_on)

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
        unknown = [
            Claim(offset, offset + 1, claim.attempt)
            for claim in claims
            for offset in range(claim.first, claim.end)
            if self._held.get(offset) != claim.attempt
        ]
        self.release(unknown)

    # -- what becomes of messages

    def settle(self, taken: Taken, then: Callable[[], None] | None = None) -> None:
        """A message is done with; with `then`, at once, and that is called when it is known."""
        self._held.pop(taken.offset, None)
        if then is not None:
            self._ask_to_settle([taken.claim], then)
            return
        self._settled.append(taken.claim)
        self._flush_soon()

    def settle_all(self, done: Sequence[Taken]) -> None:
        """Messages of this feed are done with, mostly in the order in which they came."""
        held, settled = self._held, self._settled
        first = end = attempt = -1
        for each in done:
            offset = each.offset
            held.pop(offset, None)
            if offset == end and each.attempt == attempt:
                end += 1
                continue
            if end > first:
                settled.append(Claim(first, end, attempt))
            first, end, attempt = offset, offset + 1, each.attempt
        if end > first:
            settled.append(Claim(first, end, attempt))
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            # More of the same turn may follow.
            self._desk.doors.clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        claims, self._settled = self._settled, []
        if claims:
            self._ask_to_settle(joined(claims), lambda: None, is_awaited=False)

    def _ask_to_settle(
        self, claims: list[Claim], then: Callable[[], None], *, is_awaited: bool = True
    ) -> None:
        # A lock that has ended does no harm if nobody has had the message since.
        settle = q.SettleMessages(
            log_id=self.queue.topic_id,
            claims=claims,
            may_be_late=True,
            is_patient=not is_awaited,
        )

        def on_done(_: q.ClaimsResult | RequestRefused) -> None:
            then()

        self._desk.doors.queues.ask(settle, q.ClaimsResult, SETTLE_MS_MAX, on_done)

    def release(self, claims: list[Claim]) -> None:
        """Give back messages that the client was not sent: nobody has tried them."""
        for each in claims:
            self._held.pop(each.first, None)
        if claims:
            request = q.ReleaseMessages(log_id=self.queue.topic_id, claims=joined(claims))
            ask = self._desk.doors.queues.ask
            ask(request, q.ClaimsResult, SETTLE_MS_MAX, lambda _: None)

    # -- its end

    def end(self, *, is_failed: bool = True, then: Callable[[], None] = lambda: None) -> None:
        """No more is asked for; what it has comes again, as tried before if it `is_failed`."""
        self._flush()
        if self.is_over:
            then()
            return
        self._set_over()
        self._detach(is_failed=is_failed, then=then)

    def _set_over(self) -> None:
        self.is_over = True
        self._desk.doors.queues.forget_consumer(self.name)

    def _detach(self, *, is_failed: bool, then: Callable[[], None] = lambda: None) -> None:
        detach_consumer(self._desk, self.queue, self.name, is_failed=is_failed, then=then)


def detach_consumer(
    desk: Desk,
    queue: QueueState,
    name: q.ConsumerName,
    *,
    is_failed: bool = True,
    then: Callable[[], None] = lambda: None,
) -> None:
    """Let a consumer of a queue be gone; what it has is ready again."""
    detach = q.DetachConsumer(log_id=queue.topic_id, consumer=name, is_failed=is_failed)

    def on_done(_: Done | RequestRefused) -> None:
        then()

    desk.doors.queues.ask(detach, Done, TIMEOUT_MS, on_done)


def joined(claims: list[Claim]) -> list[Claim]:
    """Return claims with those that lie together as one."""
    found: list[Claim] = []
    for each in sorted(claims):
        last = found[-1] if found else None
        if last is not None and last.end == each.first and last.attempt == each.attempt:
            found[-1] = Claim(last.first, each.end, last.attempt)
        else:
            found.append(each)
    return found


class Taken(msgspec.Struct, frozen=True, eq=False):
    """A message that a feed has, until it says what becomes of it."""

    feed: Feed
    offset: int
    attempt: int

    @property
    def claim(self) -> Claim:
        """What the queue knows it by."""
        return Claim(self.offset, self.offset + 1, self.attempt)
