"""Pass one of a compaction: at which offset does each key stand last?

The dirty part of the log is read in order. What comes out also says, without another look at the
records, how many of a dirty batch's records are the last of their keys, so that pass two need not
decode a batch of which all or nothing stays.

Keys are compared whole: a digest could take another key's record for this one's.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise

from kafkaesque.env.disk import BlockingDisk
from kafkaesque.model.batch import BATCH_BYTES_MAX, BatchHeader, scan_batches
from kafkaesque.model.record_errors import Fault, RecordError
from kafkaesque.model.records import RecordColumns, decode_columns, gather_keys
from kafkaesque.model.sealed_batch import BatchOpener, key_version
from kafkaesque.storage.compaction_plan import AbortedColumns, CompactionPlan
from kafkaesque.storage.errors import StorageCorrupt

#: What is read at once, unless a batch is longer.
PIECE_BYTES = 1024 * 1024
#: What one batch may decompress to.
DECOMPRESSED_BYTES_MAX = 1024 * 1024 * 1024
#: What a key takes in memory besides its bytes: its place in the table, two objects' heads.
KEY_OVERHEAD_BYTES = 200
#: What it takes to remember a batch that has tombstones.
BATCH_OVERHEAD_BYTES = 100


class AbortedTable:
    """Tells which batches belong to aborted transactions."""

    __slots__ = ("_spans",)

    def __init__(self, aborted: AbortedColumns) -> None:
        #: Per producer the first and last offsets, both ascending.
        self._spans: dict[int, tuple[list[int], list[int]]] = {}
        for producer_id, first, last in sorted(zip(*aborted, strict=True)):
            firsts, lasts = self._spans.setdefault(producer_id, ([], []))
            firsts.append(first)
            lasts.append(last)

    def has(self, header: BatchHeader) -> bool:
        """Tell whether a batch's records were given up."""
        if not self._spans or not header.is_transactional or header.is_control:
            return False
        spans = self._spans.get(header.producer_id)
        if spans is None:
            return False
        at = bisect_right(spans[0], header.base_offset) - 1
        return at >= 0 and header.last_offset <= spans[1][at]


class KeyTable:
    """What pass one has found; keys that are not in it stand where they stood."""

    __slots__ = ("_live", "end_offset", "offsets", "size_bytes", "tombstone_batches")

    def __init__(self, end_offset: int) -> None:
        #: Per key the last offset in the dirty part.
        self.offsets: dict[bytes, int] = {}
        #: Up to here the log was read; what begins behind it stays.
        self.end_offset = end_offset
        #: Base offsets of batches that have records without a value.
        self.tombstone_batches: set[int] = set()
        #: About what this takes in memory.
        self.size_bytes = 0
        self._live: array[int] | None = None

    def add(self, keys: Sequence[bytes], offsets: Sequence[int], bytes_max: int) -> bool:
        """Note at which offsets keys stand, later ones last; False, and nothing, if it is full.

        The first batch is always taken, or a run would not get on.
        """
        most = sum(map(len, keys)) + len(keys) * KEY_OVERHEAD_BYTES
        known = self.offsets
        if self.size_bytes + most > bytes_max:
            new = {key for key in keys if key not in known}
            most = sum(map(len, new)) + len(new) * KEY_OVERHEAD_BYTES
            if known and new and self.size_bytes + most > bytes_max:
                return False
        count = len(known)
        known.update(zip(keys, offsets, strict=True))
        if len(known) - count == len(keys):
            self.size_bytes += most
        elif len(known) > count:
            # Only what is new takes space. It cannot be told which keys those were, so on average.
            self.size_bytes += most * (len(known) - count) // len(keys)
        return True

    def note_tombstones(self, base_offset: int) -> None:
        """Remember that a batch has records without a value."""
        self.tombstone_batches.add(base_offset)
        self.size_bytes += BATCH_OVERHEAD_BYTES

    def live_between(self, first_offset: int, last_offset: int) -> "array[int]":
        """Return which dirty offsets, both ends included, are the last of their keys."""
        live = self._live
        if live is None:
            live = self._live = array("q", sorted(self.offsets.values()))
        return live[bisect_left(live, first_offset) : bisect_right(live, last_offset)]


def pieces(disk: BlockingDisk, path: str, size: int) -> Iterator[tuple[bytes, list[BatchHeader]]]:
    """Yield a segment's bytes up to `size` in pieces of whole batches, whose checksums are right.

    Raises:
        StorageCorrupt: they are not, or the file is shorter.
        FileNotFoundError: it is gone.
    """
    file = disk.open(path)
    try:
        position, want = 0, PIECE_BYTES
        while position < size:
            data = file.read_blocking(position, min(want, size - position))
            scan = scan_batches(data)
            if scan.end:
                yield data, scan.batches
                position += scan.end
                want = PIECE_BYTES
            elif (
                scan.fault is Fault.INCOMPLETE
                and len(data) == want < BATCH_BYTES_MAX
                and position + want < size
            ):
                want = min(want * 2, BATCH_BYTES_MAX)
            else:
                what = scan.fault.name.lower().replace("_", " ")
                raise StorageCorrupt(f"{path}: no good record batch at byte {position} ({what})")
    finally:
        file.close()


def opener_of(plan: CompactionPlan) -> BatchOpener | None:
    """Return what opens a log's sealed batches; None where none are."""
    return None if plan.sealing is None else BatchOpener(plan.sealing.keys)


def is_readable(opener: BatchOpener | None, data: bytes, header: BatchHeader) -> bool:
    """Tell whether a batch is in the clear, or can be opened: its key may be shredded.

    Raises:
        StorageCorrupt: it is sealed in a way that is not known.
    """
    if not header.is_sealed:
        return True
    try:
        return opener is not None and key_version(data, header) in opener.keys.versions
    except RecordError as error:
        raise StorageCorrupt(str(error)) from error


def columns_of(
    path: str, data: bytes, header: BatchHeader, opener: BatchOpener | None = None
) -> RecordColumns:
    """Return a batch's records as columns, those of a sealed one in the clear.

    Raises:
        StorageCorrupt: they are not what the header says.
    """
    try:
        if header.is_sealed and opener is not None:
            return decode_columns(opener.open(data, header), DECOMPRESSED_BYTES_MAX)
        return decode_columns(data, DECOMPRESSED_BYTES_MAX, at=header.at)
    except RecordError as error:
        raise StorageCorrupt(
            f"{path}: the batch at offset {header.base_offset}: {error}"
        ) from error


def keys_of(columns: RecordColumns) -> list[bytes]:
    """Return the records' keys; where there is none, an empty one."""
    data, ends, _, _ = gather_keys(columns)
    return [data[begin:end] for begin, end in pairwise(ends)]


def read_keys(disk: BlockingDisk, plan: CompactionPlan) -> Generator[int, None, KeyTable]:
    """Read the dirty part; yield the number of bytes of each step, return the table.

    It ends early, at a batch, where the table is full.

    Raises:
        StorageCorrupt: a segment is damaged.
        FileNotFoundError: a segment was removed meanwhile.
        DiskFailed: the device refused.
    """
    table = KeyTable(plan.end_offset)
    aborted = AbortedTable(plan.aborted)
    opener = opener_of(plan)
    for source in plan.sources:
        if source.end_offset <= plan.clean_end:
            continue
        path = f"{plan.directory}/{source.base_offset:020d}.log"
        for data, batches in pieces(disk, path, source.size_bytes):
            for header in batches:
                if header.base_offset < plan.clean_end or header.is_control or aborted.has(header):
                    continue
                if not is_readable(opener, data, header):
                    continue
                columns = columns_of(path, data, header, opener)
                if not _note(table, columns, header.base_offset, plan.options.key_bytes_max):
                    table.end_offset = header.base_offset
                    return table
            yield len(data)
    return table


def _note(table: KeyTable, columns: RecordColumns, base_offset: int, bytes_max: int) -> bool:
    keys: Sequence[bytes] = keys_of(columns)
    offsets: Sequence[int] = columns.offsets
    lengths = columns.key_lengths
    if not keys:
        return True
    if min(lengths) < 0:
        rows = [row for row, length in enumerate(lengths) if length >= 0]
        keys, offsets = [keys[row] for row in rows], [offsets[row] for row in rows]
    if not table.add(keys, offsets, bytes_max):
        return False
    if min(columns.value_lengths) < 0:
        table.note_tombstones(base_offset)
    return True
