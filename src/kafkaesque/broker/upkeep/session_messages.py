"""Gives up what no session of MQTT wants any more of the messages that sessions have together.

Theory of operation. Every ten minutes a broker that leads a partition of `__session_messages`, of
which something could go, asks all sessions, a few at a time, for how long they have the oldest
message that lives in their queues. All answer only when what they know is committed: what is
settled then stays so, whoever leads the queue next. What is older than the oldest of all answers,
and than the round itself, is referred to by nobody; nor will it be, because references follow their
message at once. Clocks of brokers may differ: each says itself how old something is. Three hours
are left for clocks that are set while a message waits, for references on their way (a queue without
a leader may keep them waiting for more than one), and for the grain in which queues know arrivals.

Whole segments are given up. If a session does not answer, nothing is, until the next round. A
session whose oldest message waits holds back what came after it, for as long as the topic's
`retention.ms`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import UNSET

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.topic_names import SESSION_MESSAGES_TOPIC
from kafkaesque.broker.options.mqtt_sessions import is_session
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.requests.queue_requests import AskQueue, QueueCounts
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import Offset, TopicId

#: From the end of a round to the next one.
ROUND_MS: Final = 600_000
#: Sessions that are asked at the same time.
ASKED_MAX: Final = 32
ASK_MS_MAX: Final = 10_000
#: So much longer than any session wants them messages are kept.
MARGIN_MS: Final = 3 * 3_600_000


class SessionMessagesTrimming:
    """See the module."""

    __slots__ = ("_calls", "_clock", "_due_ms", "_metadata", "_partitions", "_round")

    def __init__(
        self,
        *,
        clock: Clock,
        metadata: MetadataView,
        partitions: PartitionTable,
        calls: QueueCalls,
    ) -> None:
        self._clock: Final = clock
        self._metadata: Final = metadata
        self._partitions: Final = partitions
        self._calls: Final = calls
        self._round: _Round | None = None
        self._due_ms = 0

    def on_sweep(self, now_ms: int) -> None:
        """Begin a round when it is time, and end one that has all its answers."""
        current = self._round
        if current is None:
            # Nobody is asked while nothing could go.
            if now_ms >= self._due_ms and self._found(self._clock.wall_ms() - MARGIN_MS):
                self._begin()
        elif not current.is_done:
            self._ask_some(current)
        else:
            self._round = None
            self._due_ms = now_ms + ROUND_MS
            if not current.is_void:
                self._trim(current.oldest_ms - MARGIN_MS)

    def _begin(self) -> None:
        """Find out which sessions there are: this broker may not have heard of all of them."""
        begun = self._round = _Round(self._clock.wall_ms())
        begun.under_way += 1

        def on_current(is_current: bool) -> None:
            begun.under_way -= 1
            begun.is_void = not is_current
            if is_current:
                begun.left.extend(self._sessions())

        self._metadata.when_current(ASK_MS_MAX, on_current)

    def _led(self) -> list[Partition]:
        """Return the topic's partitions that this broker leads."""
        topic = self._metadata.state.topics.get(SESSION_MESSAGES_TOPIC)
        if topic is None:
            return []
        found = (self._partitions.get(each.group) for each in topic.partitions)
        return [each for each in found if each is not None and each.is_leader]

    def _sessions(self) -> list[TopicId]:
        queues = self._metadata.state.queues_by_log.values()
        return [each.topic_id for each in queues if each.home is None and is_session(each.options)]

    def _ask_some(self, current: _Round) -> None:
        while current.left and current.under_way < ASKED_MAX:
            self._ask(current, current.left.popleft())

    def _ask(self, current: _Round, log_id: TopicId) -> None:
        def on_counted(outcome: QueueCounts | RequestRefused) -> None:
            current.under_way -= 1
            if isinstance(outcome, QueueCounts) and outcome.asked_ms is not UNSET:
                if outcome.oldest_ms:
                    # By the clock that says when it came, which may be hours ahead of this one.
                    age_ms = max(0, outcome.asked_ms - outcome.oldest_ms)
                    came_ms = self._clock.wall_ms() - age_ms
                    current.oldest_ms = min(current.oldest_ms, came_ms)
            elif log_id in self._metadata.state.queues_by_log:
                # A broker of an earlier release says what is not committed, and no time.
                current.is_void = True
                current.left.clear()

        current.under_way += 1
        request = AskQueue(log_id=log_id, is_committed=True)
        self._calls.ask(request, QueueCounts, ASK_MS_MAX, on_counted)

    def _trim(self, floor_ms: int) -> None:
        """Give up segments of which all records are from before a time."""
        for partition, start in self._found(floor_ms):
            self._partitions.advance_start(partition, start)

    def _found(self, floor_ms: int) -> list[tuple[Partition, Offset]]:
        """Return where partitions would start without segments from before a time, if later."""
        now_ms = self._clock.wall_ms()
        age_ms = max(0, now_ms - floor_ms)
        found: list[tuple[Partition, Offset]] = []
        for each in self._led():
            start = each.log.retention_candidate(now_ms, age_ms, -1, each.settled_offset)
            if start is not None:
                found.append((each, start))
        return found


class _Round:
    """What sessions have answered so far."""

    __slots__ = ("is_void", "left", "oldest_ms", "under_way")

    def __init__(self, wall_ms: int) -> None:
        #: Messages from before it that live in no session's queue, by the answers so far: Unix time
        #: in milliseconds. A session that is made later refers to nothing older than itself.
        self.oldest_ms = wall_ms
        self.left: Final[deque[TopicId]] = deque()
        self.under_way = 0
        #: Whether a session has not answered, or maybe is not known.
        self.is_void = False

    @property
    def is_done(self) -> bool:
        """Whether nobody is left to answer."""
        return not self.left and not self.under_way
