"""Copies messages of one partition of an origin into a stream.

Theory of operation. A copier runs at the broker that leads the stream. It asks the stream's own
log how far it is, reads on at the origin, wherever that is led, and appends what it finds, one run
after the other (`copies.py`). If a run is refused because the log says something else, or nobody
knows what became of it, the log is asked again. So a copier keeps nothing that the next one needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.requests.commands import EARLIEST, FetchResult
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS
from kafkaesque.gateway.nats.jetstream.copies import (
    RUN_MAX,
    Copied,
    CopyRun,
    copied_headers,
    hops_of,
    rollup_of,
)
from kafkaesque.gateway.nats.jetstream.errors import ApiError
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.gateway.nats.jetstream.records import read_removal, subject_of
from kafkaesque.gateway.nats.jetstream.retention import catch_up
from kafkaesque.gateway.nats.jetstream.sources import StreamSource
from kafkaesque.gateway.nats.jetstream.stream_log import DECODED_BYTES_MAX, READ_MS_MAX
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import OffsetOutOfRange, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.transactions.committed_filter import CommittedFilter

CHUNK_BYTES: Final = 256 * 1024
#: Of one run; a longer message is alone in its own.
RUN_BYTES_MAX: Final = 512 * 1024
#: So long a copier waits at the origin's leader for more.
WAIT_MS: Final = 5_000
AGAIN_MS: Final = 200
#: A message that was copied or passed on so often goes in a circle.
HOPS_MAX: Final = 16
#: Where so many of an origin were not wanted, or so many others stand behind, a record says how
#: far the stream is.
UNMARKED_MAX: Final = 1_000


class _Run(NamedTuple):
    """Copies that go together, and the offset behind them at the origin."""

    copies: Sequence[Copied]
    next_offset: int


def origin_key(topic: TopicState, partition: int, source: StreamSource) -> bytes:
    """Return what a stream's records call one partition of an origin."""
    return b"%b/%d/%b" % (topic.topic_id.hex().encode(), partition, source.mark)


class Copier:
    """See the module."""

    __slots__ = (
        "_again",
        "_expected",
        "_is_over",
        "_key",
        "_office",
        "_position",
        "_runs",
        "_source",
        "_topic",
        "_where",
        "error",
        "stream",
    )

    def __init__(
        self,
        office: Office,
        stream: Stream,
        source: StreamSource,
        topic: TopicState,
        partition: int,
    ) -> None:
        self._office: Final = office
        self.stream: Final = stream
        self._source: Final = source
        self._topic: Final = topic
        self._where: Final = TopicPartition(topic.name, partition)
        self._key: Final = origin_key(topic, partition, source)
        #: What the stream's log has said, and where the origin is read from.
        self._expected: int | None = None
        self._position = EARLIEST
        self._runs: Final[deque[_Run]] = deque()
        self._is_over = False
        self._again: Timer | None = None
        #: Why the last run was refused; None: it was not.
        self.error: ApiError | None = None

    def begin(self) -> None:
        """Go on where the stream's log says that it is."""
        self._runs.clear()
        self.stream.log.catch_up(self._on_own)

    def end(self) -> None:
        """Copy nothing more; what is on its way may still be appended."""
        self._is_over = True
        if self._again is not None:
            self._again.cancel()

    def _begin_later(self) -> None:
        if not self._is_over:
            self._again = self._office.doors.clock.call_later(AGAIN_MS, self.begin)

    def _on_own(self, is_read: bool) -> None:
        if self._is_over:
            return
        if not is_read:
            self._begin_later()
            return
        self._expected = self.stream.log.next_of(self._key)
        self._position = self._start() if self._expected is None else self._expected
        self._read()

    def _start(self) -> int:
        view = self.stream.log.view
        if self.stream.config.mirror is not None and view.last_sequence:
            # All that it had is gone by age. Its sequences are the origin's.
            return view.last_sequence
        return self._source.opt_start_seq - 1 if self._source.opt_start_seq else EARLIEST

    # -- reading the origin

    def _read(self) -> None:
        self._office.doors.reading.fetch(
            self._where,
            self._position,
            CHUNK_BYTES,
            READ_MS_MAX + WAIT_MS,
            self._on_fetched,
            wait_ms=WAIT_MS,
        )

    def _on_fetched(self, outcome: FetchResult | RequestRefused) -> None:
        if self._is_over:
            return
        if isinstance(outcome, OffsetOutOfRange) and self._position != EARLIEST:
            self._find_range()
        elif isinstance(outcome, RequestRefused):
            self._begin_later()
        else:
            self._with_view(outcome)

    def _find_range(self) -> None:
        """The position is before the origin's log begins, or behind its end."""

        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            if self._is_over:
                return
            if isinstance(outcome, FetchResult) and outcome.log_start_offset > self._position:
                self._position = outcome.log_start_offset
                self._read()
            else:
                self._begin_later()

        self._office.doors.reading.fetch(self._where, EARLIEST, 1, READ_MS_MAX, on_fetched)

    def _with_view(self, result: FetchResult) -> None:
        """Take what has come; what a stream does not hold any more is not copied."""
        origin = self._office.streams.look(self._topic.name)
        if origin is None or not result.records:
            self._take(result, None)
            return

        def on_read(is_read: bool) -> None:
            if self._is_over:
                return
            if is_read:
                self._take(result, origin)
            else:
                self._begin_later()

        catch_up(self._office, origin, on_read)

    def _take(self, result: FetchResult, origin: Stream | None) -> None:
        began = max(self._position, 0)
        position = max(began, result.log_start_offset)
        content, committed = memoryview(result.records), CommittedFilter(result.aborted)
        copies: list[Copied] = []
        size = 0
        for batch in scan_batches(content).batches:
            is_shown = committed.is_shown(batch)
            for record in _records_of(content, batch.at) if is_shown else ():
                copied = self._copied(record, origin) if record.offset >= position else None
                if copied is None:
                    continue
                size += len(copied.value) + len(copied.subject)
                if copies and (len(copies) >= RUN_MAX or size > RUN_BYTES_MAX):
                    self._runs.append(_Run(copies, copied.offset))
                    copies, size = [], len(copied.value)
                copies.append(copied)
            position = max(position, batch.next_offset)
        self._add_last(copies, began, position)
        self._position = position
        self._send()

    def _add_last(self, copies: list[Copied], began: int, position: int) -> None:
        """Add what is left; a mirror's log says of all that was passed over how far it is."""
        unmarked = position - (self._expected or 0)
        if self.stream.config.mirror is not None:
            is_due = position > began
        else:
            is_due = unmarked >= UNMARKED_MAX or self._needs_mark()
        if copies or is_due:
            self._runs.append(_Run(copies, position))

    def _needs_mark(self) -> bool:
        """Tell whether what says how far the stream is may go from its log soon."""
        stream, now_ms = self.stream, self._office.doors.clock.wall_ms()
        place = stream.log.position_of(self._key)
        if place is None:
            return False
        age_ms = stream.config.max_age // NS_PER_MS
        bytes_max = stream.config.max_bytes
        return (
            (age_ms > 0 and now_ms - place.at_ms > age_ms // 2)
            or (bytes_max > 0 and stream.log.applied_bytes - place.at_bytes > bytes_max // 2)
            or stream.log.view.last_sequence - place.sequence > UNMARKED_MAX
        )

    def _copied(self, record: Record, origin: Stream | None) -> Copied | None:
        """Return what is stored of a record; None: it is not wanted, or no message any more."""
        sequence, source = record.offset + 1, self._source
        if read_removal(record) is not None or record.value is None:
            return None
        if origin is not None and not origin.log.view.has(sequence):
            return None
        if record.timestamp_ms < source.start_ms or sequence < source.opt_start_seq:
            return None
        hops = hops_of(record.headers) + 1
        own = subject_of(record, self._topic.name)
        subject = source.subject_of(own)
        if subject is None or hops > HOPS_MAX:
            return None
        is_mirror = self.stream.config.mirror is not None
        said = "" if is_mirror else f"{source.name} {sequence} {_shown(source)} {own}"
        return Copied(
            record.offset,
            subject,
            record.timestamp_ms if is_mirror else None,
            record.value,
            copied_headers(record.headers, hops, said),
            rollup_of(record.headers),
        )

    # -- appending

    def _send(self) -> None:
        if self._is_over:
            return
        if not self._runs:
            self._read()
            return
        run, stream = self._runs[0], self.stream
        stream.log.append(
            CopyRun(
                stream.log,
                stream.config,
                self._key,
                self._expected,
                run.copies,
                run.next_offset,
                # Compaction takes copies of which it has newer ones from elsewhere.
                has_mark=stream.config.max_msgs_per_subject == 1,
                on_end=self._on_end,
            )
        )

    def _on_end(self, reached: int | None, error: ApiError | None) -> None:
        self.error = error
        if self._is_over:
            return
        if reached is None:
            self._begin_later()
            return
        self._expected = reached
        run = self._runs.popleft()
        if reached < run.next_offset:
            left = [each for each in run.copies if each.offset >= reached]
            self._runs.appendleft(_Run(left, run.next_offset))
        self._office.doors.clock.call_soon(self._send)


def _records_of(content: memoryview, at: int) -> Sequence[Record]:
    try:
        return decode_batch(content, DECODED_BYTES_MAX, at=at)
    except RecordError:
        # What cannot be read is passed over, as readers of the origin have it.
        return ()


def _shown(source: StreamSource) -> str:
    """Return filter and destination, as nats-server shows them."""
    first = source.transforms[0]
    return f"{first.src or '>'} {first.dest or '>'}"
