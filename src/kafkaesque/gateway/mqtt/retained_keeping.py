"""Retained messages for a session that is kept: copies in its queue, as SUBACK has promised them.

Theory of operation. Before SUBACK the first copies for a SUBSCRIBE's filters are put into the
queue, and in the same batch a note for each filter of which more is owed. So SUBACK takes some
look-ups and one commit, however many messages are retained. The rest follows after SUBACK, a batch
at a time. Each batch has a note with it that says how far it goes; the newest note of a filter
holds, and the last one says that all is done. It is settled together with those before it.

If the broker dies, or the client leaves, whoever has the session next finds the notes and goes on.
So nobody works for a client that is away, and a session owes one place in the list of names for
each of its filters, at most. What is copied later is what is retained then: what was replaced or
cleared meanwhile has come to the queue as a message of its own.

Copies of QoS 2 have an identity, for a batch that is put once more: its answer may be lost, or
another connection may have taken the session over while it was on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from kafkaesque.broker.doors.live import LiveMessage, RetainedPage
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.gateway.mqtt.feed import Taken
from kafkaesque.gateway.mqtt.journal import Journal, OnDone, Owed, as_retained
from kafkaesque.gateway.mqtt.messages import publication_of
from kafkaesque.gateway.mqtt.names import topic_of
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.subscriptions import Subscribed
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.message_headers import IDENTITY_BYTES
from kafkaesque.routing.errors import BadName

#: Copies of one batch, and their bodies; one alone may be larger.
COPIES_MAX: Final = 512
COPIES_BYTES_MAX: Final = 1024 * 1024
#: Look-ups before a SUBACK: for further filters all is owed.
LOOKED_MAX: Final = 64
#: After a refusal, while the client is there.
AGAIN_MS: Final = 1_000


class _Batch:
    """Copies that are put together."""

    __slots__ = ("copies", "size")

    def __init__(self) -> None:
        self.copies: Final[list[NewMessage]] = []
        self.size = 0

    @property
    def is_full(self) -> bool:
        """Whether further copies go into the next one."""
        return len(self.copies) >= COPIES_MAX or self.size >= COPIES_BYTES_MAX


class _Job:
    """What is owed for one filter."""

    __slots__ = ("is_current", "newest", "notes", "owed")

    def __init__(self, owed: Owed, newest: int) -> None:
        #: As the newest note has it, and where that is.
        self.owed = owed
        self.newest = newest
        #: Notes that have come back, and are not settled.
        self.notes: Final[list[Taken]] = []
        #: Whether this broker knows all that is retained. It may not where another one has begun.
        self.is_current = True


class _Start:
    """What is done before a SUBACK."""

    __slots__ = ("batch", "left", "looked", "owed", "then", "wanted")

    def __init__(self, wanted: Sequence[Subscribed], then: OnDone) -> None:
        self.wanted: Final = wanted
        self.left: Final = list(reversed(wanted))
        self.then: Final = then
        self.batch: Final = _Batch()
        self.owed: Final[list[Owed]] = []
        self.looked = 0


class RetainedKeeping:
    """Of one connection."""

    __slots__ = ("_is_busy", "_jobs", "_journal", "_link", "_start")

    def __init__(self, link: MqttLink, journal: Journal) -> None:
        self._link: Final = link
        self._journal: Final = journal
        #: By the filter; the first one is worked on.
        self._jobs: Final[dict[str, _Job]] = {}
        #: A SUBSCRIBE that is about to be answered, before all else.
        self._start: _Start | None = None
        #: Whether something is looked up or put.
        self._is_busy = False

    # -- before SUBACK

    def begin(self, wanted: Sequence[Subscribed], then: OnDone) -> None:
        """Promise what is retained for new subscriptions; `then` it may be told.

        With a refusal nothing is promised.
        """
        self._drop_ended()
        self._start = _Start(wanted, then)
        self._go_on()

    def _go_on_starting(self, start: _Start) -> None:
        """Look for the first messages of the next filter, or put all that was found."""
        self._is_busy = True
        if not start.left or self._link.is_over:
            self._put_start(start)
            return
        subscribed = start.left.pop()
        if start.batch.is_full or start.looked >= LOOKED_MAX:
            start.owed.append(Owed(subscribed.options.topic_filter))
            self._go_on_starting_later(start)
            return
        start.looked += 1

        def on_found(found: RetainedPage | RequestRefused) -> None:
            name = subscribed.options.topic_filter
            if isinstance(found, RequestRefused):
                # The others would have to wait as long for the same.
                start.looked = LOOKED_MAX
                start.owed.append(Owed(name))
            else:
                owed = self._gather(start.batch, subscribed, Owed(name), found)
                start.owed.extend([] if owed.is_done else [owed])
            self._go_on_starting_later(start)

        self._link.desk.doors.live.retained(subscribed.name_filter, on_found)

    def _go_on_starting_later(self, start: _Start) -> None:
        # Not at once: there may be a thousand filters.
        self._link.shared.clock.call_soon(lambda: self._go_on_starting(start))

    def _put_start(self, start: _Start) -> None:
        def on_put(outcome: list[int] | RequestRefused) -> None:
            self._is_busy = False
            self._start = None
            if isinstance(outcome, RequestRefused):
                start.then(outcome)
            else:
                self._note_drops(outcome)
                if not self._link.is_over:
                    self._replace(start, outcome[len(start.batch.copies) :])
                start.then(None)
            self._go_on()

        if (start.batch.copies or start.owed) and not self._link.is_over:
            self._journal.put_copies(start.batch.copies, start.owed, on_put)
        else:
            on_put([])

    def _replace(self, start: _Start, offsets: Sequence[int]) -> None:
        """What was owed for the same filters before is owed no more."""
        before = {
            name: job
            for each in start.wanted
            if (job := self._jobs.pop(name := each.options.topic_filter, None)) is not None
        }
        for owed, offset in zip(start.owed, offsets, strict=True):
            if offset >= 0:
                job = self._jobs[owed.topic_filter] = _Job(owed._replace(first=offset), offset)
                # A note may have come back before this is known.
                old = before.pop(owed.topic_filter, None)
                job.notes.extend([] if old is None else old.notes)
                self._settle_old(job)
        for job in before.values():
            self._settle(job.notes)

    # -- after SUBACK

    def resume(self) -> None:
        """All notes of a session that is resumed have come: go on."""
        self._go_on()

    def _go_on(self) -> None:
        if self._is_busy or self._link.is_over:
            return
        if self._start is not None:
            self._go_on_starting(self._start)
            return
        self._drop_ended()
        job = next((each for each in self._jobs.values() if not each.owed.is_done), None)
        if job is None or not self._journal.is_recovered:
            return
        subscribed = self._link.subscriptions.get(job.owed.topic_filter)
        if subscribed is not None:
            self._look(job, subscribed)

    def _drop_ended(self) -> None:
        """Nothing is owed for a subscription that has ended."""
        has = self._link.subscriptions.get
        for name in [each for each in self._jobs if has(each) is None]:
            self._settle(self._jobs.pop(name).notes)

    def _look(self, job: _Job, subscribed: Subscribed) -> None:
        self._is_busy = True

        def on_found(found: RetainedPage | RequestRefused) -> None:
            if isinstance(found, RequestRefused):
                self._try_again()
                return
            job.is_current = True
            if is_behind:
                # Now all is known that there is, also behind its place.
                self._go_on_later()
            else:
                self._take_page(job, subscribed, found)

        is_behind = not job.is_current and job.owed.after is not None
        after = None if is_behind else job.owed.after
        self._link.desk.doors.live.retained(subscribed.name_filter, on_found, after=after)

    def _take_page(self, job: _Job, subscribed: Subscribed, page: RetainedPage) -> None:
        batch = _Batch()
        owed = self._gather(batch, subscribed, job.owed, page)
        if batch.copies:
            self._put(job, batch, owed)
        elif owed.is_done:
            self._forget(job)
            self._go_on_later()
        else:
            job.owed = owed
            self._go_on_later()

    def _put(self, job: _Job, batch: _Batch, owed: Owed) -> None:
        def on_put(outcome: list[int] | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                link = self._link
                link.desk.say(f"retained messages for {link.client_id!r} are to wait: {outcome}")
                self._try_again()
                return
            self._note_drops(outcome)
            if outcome[-1] >= 0:
                self._is_noted(job, owed, outcome[-1])
            elif owed.is_done:
                self._forget(job)
            else:
                job.owed = owed
            self._go_on_later()

        self._journal.put_copies(batch.copies, [owed], on_put)

    def _go_on_later(self) -> None:
        def go_on() -> None:
            self._is_busy = False
            self._go_on()

        # Not at once: what is found at once may be empty, page after page.
        self._link.shared.clock.call_soon(go_on)

    def _try_again(self) -> None:
        self._is_busy = False
        if self._start is not None:
            self._go_on()
        else:
            self._link.shared.clock.call_later(AGAIN_MS, self._go_on)

    # -- copies

    def _gather(
        self, batch: _Batch, subscribed: Subscribed, owed: Owed, page: RetainedPage
    ) -> Owed:
        """Take copies of what a page has into a batch; return what is owed then."""
        after = owed.after
        for message in page.messages:
            if min(subscribed.options.qos, message.qos):
                if batch.is_full:
                    return owed._replace(after=after)
                copy = self._copy(subscribed, owed, message)
                if copy is None:
                    # MQTT cannot say its name.
                    self._link.desk.note_drop()
                else:
                    batch.copies.append(copy)
                    batch.size += message.size
            after = message.key
        return owed._replace(after=page.after, is_done=page.after is None)

    def _copy(self, subscribed: Subscribed, owed: Owed, message: LiveMessage) -> NewMessage | None:
        session, topic = self._link.session, topic_of(message.key)
        if session is None or topic is None:
            return None
        try:
            kept = publication_of(message, topic, client_id="").message
        except BadName:
            return None
        if owed.first >= 0 and min(subscribed.options.qos, message.qos) == 2:
            place = b"%b %d " % (session.queue.topic_id, owed.first)
            identity = sha256(place + topic.encode()).digest()[:IDENTITY_BYTES]
            kept = kept._replace(identity=identity)
        return as_retained(session, kept, subscribed.match)

    def _note_drops(self, offsets: Sequence[int]) -> None:
        for each in offsets:
            if each < 0:
                self._link.desk.note_drop()

    # -- notes

    def take_note(self, taken: Taken, owed: Owed) -> None:
        """A note has come back from the queue, of this connection or of one before."""
        job = self._jobs.get(owed.topic_filter)
        if job is None and (self._journal.is_recovered and self._start is None):
            # Nothing is owed any more.
            taken.feed.settle(taken)
            return
        if job is None:
            job = self._jobs[owed.topic_filter] = _Job(owed, taken.offset)
            job.is_current = False
        job.notes.append(taken)
        self._is_noted(job, owed, max(job.newest, taken.offset))

    def _is_noted(self, job: _Job, owed: Owed, offset: int) -> None:
        """It is committed how far a job is."""
        if offset > job.newest:
            job.owed, job.newest = owed, offset
        self._settle_old(job)

    def _settle_old(self, job: _Job) -> None:
        """Settle notes that are history; the last one with all others that there are."""
        is_back = any(each.offset == job.newest for each in job.notes)
        if job.owed.is_done and is_back:
            self._forget(job)
            return
        old = [each for each in job.notes if each.offset < job.newest]
        job.notes[:] = [each for each in job.notes if each.offset >= job.newest]
        self._settle(old)

    def _forget(self, job: _Job) -> None:
        """Nothing is owed any more."""
        if self._jobs.get(job.owed.topic_filter) is job:
            del self._jobs[job.owed.topic_filter]
        self._settle(job.notes)
        job.notes.clear()

    def _settle(self, notes: Sequence[Taken]) -> None:
        # In one request, so that none outlives a newer one.
        for each in notes:
            each.feed.settle(each)
