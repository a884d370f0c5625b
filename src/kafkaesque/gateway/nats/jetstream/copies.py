"""Records that a stream has from its origins, and how it knows how far it is with each.

Theory of operation. A copy says in a header of its own which message of which origin it is. So how
far a stream is follows from its own log, and who copies next, on whatever broker, goes on there: a
run of copies is appended where the log ends, and only if the log still says what the run goes by.
Nothing is copied twice, and nothing is left out.

A mirror's messages have the sequences that they have at the origin. What it does not have (what was
removed there, or is not wanted) takes its sequence all the same, by a record that is no message.

Of a stream with several origins the last copy from one may go by age, by size or by compaction. So
now and then a record that is no message says how far it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafkaesque.gateway.nats.jetstream.configs import StreamConfig
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.positions import ORIGIN
from kafkaesque.gateway.nats.jetstream.records import REMOVAL, ROLLED_UP, filler_record
from kafkaesque.gateway.nats.jetstream.stream_log import Batch, StreamLog
from kafkaesque.gateway.nats.jetstream.view import View
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import FORWARDED, STORED_NATS
from kafkaesque.model.records import Record
from kafkaesque.protocols.nats.headers import change_headers

#: What clients of a stream with sources are shown: stream, sequence, filter, destination, subject.
SOURCE: Final = "Nats-Stream-Source"
#: Records of one run.
RUN_MAX: Final = 1_000
_OWN: Final = frozenset((ORIGIN, REMOVAL, ROLLED_UP, FORWARDED))


class Copied(NamedTuple):
    """A message of an origin, as it is to be stored."""

    offset: int
    subject: str
    timestamp_ms: int | None
    value: bytes
    headers: Headers
    rollup: str


class CopyRun:
    """Copies from one origin, in their order; see `Append`."""

    __slots__ = (
        "_config",
        "_copies",
        "_expected",
        "_has_mark",
        "_is_aligned",
        "_key",
        "_log",
        "_next_offset",
        "_on_end",
        "_reached",
        "size",
    )

    needs_view: Final = True

    def __init__(
        self,
        log: StreamLog,
        config: StreamConfig,
        key: bytes,
        expected: int | None,
        copies: Sequence[Copied],
        next_offset: int,
        *,
        has_mark: bool,
        on_end: Callable[[int | None, ApiError | None], None],
    ) -> None:
        """`expected` is how far the log is with this origin; None: nothing says so.

        With `has_mark` a record of its own says how far it is. `on_end` gets how far it is then;
        None: the run does not go by what the log says, or was refused.
        """
        self._log: Final = log
        self._config: Final = config
        self._key: Final = key
        self._expected: Final = expected
        self._copies: Final = copies
        self._next_offset: Final = next_offset
        self._is_aligned: Final = config.mirror is not None
        self._has_mark: Final = has_mark
        self._on_end: Final = on_end
        self._reached = 0
        self.size: Final = sum(len(each.value) + len(each.subject) for each in copies)

    def depends_on(self, batch: Batch) -> bool:
        """See `Append`: a mirror's sequences are counted from the log's end."""
        return bool(batch.records)

    def plan(self, batch: Batch, now_ms: int, view: View) -> Callable[[], None] | None:
        """See `Append`."""
        if self._log.next_of(self._key) != self._expected:
            return lambda: self._on_end(None, None)
        self._check_room(view)
        self._reached = self._next_offset
        sequence = view.last_sequence + 1
        for each in self._copies:
            if self._is_aligned:
                sequence += self._fill(batch, now_ms, sequence, each.offset)
                if self._reached != self._next_offset:
                    return None
            self._add(batch, now_ms, each)
            sequence += 1
        if self._is_aligned:
            self._fill(batch, now_ms, sequence, self._next_offset)
        elif self._has_mark or not batch.records:
            mark = filler_record(len(batch.records), now_ms, self._key)
            batch.records.append(self._placed(mark, self._next_offset))
        if not batch.records:
            # A mirror that somebody else has written to is behind its origin by less than that.
            batch.records.append(self._placed(filler_record(0, now_ms), self._next_offset))
        return None

    def _check_room(self, view: View) -> None:
        config = self._config
        if config.discard != "new" or not self._copies:
            return
        is_full = 0 < config.max_msgs < view.message_count + len(self._copies)
        if is_full or 0 < config.max_bytes < view.byte_count + self.size:
            raise ApiError(ApiCode.STREAM_FULL)

    def _fill(self, batch: Batch, now_ms: int, sequence: int, offset: int) -> int:
        """Let records that are no messages have the sequences up to an offset; return how many.

        Where these are too many for one batch, the run ends with them.
        """
        count = min(max(0, offset + 1 - sequence), max(RUN_MAX - len(batch.records), 0))
        for number in range(sequence, sequence + count):
            filler = filler_record(len(batch.records), now_ms)
            batch.records.append(self._placed(filler, number))
        if sequence + count < offset + 1:
            self._reached = sequence + count - 1
            batch.is_compressed = True
        return count

    def _add(self, batch: Batch, now_ms: int, copied: Copied) -> None:
        headers = copied.headers
        if copied.rollup and self._config.allow_rollup_hdrs:
            headers = (*headers, (ROLLED_UP, copied.rollup.encode()))
        key = copied.subject.encode("utf-8", "surrogateescape")
        at_ms = now_ms if copied.timestamp_ms is None else copied.timestamp_ms
        record = Record(len(batch.records), at_ms, key, copied.value, headers)
        batch.records.append(self._placed(record, copied.offset + 1))
        batch.subjects.add(copied.subject)

    def _placed(self, record: Record, next_offset: int) -> Record:
        place = (ORIGIN, b"%b %d" % (self._key, next_offset))
        return record._replace(headers=(*record.headers, place))

    def on_done(self, sequence: int, view: View) -> None:
        """See `Append`."""
        self._on_end(self._reached, None)

    def on_failed(self, error: ApiError | None) -> None:
        """See `Append`."""
        self._on_end(None, error)


def copied_headers(headers: Headers, hops: int, source: str) -> Headers:
    """Return what a copy has of a message's headers, and which source it says it is from."""
    return tuple(_copied(headers, hops, source))


def _copied(headers: Headers, hops: int, source: str) -> Iterator[tuple[str, bytes | None]]:
    for name, value in headers:
        if name in _OWN or (source and name == SOURCE):
            continue
        yield name, _with_source(value, source) if name == STORED_NATS else value
    if source:
        yield SOURCE, source.encode("utf-8", "surrogateescape")
    yield FORWARDED, b"%d" % hops


def _with_source(raw: bytes | None, source: str) -> bytes | None:
    if not source or raw is None:
        return raw
    return change_headers(raw, (), {SOURCE: source}, keeps_status=False)


def hops_of(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return how often a message was copied or passed on before."""
    for name, value in headers:
        if name == FORWARDED and value is not None and value.isdigit() and len(value) < 4:
            return int(value)
    return 0


def rollup_of(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Return what a message has taken the place of at its origin; empty: of nothing."""
    return next(
        ((value or b"").decode("utf-8", "replace") for name, value in headers if name == ROLLED_UP),
        "",
    )
