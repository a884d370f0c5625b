"""Brings messages to queues and topics, in order, and counts when all have committed them.

Theory of operation. Each queue, and each partition of a topic, has a lane. What comes in one turn
of the loop goes in one request. As soon as that is certain to stand before what comes later, the
next one follows, though nothing is committed yet: so messages that come while the disk is busy go
with its next sync, and not with the one after that. Where it is not certain, because another broker
leads or nobody does, messages wait while one request is under way: a later one must not overtake an
earlier one that is asked for again. A lane that is empty is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.doors.publishing import Publishing
from kafkaesque.broker.doors.queues import NewMessage, Queues
from kafkaesque.broker.doors.tickets import LoggedTicket, OnKept, OnRunKept, RunTicket, Ticket
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.broker.requests.queue_requests import PutResult
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    InvalidTopic,
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
#: Requests of one lane that are under way.
REQUESTS_MAX: Final = 32
#: Messages that are on their way through a broker, and their bytes.
UNDER_WAY_MAX: Final = 100_000
UNDER_WAY_BYTES_MAX: Final = 64 * 1024 * 1024

_Way = TopicId | TopicPartition


_NO_MESSAGE: Final = NewMessage(None)


class _Part(NamedTuple):
    """Messages of one ticket that lie together, and the number of the first one."""

    ticket: Ticket
    first: int
    messages: list[NewMessage]


class _Request:
    """What was sent together."""

    __slots__ = ("lane", "parts")

    def __init__(self, lane: _Lane, parts: list[_Part]) -> None:
        self.lane = lane
        self.parts = parts

    def messages(self) -> list[NewMessage]:
        """Return all of them, in order."""
        if len(self.parts) == 1:
            return self.parts[0].messages
        return [each for part in self.parts for each in part.messages]


class _Lane:
    __slots__ = ("holder", "under_way", "waiting", "way")

    def __init__(self, way: _Way) -> None:
        self.way = way
        self.waiting: Final[deque[_Part]] = deque()
        #: Requests.
        self.under_way = 0
        #: The one that nothing may follow before it is done.
        self.holder: _Request | None = None

    @property
    def is_open(self) -> bool:
        """Whether another request may follow."""
        return self.holder is None and self.under_way < REQUESTS_MAX

    def take(self) -> list[_Part]:
        """Return what the next request is to have."""
        taken: list[_Part] = []
        count = size = 0
        while self.waiting and count < BATCH_MAX:
            ticket, first, messages = self.waiting[0]
            fits = min(BATCH_MAX - count, (BATCH_BYTES_MAX - size) // max(1, ticket.size))
            if not taken:
                fits = max(1, fits)
            if fits <= 0:
                break
            if fits < len(messages):
                self.waiting[0] = _Part(ticket, first + fits, messages[fits:])
                messages = messages[:fits]
            else:
                self.waiting.popleft()
            taken.append(_Part(ticket, first, messages))
            count += len(messages)
            size += ticket.size * len(messages)
        return taken


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
        ticket = Ticket(total, size, held, on_kept)
        if self.admit(ticket):
            return ticket
        on_kept(no_room())
        return None

    def admit(self, ticket: Ticket) -> bool:
        """Begin with a ticket, if there is room for all its messages; else nothing is done.

        There always is for one message, where nothing else is on its way.
        """
        is_alone = ticket.count == 1 and not self._count
        if not is_alone and not self._has_room(ticket.count, ticket.held):
            return False
        self._count += ticket.count
        self._bytes += ticket.held
        return True

    def open_run(
        self, total: int, messages: Sequence[NewMessage], on_kept: OnRunKept
    ) -> Ticket | None:
        """Begin with messages that go to the same places; None: there is no room for all of them.

        Then nothing is begun.
        """
        sizes = [size_of(each) for each in messages]
        ticket = RunTicket(total, len(messages), max(sizes), sum(sizes), on_kept)
        return ticket if self.admit(ticket) else None

    def _has_room(self, count: int, held: int) -> bool:
        return self._count + count <= UNDER_WAY_MAX and self._bytes + held <= UNDER_WAY_BYTES_MAX

    def to_queue(self, log_id: TopicId, messages: list[NewMessage], ticket: Ticket) -> None:
        """Bring a ticket's messages to a queue, behind those before them."""
        self._add(log_id, messages, ticket)

    def to_topic(
        self, name: str, message: NewMessage, ticket: Ticket, chosen_by: bytes | None = None
    ) -> None:
        """Append a message to the topic's partition for its key; without one, to the first.

        `chosen_by` chooses the partition in the key's place.
        """
        self.run_to_topic(name, [message], ticket, chosen_by)

    def run_to_topic(
        self,
        name: str,
        messages: list[NewMessage],
        ticket: Ticket,
        chosen_by: bytes | None = None,
    ) -> None:
        """Append messages of one key; see `to_topic`."""
        topic = self._cluster.state.topics.get(name)
        is_log = isinstance(ticket, LoggedTicket) and ticket.log == name
        if topic is None:
            refusal = UnknownTopicOrPartition(f"topic {name!r} does not exist")
            if isinstance(ticket, LoggedTicket) and is_log:
                ticket.note(0, len(messages), refusal)
            self._settle(_Part(ticket, 0, messages), [refusal] * len(messages))
            return
        if topic.is_internal and not is_log:
            refused = InvalidTopic(f"{name} is written by brokers only")
            self._settle(_Part(ticket, 0, messages), [refused] * len(messages))
            return
        key = messages[0].key if chosen_by is None else chosen_by
        number = 0 if key is None else partition_for_key(key, len(topic.partitions))
        self._add(TopicPartition(name, number), messages, ticket)

    def fail(self, ticket: Ticket, places: int, refusal: RequestRefused) -> None:
        """So many places of a ticket's messages get none of them."""
        for _ in range(places):
            part = _Part(ticket, 0, [_NO_MESSAGE] * ticket.count)
            self._settle(part, [refusal] * ticket.count)

    def _add(self, way: _Way, messages: list[NewMessage], ticket: Ticket) -> None:
        lane = self._lanes.get(way)
        if lane is None:
            lane = self._lanes[way] = _Lane(way)
        lane.waiting.append(_Part(ticket, 0, messages))
        if len(lane.waiting) == 1 and lane.is_open:
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
        while lane.waiting and lane.is_open:
            self._send(_Request(lane, lane.take()))
        if not lane.waiting and not lane.under_way and self._lanes.get(lane.way) is lane:
            del self._lanes[lane.way]

    def _send(self, request: _Request) -> None:
        lane = request.lane
        lane.under_way += 1
        lane.holder = request
        if isinstance(lane.way, TopicPartition):
            self._append(request, lane.way)
            return
        messages = request.messages()
        is_placed = self._queues.put_encoded(
            lane.way,
            self._encode(messages),
            PUT_TIMEOUT_MS,
            lambda outcome: self._on_put(request, outcome),
            has_references=any(each.reference is not None for each in messages),
        )
        if is_placed and lane.holder is request:
            lane.holder = None

    def _encode(self, messages: list[NewMessage]) -> bytes:
        """Encode messages once for all queues that get the same ones in this turn."""
        # Mostly these are the same objects as before, and equal without a look at their bytes.
        if messages != self._encoded[0]:
            self._encoded = (messages, self._queues.encode(messages))
        return self._encoded[1]

    def _append(self, request: _Request, where: TopicPartition) -> None:
        now_ms = self._clock.wall_ms()
        records = [
            Record(number, now_ms, each.key, each.value, each.headers)
            for number, each in enumerate(request.messages())
        ]
        # Whether a message may go there was asked when it came.
        self._publishing.publish_as_broker(
            where,
            bytes(encode_batch(records)),
            acks=-1,
            timeout_ms=PUT_TIMEOUT_MS,
            on_done=lambda outcome: self._on_appended(request, where, outcome),
            is_wanted=lambda: True,
        )

    def _on_put(self, request: _Request, outcome: PutResult | RequestRefused) -> None:
        if isinstance(outcome, UnknownQueue) and self._is_lost(request.lane.way):
            # It was in the memory of a broker that is gone: with its consumers, and what it had.
            for ticket, first, messages in request.parts:
                ticket.lose(first, len(messages), outcome)
            self._on_done(request, None)
        elif isinstance(outcome, RequestRefused):
            self._on_done(request, outcome)
        elif min(outcome.offsets) >= 0:
            self._on_done(request, None)
        else:
            full = OverBound("a queue that the message goes to is full")
            refusals = [full if each < 0 else None for each in outcome.offsets]
            at = 0
            for part in request.parts:
                end = at + len(part.messages)
                self._settle(part, refusals[at:end])
                at = end
            self._on_answer(request)

    def _is_lost(self, way: _Way) -> bool:
        if isinstance(way, TopicPartition):
            return False
        queue = self._cluster.state.queues_by_log.get(way)
        return queue is not None and self._queues.is_lost(queue)

    def _on_appended(
        self, request: _Request, where: TopicPartition, outcome: ProduceResult | RequestRefused
    ) -> None:
        refusal = outcome if isinstance(outcome, RequestRefused) else None
        offset = -1 if isinstance(outcome, RequestRefused) else outcome.base_offset
        for ticket, first, messages in request.parts:
            if isinstance(ticket, LoggedTicket) and ticket.log == where.topic:
                place = (where.partition, offset) if refusal is None else refusal
                ticket.note(first, len(messages), place)
            offset += len(messages)
        self._on_done(request, refusal)

    def _on_done(self, request: _Request, refusal: RequestRefused | None) -> None:
        """All of a request's messages are there, or none is."""
        for part in request.parts:
            self._settle(part, None if refusal is None else [refusal] * len(part.messages))
        self._on_answer(request)

    def _on_answer(self, request: _Request) -> None:
        lane = request.lane
        lane.under_way -= 1
        if lane.holder is request:
            lane.holder = None
        # Not at once: a queue that is gone refuses batch after batch without a turn in between.
        self._go_on_soon(lane)

    def _settle(self, part: _Part, refusals: Sequence[RequestRefused | None] | None) -> None:
        """One of the places of messages has them, or does not take all; None: it has them."""
        ticket, first, messages = part
        if refusals is not None:
            for number, refusal in enumerate(refusals, first):
                if refusal is not None:
                    ticket.refused.setdefault(number, refusal)
        ticket.left -= len(messages)
        if ticket.left:
            return
        self._count -= ticket.count
        self._bytes -= ticket.held
        ticket.finish()


def no_room() -> RequestRefused:
    """Return what publishers are told whose messages are too many."""
    return OverBound("too many messages are on their way through this broker")


def size_of(message: NewMessage) -> int:
    """Return the bytes of a message that are counted."""
    size = len(message.value or b"") + len(message.key or b"")
    # A loop costs a third of a sum over a generator, and this is done for each message.
    for name, value in message.headers:
        size += len(name) + len(value or b"")
    return size
