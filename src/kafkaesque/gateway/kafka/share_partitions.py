"""One partition of a share session: what its member has of it, and what waits for its next fetch.

Theory of operation. At most one question for records is open at the cursor, which waits there. What
comes is kept until the member's next fetch, which may be the one that waits now. So a member is
told of records as they come, whichever partition they are of. A record is acknowledged by its
offset; the partition remembers which attempt the member has.

A partition that the member reads no more gives back what was not handed out. What was stays the
member's: it works on it, and will acknowledge it.

An answer of the cursor may be lost with a leader or a link: then records are locked for a member
that never hears of them. What the cursor says that the member has, when it is attached again, and
what this one does not know is given back.

A lock begins when records are taken, not when they are handed out. What has waited for a good part
of its lock, because the member was slow to fetch, is given back and taken anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.model.errors import RequestRefused, RequestTimedOut, UnknownConsumer
from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim

TIMEOUT_MS: Final = 30_000
#: A question for records is answered so long after its wait at the latest.
ANSWER_MS: Final = 10_000
#: Records wait for the next fetch for no longer than this part of their lock.
WAITED_PART: Final = 10


class SharePartition:
    """See the module."""

    __slots__ = (
        "_doors",
        "_is_asking",
        "_is_attached",
        "_is_closed",
        "_is_forgotten",
        "_is_known",
        "_on_records",
        "_ready_ms",
        "acquired",
        "consumer",
        "log_id",
        "number",
        "ready",
        "refusal",
        "settling",
    )

    def __init__(
        self, doors: Doors, log_id: TopicId, number: int, on_records: Callable[[], None]
    ) -> None:
        self._doors = doors
        self._on_records = on_records
        self.log_id = log_id
        self.number = number
        self.consumer = doors.queues.new_consumer()
        #: What has come and was not handed out.
        self.ready: list[q.QueueMessage] = []
        #: Since when.
        self._ready_ms = 0
        #: What the member has: the attempt by offset.
        self.acquired: dict[int, int] = {}
        #: Acknowledgements that are under way: what they name is not in `acquired` any more.
        self.settling = 0
        #: Why the last question was not answered with records.
        self.refusal: RequestRefused | None = None
        self._is_asking = False
        #: Whether the cursor gives it records.
        self._is_attached = False
        #: Whether it was ever attached: a leader of the cursor may have it, and what it has.
        self._is_known = False
        self._is_forgotten = False
        self._is_closed = False

    def ask(self, records_max: int, bytes_max: int, wait_ms: int) -> None:
        """Have records brought, unless a question is open or something is there already.

        A partition that is to be attached is not asked before its acknowledgements are done: what
        they name would be among what the cursor says that the member has.
        """
        if self._is_asking or self.ready or self._is_forgotten or self._is_closed:
            return
        if self.settling and not self._is_attached:
            return
        self._is_asking = True
        self.refusal = None
        if self._is_attached:
            self._take(records_max, bytes_max, wait_ms)
            return

        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                self._end(outcome)
                return
            self._is_attached = self._is_known = True
            if self._is_closed:
                self._detach()
            elif self._is_forgotten:
                self._leave()
                self._end(None)
            else:
                self._give_back_lost(outcome.claims)
                self._take(records_max, bytes_max, wait_ms)

        attach = q.AttachConsumer(log_id=self.log_id, partition=self.number, consumer=self.consumer)
        self._doors.queues.ask(attach, q.AttachedConsumer, TIMEOUT_MS, on_attached)

    def _take(self, records_max: int, bytes_max: int, wait_ms: int) -> None:
        take = q.TakeMessages(
            log_id=self.log_id,
            partition=self.number,
            consumer=self.consumer,
            messages_max=records_max,
            bytes_max=bytes_max,
            wait_ms=wait_ms,
        )

        def on_taken(outcome: q.TakenMessages | RequestRefused) -> None:
            if isinstance(outcome, UnknownConsumer):
                # The cursor has another leader. What the member has, it has.
                self._is_attached = False
                self._end(None)
            elif isinstance(outcome, RequestRefused):
                if isinstance(outcome, RequestTimedOut):
                    # Records may have been taken all the same: attached again, it hears of them.
                    self._is_attached = False
                self._end(outcome)
            else:
                self.ready += outcome.messages
                self._ready_ms = self._doors.clock.now_ms()
                if self._is_forgotten or self._is_closed:
                    self._give_back()
                self._end(None)

        self._doors.queues.ask(take, q.TakenMessages, wait_ms + ANSWER_MS, on_taken)

    def _end(self, refusal: RequestRefused | None) -> None:
        self._is_asking = False
        self.refusal = refusal
        if self._is_closed:
            # What was taken for nobody is given back with the consumer.
            self._detach()
        else:
            self._on_records()

    def hand_out(self, count_max: int) -> list[q.QueueMessage]:
        """Return records that the member has from now on."""
        given, self.ready = self.ready[:count_max], self.ready[count_max:]
        self.acquired.update((each.offset, each.attempt) for each in given)
        return given

    def on_settled(self) -> None:
        """Acknowledgements are done: a fetch that could not ask before, see `ask`, can now."""
        self.settling -= 1
        if not self.settling and not self._is_attached and not self._is_closed:
            self._on_records()

    def give_back_old(self, lock_ms: int) -> None:
        """Give back what would be handed out with little left of its lock, if it has waited."""
        if self._doors.clock.now_ms() - self._ready_ms > lock_ms // WAITED_PART:
            self._give_back()

    def renewed(self) -> SharePartition:
        """Return what begins anew in its place; see `close`."""
        self.close()
        return SharePartition(self._doors, self.log_id, self.number, self._on_records)

    def forget(self) -> None:
        """Take nothing more, and give back what was not handed out; what the member has, it has."""
        self._is_forgotten = True
        self._give_back()
        if self._is_attached:
            self._leave()

    def resume(self) -> None:
        """Take records again after `forget`."""
        self._is_forgotten = False

    def close(self) -> None:
        """Give back all that the member has, and what it was not handed."""
        self._is_closed = True
        self._give_back()
        if self._is_known:
            # At once: a question that waits ends by that.
            self._detach()

    def _give_back(self) -> None:
        ready, self.ready = self.ready, []
        self._release([each.claim for each in ready])

    def _give_back_lost(self, claims: Iterable[Claim]) -> None:
        """Give back what the cursor has given to the member, and the member was not handed."""
        if self.settling:
            return  # what is being acknowledged is among it, perhaps
        self._release(
            [
                Claim(offset, offset + 1, each.attempt)
                for each in claims
                for offset in range(each.first, each.end)
                if self.acquired.get(offset) != each.attempt
            ]
        )

    def _release(self, claims: list[Claim]) -> None:
        if claims:
            release = q.ReleaseMessages(log_id=self.log_id, partition=self.number, claims=claims)
            self._doors.queues.ask(release, q.ClaimsResult, TIMEOUT_MS, lambda _: None)

    def _leave(self) -> None:
        """Be given nothing any more: a question that waits ends by that."""
        self._is_attached = False
        leave = q.AttachConsumer(
            log_id=self.log_id, partition=self.number, consumer=self.consumer, is_leaving=True
        )
        self._doors.queues.ask(leave, q.AttachedConsumer, TIMEOUT_MS, lambda _: None)

    def _detach(self) -> None:
        detach = q.DetachConsumer(log_id=self.log_id, partition=self.number, consumer=self.consumer)
        self._doors.queues.ask(detach, Done, TIMEOUT_MS, lambda _: None)
