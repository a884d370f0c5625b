"""Pass two of a compaction: the clean and dirty segments are written anew, without what is over.

Theory of operation. Batches come in order, from the log's first one on, and each is kept as it is,
left out, or written with fewer records (see `_Cleaner`). What is kept is copied in runs of adjacent
batches. What stays of a group of segments goes into one file beside them, which is synced;
replacing is the log's own business (`segment_swap`).

The rules are Apache Kafka's: a record stays if no later one has its key; one without a key goes; a
tombstone stays until the delete horizon that its batch gets when it is first cleaned (KIP-534). The
records of aborted transactions go. A marker gets its horizon in the run that leaves nothing of its
transaction, and goes after it. Beyond Kafka's, both stay until all replicas have them: one that got
neither would keep what they end. The last batch of a live producer stays, if only as an empty
one, because its sequence number is needed.

Where a table says which records live (`plan.live`), keys do not matter and the first pass is left
out: a record stays if it lives, and the table's own control batches go.

Everything is a generator that yields the number of bytes it has read in a bounded step, so that a
driver can slow it down or stop it; it can run in any process.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

from kafkaesque.env.disk import BlockingDisk, Buffer, File
from kafkaesque.model.batch import NO_PRODUCER_ID, Attribute, BatchHeader
from kafkaesque.model.batch_encoder import BatchOptions, encode_empty_batch
from kafkaesque.model.batch_filter import filter_batch
from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import RecordColumns
from kafkaesque.model.sealed_batch import BatchSealer, seal_made
from kafkaesque.storage.compaction_plan import NO_HORIZON, CompactionPlan, SourceSegment
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.key_table import (
    AbortedTable,
    KeyTable,
    columns_of,
    is_readable,
    keys_of,
    opener_of,
    pieces,
    read_keys,
)
from kafkaesque.storage.log_snapshot import SegmentSummary
from kafkaesque.storage.segment import NO_TIMESTAMP, add_to_index
from kafkaesque.storage.segment_index import SegmentIndex
from kafkaesque.storage.segment_swap import CLEANED_SUFFIX, Replacement, discard_cleaned, paths_of

#: What is gathered before it is written: little, because a device that is given much at once lets
#: others wait.
WRITE_BYTES = 256 * 1024
#: A batch with a timestamp beyond this, in the year 146,000,000, gets no delete horizon.
TIMESTAMP_MAX = 2**62

Rows = Sequence[int]
#: True: the batch as it is; otherwise what it becomes.
Kept = Literal[True] | bytearray


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """A group of segments whose successor is written and synced, and waits to be swapped in."""

    replacement: Replacement
    #: Bytes that were there before.
    old_bytes: int
    #: Nothing is left, from the log's begin up to here, of what was aborted.
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """What a whole run has done; it counts when all of its groups are replaced."""

    #: From here on the log is dirty.
    end_offset: int
    #: When the first tombstone or marker that was left may go.
    horizon_ms: int
    #: The last one that would have gone, but not all replicas have it; -1: none.
    held_offset: int
    #: Bytes before and after, of the groups that were cleaned.
    old_bytes: int
    new_bytes: int
    #: How many records live in there, where a table says so; -1: it is not counted.
    live_count: int = -1


def compact(
    disk: BlockingDisk, plan: CompactionPlan
) -> Generator[int | CleanedGroup, None, CompactionResult]:
    """Make the passes; yield bytes as they are read, and each group when it is ready.

    A group should be replaced before the next one is asked for, or the disk has to hold both.

    Raises:
        StorageCorrupt: a segment is damaged; nothing of it was replaced.
        FileNotFoundError: a segment was removed meanwhile.
        DiskFailed: the device refused.
    """
    for name in disk.list_dir(plan.directory):
        if name.endswith(CLEANED_SUFFIX):
            disk.remove(f"{plan.directory}/{name}")
    cleaner, live_count = yield from _cleaner_for(disk, plan)
    old_bytes = new_bytes = 0
    for group in plan.groups(cleaner.end_offset):
        cleaned = yield from _clean_group(disk, plan, group, cleaner)
        old_bytes += cleaned.old_bytes
        new_bytes += cleaned.replacement.new.size_bytes
        yield cleaned
    return CompactionResult(
        end_offset=cleaner.end_offset,
        horizon_ms=cleaner.horizon_ms,
        held_offset=cleaner.held_offset,
        old_bytes=old_bytes,
        new_bytes=new_bytes,
        live_count=live_count,
    )


def _cleaner_for(
    disk: BlockingDisk, plan: CompactionPlan
) -> Generator[int, None, tuple["_Cleaner", int]]:
    """Make the first pass if there is one; return what decides, and how many records live."""
    live = plan.live
    if live is None:
        return _Cleaner(plan, (yield from read_keys(disk, plan))), -1
    count = live.offsets.count_between(plan.sources[0].base_offset, plan.end_offset)
    return _LiveCleaner(plan, live), count


def _clean_group(
    disk: BlockingDisk, plan: CompactionPlan, group: tuple[SourceSegment, ...], cleaner: "_Cleaner"
) -> Generator[int, None, CleanedGroup]:
    """Write what stays of a group of segments into one; synced when it returns.

    Nothing is left of it if it fails or is stopped: the disk may have been too full for it.
    """
    base = group[0].base_offset
    output = _Output(disk, plan.directory, base, plan.options.index_interval_bytes)
    try:
        for source in group:
            path = paths_of(plan.directory, source.base_offset)[0]
            for data, batches in pieces(disk, path, source.size_bytes):
                _clean_piece(path, data, batches, cleaner, output)
                yield len(data)
        output.finish()
    finally:
        output.close()
        if not output.is_finished:
            discard_cleaned(disk, plan.directory, base)
    new = SegmentSummary(base, output.size, output.max_timestamp, group[-1].created_ms)
    bases = tuple(source.base_offset for source in group)
    return CleanedGroup(
        replacement=Replacement(bases, new),
        old_bytes=sum(source.size_bytes for source in group),
        end_offset=min(group[-1].end_offset, cleaner.end_offset),
    )


def _clean_piece(
    path: str, data: bytes, batches: list[BatchHeader], cleaner: "_Cleaner", output: "_Output"
) -> None:
    view = memoryview(data)
    copy_from = copy_end = 0
    for header in batches:
        kept = cleaner.clean(path, data, header)
        if kept is True:
            if copy_end != header.at:
                output.put(view[copy_from:copy_end])
                copy_from = header.at
            copy_end = header.end
            output.note(header.base_offset, header.size_bytes, header.max_timestamp_ms)
        elif kept is not None:
            output.put(view[copy_from:copy_end])
            copy_from = copy_end = 0
            output.put(kept)
            # What was filtered may have lost its newest record.
            latest = int.from_bytes(kept[35:43], "big", signed=True)
            output.note(header.base_offset, len(kept), latest)
    output.put(view[copy_from:copy_end])
    output.maybe_write()


class _Output:
    """A segment that is being written, with its index."""

    __slots__ = ("_buffers", "_disk", "_file", "_index", "_interval", "_paths", "_pending",
                 "_written", "is_finished", "max_timestamp", "size")  # fmt: skip

    def __init__(
        self, disk: BlockingDisk, directory: str, base_offset: int, interval_bytes: int
    ) -> None:
        self._disk = disk
        self._paths = [path + CLEANED_SUFFIX for path in paths_of(directory, base_offset)]
        self._file = self._create(self._paths[0])
        self._interval = interval_bytes
        self._index = SegmentIndex()
        self._buffers: list[Buffer] = []
        self._pending = 0
        self._written = 0
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.is_finished = False

    def _create(self, path: str) -> File:
        file = self._disk.open(path, create=True)
        file.truncate(0)
        return file

    def note(self, base_offset: int, size: int, latest: int) -> None:
        """Take a batch into the index."""
        add_to_index(self._index, self._interval, base_offset, self.size, self.max_timestamp)
        self.max_timestamp = max(self.max_timestamp, latest)
        self.size += size

    def put(self, data: Buffer) -> None:
        """Add bytes; they must not change any more."""
        if data:
            self._buffers.append(data)
            self._pending += len(data)

    def maybe_write(self) -> None:
        """Write what was gathered if it is much."""
        if self._pending >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._buffers:
            self._file.write_at(self._written, [b"".join(self._buffers)])
        self._written += self._pending
        self._pending = 0
        self._buffers = []

    def finish(self) -> None:
        """Make everything durable, names and all."""
        self._write()
        files = [self._file]
        try:
            for path, content in zip(self._paths[1:], self._index.write(self.size), strict=True):
                files.append(self._create(path))
                files[-1].write_at(0, [content])
            directory = self._paths[0].rpartition("/")[0]
            self._disk.sync_blocking(files, [directory])
            self.is_finished = True
        finally:
            for file in files[1:]:
                file.close()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


class _Cleaner:
    """Decides about one batch after another, from the log's beginning on."""

    __slots__ = ("_aborted", "_open", "_opener", "_plan", "_sealer", "_table", "held_offset",
                 "horizon_ms")  # fmt: skip

    def __init__(self, plan: CompactionPlan, table: KeyTable) -> None:
        self._plan = plan
        self._table = table
        self._aborted = AbortedTable(plan.aborted)
        self._opener = opener_of(plan)
        sealing = plan.sealing
        is_sealing = sealing is not None and sealing.keys.newest
        self._sealer = BatchSealer(sealing.keys, sealing.salt) if sealing and is_sealing else None
        #: Producers of which a batch was left whose transaction's marker is still to come.
        self._open: set[int] = set()
        #: When the first tombstone or marker that was kept may go.
        self.horizon_ms = NO_HORIZON
        #: The last one whose horizon has passed and that not all replicas have.
        self.held_offset = -1

    @property
    def end_offset(self) -> int:
        """What begins from here on stays as it is."""
        return self._table.end_offset

    def clean(self, path: str, data: bytes, header: BatchHeader) -> Kept | None:
        """Return True if the batch stays as it is, None if it goes, or what it becomes."""
        if header.base_offset >= self._table.end_offset:
            return True
        if header.is_control:
            return self._clean_marker(path, data, header)
        if not is_readable(self._opener, data, header):
            # Its key was shredded. What it says of keys nobody knows, so it goes with retention.
            return True
        kept = self._clean_data(path, data, header)
        if header.is_transactional and kept is not None:
            self._open.add(header.producer_id)
        return kept

    def _clean_data(self, path: str, data: bytes, header: BatchHeader) -> Kept | None:
        if header.record_count == 0 or self._aborted.has(header):
            return self._left_of(header)
        has_horizon = header.delete_horizon_ms is not None
        if header.base_offset < self._plan.clean_end:
            if not has_horizon and not self._table.offsets:
                return True
        elif not has_horizon and header.base_offset not in self._table.tombstone_batches:
            return self._clean_values(path, data, header)
        return self._clean_records(path, data, header)

    def _left_of(self, header: BatchHeader) -> Kept | None:
        """Return what stays of a batch whose records all go."""
        if self._plan.producers.get(header.producer_id) != header.last_offset:
            return None
        if header.record_count == 0:
            return True
        options = BatchOptions(
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
        )
        return encode_empty_batch(header.base_offset, header.last_offset, options)

    def _clean_values(self, path: str, data: bytes, header: BatchHeader) -> Kept | None:
        """Clean a batch of the dirty part in which every record has a value: count first."""
        live = self._table.live_between(header.base_offset, header.last_offset)
        if not live:
            return self._left_of(header)
        if len(live) == header.record_count:
            return True
        columns = columns_of(path, data, header, self._opener)
        wanted = set(live)
        rows = [row for row, offset in enumerate(columns.offsets) if offset in wanted]
        return self._filter(path, header, columns, rows)

    def _clean_records(self, path: str, data: bytes, header: BatchHeader) -> Kept | None:
        """Clean any batch, looking at each record."""
        columns = columns_of(path, data, header, self._opener)
        is_over = self._is_over(header)
        last_of = self._table.offsets.get
        rows: list[int] = []
        has_tombstones = False
        for row, (key, key_length, value_length, offset) in enumerate(
            zip(
                keys_of(columns),
                columns.key_lengths,
                columns.value_lengths,
                columns.offsets,
                strict=True,
            )
        ):
            if key_length < 0 or last_of(key, -1) > offset:
                continue
            if value_length < 0:
                if is_over:
                    continue
                has_tombstones = True
            rows.append(row)
        if not rows:
            return self._left_of(header)
        return self._finish(path, header, columns, rows, waits=has_tombstones)

    def _clean_marker(self, path: str, data: bytes, header: BatchHeader) -> Kept | None:
        if not header.is_transactional:
            return True
        if header.producer_id in self._open:
            self._open.discard(header.producer_id)
            return True
        if self._is_over(header):
            is_last = self._plan.producers.get(header.producer_id) == header.last_offset
            # It stays as it is: others expect a control batch to have its record.
            return True if is_last else None
        rows = range(header.record_count)
        return self._finish(path, header, columns_of(path, data, header), rows, waits=True)

    def _is_over(self, header: BatchHeader) -> bool:
        """Tell whether nobody needs a batch's tombstones, or a marker, any more."""
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None or horizon_ms > self._plan.now_ms:
            return False
        if header.last_offset < self._plan.everywhere_offset:
            return True
        self.held_offset = header.last_offset
        return False

    def _finish(
        self, path: str, header: BatchHeader, columns: RecordColumns, rows: Rows, *, waits: bool
    ) -> Kept:
        """Return the batch with some of its records, and with a horizon if something waits."""
        horizon_ms = header.delete_horizon_ms
        new_horizon_ms: int | None = None
        if waits and horizon_ms is None:
            times = columns.timestamps_ms
            new_horizon_ms = self._plan.now_ms + self._plan.options.delete_retention_ms
            if max(abs(min(times)), abs(max(times))) > TIMESTAMP_MAX:
                # The format counts timestamps from the horizon, and could not hold these.
                new_horizon_ms = None
            horizon_ms = new_horizon_ms
        if waits and horizon_ms is not None:
            self.horizon_ms = min(self.horizon_ms, horizon_ms)
        if new_horizon_ms is None and len(rows) == header.record_count:
            return True
        return self._filter(path, header, columns, rows, new_horizon_ms)

    def _filter(
        self,
        path: str,
        header: BatchHeader,
        columns: RecordColumns,
        rows: Rows,
        horizon_ms: int | None = None,
    ) -> bytearray:
        """Return what stays of a batch; sealed if it was, or is to be."""
        is_sealed, sealer, sealing = header.is_sealed, self._sealer, self._plan.sealing
        header = header._replace(attributes=header.attributes & ~Attribute.SEALED)
        kept = _filter(path, header, columns, rows, horizon_ms)
        if sealer is None or sealing is None or header.is_control:
            return kept
        return seal_made(sealer, kept) if is_sealed or sealing.seals_all else kept


class _LiveCleaner(_Cleaner):
    """Decides where a table says which records live."""

    __slots__ = ("_control_key", "_live")

    def __init__(self, plan: CompactionPlan, live: LiveRecords) -> None:
        super().__init__(plan, KeyTable(plan.end_offset))
        self._live = live.offsets
        self._control_key = live.control_key

    def clean(self, path: str, data: bytes, header: BatchHeader) -> Kept | None:
        if header.is_control:
            if self._is_of_table(path, data, header):
                return None
            return self._clean_marker(path, data, header)
        kept = self._clean_data(path, data, header)
        if header.is_transactional and kept is not None:
            self._open.add(header.producer_id)
        return kept

    def _is_of_table(self, path: str, data: bytes, header: BatchHeader) -> bool:
        if header.producer_id != NO_PRODUCER_ID:
            return False
        return keys_of(columns_of(path, data, header)) == [self._control_key]

    def _clean_data(self, path: str, data: bytes, header: BatchHeader) -> Kept | None:
        live = self._live
        count = live.count_between(header.base_offset, header.next_offset)
        if not count or self._aborted.has(header):
            return self._left_of(header)
        if count == header.record_count or not is_readable(self._opener, data, header):
            return True
        columns = columns_of(path, data, header, self._opener)
        rows = [row for row, offset in enumerate(columns.offsets) if offset in live]
        return self._filter(path, header, columns, rows)


def _filter(
    path: str,
    header: BatchHeader,
    columns: RecordColumns,
    rows: Rows,
    horizon_ms: int | None = None,
) -> bytearray:
    times = columns.timestamps_ms
    latest = max([times[row] for row in rows])
    try:
        return filter_batch(header, columns.payload, rows, latest, delete_horizon_ms=horizon_ms)
    except RecordError as error:
        raise StorageCorrupt(
            f"{path}: the batch at offset {header.base_offset}: {error}"
        ) from error
