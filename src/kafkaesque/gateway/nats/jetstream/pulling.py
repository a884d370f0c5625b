"""Pulls: a client asks a consumer for some messages, and waits for them for a while.

Theory of operation. A pull takes messages from the consumer's queue, some at a time, and sends each
to the client's inbox; it waits at the queue's leader. It ends when it has sent as many as were
asked for, or when its time is over, which the client is told. What was taken when nobody listens
any more is given back, and counts as not tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS, ConsumerConfig
from kafkaesque.gateway.nats.jetstream.consumers import Consumer
from kafkaesque.gateway.nats.jetstream.delivering import TOO_LARGE, Delivering
from kafkaesque.gateway.nats.jetstream.office import Office, Requester
from kafkaesque.gateway.nats.jetstream.statuses import heartbeat, status
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.gateway.nats.jetstream.times import write_duration
from kafkaesque.model.errors import RequestRefused, UnknownQueue

BATCH_MAX: Final = 10_000
#: Of one request to the queue.
TAKEN_MAX: Final = 256
TAKEN_BYTES_MAX: Final = 1024 * 1024
#: Where the client does not say how long it waits.
WAIT_MS_DEFAULT: Final = 30_000
WAIT_MS_MAX: Final = 3_600_000
HEARTBEAT_MS_MIN: Final = 100
_ANSWER_MS: Final = 5_000
#: A leader that cannot be reached is asked again after this.
AGAIN_MS: Final = 100
#: A queue that has not read all of the stream is asked again after this, for a while.
READ_AGAIN_MS: Final = 5
BEHIND_MS_MAX: Final = 2_000


class PullRequest(msgspec.Struct, kw_only=True):
    """What a client asks for; times in nanoseconds."""

    batch: int = 1
    expires: int = 0
    no_wait: bool = False
    max_bytes: int = 0
    idle_heartbeat: int = 0


def refusal_of(config: ConsumerConfig, wanted: PullRequest) -> tuple[int, str] | None:
    """Return the status that a pull is refused with; None: it is not."""
    if config.deliver_subject:
        return 409, "Consumer is push based"
    if 0 < (config.max_batch or 0) < wanted.batch:
        return 409, f"Exceeded MaxRequestBatch of {config.max_batch}"
    if config.max_expires and config.max_expires < wanted.expires:
        return 409, f"Exceeded MaxRequestExpires of {write_duration(config.max_expires)}"
    if config.max_bytes and config.max_bytes < wanted.max_bytes:
        return 409, f"Exceeded MaxRequestMaxBytes of {config.max_bytes}"
    if wanted.idle_heartbeat > 0 and wanted.expires < 2 * wanted.idle_heartbeat:
        return 400, "Bad Request - heartbeat value too large"
    return None


class Pull:
    """See the module."""

    __slots__ = (
        "_beat",
        "_beat_ms",
        "_behind_ms",
        "_bytes_left",
        "_clock",
        "_consumer",
        "_deadline_ms",
        "_delivering",
        "_is_last",
        "_is_over",
        "_known",
        "_last",
        "_left",
        "_no_wait",
        "_office",
        "_on_over",
        "_reply",
        "_requester",
        "_sent_ms",
        "_stream",
    )

    def __init__(
        self,
        office: Office,
        delivering: Delivering,
        requester: Requester,
        stream: Stream,
        consumer: Consumer,
        reply: str,
        wanted: PullRequest,
        on_over: Callable[[Pull], None],
    ) -> None:
        clock = office.doors.clock
        self._office: Final = office
        self._delivering: Final = delivering
        self._requester: Final = requester
        self._clock: Final = clock
        self._stream: Final = stream
        self._consumer = consumer
        self._reply: Final = reply
        self._left = min(max(wanted.batch, 1), BATCH_MAX)
        self._bytes_left = wanted.max_bytes or None
        self._no_wait: Final = wanted.no_wait and not wanted.expires
        wait_ms = wanted.expires // NS_PER_MS if wanted.expires else WAIT_MS_DEFAULT
        self._deadline_ms: Final = clock.now_ms() + min(wait_ms, WAIT_MS_MAX)
        #: The last message that the stream had when the pull came, and until when the consumer's
        #: queue may take to read it.
        self._known = 0
        #: Whether the queue was asked once more.
        self._is_last = False
        self._behind_ms: Final = clock.now_ms() + BEHIND_MS_MAX
        self._is_over = False
        self._on_over: Final = on_over
        #: The last stream sequence that was sent.
        self._last = 0
        self._sent_ms = clock.now_ms()
        self._beat_ms: Final = max(wanted.idle_heartbeat // NS_PER_MS, 0)
        self._beat: Timer | None = None

    @property
    def is_open(self) -> bool:
        """Whether its client is there."""
        return self._requester.is_open

    def begin(self) -> None:
        """Take what is there, and wait for more."""
        if self._beat_ms:
            self._set_beat()
        # What was removed from the stream is not delivered.
        self._stream.log.catch_up(lambda _: self._begin())

    def _begin(self) -> None:
        self._known = self._stream.log.view.last_sequence
        self._take()

    # -- taking

    def _take(self) -> None:
        if self._is_over:
            return
        left_ms = self._deadline_ms - self._clock.now_ms()
        if not self._requester.is_open:
            self._end()
            return
        if left_ms <= 0 and not self._no_wait:
            self._say(408, "Request Timeout", self._left)
            return
        if self._is_paused():
            if self._no_wait:
                self._say(404, "No Messages")
            else:
                self._clock.call_later(AGAIN_MS, self._take)
            return
        wait_ms = 0 if self._no_wait else max(0, min(left_ms, q.WAIT_MS_MAX))
        request = q.TakeMessages(
            log_id=self._consumer.log_id,
            messages_max=min(self._left, TAKEN_MAX),
            bytes_max=min(self._bytes_left or TAKEN_BYTES_MAX, TAKEN_BYTES_MAX),
            wait_ms=wait_ms,
        )
        self._office.ask(request, q.TakenMessages, self._on_taken, wait_ms + _ANSWER_MS)

    def _is_paused(self) -> bool:
        return self._office.consumers.paused_ms(self._consumer) > 0

    def _on_taken(self, outcome: q.TakenMessages | RequestRefused) -> None:
        if isinstance(outcome, UnknownQueue):
            self._say(409, "Consumer Deleted")
            return
        if isinstance(outcome, RequestRefused):
            # What was taken, if anything, comes again when its lock ends.
            self._clock.call_later(AGAIN_MS, self._take)
            return
        messages = list(outcome.messages)
        # It may have other filters by now.
        self._consumer = self._office.consumers.now(self._consumer)
        if self._is_over:
            self._delivering.give_back(self._consumer, messages)
            return
        if messages and self._is_paused():
            self._delivering.give_back(self._consumer, messages)
            self._take()
            return
        is_listening = self._requester.is_open and not self._is_over
        for number, message in enumerate(messages):
            if is_listening:
                is_listening = self._deliver(message)
            if not is_listening:
                self._delivering.give_back(self._consumer, messages[number:])
                break
        if not is_listening:
            self._end()
        elif not self._left:
            self._end()
        elif self._no_wait and not messages:
            self._maybe_say_none()
        else:
            self._take()

    def _maybe_say_none(self) -> None:
        """There is nothing, unless the queue has not read yet what was stored before the pull."""

        def on_counted(outcome: q.QueueCounts | RequestRefused) -> None:
            if self._is_over:
                return
            counts = outcome if isinstance(outcome, q.QueueCounts) else None
            is_in_time = self._clock.now_ms() < self._behind_ms
            if counts is not None and _read_to(counts) < self._known and is_in_time:
                self._clock.call_later(READ_AGAIN_MS, self._take)
            elif counts is not None and counts.ready and not self._is_last:
                # It has read that just now; or no more may be out.
                self._is_last = True
                self._take()
            else:
                self._say(404, "No Messages")

        self._office.ask(q.AskQueue(log_id=self._consumer.log_id), q.QueueCounts, on_counted)

    def _deliver(self, message: q.QueueMessage) -> bool:
        """Send a message; False: nobody listens, and it was not sent."""
        sent = self._delivering.deliver(
            self._stream, self._consumer, message, self._reply, self._bytes_left
        )
        if sent is None:
            return False
        if sent == TOO_LARGE:
            self._say(409, "Message Size Exceeds MaxBytes", self._left)
            return False
        if sent:
            self._left -= 1
            self._last = message.offset + 1
            self._sent_ms = self._clock.now_ms()
            if self._bytes_left is not None:
                self._bytes_left = max(1, self._bytes_left - sent)
        return True

    # -- what else is said

    def _say(self, code: int, what: str, left: int | None = None) -> None:
        """Say why no more comes, and how much of what was asked for is missing."""
        pairs: tuple[tuple[str, str], ...] = ()
        if left is not None:
            pairs = (
                ("Nats-Pending-Messages", str(left)),
                ("Nats-Pending-Bytes", str(self._bytes_left or 0)),
            )
        self._office.send(self._reply, headers=status(code, what, pairs), payload=b"")
        self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_over(self)
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _set_beat(self) -> None:
        self._beat = self._clock.call_later(max(self._beat_ms, HEARTBEAT_MS_MIN), self._on_beat)

    def _on_beat(self) -> None:
        if self._is_over:
            return
        if self._clock.now_ms() - self._sent_ms >= self._beat_ms:
            headers = heartbeat(self._delivering.number_of(self._consumer), self._last)
            if not self._office.send(self._reply, headers=headers, payload=b""):
                self._end()
                return
        self._set_beat()


def _read_to(counts: q.QueueCounts) -> int:
    """Return up to where a consumer's queue has read the stream."""
    return counts.end if counts.read_to is msgspec.UNSET else max(counts.end, counts.read_to)
