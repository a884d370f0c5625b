"""Where a reader's messages go: to one subject, or to those who ask for some."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.env.clock import Clock, Timer
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS
from kafkaesque.gateway.nats.jetstream.office import Outgoing, Requester
from kafkaesque.gateway.nats.jetstream.pulling import (
    BATCH_MAX,
    HEARTBEAT_MS_MIN,
    WAIT_MS_DEFAULT,
    WAIT_MS_MAX,
    PullRequest,
)
from kafkaesque.gateway.nats.jetstream.statuses import FLOW_CONTROL, heartbeat, status
from kafkaesque.gateway.nats.jetstream.subjects import FLOW_PREFIX

#: So much is sent before the client has to say that it has read it.
FLOW_BYTES: Final = 4 * 1024 * 1024
#: Pulls that wait at one reader.
PULLS_MAX: Final = 512


class Sink(Protocol):
    """See the module."""

    @property
    def target(self) -> str | None:
        """The subject that the next message goes to; None: nobody can take one now."""

    def refuses(self, size: int) -> bool:
        """Tell whether a message is too large for `target`, which is told so."""

    def on_sent(self, size: int, consumer_sequence: int, stream_sequence: int) -> None:
        """A message was sent to `target`."""

    def on_empty(self) -> None:
        """There are no more messages at the moment."""

    def on_nobody(self) -> None:
        """A message could not be sent: nobody listens at `target`."""

    def end(self, code: int, what: str) -> None:
        """Nothing more comes."""


class PushSink:
    """One subject, with flow control and signs of life where they are wanted."""

    __slots__ = (
        "_beat",
        "_beat_ms",
        "_clock",
        "_flow",
        "_flow_number",
        "_go_on",
        "_has_flow_control",
        "_is_wanted",
        "_last",
        "_name",
        "_send",
        "_sent_bytes",
        "_sent_ms",
        "_subject",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        send: Outgoing,
        name: str,
        subject: str,
        has_flow_control: bool,
        beat_ms: int,
        is_wanted: Callable[[str], bool],
        go_on: Callable[[], None],
    ) -> None:
        """`name` is the stream's and the consumer's; `go_on` is called when more can be sent."""
        self._clock: Final = clock
        self._send: Final = send
        self._name: Final = name
        self._subject: Final = subject
        self._has_flow_control: Final = has_flow_control
        self._beat_ms: Final = max(beat_ms, HEARTBEAT_MS_MIN) if beat_ms else 0
        self._is_wanted: Final = is_wanted
        self._go_on: Final = go_on
        self._sent_bytes = 0
        self._sent_ms = clock.now_ms()
        #: The subject at which the client is to answer; empty: nothing is awaited.
        self._flow = ""
        self._flow_number = 0
        self._last = (0, 0)
        self._beat: Timer | None = None
        if self._beat_ms:
            self._beat = clock.call_later(self._beat_ms, self._on_beat)

    @property
    def target(self) -> str | None:
        """See `Sink`."""
        return None if self._flow or not self._is_wanted(self._subject) else self._subject

    def refuses(self, size: int) -> bool:
        """See `Sink`."""
        return False

    def on_sent(self, size: int, consumer_sequence: int, stream_sequence: int) -> None:
        """See `Sink`."""
        self._last = (consumer_sequence, stream_sequence)
        self._sent_ms = self._clock.now_ms()
        self._sent_bytes += size
        if self._has_flow_control and self._sent_bytes >= FLOW_BYTES:
            self._sent_bytes = 0
            self._flow_number += 1
            self._flow = f"{FLOW_PREFIX}{self._name}.{self._flow_number}"
            headers = status(100, FLOW_CONTROL)
            self._send(self._subject, reply=self._flow, headers=headers, payload=b"")

    def on_flow(self, subject: str) -> None:
        """The client has read what it was sent."""
        if subject == self._flow:
            self._flow = ""
            self._go_on()

    def on_empty(self) -> None:
        """See `Sink`."""

    def on_nobody(self) -> None:
        """See `Sink`."""

    def _on_beat(self) -> None:
        if self._clock.now_ms() - self._sent_ms >= self._beat_ms:
            headers = heartbeat(*self._last, self._flow)
            self._send(self._subject, headers=headers, payload=b"")
        self._beat = self._clock.call_later(self._beat_ms, self._on_beat)

    def end(self, code: int, what: str) -> None:
        """See `Sink`."""
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None


class _Waiting:
    """A pull that waits for messages."""

    __slots__ = ("beat_ms", "bytes_left", "deadline_ms", "left", "no_wait", "reply", "requester")

    def __init__(self, requester: Requester, reply: str, wanted: PullRequest, now_ms: int) -> None:
        self.requester: Final = requester
        self.reply: Final = reply
        self.left = min(max(wanted.batch, 1), BATCH_MAX)
        self.bytes_left = wanted.max_bytes or None
        self.no_wait: Final = wanted.no_wait and not wanted.expires
        wait_ms = wanted.expires // NS_PER_MS if wanted.expires else WAIT_MS_DEFAULT
        self.deadline_ms: Final = now_ms + min(wait_ms, WAIT_MS_MAX)
        self.beat_ms: Final = wanted.idle_heartbeat // NS_PER_MS


class PullSink:
    """Those who ask, in their order."""

    __slots__ = ("_beat_due_ms", "_clock", "_is_over", "_last", "_pulls", "_send", "_timer")

    def __init__(self, clock: Clock, send: Outgoing) -> None:
        self._clock: Final = clock
        self._send: Final = send
        self._pulls: Final[deque[_Waiting]] = deque()
        self._last = (0, 0)
        self._beat_due_ms = 0
        self._timer: Timer | None = None
        self._is_over = False

    def __len__(self) -> int:
        return len(self._pulls)

    def add(self, requester: Requester, reply: str, wanted: PullRequest) -> None:
        """Somebody asks for messages."""
        if len(self._pulls) >= PULLS_MAX:
            self._send(reply, headers=status(409, "Exceeded MaxWaiting"), payload=b"")
            return
        self._pulls.append(_Waiting(requester, reply, wanted, self._clock.now_ms()))
        self._beat_due_ms = self._clock.now_ms() + self._pulls[0].beat_ms
        if self._timer is None:
            self._timer = self._clock.call_later(HEARTBEAT_MS_MIN, self._on_time)

    @property
    def target(self) -> str | None:
        """See `Sink`."""
        self._drop_gone()
        return self._pulls[0].reply if self._pulls else None

    def refuses(self, size: int) -> bool:
        """See `Sink`."""
        pull = self._pulls[0]
        if pull.bytes_left is None or size <= pull.bytes_left:
            return False
        self._pulls.popleft()
        self._say(pull, 409, "Message Size Exceeds MaxBytes")
        return True

    def _drop_gone(self) -> None:
        while self._pulls and not self._pulls[0].requester.is_open:
            self._pulls.popleft()

    def on_sent(self, size: int, consumer_sequence: int, stream_sequence: int) -> None:
        """See `Sink`."""
        self._last = (consumer_sequence, stream_sequence)
        pull = self._pulls[0]
        self._beat_due_ms = self._clock.now_ms() + pull.beat_ms
        pull.left -= 1
        if pull.bytes_left is not None:
            pull.bytes_left = max(1, pull.bytes_left - size)
        if not pull.left:
            self._pulls.popleft()

    def on_empty(self) -> None:
        """See `Sink`."""
        for pull in [each for each in self._pulls if each.no_wait]:
            self._pulls.remove(pull)
            self._send(pull.reply, headers=status(404, "No Messages"), payload=b"")

    def on_nobody(self) -> None:
        """See `Sink`."""
        if self._pulls:
            self._pulls.popleft()

    def _on_time(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        for pull in [each for each in self._pulls if each.deadline_ms <= now_ms]:
            self._pulls.remove(pull)
            self._say(pull, 408, "Request Timeout")
        self._drop_gone()
        if not self._pulls or self._is_over:
            return
        first = self._pulls[0]
        if first.beat_ms and now_ms >= self._beat_due_ms:
            self._beat_due_ms = now_ms + first.beat_ms
            self._send(first.reply, headers=heartbeat(*self._last), payload=b"")
        self._timer = self._clock.call_later(HEARTBEAT_MS_MIN, self._on_time)

    def _say(self, pull: _Waiting, code: int, what: str) -> None:
        pairs = (
            ("Nats-Pending-Messages", str(pull.left)),
            ("Nats-Pending-Bytes", str(pull.bytes_left or 0)),
        )
        self._send(pull.reply, headers=status(code, what, pairs), payload=b"")

    def end(self, code: int, what: str) -> None:
        """See `Sink`."""
        self._is_over = True
        for pull in self._pulls:
            self._say(pull, code, what)
        self._pulls.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
