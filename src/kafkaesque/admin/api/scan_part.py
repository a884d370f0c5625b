"""Searches records where they are led: the part `scan`.

Theory of operation. Each question is about a range of offsets, and is answered after a bounded
number of bytes, so a search is many questions one after the other. Bytes are read as for any
consumer, from cold files off the loop; what is read is searched off the loop, too, a piece at a
time. A batch that does not hold the bytes in question anywhere is passed over as a whole, without a
look at its records.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.decoding_run import DecodingRun
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.messages import (
    Form,
    Message,
    PassedOver,
    SearchFilter,
    schema_header,
    show_message,
    shown_length,
)
from kafkaesque.admin.api.part_pages import SCAN, ScanAnswer, ScanQuestion
from kafkaesque.admin.decoding.bounds import UndecodableError
from kafkaesque.admin.decoding.decoder import VALUE_HEADER, Decoder
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.errors import InvalidRequest, RequestRefused
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
#: What may stand for another character in JSON.
_ESCAPE: Final = b"\\"
#: Names on the way to a value in JSON.
JSON_DEPTH_MAX: Final = 10


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
    matcher: "Matcher",
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
    matcher: "Matcher",
    offsets: range,
    found: Found,
    form: Form,
    decoder: Decoder,
) -> bool:
    """Search one batch; False if there is no room for all that it has."""
    first = bisect_left(columns.offsets, offsets.start)
    end = bisect_left(columns.offsets, offsets.stop)
    for row in matcher.candidates(columns, range(first, end)):
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


class Matcher:
    """A filter, ready to be asked often."""

    def __init__(self, wanted: SearchFilter) -> None:
        """Raises `InvalidRequest` where the filter makes no sense."""
        self._contains = wanted.contains.encode()
        self._key = None if wanted.key is None else wanted.key.encode()
        self._since = wanted.since
        self._before = wanted.before
        self._value = wanted.json_value
        self._path = wanted.json_path.split(".") if wanted.json_path else []
        if len(self._path) > JSON_DEPTH_MAX or not all(self._path or ["-"]):
            raise InvalidRequest(f"json_path is 1 to {JSON_DEPTH_MAX} names with points between")
        self._decode = _projection(self._path) if self._path else None
        #: Whether values are decoded before they are looked at.
        self.is_decoded = wanted.decoded and self._decode is not None
        #: All of these are in the bytes of whatever fits.
        self._needed = [each for each in (self._contains, self._key) if each]
        #: These as well, or there is an escape.
        self._needed_json = [] if self.is_decoded else _literals(self._path, wanted.json_value)

    def candidates(self, columns: RecordColumns, rows: range) -> Iterable[int]:
        """Return the rows, in order, that may fit; those that are left out do not."""
        if not self._needed and not self._needed_json:
            return rows
        payload = columns.payload
        data = payload if isinstance(payload, bytes) else bytes(payload)
        if not all(each in data for each in self._needed):
            return ()
        times, rarest = min((data.count(e), e) for e in (*self._needed, *self._needed_json))
        if 2 * times >= len(rows):
            # To look at each row takes less than to look for the others.
            return rows
        found = _rows_with(columns, data, rarest, rows)
        if rarest in self._needed:
            return found
        # An escape may stand for it. The byte is also in what is around values: as the number of
        # the 46th record of a batch, for one.
        return sorted({*found, *_rows_with(columns, data, _ESCAPE, rows)})

    def matches(self, columns: RecordColumns, row: int, decoder: Decoder | None = None) -> bool:
        """Tell whether a record fits; a filter that `is_decoded` needs a decoder."""
        if self._since is not None and columns.timestamps_ms[row] < self._since:
            return False
        if self._before is not None and columns.timestamps_ms[row] >= self._before:
            return False
        if self._key is not None and columns.key(row) != self._key:
            return False
        if self._contains and not self._holds(columns, row):
            return False
        if self._decode is None:
            return True
        value = columns.value(row)
        if self.is_decoded and value is not None and decoder is not None:
            value = _decoded(value, columns, row, decoder)
        return value is not None and self._fits_json(value, self._decode)

    def _holds(self, columns: RecordColumns, row: int) -> bool:
        text = self._contains
        for each in (columns.value(row), columns.key(row)):
            if each is not None and text in each:
                return True
        return any(
            text in name.encode() or (data is not None and text in data)
            for name, data in columns.headers(row)
        )

    def _fits_json(self, value: bytes, decode: Callable[[bytes], Any]) -> bool:
        try:
            found = decode(value)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            return False
        for _ in self._path:
            found = getattr(found, "inner", msgspec.UNSET)
            if found is msgspec.UNSET:
                return False
        if self._value is None:
            return True
        if isinstance(found, str):
            return found == self._value
        return msgspec.json.encode(found).decode() == self._value


def _decoded(value: bytes, columns: RecordColumns, row: int, decoder: Decoder) -> bytes | None:
    """Return a value as JSON, if it can be decoded; as it is, if it does not seem to be encoded."""
    try:
        found = decoder.decode(value, "auto", schema_header(columns.headers(row), VALUE_HEADER))
    except UndecodableError:
        return None
    return value if found is None else found.json


def _rows_with(columns: RecordColumns, data: bytes, needle: bytes, rows: range) -> Iterator[int]:
    """Return rows that may hold some bytes; one more may be among them, and none is left out."""
    starts, last, at = columns.header_starts, rows.start - 1, data.find(needle)
    while at >= 0:
        # Headers are a record's end: the bytes are in those of a row, or in the key or value of
        # the next one.
        row = bisect_right(starts, at)
        for each in (row - 1, row):
            if last < each < rows.stop:
                last = each
                yield each
        # Further finds in the same row say nothing new.
        beyond = starts[row] if row < len(starts) else len(data)
        at = data.find(needle, max(at + 1, beyond - len(needle) + 1))


def _literals(path: Sequence[str], value: str | None) -> list[bytes]:
    """Return what stands as it is in JSON that has a value at a path, if nothing is escaped."""
    found = [each.encode() for each in path]
    if path and value:
        try:
            msgspec.json.decode(value)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            # It can only be a text: a number may be written in many ways.
            found.insert(0, value.encode())
    return found


def _projection(path: Sequence[str]) -> Callable[[bytes], Any]:
    """Return a decoder that looks only at what lies on a path."""
    kind: Any = Any
    for name in reversed(path):
        kind = msgspec.defstruct(
            "Projection",
            [("inner", kind | msgspec.UnsetType if kind is not Any else Any, msgspec.UNSET)],
            rename={"inner": name},
        )
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
    return decode
