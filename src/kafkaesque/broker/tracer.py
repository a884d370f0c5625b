"""What a broker tells of messages that belong to a trace: when they were kept, and given out.

Theory of operation. Records are never changed. A leader that is to trace looks for `traceparent` in
each batch that it appends. Of a record whose trace is sampled it keeps the context, by offset. When
the record is committed, that is a span: from the append to the commit, below the span that has sent
the message. When a consumer asks for what lies behind the record, it has been given: that is a span
from the commit to then. Messages of one batch may be of many traces, so that each has spans of its
own, and none is the parent of another's.

The newest spans are kept for those who look, in a ring of their own.

Spans wait in a ring until `take` has them. Nothing here waits for whoever takes them: where the
ring is full, the oldest one is dropped, and counted. What is looked into is bounded, too: by bytes
a second, as batches may have to be unpacked, and by the number of records that wait.
"""

from collections import OrderedDict, deque
from typing import Final, NamedTuple

from kafkaesque.env.clock import Clock
from kafkaesque.env.dice import Dice
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import Offset, TopicPartition
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.model.trace_context import TRACEPARENT_BYTES, TraceContext, read_context

#: Spans that wait to be taken.
SPANS_MAX: Final = 8_192
#: Spans that are kept to be shown, taken or not.
NEWEST_MAX: Final = 4_096
#: Traced records of all partitions that are not committed, or may still be given out.
RECORDS_MAX: Final = 8_192
#: Consumers whose place in a partition is known.
READERS_MAX: Final = 8_192
#: Of batches as they are unpacked, as much is looked into in a second.
LOOKED_INTO_BYTES_MAX: Final = 4 * 1024 * 1024
_SECOND_MS: Final = 1_000
_NS_PER_MS: Final = 1_000_000
#: The wall's clock has been set where it differs by more.
_JUMP_NS: Final = 10_000_000

APPEND: Final = "append"
DELIVER: Final = "deliver"


class Span(NamedTuple):
    """Something that took its time; times are nanoseconds since 1970."""

    name: str
    operation: str
    context: TraceContext
    span_id: bytes
    begin_ns: int
    end_ns: int
    where: TopicPartition
    offset: int
    #: What the consumer calls itself; empty where there is none.
    client_id: str = ""


class _Traced:
    """A record on its way."""

    __slots__ = ("begin_ns", "committed_ns", "context", "offset")

    def __init__(self, offset: int, context: TraceContext, begin_ns: int) -> None:
        self.offset = offset
        self.context = context
        self.begin_ns = begin_ns
        #: 0: it is not.
        self.committed_ns = 0


class Tracer:
    """One for each broker that is to trace; all of it happens on the broker's loop, but `take`."""

    def __init__(self, clock: Clock, dice: Dice) -> None:
        self._clock: Final = clock
        self._dice: Final = dice
        self._spans: Final[deque[Span]] = deque()
        #: The same, whoever has taken them.
        self._newest: Final[deque[Span]] = deque(maxlen=NEWEST_MAX)
        #: In the order of their offsets; partitions in that of their last append.
        self._records: Final[OrderedDict[TopicPartition, deque[_Traced]]] = OrderedDict()
        self._count = 0
        #: By connection and partition: the offset that was asked for last.
        self._places: Final[OrderedDict[tuple[int, TopicPartition], int]] = OrderedDict()
        #: What the wall's clock is ahead of the other one.
        self._ahead_ns = 0
        self._second_ms = 0
        self._looked_into_bytes = 0
        #: Since the start: spans that were made, those of them that were lost, and batches that
        #: were not looked into.
        self.made = 0
        self.lost = 0
        self.skipped = 0

    # -- what is told

    def on_appended(
        self,
        where: TopicPartition,
        records: bytearray | memoryview,
        batch: BatchHeader,
        base_offset: int,
    ) -> None:
        """A batch was appended here; its offsets begin at `base_offset`."""
        contexts = self._contexts(records, batch)
        if not contexts:
            return
        begin_ns = self._now_ns()
        waiting = self._records.setdefault(where, deque())
        self._records.move_to_end(where)
        if waiting and waiting[-1].offset >= base_offset:
            # Another leader has written here meanwhile, or the end was cut off.
            self._forget_from(waiting, base_offset)
        for index, context in contexts:
            waiting.append(_Traced(base_offset + index, context, begin_ns))
        self._count += len(contexts)
        while self._count > RECORDS_MAX:
            self._forget_oldest()

    def on_committed(self, where: TopicPartition, high_watermark: Offset) -> None:
        """All records before an offset are committed."""
        waiting = self._records.get(where)
        if waiting is None:
            return
        now_ns = self._now_ns()
        for each in waiting:
            if each.offset >= high_watermark:
                break
            if not each.committed_ns:
                each.committed_ns = now_ns
                self._make(where, each, APPEND, each.begin_ns, "")

    def on_asked(self, reader: int, where: TopicPartition, offset: int, client_id: str) -> None:
        """A consumer asks for a partition from an offset on: what lies before it, it has got.

        `reader` is the number of its connection.
        """
        waiting = self._records.get(where)
        if waiting is None:
            return
        key = (reader, where)
        before = self._places.get(key)
        self._places[key] = offset
        self._places.move_to_end(key)
        if len(self._places) > READERS_MAX:
            self._places.popitem(last=False)
        if before is None or before >= offset:
            return
        for each in waiting:
            if each.offset >= offset:
                break
            if each.offset >= before and each.committed_ns:
                self._make(where, each, DELIVER, each.committed_ns, client_id)

    def take(self, count_max: int) -> list[Span]:
        """Return the oldest spans, which wait no more; any thread may ask."""
        taken: list[Span] = []
        while len(taken) < count_max:
            try:
                taken.append(self._spans.popleft())
            except IndexError:
                break
        return taken

    def newest(self) -> list[Span]:
        """Return the newest spans, oldest first, whether they were taken or not."""
        return list(self._newest)

    # -- within

    def _contexts(
        self, records: bytearray | memoryview, batch: BatchHeader
    ) -> list[tuple[int, TraceContext]]:
        """Return the sampled contexts of a batch's records, each with its place in the batch."""
        is_packed = batch.is_compressed
        if not is_packed and bytes(records).find(TRACEPARENT_BYTES) < 0:
            return []
        room = self._room()
        if len(records) > room:
            self.skipped += 1
            return []
        try:
            found = decode_batch(records, room)
        except KafkaesqueError:
            # It was checked, so that it is too large to be unpacked here.
            self.skipped += 1
            return []
        self._looked_into_bytes += len(records) + sum(map(_length, found)) * is_packed
        read = ((index, read_context(each.headers)) for index, each in enumerate(found))
        return [(index, each) for index, each in read if each is not None and each.is_sampled]

    def _room(self) -> int:
        """Return how many bytes may still be looked into in this second."""
        now_ms = self._clock.now_ms()
        if now_ms - self._second_ms >= _SECOND_MS:
            self._second_ms, self._looked_into_bytes = now_ms, 0
        return max(0, LOOKED_INTO_BYTES_MAX - self._looked_into_bytes)

    def _make(
        self, where: TopicPartition, traced: _Traced, operation: str, begin_ns: int, client_id: str
    ) -> None:
        self.made += 1
        if len(self._spans) >= SPANS_MAX:
            self.lost += len(self.take(1))
        span = Span(
            name=f"{operation} {where.topic}",
            operation=operation,
            context=traced.context,
            span_id=self._dice.unique_bytes(8),
            begin_ns=begin_ns,
            end_ns=max(begin_ns, self._now_ns()),
            where=where,
            offset=traced.offset,
            client_id=client_id,
        )
        self._spans.append(span)
        self._newest.append(span)

    def _forget_from(self, waiting: deque[_Traced], offset: int) -> None:
        while waiting and waiting[-1].offset >= offset:
            waiting.pop()
            self._count -= 1

    def _forget_oldest(self) -> None:
        """Forget a record of the partition that nothing was appended to for longest."""
        where, waiting = next(iter(self._records.items()))
        waiting.popleft()
        self._count -= 1
        if not waiting:
            del self._records[where]

    def _now_ns(self) -> int:
        """Return the time since 1970, finer than the wall's clock tells it."""
        now_ns, wall_ns = self._clock.now_ns(), self._clock.wall_ms() * _NS_PER_MS
        if abs(wall_ns - now_ns - self._ahead_ns) > _JUMP_NS:
            self._ahead_ns = wall_ns - now_ns
        return now_ns + self._ahead_ns


def _length(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
