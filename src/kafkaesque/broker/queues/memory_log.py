"""A log in memory: the messages of a transient queue, as long as they live (ADR 45).

Nothing is written down, so nothing has to wait: what a turn has appended and decided is committed
at its end. Decisions take an offset each, as in a log, and are not kept: nobody will replay them.
Messages are kept one by one and go when they are done with.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.metadata.queue_planner import MESSAGE_BYTES_MAX
from kafkaesque.broker.partitions.batch_checks import LongCheck
from kafkaesque.broker.partitions.waiting_produces import OnProduced
from kafkaesque.broker.queues.bodies import Bodies, Found, OnRecords, size_of
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.batch import BatchHeader, check_batches
from kafkaesque.model.errors import NotLeader, OutOfOrderSequence, OverBound
from kafkaesque.model.ids import Offset
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.model.records import Record, decode_batch

#: What transient queues of one broker may hold, and one of them.
MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024
QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
#: What a message takes beside its bytes: the objects that hold it.
MESSAGE_OVERHEAD_BYTES: Final = 512
#: Queues whose moved messages are told apart; those that came first are forgotten.
SOURCES_MAX: Final = 10_000
#: Messages that are done with are looked for when they are so many, and so large a part.
_DONE_MIN: Final = 64
_DONE_PART: Final = 4
_SEQUENCES: Final = 2**31


class Memory:
    """What the transient queues of a broker hold together."""

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0


class _Waiting(NamedTuple):
    result: ProduceResult
    on_done: OnProduced


#: Takes a batch that is appended: its header, its bytes, and where it stands.
OnAppended = Callable[[BatchHeader, bytearray | memoryview, Offset], None]


class MemoryLog:
    """See the module; it is what `QueueLog` says."""

    __slots__ = (
        "_memory",
        "_next_sequences",
        "_on_appended",
        "_records",
        "_waiting",
        "_wall_ms",
        "end_offset",
        "high_watermark",
        "queue_bytes_max",
        "size_bytes",
    )

    def __init__(self, memory: Memory, wall_ms: Callable[[], int], on_appended: OnAppended) -> None:
        self._memory = memory
        self._wall_ms = wall_ms
        self._on_appended = on_appended
        #: By offset, in order; the first is found at once, however many went before it.
        self._records: OrderedDict[int, Record] = OrderedDict()
        self._next_sequences: dict[int, int] = {}
        self._waiting: list[_Waiting] = []
        self.end_offset = self.high_watermark = Offset(0)
        self.size_bytes = 0
        self.queue_bytes_max = QUEUE_BYTES_MAX

    # -- see `QueueLog`

    @property
    def log(self) -> "MemoryLog":
        """This one: it knows its extent."""
        return self

    @property
    def producers(self) -> "MemoryLog":
        """This one: it knows who appends."""
        return self

    @property
    def log_start_offset(self) -> Offset:
        """The first message that is kept, or the end."""
        return Offset(next(iter(self._records), self.end_offset))

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """Return the number that comes next from a queue; 0 if it is not known."""
        return self._next_sequences.get(producer_id, 0)

    def skip(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Take a number for what follows."""
        self._next_sequences[producer_id] = sequence

    def has_room(self, size: int) -> bool:
        """Tell whether messages of so many bytes may come, with what each takes."""
        memory = self._memory
        return self.size_bytes + size <= self.queue_bytes_max and (
            memory.used + size <= memory.bytes_max
        )

    def produce(
        self,
        records: bytearray | memoryview,
        *,
        acks: int,
        timeout_ms: int,
        on_done: OnProduced,
        checked: LongCheck | None = None,
    ) -> LongCheck | None:
        """Append one batch that is not compressed; answered at the turn's end.

        Raises:
            RecordError: it is not a batch, or not one that queues take.
            OverBound: there is no room.
            OutOfOrderSequence: messages before it are missing.
        """
        found = check_batches(records, MESSAGE_BYTES_MAX)
        if len(found) != 1 or found[0].is_compressed or found[0].is_control:
            raise InvalidRecord("messages for a queue come in one plain batch")
        header = found[0]
        decoded = decode_batch(records, MESSAGE_BYTES_MAX)
        size = sum(map(_size_of, decoded))
        if not self.has_room(size):
            raise OverBound("the queue is in memory, and there is no room for more")
        self._take_number(header)
        base_offset, now_ms = self.end_offset, self._wall_ms()
        shift = base_offset - header.base_offset
        for record in decoded:
            offset = record.offset + shift
            self._records[offset] = record._replace(offset=offset, timestamp_ms=now_ms)
        self.size_bytes += size
        self._memory.used += size
        self.end_offset = Offset(base_offset + header.last_offset_delta + 1)
        self._on_appended(header._replace(max_timestamp_ms=now_ms), records, base_offset)
        result = ProduceResult(
            base_offset=base_offset,
            log_start_offset=self.log_start_offset,
            append_time_ms=now_ms,
        )
        if acks == 0:
            on_done(result)
        else:
            self._waiting.append(_Waiting(result, on_done))
        return None

    def _take_number(self, header: BatchHeader) -> None:
        producer_id = header.producer_id
        if producer_id < 0:
            return
        expected = self._next_sequences.pop(producer_id, None)
        if expected is not None and expected != header.base_sequence:
            self._next_sequences[producer_id] = expected
            raise OutOfOrderSequence(
                f"sequence {header.base_sequence} of producer {producer_id} comes after {expected}"
            )
        following = (header.base_sequence + header.record_count) % _SEQUENCES
        self._next_sequences[producer_id] = following
        if len(self._next_sequences) > SOURCES_MAX:
            del self._next_sequences[next(iter(self._next_sequences))]

    # -- for the host

    def note_decided(self) -> tuple[Offset, Offset]:
        """Something was decided: return where that would stand."""
        base_offset = self.end_offset
        self.end_offset = Offset(base_offset + 1)
        return base_offset, self.end_offset

    def commit(self) -> None:
        """All that is there may be handed out; who has appended is told so."""
        self.high_watermark = self.end_offset
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.on_done(each.result)

    @property
    def has_waiting(self) -> bool:
        """Whether anybody waits for the turn's end."""
        return bool(self._waiting)

    def forget_done(
        self, floor: int, live_count: int, is_live: Callable[[int], bool], *, is_pressed: bool
    ) -> None:
        """Let messages go that do not live: those before the floor, and others if it pays.

        With `is_pressed` it does.
        """
        records = self._records
        while records and (first := next(iter(records))) < floor:
            self._drop(first)
        done = len(records) - live_count
        is_due = done >= max(_DONE_MIN, len(records) // _DONE_PART)
        if done and (is_due or is_pressed):
            for offset in [each for each in records if not is_live(each)]:
                self._drop(offset)

    def _drop(self, offset: int) -> None:
        size = _size_of(self._records.pop(offset))
        self.size_bytes -= size
        self._memory.used -= size

    def close(self) -> None:
        """The queue is gone, with all it has."""
        self._memory.used -= self.size_bytes
        self.size_bytes = 0
        self._records.clear()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.on_done(NotLeader("the queue is gone"))

    def read(self, offsets: Sequence[int], bytes_max: int) -> Found:
        """Return the records at rising offsets: at least one, and as many as have `bytes_max`."""
        found: dict[int, Record] = {}
        left = bytes_max
        for number, offset in enumerate(offsets):
            record = self._records.get(offset)
            if record is None:
                continue
            size = size_of(record)
            if found and size > left:
                return Found(found, offsets[number:])
            left -= size
            found[offset] = record
        return Found(found, ())


class MemoryBodies(Bodies):
    """Finds records of a log in memory."""

    __slots__ = ("_log",)

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(lambda offset, on_read: on_read(b""), lambda offset: False)
        self._log = log

    def read(self, offsets: Sequence[int], bytes_max: int, on_done: OnRecords) -> None:
        """Return the records at rising offsets, at once."""
        on_done(self._log.read(offsets, bytes_max))


def _size_of(record: Record) -> int:
    return size_of(record) + MESSAGE_OVERHEAD_BYTES
