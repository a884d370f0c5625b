"""A consumer that acknowledges nothing: a position in a stream, kept by the broker it was made at.

Theory of operation. A reader reads the stream's log by itself, from its position on, and sends what
its client wants as long as there is somebody to take it. When there is nothing more, it waits at
the leader. Its position is in memory: if the broker dies, or the client goes to another one, the
client makes a new reader where it was (as nats-py's and nats.js' ordered consumers do).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS, ConsumerConfig
from kafkaesque.gateway.nats.jetstream.delivering import send_message
from kafkaesque.gateway.nats.jetstream.office import Entitled, Office
from kafkaesque.gateway.nats.jetstream.pauses import paused_ms
from kafkaesque.gateway.nats.jetstream.records import Message, read_message, read_removal
from kafkaesque.gateway.nats.jetstream.sinks import Sink
from kafkaesque.gateway.nats.jetstream.starting import start_of
from kafkaesque.gateway.nats.jetstream.stream_log import READ_MS_MAX, records_of
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.gateway.nats.jetstream.subjects import AckToken
from kafkaesque.model.errors import OffsetOutOfRange, RequestRefused
from kafkaesque.routing.names import NATS

CHUNK_BYTES: Final = 256 * 1024
#: How long a reader waits at the leader before it asks again.
WAIT_MS: Final = 10_000
#: A leader that cannot be reached is asked again after this; so often it is looked for a client.
AGAIN_MS: Final = 100


class Reader:
    """See the module."""

    __slots__ = (
        "_again",
        "_behind_firsts",
        "_filters",
        "_firsts",
        "_is_over",
        "_is_reading",
        "_maker",
        "_next",
        "_office",
        "_on_over",
        "_passed",
        "_reading_number",
        "_resume_at",
        "_waiting",
        "_wanted_ms",
        "config",
        "consumer_sequence",
        "created_ms",
        "name",
        "sink",
        "stream",
        "stream_sequence",
    )

    def __init__(
        self,
        office: Office,
        stream: Stream,
        config: ConsumerConfig,
        maker: Entitled,
        on_over: Callable[[Reader], None],
    ) -> None:
        self._office: Final = office
        self._maker: Final = maker
        self._on_over: Final = on_over
        self.stream: Final = stream
        self.config = config
        self.name: Final = config.name or ""
        self.created_ms: Final = office.doors.clock.wall_ms()
        #: Set by whoever makes it, before it begins.
        self.sink: Sink | None = None
        self._filters = [NATS.read_filter(each) for each in config.filters]
        #: Messages before the next one that are wanted: the last ones of their subjects.
        self._firsts: deque[int] = deque()
        #: Where all others begin, if there are such.
        self._behind_firsts = 0
        self._next = 1
        #: All before it was sent, or passed over when somebody could have taken it.
        self._passed = 1
        #: Messages that were read and not sent, because nobody could take them.
        self._waiting: deque[Message] = deque()
        self._resume_at = 1
        self.consumer_sequence = 0
        self.stream_sequence = 0
        self._is_reading = False
        #: Of what is being read: an answer to an earlier one comes too late.
        self._reading_number = 0
        self._is_over = False
        self._wanted_ms = office.doors.clock.now_ms()
        self._again: Timer | None = None

    @property
    def pending(self) -> int:
        """How many messages are to be sent yet."""
        view = self.stream.log.view
        later = view.pending(self.config.filters, self._next)
        return len(self._waiting) + len(self._firsts) + later

    def begin(self) -> None:
        """Find the position, by a view that is current; then send.

        Raises:
            ApiError: the configuration does not say where.
        """
        view = self.stream.log.view
        policy = self.config.deliver_policy
        if policy == "last_per_subject":
            self._firsts = deque(view.last_per_subject(self.config.filters))
            self._next = self._behind_firsts = view.last_sequence + 1
        elif policy == "new":
            self._next = view.last_sequence + 1
        else:
            self._next = max(start_of(self.config, view) or 1, view.first_sequence)
        self._passed = self._next
        self.go_on()

    def end(self, code: int = 409, what: str = "Consumer Deleted") -> None:
        """Send nothing more."""
        if self._is_over:
            return
        self._is_over = True
        if self._again is not None:
            self._again.cancel()
        if self.sink is not None:
            self.sink.end(code, what)
        self._on_over(self)

    def change(self, config: ConsumerConfig) -> None:
        """Go on behind what was sent last, with other filters maybe."""
        self.config = config
        self._filters = [NATS.read_filter(each) for each in config.filters]
        unsent = [each.sequence for each in self._waiting]
        self._waiting.clear()
        firsts = [*(each for each in unsent if each < self._behind_firsts), *self._firsts]
        wanted = set(self.stream.log.view.last_per_subject(config.filters)) if firsts else set()
        self._firsts = deque(each for each in firsts if each in wanted)
        self._next = min(self._next, self._passed)
        # What is being read may pass over messages that are wanted now.
        self._is_reading = False
        self._reading_number += 1
        self.go_on()

    def pause(self, until: str | None) -> None:
        """Send nothing until a time; None: go on."""
        self.config = msgspec.structs.replace(self.config, pause_until=until)
        self.go_on()

    # -- sending

    def go_on(self) -> None:
        """Send what can be sent; somebody may be able to take more than before."""
        if self._is_over or self.sink is None:
            return
        if not self._maker.has_rule:
            self.end()
            return
        clock = self._office.doors.clock
        if self.sink.target is None:
            self._look_later()
            return
        self._wanted_ms = clock.now_ms()
        if paused_ms(self.config, clock.wall_ms()):
            self._look_later()
            return
        while self._waiting and self.sink.target is not None:
            if not self._send(self._waiting[0]):
                self._look_later()
                return
            self._waiting.popleft()
        if not self._waiting and not self._is_reading and self.sink.target is not None:
            self._read()

    def _look_later(self) -> None:
        clock, config = self._office.doors.clock, self.config
        unwanted_ms = clock.now_ms() - self._wanted_ms
        if config.inactive_threshold and unwanted_ms > config.inactive_threshold // NS_PER_MS:
            self.end()
        elif self._again is None:
            self._again = clock.call_later(AGAIN_MS, self._on_again)

    def _on_again(self) -> None:
        self._again = None
        self.go_on()

    def _send(self, message: Message) -> bool:
        sink = self.sink
        target = None if sink is None else sink.target
        if sink is None or target is None:
            return False
        token = AckToken(
            self.stream.name,
            self.name,
            1,
            message.sequence,
            self.consumer_sequence + 1,
            message.timestamp_ms * NS_PER_MS,
            max(self.pending - 1, 0),
        )
        size = len(message.subject) + len(message.headers) + len(message.payload)
        if sink.refuses(size + len(token.write())):
            return False
        if not send_message(self._office, message, target, token, self.config.headers_only):
            sink.on_nobody()
            return False
        self.consumer_sequence += 1
        self.stream_sequence = message.sequence
        self._passed = max(self._passed, message.sequence + 1)
        sink.on_sent(size, self.consumer_sequence, self.stream_sequence)
        return True

    # -- reading

    def _read(self) -> None:
        """Read from the next message that is wanted, or wait for one that is not there yet."""
        self._is_reading = True
        view = self.stream.log.view
        if self._firsts:
            self._resume_at = self._firsts[0]
        else:
            found = [view.next_of(each, self._next) for each in self.config.filters or [""]]
            known = [each for each in found if each]
            self._resume_at = min(known) if known else max(self._next, view.last_sequence + 1)
            if not known and self.sink is not None:
                self._passed = max(self._passed, view.last_sequence + 1)
                self.sink.on_empty()
        is_known = self._resume_at <= view.last_sequence
        wait_ms = 0 if is_known else WAIT_MS
        self._office.doors.reading.fetch(
            self.stream.log.where,
            self._resume_at - 1,
            CHUNK_BYTES,
            READ_MS_MAX + wait_ms,
            partial(self._on_fetched, self._reading_number),
            wait_ms=wait_ms,
        )

    def _on_fetched(self, number: int, outcome: FetchResult | RequestRefused) -> None:
        if self._is_over or number != self._reading_number:
            return
        if isinstance(outcome, OffsetOutOfRange):
            # It was removed by age or size meanwhile.
            self.stream.log.catch_up(lambda _: self._on_read(number, []))
        elif isinstance(outcome, RequestRefused):
            self._is_reading = False
            self._look_later()
        else:
            records = records_of(outcome, self._resume_at - 1)
            messages = [
                read_message(each, self.stream.name)
                for each in records
                if read_removal(each) is None
            ]
            last = records[-1].offset + 1 if records else 0
            self.stream.log.catch_up(lambda _: self._on_read(number, messages, last))

    def _on_read(self, number: int, messages: list[Message], last: int = 0) -> None:
        if number != self._reading_number:
            return
        self._is_reading = False
        view = self.stream.log.view
        if self._firsts:
            wanted = set(self._firsts)
            found = [each for each in messages if each.sequence in wanted]
            while self._firsts and (self._firsts[0] <= last or not view.has(self._firsts[0])):
                self._firsts.popleft()
        else:
            found = [each for each in messages if each.sequence >= self._next and self._wants(each)]
            self._next = max(self._next, last + 1, view.first_sequence)
        self._waiting += [each for each in found if view.has(each.sequence)]
        # Others have their turn in between.
        self._office.doors.clock.call_soon(self.go_on)

    def _wants(self, message: Message) -> bool:
        if not self._filters:
            return True
        name = NATS.read_name(message.subject)
        return any(each.matches(name) for each in self._filters)
