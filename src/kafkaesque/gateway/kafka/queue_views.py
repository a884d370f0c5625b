"""What Kafka's clients read of a queue that they see as a topic.

Theory of operation. A queue's log has messages, the queue's decisions as control batches, and what
transactions stage. A reader gets the messages alone: batch by batch with their offsets and times,
each with the key and the headers that it would have in a topic. So batches are written again, in
memory. Offsets of what is left out are covered by the batch before it, or by a batch without
records, as compaction leaves them: so a reader's position always goes on, to the end of the log.

Nobody sees more than what is committed, of transactions too: the end is not after the last stable
offset, for every reader, and what was aborted is left out. It is behind the last message: a reader
that has all messages has no lag, whatever the queue decides afterwards.

Reading takes nothing. What was settled, or has expired, is there until the log is cleaned. A reader
that comes to where nothing is any more goes on with the next message, or at the end, as in a
compacted topic: it may have had all that was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_sealing import Located, OpenedBatches
from kafkaesque.chassis.meanings import shown_headers, shown_key
from kafkaesque.chassis.readable_logs import extent_of
from kafkaesque.model.batch import Attribute, BatchHeader, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch, encode_empty_batch
from kafkaesque.model.errors import RequestRefused, StorageFailed
from kafkaesque.model.ids import Offset
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.log_reference import read_reference
from kafkaesque.model.message_headers import DEATH, OF_GATEWAYS, PREFIX, STAGED
from kafkaesque.model.record_errors import RecordError, fail
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.routing.exchanges.kinds import LOG
from kafkaesque.transactions.committed_filter import CommittedFilter

#: What one read of a view looks at, or one batch: it is written again on the loop.
READ_BYTES_MAX: Final = 256 * 1024
_DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
#: A batch says where it ends as a 32-bit distance.
_SPAN_MAX: Final = 2**31

OnRead = Callable[[Sequence[Located] | RequestRefused], None]


def read_view(
    doors: Doors, partition: Partition, asked: int, bytes_max: int, on_later: OnRead
) -> Sequence[Located] | None:
    """Return what readers of a queue's log get from an offset on; None: `on_later` gets it.

    Nothing at the end of what may be read, and nowhere else. The last batch may be longer than
    `bytes_max`.

    Raises:
        RequestRefused: the log cannot be read, or does not go as far.
    """
    start = partition.log_start_offset
    offset = max(Offset(asked), start) if asked >= 0 else Offset(asked)
    partition.check_fetch_offset(offset)
    stable_end, aborted = partition.stable_range(offset)
    end = min(stable_end, extent_of(doors, partition).end)
    if bytes_max <= 0 or asked >= end:
        return []
    if offset >= end:
        return [_nothing_before(end)]
    found: list[bytes | Exception] = []
    is_later = False

    def on_read(data: bytes | Exception) -> None:
        if is_later:
            # Who does not lead any more may have another log now.
            nothing = [_nothing_before(end)] if partition.is_leader else []
            on_later(_shown_or_why(data, aborted, start) or nothing)
        else:
            found.append(data)

    doors.reading.read_bytes(partition, offset, min(bytes_max, READ_BYTES_MAX), end, on_read)
    if not found:
        is_later = True
        return None
    shown = _shown_or_why(found[0], aborted, start)
    if isinstance(shown, RequestRefused):
        raise shown
    return shown or [_nothing_before(end)]


def _nothing_before(end: Offset) -> OpenedBatches:
    """Return a batch that brings a reader to `end`, where all before it was cleaned away.

    Else it would wait for messages that were settled long ago, and never have them.
    """
    return OpenedBatches(encode_empty_batch(end - 1, end - 1, BatchOptions()))


def _shown_or_why(
    data: bytes | Exception, aborted: Iterable[tuple[int, int]], start: int
) -> Sequence[Located] | RequestRefused:
    if isinstance(data, RequestRefused):
        return data
    if isinstance(data, Exception):
        return StorageFailed(f"the log cannot be read: {data}")
    try:
        shown = shown_batches(data, aborted, start)
    except RecordError as error:
        return error
    return [shown] if shown else []


def shown_batches(data: bytes, aborted: Iterable[tuple[int, int]], start: int = 0) -> OpenedBatches:
    """Return batches of a queue's log as its readers get them, without what is before `start`.

    `aborted` is what `Partition.stable_range` says.

    Raises:
        RecordError: the first batch is damaged.
    """
    is_committed = CommittedFilter(aborted).is_shown
    shown = OpenedBatches()
    pending: _Batch | None = None
    scan = scan_batches(data)
    if data and not scan.batches:
        fail(scan.fault, 0)
    for header in scan.batches:
        records: list[Record] = []
        if is_committed(header):
            records = _messages(decode_batch(data, _DECOMPRESSED_BYTES_MAX, at=header.at), start)
        if pending is not None and pending.may_take(header, records):
            pending.take(header, records)
        else:
            if pending is not None:
                shown += pending.encode()
            pending = _Batch(header, records)
    if pending is not None:
        shown += pending.encode()
    return shown


class _Batch:
    """A batch with messages, or without, and the offsets beside it that it covers."""

    __slots__ = ("_append_time_ms", "_base", "_end", "_epoch", "_records")

    def __init__(self, header: BatchHeader, records: list[Record]) -> None:
        self._base = header.base_offset
        self._end = header.next_offset
        self._epoch = header.partition_leader_epoch
        self._records = records
        self._append_time_ms = _append_time_ms(header)

    def may_take(self, header: BatchHeader, records: list[Record]) -> bool:
        """Tell whether this batch may cover the next one: only one of both has messages."""
        return (
            not (self._records and records)
            and header.partition_leader_epoch == self._epoch
            and header.next_offset - self._base < _SPAN_MAX
        )

    def take(self, header: BatchHeader, records: list[Record]) -> None:
        """Cover it."""
        self._end = header.next_offset
        if records:
            self._records = records
            self._append_time_ms = _append_time_ms(header)

    def encode(self) -> bytearray:
        """Return it as clients read it."""
        options = BatchOptions(
            leader_epoch=self._epoch,
            append_time_ms=self._append_time_ms if self._records else None,
            base_offset=self._base,
            last_offset=self._end - 1,
        )
        if not self._records:
            return encode_empty_batch(self._base, self._end - 1, options)
        return encode_batch(self._records, options)


def _append_time_ms(header: BatchHeader) -> int | None:
    return header.max_timestamp_ms if header.attributes & Attribute.APPEND_TIME else None


def _messages(records: Iterable[Record], start: int) -> list[Record]:
    """Return records as they would stand in a topic; what brokers note for themselves is none."""
    return [
        _message(each)
        for each in records
        if each.offset >= start and not any(name == STAGED for name, _ in each.headers)
    ]


def _message(record: Record) -> Record:
    headers = record.headers
    if not headers:
        return record
    key = shown_key(headers, record.key) or record.key
    shown = _topic_headers(headers)
    reference = None if record.value else read_reference(headers)
    if reference is not None:
        # It came before the queue was shown: those that are shown get bodies of their own.
        topic_id, partition, offset = reference[:3]
        shown = (*shown, (LOG, f"{topic_id.hex()}/{partition}/{offset}".encode()))
    return record._replace(key=key, headers=shown)


def _topic_headers(headers: Headers) -> Headers:
    return tuple(
        (_writable(name), value)
        for name, value in shown_headers(headers)
        if name == DEATH or not (name.startswith(PREFIX) or name in OF_GATEWAYS)
    )


def _writable(name: str) -> str:
    """Return a header's name as UTF-8 has it: AMQP's may be any bytes."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()
