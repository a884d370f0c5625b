"""Reads messages of a queue from its log, after they were given out.

What is damaged on the disk is not gone: other brokers have copies. It is read once more before that
is believed, because files may be replaced meanwhile; then the log is told, and who asks is refused.
Only where there is no other copy it is as a message that is not in the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_sealing import Located
from kafkaesque.broker.partitions.read_ranges import read_ranges
from kafkaesque.env.disk import Disk
from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.errors import KafkaesqueError, RequestRefused, StorageFailed
from kafkaesque.model.ids import Offset
from kafkaesque.model.record_errors import KeyShredded
from kafkaesque.model.records import Record, decode_batch

#: What is read at a time. Messages that are taken together mostly lie together.
PIECE_BYTES = 64 * 1024
#: Batches of which records are kept, because the next messages are taken from them; and their
#: bytes. Long ones are read again.
KEPT_MAX = 8
KEPT_BYTES_MAX = 256 * 1024
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024


_end_of = attrgetter("next_offset")


class _Piece(NamedTuple):
    """Batches that were read together, of which the last was not taken yet."""

    data: bytes
    #: What was asked for, and the offset after the last batch: between them all is here that is
    #: in the log.
    first: int
    end: int
    headers: list[BatchHeader]


class _Kept(NamedTuple):
    """Records of a batch, which nobody changes: other queues may have the same ones."""

    end: int
    #: What the batch takes.
    size: int
    records: dict[int, Record]
    #: What the records count for where they are taken (`size_of`).
    counted: int


class Found(NamedTuple):
    """What was read."""

    records: dict[int, Record]
    #: Offsets for which there was no room; what is in neither is not in the log.
    left: Sequence[int]


class RecordGone(Exception):
    """The log does not have what it had at an offset."""


OnRead = Callable[[bytes | Exception], None]
Locate = Callable[[int, OnRead], None]
OnRecords = Callable[[Found | RequestRefused], None]
#: Is told where a log is damaged; returns whether there are other copies.
OnDamaged = Callable[[int], bool]


class Bodies:
    """Finds committed records of one log by offset."""

    __slots__ = ("_kept", "_kept_bytes", "_piece", "forgotten", "locate", "on_damaged")

    def __init__(self, locate: Locate, on_damaged: OnDamaged) -> None:
        #: Reads batches of the log from the one with an offset on.
        self.locate = locate
        self.on_damaged = on_damaged
        #: By base offset.
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._kept_bytes = 0
        #: What was read last. One batch alone may make it long, and then it is taken at once.
        self._piece: _Piece | None = None
        #: How often it has forgotten: what was asked for before is out of date.
        self.forgotten = 0

    def forget(self) -> None:
        """What was read may not stand there any more."""
        self.forgotten += 1
        self._kept.clear()
        self._kept_bytes = 0
        self._piece = None

    def read(self, offsets: Sequence[int], bytes_max: int, on_done: OnRecords) -> None:
        """Return the records at rising offsets: at least one, and as many as have `bytes_max`.

        Called at once if all of it is in memory.
        """
        _Reading(self, list(offsets), bytes_max, on_done).go_on()

    def find(self, offset: int) -> tuple[int, dict[int, Record], int] | None:
        """Return of the batch that has an offset, if it is in memory, its end and its records.

        The last number is what these count for.

        An offset that was read, and that no batch has, is one of the next batch.
        """
        for base_offset, kept in reversed(self._kept.items()):
            if base_offset <= offset < kept.end:
                self._kept.move_to_end(base_offset)
                return kept.end, kept.records, kept.counted
        piece = self._piece
        if piece is None or not piece.first <= offset < piece.end:
            return None
        at = bisect_right(piece.headers, offset, key=_end_of)
        if at >= len(piece.headers) - 1:
            self._piece = None
        if at == len(piece.headers):
            return piece.end, {}, 0
        header = piece.headers[at]
        records = _decode(piece.data, header)
        counted = sum(map(size_of, records.values()))
        self.keep(header.base_offset, header.next_offset, header.size_bytes, records, counted)
        return header.next_offset, records, counted

    def take_piece(self, offset: int, data: bytes) -> bool:
        """Take what was read from an offset on, up to what is damaged; False: that is the first."""
        headers = scan_batches(data).batches
        if not headers or not _follow(headers, offset):
            return False
        end = headers[-1].next_offset
        self._piece = _Piece(data, offset, end, [each for each in headers if not each.is_control])
        return True

    def keep(
        self, base_offset: int, end: int, size: int, records: dict[int, Record], counted: int
    ) -> bool:
        """Keep a batch's records for those that come next, if there is room; tell whether it is.

        Whoever keeps what is not committed yet calls `forget` if it may never be.
        """
        if size > KEPT_BYTES_MAX or base_offset in self._kept:
            return False
        self._kept[base_offset] = _Kept(end, size, records, counted)
        self._kept_bytes += size
        while len(self._kept) > KEPT_MAX or self._kept_bytes > KEPT_BYTES_MAX:
            self._kept_bytes -= self._kept.popitem(last=False)[1].size
        return True

    def drop(self, base_offset: int) -> None:
        """Keep a batch no longer, if it is kept."""
        kept = self._kept.pop(base_offset, None)
        if kept is not None:
            self._kept_bytes -= kept.size


def locate_here(disk: Disk, partition: Partition, offset: int, on_read: OnRead) -> None:
    """Read a piece of a log on this broker from an offset on."""

    def on_located(ranges: Sequence[Located] | Exception) -> None:
        if isinstance(ranges, Exception):
            on_read(ranges)
        else:
            read_ranges(disk, ranges, on_read)

    try:
        ranges = partition.read_now(Offset(offset), PIECE_BYTES)
    except KafkaesqueError as error:
        on_read(error)
        return
    if ranges is None:
        partition.read_later(Offset(offset), PIECE_BYTES, on_located)
    else:
        on_located(ranges)


class _Reading:
    """One request for records."""

    __slots__ = (
        "_at",
        "_bodies",
        "_forgotten",
        "_found",
        "_is_going",
        "_is_wanted",
        "_left",
        "_offsets",
        "_on_done",
        "_suspected",
    )

    def __init__(
        self,
        bodies: Bodies,
        offsets: list[int],
        bytes_max: int,
        on_done: OnRecords,
    ) -> None:
        self._bodies = bodies
        self._forgotten = 0
        self._offsets = offsets
        self._left = bytes_max
        self._on_done = on_done
        self._at = 0
        self._found: dict[int, Record] = {}
        #: Where something was wrong the first time.
        self._suspected = -1
        #: What is in memory is read within the call: then this loops, and does not call itself.
        self._is_going = False
        self._is_wanted = False

    def go_on(self) -> None:
        """Take what is kept, and read what is not."""
        self._is_wanted = True
        if self._is_going:
            return
        self._is_going = True
        while self._is_wanted:
            self._is_wanted = False
            self._step()
        self._is_going = False

    def _step(self) -> None:
        while self._at < len(self._offsets):
            offset = self._offsets[self._at]
            found = self._bodies.find(offset)
            if found is None:
                self._forgotten = self._bodies.forgotten
                self._bodies.locate(offset, self._on_read)
                return
            end, records, counted = found
            if not self._take_whole(records, counted) and not self._take(records, end):
                break
        self._finish()

    def _finish(self) -> None:
        self._on_done(Found(self._found, self._offsets[self._at :]))

    def _take_whole(self, records: dict[int, Record], counted: int) -> bool:
        """Take all records of a batch at once, if they are what is wanted next, and fit."""
        offsets, at = self._offsets, self._at
        end = at + len(records)
        if not records or end > len(offsets) or counted > self._left:
            return False
        if list(records) != offsets[at:end]:
            return False
        self._found.update(records)
        self._left -= counted
        self._at = end
        return True

    def _take(self, records: dict[int, Record], end: int) -> bool:
        """Take the wanted records before an offset; False: there is no more room."""
        while self._at < len(self._offsets) and self._offsets[self._at] < end:
            offset = self._offsets[self._at]
            record = records.get(offset)
            if record is not None:
                size = size_of(record)
                if self._found and size > self._left:
                    return False
                self._left -= size
                self._found[offset] = record
            self._at += 1
        return True

    def _on_read(self, data: bytes | Exception) -> None:
        if isinstance(data, KeyShredded | RecordGone):
            self._at += 1  # nobody can read it any more
            self.go_on()
            return
        if isinstance(data, RequestRefused):
            self._on_done(data)
            return
        if isinstance(data, Exception):
            self._on_done(StorageFailed(f"the log cannot be read: {data}"))
            return
        if not data:
            self._finish()  # it is committed, and not written here yet
            return
        if self._forgotten != self._bodies.forgotten:
            self.go_on()  # the log was cut while it was read: other messages may stand there now
            return
        offset = self._offsets[self._at]
        if not self._bodies.take_piece(offset, data):
            self._on_damaged(offset)
            return
        found = self._bodies.find(offset)
        if found is None:
            self._at += 1  # it is not there any more
        elif not self._take(found[1], found[0]):
            self._finish()
            return
        self.go_on()

    def _on_damaged(self, offset: int) -> None:
        if self._suspected != offset:
            self._suspected = offset
            self.go_on()
        elif not self._bodies.on_damaged(offset):
            self._at += 1  # nobody has it any more
            self.go_on()
        elif self._found:
            self._finish()  # who asks for the rest is told
        else:
            self._on_done(StorageFailed(f"the log is damaged at offset {offset}"))


def _follow(headers: Sequence[BatchHeader], offset: int) -> bool:
    """Whether batches may be there: no checksum covers where they say that they are."""
    end = offset
    for index, header in enumerate(headers):
        if header.next_offset <= end or (index and header.base_offset < end):
            return False
        end = header.next_offset
    return True


def _decode(data: bytes, header: BatchHeader) -> dict[int, Record]:
    records = decode_batch(data, DECOMPRESSED_BYTES_MAX, at=header.at)
    return {record.offset: record for record in records}


def size_of(record: Record) -> int:
    """Return how many bytes a record counts for."""
    size = len(record.key or b"") + len(record.value or b"") + 32
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size
