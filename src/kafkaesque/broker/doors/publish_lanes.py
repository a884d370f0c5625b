"""Brings messages to queues and topics, in order, and counts when all have committed them.

Theory of operation. Each queue, and each partition of a topic, has a lane: messages wait there
while one request is under way, so that a later one cannot overtake an earlier one that is asked for
again. What comes in one turn of the loop goes in one request. A lane that is empty is forgotten.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.doors.publishing import Publishing
from kafkaesque.broker.doors.queues import NewMessage, Queues
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.broker.requests.queue_requests import PutResult
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    OverBound,
    RequestRefused,
    UnknownQueue,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import TopicId, TopicPartition
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.model.records import Record

PUT_TIMEOUT_MS: Final = 30_000
#: Messages of one request, and their bytes; a larger one goes alone.
BATCH_MAX: Final = 512
BATCH_BYTES_MAX: Final = 1024 * 1024
#: Messages that are on their way through a broker, and their bytes.
UNDER_WAY_MAX: Final = 100_000
UNDER_WAY_BYTES_MAX: Final = 64 * 1024 * 1024

#: How many have a message, or why it is not everywhere; called once.
OnKept = Callable[[int | RequestRefused], None]
_Way = TopicId | TopicPartition


class Ticket:
    """A message that is on its way to one or more places."""

    __slots__ = ("held", "left", "on_kept", "refusal", "size", "total")

    def __init__(self, total: int, size: int, held: int, on_kept: OnKept) -> None:
        self.total = total
        self.left = total
        #: Bytes of the largest one that a place gets.
        self.size = size
        #: Bytes of all that is kept of it until it is there.
        self.held = held
        self.refusal: RequestRefused | None = None
        self.on_kept = on_kept


class _Item(NamedTuple):
    message: NewMessage
    ticket: Ticket


class _Lane:
    __slots__ = ("is_busy", "waiting", "way")

    def __init__(self, way: _Way) -> None:
        self.way = way
        self.waiting: Final[deque[_Item]] = deque()
        self.is_busy = False


class PublishLanes:
    """See the module."""

    __slots__ = (
        "_bytes",
        "_clock",
        "_cluster",
        "_count",
        "_encoded",
        "_is_due",
        "_lanes",
        "_publishing",
        "_queues",
        "_turn",
    )

    def __init__(
        self, *, clock: Clock, cluster: Cluster, queues: Queues, publishing: Publishing
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._queues = queues
        self._publishing = publishing
        self._lanes: dict[_Way, _Lane] = {}
        #: Lanes that have got something in this turn.
        self._turn: list[_Lane] = []
        self._is_due = False
        #: What was last put into a queue in this turn.
        self._encoded: tuple[list[NewMessage], bytes] = ([], b"")
        self._count = 0
        self._bytes = 0

    def open(
        self,
        total: int,
        message: NewMessage,
        on_kept: OnKept,
        *,
        largest: int | None = None,
        held: int | None = None,
    ) -> Ticket | None:
        """Begin with a message that goes to so many places; None: it is settled already.

        Where they get it changed, `largest` are the bytes of the largest one, `held` those of all.
        """
        if not total:
            on_kept(0)
            return None
        size = size_of(message) if largest is None else largest
        held = size if held is None else held
        is_full = self._count >= UNDER_WAY_MAX or self._bytes + held > UNDER_WAY_BYTES_MAX
        if is_full and self._count:
            on_kept(OverBound("too many messages are on their way through this broker"))
            return None
        self._count += 1
        self._bytes += held
        return Ticket(total, size, held, on_kept)

    def to_queue(self, log_id: TopicId, message: NewMessage, ticket: Ticket) -> None:
        """Bring a message to a queue, behind those before it."""
        self._add(log_id, message, ticket)

    def to_topic(
        self, name: str, message: NewMessage, ticket: Ticket, chosen_by: bytes | None = None
    ) -> None:
        """Append a message to the topic's partition for its key; without one, to the first.

        `chosen_by` chooses the partition in the key's place.
        """
        topic = self._cluster.state.topics.get(name)
        if topic is None:
            self._settle(ticket, UnknownTopicOrPartition(f"topic {name!r} does not exist"))
            return
        key = message.key if chosen_by is None else chosen_by
        number = 0 if key is None else partition_for_key(key, len(topic.partitions))
        self._add(TopicPartition(name, number), message, ticket)

    def _add(self, way: _Way, message: NewMessage, ticket: Ticket) -> None:
        lane = self._lanes.get(way)
        if lane is None:
            lane = self._lanes[way] = _Lane(way)
        lane.waiting.append(_Item(message, ticket))
        if not lane.is_busy and len(lane.waiting) == 1:
            self._go_on_soon(lane)

    def _go_on_soon(self, lane: _Lane) -> None:
        self._turn.append(lane)
        if not self._is_due:
            self._is_due = True
            # More of the same turn may follow.
            self._clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_due = False
        due, self._turn = self._turn, []
        for lane in due:
            self._go_on(lane)
        self._encoded = ([], b"")

    def _go_on(self, lane: _Lane) -> None:
        if lane.is_busy:
            return
        if not lane.waiting:
            if self._lanes.get(lane.way) is lane:
                del self._lanes[lane.way]
            return
        sent: list[_Item] = []
        size = 0
        while lane.waiting and len(sent) < BATCH_MAX:
            size += lane.waiting[0].ticket.size
            if sent and size > BATCH_BYTES_MAX:
                break
            sent.append(lane.waiting.popleft())
        lane.is_busy = True
        if isinstance(lane.way, TopicPartition):
            self._append(lane, lane.way, sent)
        else:
            self._queues.put_encoded(
                lane.way,
                self._encode([each.message for each in sent]),
                PUT_TIMEOUT_MS,
                lambda outcome: self._on_put(lane, sent, outcome),
            )

    def _encode(self, messages: list[NewMessage]) -> bytes:
        """Encode messages once for all queues that get the same ones in this turn."""
        # Mostly these are the same objects as before, and equal without a look at their bytes.
        if messages != self._encoded[0]:
            self._encoded = (messages, self._queues.encode(messages))
        return self._encoded[1]

    def _append(self, lane: _Lane, where: TopicPartition, sent: list[_Item]) -> None:
        now_ms = self._clock.wall_ms()
        records = [
            Record(number, now_ms, each.message.key, each.message.value, each.message.headers)
            for number, each in enumerate(sent)
        ]
        self._publishing.publish(
            where,
            bytes(encode_batch(records)),
            acks=-1,
            timeout_ms=PUT_TIMEOUT_MS,
            on_done=lambda outcome: self._on_appended(lane, sent, outcome),
            is_wanted=lambda: True,
        )

    def _on_put(
        self, lane: _Lane, sent: Sequence[_Item], outcome: PutResult | RequestRefused
    ) -> None:
        if isinstance(outcome, UnknownQueue) and self._is_lost(lane.way):
            # It was in the memory of a broker that is gone: with its consumers, and what it had.
            self._on_done(lane, sent, [None] * len(sent))
            return
        if isinstance(outcome, RequestRefused):
            self._on_done(lane, sent, [outcome] * len(sent))
            return
        full = OverBound("a queue that the message goes to is full")
        self._on_done(lane, sent, [full if each < 0 else None for each in outcome.offsets])

    def _is_lost(self, way: _Way) -> bool:
        return not isinstance(way, TopicPartition) and self._queues.is_lost(way)

    def _on_appended(
        self, lane: _Lane, sent: Sequence[_Item], outcome: ProduceResult | RequestRefused
    ) -> None:
        refusal = outcome if isinstance(outcome, RequestRefused) else None
        self._on_done(lane, sent, [refusal] * len(sent))

    def _on_done(
        self, lane: _Lane, sent: Sequence[_Item], refusals: Sequence[RequestRefused | None]
    ) -> None:
        lane.is_busy = False
        for each, refusal in zip(sent, refusals, strict=True):
            self._settle(each.ticket, refusal)
        # Not at once: a queue that is gone refuses batch after batch without a turn in between.
        self._go_on_soon(lane)

    def _settle(self, ticket: Ticket, refusal: RequestRefused | None) -> None:
        """One of a message's places has it, or does not take it."""
        ticket.left -= 1
        ticket.refusal = ticket.refusal or refusal
        if ticket.left:
            return
        self._count -= 1
        self._bytes -= ticket.held
        ticket.on_kept(ticket.total if ticket.refusal is None else ticket.refusal)


def size_of(message: NewMessage) -> int:
    """Return the bytes of a message that are counted."""
    size = len(message.value or b"") + len(message.key or b"")
    # A loop costs a third of a sum over a generator, and this is done for each message.
    for name, value in message.headers:
        size += len(name) + len(value or b"")
    return size
