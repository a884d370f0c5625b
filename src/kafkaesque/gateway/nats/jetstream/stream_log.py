"""A stream's log as one broker reads and writes it.

Theory of operation. The log is a topic of one partition. A broker reads it when somebody asks for
what it holds, up to the end that the leader names, so what was committed before a question is in
the answer. Nobody reads it in vain.

Messages are appended in the order in which this broker was given them, many in one batch. Most need
nothing but the append. Some may be appended only if something holds of what the stream has: no
message with the same id, a last sequence. For these the broker reads to the end, decides, and has
the leader append at that very end; where another broker was faster, it reads on and decides anew
(as the schema registry does). So a message id is judged by what is in the log, whichever broker
dies, and an append that never was committed leaves nothing behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests.commands import EARLIEST, FetchResult, ProduceResult
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.positions import Position, read_origins
from kafkaesque.gateway.nats.jetstream.records import (
    Message,
    read_arrived,
    read_message,
    read_removal,
)
from kafkaesque.gateway.nats.jetstream.view import Bounds, View
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import DEFAULT_OPTIONS, BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import (
    LogEndMoved,
    OffsetOutOfRange,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record, decode_batch

READ_BYTES_MAX: Final = 1024 * 1024
READ_MS_MAX: Final = 5_000
#: What is committed and not in the answer is asked for again after this, so often.
READ_AGAIN_MS: Final = 10
EMPTY_READS_MAX: Final = 300
APPEND_MS_MAX: Final = 10_000
#: Of one batch; a longer message is alone in its own.
BATCH_BYTES_MAX: Final = 512 * 1024
BATCH_MESSAGES_MAX: Final = 1_000
DECODED_BYTES_MAX: Final = 16 * 1024 * 1024
#: Appends that wait, and their bytes; one more is refused.
WAITING_MAX: Final = 10_000
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
#: Others may be faster so often, one after the other.
ATTEMPTS_MAX: Final = 50
RETRY_MS_MAX: Final = 20
_PLAIN: Final = DEFAULT_OPTIONS
_COMPRESSED: Final = BatchOptions(codec=Codec.LZ4)


class Batch:
    """Records that are about to be appended together, and what may depend on them."""

    __slots__ = ("ids", "is_compressed", "records", "subjects")

    def __init__(self) -> None:
        #: Whether most of it is the same over and over.
        self.is_compressed = False
        self.records: Final[list[Record]] = []
        self.ids: Final[set[str]] = set()
        self.subjects: Final[set[str]] = set()


class Append(Protocol):
    """Something to be appended."""

    @property
    def needs_view(self) -> bool:
        """Whether it depends on what the stream holds."""

    @property
    def size(self) -> int:
        """Its bytes."""

    def depends_on(self, batch: Batch) -> bool:
        """Tell whether it can be decided on only when these are appended."""

    def plan(self, batch: Batch, now_ms: int, view: View) -> Callable[[], None] | None:
        """Add records to a batch; or return what to do where there is nothing to append.

        Raises:
            ApiError: it may not be appended.
        """

    def on_done(self, sequence: int, view: View) -> None:
        """It is committed; the sequence is that of its last record."""

    def on_failed(self, error: ApiError | None) -> None:
        """It was not appended; None: nobody knows."""


class _Member(NamedTuple):
    """An append of a batch, and how many records the batch had when its own were added."""

    append: Append
    end: int


class StreamLog:
    """See the module."""

    __slots__ = (
        "_appends",
        "_applied_bytes",
        "_attempts",
        "_doors",
        "_empty_reads",
        "_end_offset",
        "_is_appending",
        "_is_reading",
        "_name",
        "_origins",
        "_position",
        "_read_next",
        "_read_now",
        "_waiting_bytes",
        "view",
        "where",
    )

    def __init__(self, doors: Doors, name: str, bounds: Bounds) -> None:
        self._doors: Final = doors
        self._name: Final = name
        self.where: Final = TopicPartition(name, 0)
        self.view: Final = View(bounds)
        self._position = EARLIEST
        #: Where the log ended when it was read last.
        self._end_offset = 0
        #: Answers without records, one after the other, though there are more.
        self._empty_reads = 0
        self._is_reading = False
        #: Who waits for the round of reading that goes on, and for one that begins after it.
        self._read_now: list[Callable[[bool], None]] = []
        self._read_next: list[Callable[[bool], None]] = []
        self._appends: Final[deque[Append]] = deque()
        self._waiting_bytes = 0
        self._is_appending = False
        self._attempts = 0
        #: How far the log is with those that it has messages from, and the size of what was read.
        self._origins: Final[dict[bytes, Position]] = {}
        self._applied_bytes = 0

    # -- reading

    def catch_up(self, on_read: Callable[[bool], None]) -> None:
        """Call with True once the view has all that was committed before this call.

        False says that the leader could not be asked.
        """
        self._read_next.append(on_read)
        if not self._is_reading:
            self._begin_round()

    def _begin_round(self) -> None:
        self._is_reading = True
        self._read_now, self._read_next = self._read_next, []
        self._read()

    def _read(self) -> None:
        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            if isinstance(outcome, FetchResult):
                self._take(outcome)
            elif isinstance(outcome, OffsetOutOfRange) and self._position != EARLIEST:
                # Its start has moved on by age or size.
                self._position = EARLIEST
                self._doors.clock.call_soon(self._read)
            else:
                self._end_round(is_read=False)

        self._doors.reading.fetch(
            self.where, self._position, READ_BYTES_MAX, READ_MS_MAX, on_fetched
        )

    def _take(self, result: FetchResult) -> None:
        self.view.start_at(result.log_start_offset + 1)
        content = memoryview(result.records)
        batches = scan_batches(content).batches
        for batch in batches:
            try:
                records = decode_batch(content, DECODED_BYTES_MAX, at=batch.at)
            except RecordError:
                # What cannot be read is passed over: its sequences are missing.
                records = []
            for record in records:
                if record.offset >= self._position:
                    self._apply(record)
            self._position = batch.next_offset
        self._position = max(self._position, result.log_start_offset)
        if self._position < result.last_stable_offset:
            self._read_on(has_found=bool(batches))
            return
        # A leader that is new may not know yet what is committed: what was read stays read.
        self._end_offset = self._position
        self._empty_reads = 0
        self.view.expire(self._doors.clock.wall_ms())
        self._end_round(is_read=True)

    def _read_on(self, *, has_found: bool) -> None:
        """Read what is committed, and was not in the last answer.

        A leader may say that more is committed than it can read at that moment. To pass over that
        would be to decide on less than what the stream holds.
        """
        clock = self._doors.clock
        self._empty_reads = 0 if has_found else self._empty_reads + 1
        if has_found:
            clock.call_soon(self._read)
        elif self._empty_reads < EMPTY_READS_MAX:
            clock.call_later(READ_AGAIN_MS, self._read)
        else:
            self._empty_reads = 0
            self._end_round(is_read=False)

    def _apply(self, record: Record) -> None:
        removal = read_removal(record)
        if removal is None:
            arrived = read_arrived(record, self._name)
            self._applied_bytes += arrived.size
            self.view.add(arrived)
        else:
            self.view.take_removal(removal)
        for key, next_offset in read_origins(record):
            place = (record.offset + 1, record.timestamp_ms, self._applied_bytes)
            self._origins[key] = Position(next_offset, *place)

    def _end_round(self, *, is_read: bool) -> None:
        waiting, self._read_now = self._read_now, []
        self._is_reading = False
        if self._read_next:
            self._begin_round()
        for each in waiting:
            each(is_read)

    def position_of(self, origin: bytes) -> Position | None:
        """Return how far the log is with an origin; None: nothing that it still has says so."""
        return self._origins.get(origin)

    def next_of(self, origin: bytes) -> int | None:
        """Return the offset at an origin that is to be copied next; None: nothing says so."""
        found = self._origins.get(origin)
        return None if found is None else found.next_offset

    @property
    def applied_bytes(self) -> int:
        """The size of all messages that were read, also of those that are gone."""
        return self._applied_bytes

    def fetch_message(self, sequence: int, on_done: Callable[[Message | None], None]) -> None:
        """Read one message; None: it is not there, or could not be read."""

        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            found = None
            if isinstance(outcome, FetchResult):
                records = records_of(outcome, sequence - 1)
                if records and records[0].offset == sequence - 1:
                    found = read_message(records[0], self._name)
            on_done(found)

        self._doors.reading.fetch(self.where, sequence - 1, 1, READ_MS_MAX, on_fetched)

    # -- appending

    def append(self, append: Append) -> None:
        """Append something; it is told what becomes of it, maybe at once."""
        size = append.size
        if (
            len(self._appends) >= WAITING_MAX
            or self._waiting_bytes + size > WAITING_BYTES_MAX
            or self._doors.publishing.is_overloaded
        ):
            append.on_failed(ApiError(ApiCode.NOT_AVAILABLE, "too much waits to be stored"))
            return
        self._appends.append(append)
        self._waiting_bytes += size
        if not self._is_appending:
            self._is_appending = True
            # What comes in the same turn goes into one batch.
            self._doors.clock.call_soon(self._begin_batch)

    def _begin_batch(self) -> None:
        if not self._appends:
            self._is_appending = False
            self._attempts = 0
        elif self._appends[0].needs_view and self._position == EARLIEST:
            self._read_first()
        else:
            self._send(is_current=False)

    def _read_first(self) -> None:
        def on_read(is_read: bool) -> None:
            if is_read:
                self._send(is_current=True)
            else:
                failed = list(self._appends)
                self._appends.clear()
                self._waiting_bytes = 0
                self._fail(failed, ApiError(ApiCode.NOT_AVAILABLE))

        self.catch_up(on_read)

    def _send(self, *, is_current: bool) -> None:
        """Append what can go together; `is_current`: the view is that of now."""
        now_ms = self._doors.clock.wall_ms()
        batch, members = Batch(), list[_Member]()
        size, by_view = 0, False
        while self._appends and len(members) < BATCH_MESSAGES_MAX:
            each = self._appends[0]
            if members and (size + each.size > BATCH_BYTES_MAX or each.depends_on(batch)):
                break
            if each.needs_view and self._position == EARLIEST:
                break
            outcome = self._planned(each, batch, now_ms)
            if outcome is not None and each.needs_view and not is_current:
                # What the view says may be old: it is looked at again before anybody is told.
                if not members:
                    self._read_first()
                    return
                break
            self._appends.popleft()
            self._waiting_bytes -= each.size
            if outcome is not None:
                outcome()
                continue
            members.append(_Member(each, len(batch.records)))
            size += each.size
            by_view = by_view or each.needs_view
        if not members:
            self._doors.clock.call_soon(self._begin_batch)
            return
        self._append_batch(batch, members, by_view=by_view)

    def _planned(self, append: Append, batch: Batch, now_ms: int) -> Callable[[], None] | None:
        try:
            return append.plan(batch, now_ms, self.view)
        except ApiError as error:
            refusal = error
            return lambda: append.on_failed(refusal)

    def _append_batch(self, batch: Batch, members: list[_Member], *, by_view: bool) -> None:
        raw = bytes(encode_batch(batch.records, _COMPRESSED if batch.is_compressed else _PLAIN))
        on_done = self._on_appended(members, batch.records)
        publishing = self._doors.publishing
        if by_view:
            publishing.publish_at(
                self.where, self._end_offset, raw, timeout_ms=APPEND_MS_MAX, on_done=on_done
            )
            return
        publishing.publish(
            self.where,
            raw,
            acks=-1,
            timeout_ms=APPEND_MS_MAX,
            on_done=on_done,
            is_wanted=lambda: True,
        )

    def _on_appended(
        self, members: list[_Member], records: list[Record]
    ) -> Callable[[ProduceResult | RequestRefused], None]:
        appends = [each for each, _ in members]

        def on_done(outcome: ProduceResult | RequestRefused) -> None:
            if isinstance(outcome, ProduceResult):
                self._note(outcome.base_offset, records)
                for each, end in members:
                    each.on_done(outcome.base_offset + end, self.view)
                self._attempts = 0
                self._doors.clock.call_soon(self._begin_batch)
            elif isinstance(outcome, LogEndMoved) and self._attempts < ATTEMPTS_MAX:
                self._again(appends)
            elif isinstance(outcome, RequestTimedOut):
                self._fail(appends, None)
            else:
                self._fail(appends, ApiError(ApiCode.NOT_AVAILABLE, str(outcome)))

        return on_done

    def _note(self, base_offset: int, records: list[Record]) -> None:
        """Know what was just committed here without reading it again."""
        if self._position == base_offset and not self._is_reading:
            for number, record in enumerate(records):
                self._apply(record._replace(offset=base_offset + number))
            self._position = self._end_offset = base_offset + len(records)

    def _again(self, batch: list[Append]) -> None:
        """Another broker was faster."""
        self._attempts += 1
        self._appends.extendleft(reversed(batch))
        self._waiting_bytes += sum(each.size for each in batch)
        dice, clock = self._doors.dice, self._doors.clock
        delay_ms = dice.below(min(RETRY_MS_MAX, 2 * self._attempts) + 1)
        clock.call_later(delay_ms, self._read_first)

    def _fail(self, batch: list[Append], error: ApiError | None) -> None:
        self._attempts = 0
        for each in batch:
            each.on_failed(error)
        self._doors.clock.call_soon(self._begin_batch)


def records_of(result: FetchResult, offset: int) -> list[Record]:
    """Return the records from an offset on; what cannot be read is left out."""
    content = memoryview(result.records)
    found: list[Record] = []
    for batch in scan_batches(content).batches:
        try:
            records = decode_batch(content, DECODED_BYTES_MAX, at=batch.at)
        except RecordError:
            continue
        found += [each for each in records if each.offset >= offset]
    return found
