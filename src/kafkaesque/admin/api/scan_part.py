"""Searches records where they are led: the part `scan`.

Theory of operation. Each question is about a range of offsets, and is answered after a bounded
number of bytes, so a search is many questions one after the other. Bytes are read as for any
consumer, from cold files off the loop; what is read is searched off the loop, too, a piece at a
time. A batch that does not hold the bytes in question anywhere is passed over as a whole, without a
look at its records.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import msgspec

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.decoding_run import DecodingRun
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.messages import (
    Form,
    Message,
    PassedOver,
    show_message,
    shown_length,
)
from kafkaesque.admin.api.part_pages import SCAN, ScanAnswer, ScanQuestion
from kafkaesque.admin.api.search_matcher import Matcher
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.record_errors import DecompressionTooLarge, RecordError
from kafkaesque.model.records import RecordColumns, decode_columns
from kafkaesque.transactions.committed_filter import CommittedFilter

PlacedT = TypeVar("PlacedT", Message, PassedOver)

#: Read and searched at a time; a question ends after so many of them.
PIECE_BYTES_MAX: Final = 1024 * 1024
PIECES_MAX: Final = 8
#: What one batch may decompress to, as where it is produced; one that takes more is passed over.
DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
#: A question ends after the batch with which it has decompressed so much: it has 2 s.
UNPACKED_BYTES_MAX: Final = 16 * 1024 * 1024
#: Ranges that are passed over for one question; it ends with the last of them.
PASSED_OVER_MAX: Final = 100
#: So long a leader may take to read one piece.
READ_MS_MAX: Final = 2_000


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(SCAN, lambda question, done: _Scan(context, question, done).start())


class Room(NamedTuple):
    """What may still be found."""

    records: int
    bytes: int

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be."""
        return self.records <= 0 or self.bytes <= 0


@dataclass(slots=True, kw_only=True)
class Found:
    """What came of one piece."""

    room: Room
    messages: list[Message] = field(default_factory=list)
    records: int = 0
    #: After the last record that was looked at.
    next: int = 0
    #: What could not be looked at; the partition is not said.
    passed_over: list[PassedOver] = field(default_factory=list)
    #: Bytes of batches that were compressed.
    unpacked: int = 0
    #: Whether nothing more may be decoded, so that nobody knows what fits.
    is_spent: bool = False

    @property
    def is_heavy(self) -> bool:
        """Whether it has taken enough for one question."""
        return self.unpacked >= UNPACKED_BYTES_MAX or len(self.passed_over) >= PASSED_OVER_MAX

    def pass_over(self, first: int, end: int, reason: str) -> None:
        """Note a range; one that follows the one before is told with that."""
        last = self.passed_over[-1] if self.passed_over else None
        if last is not None and last.next == first:
            self.passed_over[-1] = msgspec.structs.replace(last, next=end)
        else:
            self.passed_over.append(PassedOver(partition=-1, first=first, next=end, reason=reason))


class _Scan:
    """One question under way."""

    def __init__(self, context: Context, question: ScanQuestion, on_done: OnAnswer) -> None:
        self._context = context
        self._question = question
        self._on_done = on_done
        self._where = TopicPartition(question.topic, question.partition)
        self._matcher = Matcher(question.filter)
        self._pieces_left = PIECES_MAX
        self._bytes = 0
        self._records = 0
        self._next = question.offset
        self._messages: list[Message] = []
        self._passed_over: list[PassedOver] = []
        self._unpacked = 0
        self._decoding = DecodingRun(context, question.topic, question.client)
        self._room = Room(records=question.matches_max, bytes=question.bytes_max)

    def start(self) -> None:
        """Search; raises `RequestRefused` where this broker does not lead the partition."""
        self._context.doors.reading.partition(self._where).check_leader()
        self._read()

    def _read(self) -> None:
        self._context.doors.reading.fetch(
            self._where, self._next, PIECE_BYTES_MAX, READ_MS_MAX, self._on_read
        )

    def _on_read(self, outcome: object) -> None:
        if not isinstance(outcome, FetchResult):
            refused = isinstance(outcome, RequestRefused)
            self._on_done(outcome if refused else RequestRefused("nothing could be read"))  # type: ignore[arg-type]
            return
        if not outcome.records:
            self._next = max(self._next, min(self._question.until, outcome.last_stable_offset))
            self._end()
            return
        self._bytes += len(outcome.records)
        offsets, room = range(self._next, self._question.until), self._room
        matcher, form = self._matcher, self._question.form

        def work(decoder: Decoder) -> Found:
            return search(outcome, matcher, offsets, room, form, decoder)

        self._decoding.run(work, self._on_searched)

    def _on_searched(self, found: Found | None, error: Exception | None) -> None:
        if found is None:
            self._on_done(RequestRefused(f"the records cannot be searched: {error}"))
            return
        self._messages += self._placed(found.messages)
        self._passed_over += self._placed(found.passed_over)
        self._unpacked += found.unpacked
        self._room = found.room
        self._records += found.records
        is_stuck = found.next <= self._next
        self._next = max(self._next, found.next)
        self._pieces_left -= 1
        if (
            is_stuck
            or found.is_spent
            or self._unpacked >= UNPACKED_BYTES_MAX
            or len(self._passed_over) >= PASSED_OVER_MAX
            or self._room.is_full
            or not self._pieces_left
            or self._next >= self._question.until
        ):
            self._end()
        else:
            self._read()

    def _placed(self, found: list[PlacedT]) -> list[PlacedT]:
        partition = self._question.partition
        return [msgspec.structs.replace(each, partition=partition) for each in found]

    def _end(self) -> None:
        self._on_done(
            ScanAnswer(
                matches=self._messages,
                next=self._next,
                records=self._records,
                bytes=self._bytes,
                passed_over=self._passed_over,
            )
        )


def search(
    result: FetchResult,
    matcher: Matcher,
    offsets: range,
    room: Room,
    form: Form,
    decoder: Decoder,
) -> Found:
    """Search batches; touches nothing else, so that it may be done on another thread.

    The messages that are found do not say their partition. If the decoder misses schemas, nothing
    that was found counts. A batch that cannot be read, or takes too much when it is decompressed,
    is passed over.

    Raises:
        RecordError: these are no batches.
    """
    view = memoryview(result.records)
    committed = CommittedFilter(result.aborted)
    found = Found(next=offsets.start, room=room)
    for header in scan_batches(view).batches:
        is_shown = committed.is_shown(header)
        if header.next_offset <= offsets.start:
            continue
        if header.base_offset >= offsets.stop or found.room.is_full or found.is_heavy:
            return found
        columns = _columns(view, header, offsets, found) if is_shown else None
        if columns is not None and not _search_batch(
            columns, matcher, offsets, found, form, decoder
        ):
            return found
        found.next = min(header.next_offset, offsets.stop)
    return found


def _columns(
    view: memoryview, header: BatchHeader, offsets: range, found: Found
) -> RecordColumns | None:
    """Return a batch's records; None if they are passed over, which is noted."""
    try:
        columns = decode_columns(view, DECOMPRESSED_BYTES_MAX, at=header.at)
    except RecordError as error:
        # Where it lies in what was fetched says nothing to people.
        reason = str(error).removeprefix(f"record batch at byte {header.at}: ")
        first, end = max(header.base_offset, offsets.start), min(header.next_offset, offsets.stop)
        found.pass_over(first, end, reason)
        found.unpacked += DECOMPRESSED_BYTES_MAX if isinstance(error, DecompressionTooLarge) else 0
        return None
    found.unpacked += len(columns.payload) if header.is_compressed else 0
    return columns


def _search_batch(
    columns: RecordColumns,
    matcher: Matcher,
    offsets: range,
    found: Found,
    form: Form,
    decoder: Decoder,
) -> bool:
    """Search one batch; False if there is no room for all that it has."""
    first = bisect_left(columns.offsets, offsets.start)
    end = bisect_left(columns.offsets, offsets.stop)
    for row in matcher.candidates(columns, range(first, end), decoder):
        is_match = matcher.matches(columns, row, decoder)
        if matcher.is_decoded:
            found.is_spent = decoder.is_spent
        if not (is_match or found.is_spent):
            continue
        if found.room.is_full or found.is_spent:
            found.records += row - first
            found.next = columns.offsets[row]
            return False
        message = show_message(columns, row, form, decoder)
        found.messages.append(message)
        found.room = Room(found.room.records - 1, found.room.bytes - shown_length(message))
    found.records += end - first
    return True
