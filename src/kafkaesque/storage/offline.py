"""Looks through a data directory that no broker has open: `kafkaesque log dump` and `verify`.

Nothing is changed. Everything is read through the disk's door, and waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from kafkaesque.env.disk import Disk
from kafkaesque.model.batch import BATCH_BYTES_MAX, BatchHeader, scan_batches
from kafkaesque.model.record_errors import Fault
from kafkaesque.storage.checkpoint import CHECKPOINT, ROOT, Checkpoint, load_checkpoint
from kafkaesque.storage.directory import META, PARTITION_METADATA, read_partition_metadata
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.log_recovery import FATEFUL, LogFate
from kafkaesque.storage.log_snapshot import LogSnapshot, SegmentSummary
from kafkaesque.storage.positions import LogPositions
from kafkaesque.storage.segment_index import read_index
from kafkaesque.storage.segment_swap import apply_replacement, current_path
from kafkaesque.storage.wal import list_wal_numbers, wal_path
from kafkaesque.storage.wal_format import PREPARED_BLOCK, RecordKind, WalReader, WalRecord

#: What is read of a segment at once, unless a batch is longer.
PIECE_BYTES = 1024 * 1024


class Severity(Enum):
    """How bad it is."""

    #: As after any crash: the next start settles it.
    NOTE = "note"
    #: Something that was durable is not as it was.
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong, and where."""

    severity: Severity
    path: str
    #: Byte in the file.
    position: int
    message: str

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.path} at byte {self.position}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """A batch of a segment whose checksum is right."""

    position: int
    header: BatchHeader
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedRecord:
    """A record of the write-ahead log."""

    position: int
    block: int
    record: WalRecord

    def __str__(self) -> str:
        group, kind, term, first, last, before, payload = self.record
        return (
            f"block {self.block} at byte {self.position}: group {group} {RecordKind(kind).name}"
            f" term {term} index {first} to {last} after {before}, {len(payload)} bytes"
        )


def dump_segment(disk: Disk, path: str) -> Iterator[DumpedBatch | Finding]:
    """Yield a segment's batches in order; at the first that is not good say why, and end."""
    file = disk.open(path)
    position, size, want = 0, file.size(), PIECE_BYTES
    try:
        while position < size:
            data = file.read_blocking(position, want)
            scan = scan_batches(data)
            for header in scan.batches:
                yield DumpedBatch(
                    position=position + header.at,
                    header=header,
                    data=data[header.at : header.end],
                )
            position += scan.end
            if scan.fault is Fault.INCOMPLETE and position + len(data) - scan.end < size:
                want = PIECE_BYTES if scan.end else min(want * 2, BATCH_BYTES_MAX)
            elif scan.fault is not Fault.NONE:
                what = scan.fault.name.lower().replace("_", " ")
                yield _error(path, position, f"no good record batch ({what})")
                return
            else:
                want = PIECE_BYTES
    finally:
        file.close()


def dump_wal(disk: Disk, number: int) -> Iterator[DumpedRecord | Finding]:
    """Yield the records of one file of the write-ahead log; at its end say if it is torn."""
    path = wal_path(number)
    file = disk.open(path)
    try:
        reader = WalReader(file, number)
        expected: int | None = None
        if reader.prepared is not None:
            yield DumpedRecord(position=0, block=PREPARED_BLOCK, record=reader.prepared)
        for block in reader.blocks(None):
            expected = block.number + 1
            for record in block.records:
                yield DumpedRecord(position=block.position, block=block.number, record=record)
        newer = reader.newer_block_after(reader.position, expected or 0)
        if newer is not None:
            message = f"damaged: what was written later, at byte {newer.position}, is whole"
            yield _error(path, reader.position, message)
    finally:
        file.close()


def verify(disk: Disk) -> Iterator[Finding]:
    """Yield everything that is not as it should be, most important first."""
    if not disk.exists(META):
        yield _error(META, 0, "missing: this is not a broker's data directory, or was not begun")
        return
    try:
        checkpoint = load_checkpoint(disk)
    except StorageCorrupt as error:
        yield _error(CHECKPOINT, 0, str(error))
        return
    fates: dict[int, LogFate] = {}
    yield from _verify_wal(disk, checkpoint, fates)
    for snapshot in checkpoint.logs:
        yield from _verify_log(disk, snapshot, fates.get(snapshot.identity.group, LogFate()))
    yield from _find_strays(disk, checkpoint)


def _verify_wal(disk: Disk, checkpoint: Checkpoint, fates: dict[int, LogFate]) -> Iterator[Finding]:
    first = checkpoint.header.wal_first
    numbers = [number for number in list_wal_numbers(disk) if number >= first]
    if numbers and numbers != list(range(first, first + len(numbers))):
        yield _error(wal_path(first), 0, f"files are missing: there are {numbers}")
    says_next_follows = False
    for number in numbers:
        has_to_be, says_next_follows, is_prepared = says_next_follows, False, False
        for item in dump_wal(disk, number):
            if isinstance(item, Finding):
                yield item
                continue
            kind = item.record.kind
            is_prepared = is_prepared or kind == RecordKind.PREPARED
            says_next_follows = kind == RecordKind.NEXT
            if kind in FATEFUL:
                fates.setdefault(item.record.group, LogFate()).note(item.record)
        if has_to_be and not is_prepared:
            yield _error(wal_path(number), 0, "its beginning cannot be read")
    if says_next_follows:
        yield _error(wal_path(numbers[-1] + 1), 0, "missing: the file before says that it follows")


def _verify_log(disk: Disk, snapshot: LogSnapshot, fate: LogFate) -> Iterator[Finding]:
    identity = snapshot.identity
    directory = identity.directory
    found = read_partition_metadata(disk, directory)
    if fate.is_deleted:
        return
    if found != identity and snapshot.segments:
        path = f"{directory}/{PARTITION_METADATA}"
        yield _error(path, 0, f"it should be {identity}, but is {found}")
        return
    # What is cut off or given up by the write-ahead log may be gone from the files already.
    is_changed = bool(fate.cuts) or fate.start_prev > 0
    positions = LogPositions.restore(
        snapshot.start, snapshot.marks, snapshot.spans, snapshot.last_index
    )
    segments = snapshot.segments
    try:
        for replacement in fate.replacements:
            segments = apply_replacement(segments, replacement)
    except StorageCorrupt as error:
        yield _error(directory, 0, str(error))
        return
    # Another one's leftover of a compaction is none of the log's files.
    replaced = {replacement.new.base_offset for replacement in fate.replacements}
    ends = [*(segment.base_offset for segment in segments[1:]), positions.end_offset]
    for summary, end in zip(segments, ends, strict=False):
        path = f"{directory}/{summary.base_offset:020d}.log"
        if summary.base_offset in replaced:
            path = current_path(disk, path)
        if not disk.exists(path):
            yield _finding(is_changed, path, 0, f"missing; it had {summary.size_bytes} bytes")
            continue
        for item in _verify_segment(disk, path, summary, end, positions):
            is_past = is_changed or item.position >= summary.size_bytes
            yield _finding(is_past, path, item.position, item.message)
        yield from _verify_index(disk, path)


def _verify_segment(
    disk: Disk, path: str, summary: SegmentSummary, end_offset: int, positions: LogPositions
) -> Iterator[Finding]:
    """Check batches against their checksums, and what these leave out: offsets and epochs."""
    next_offset, good_to = summary.base_offset, 0
    for item in dump_segment(disk, path):
        if isinstance(item, Finding):
            yield item
            break
        header = item.header
        if item.position < summary.size_bytes:
            if not next_offset <= header.base_offset < header.next_offset <= end_offset:
                message = (
                    f"a batch of offsets {header.base_offset} to {header.last_offset} where"
                    f" {next_offset} to {end_offset - 1} are left"
                )
                yield _error(path, item.position, message)
                break
            term = positions.term_at(positions.index_of_offset(header.base_offset))
            if term != header.partition_leader_epoch:
                message = f"a batch of epoch {header.partition_leader_epoch} instead of {term}"
                yield _error(path, item.position, message)
        next_offset, good_to = header.next_offset, item.position + header.size_bytes
    else:
        if good_to < summary.size_bytes:
            missing = summary.size_bytes - good_to
            yield _error(path, good_to, f"the file ends {missing} bytes too early")


def _verify_index(disk: Disk, segment_path: str) -> Iterator[Finding]:
    stem = segment_path.removesuffix(".log")
    paths = (f"{stem}.index", f"{stem}.timeindex")
    if not all(disk.exists(path) for path in paths):
        return
    contents = []
    for path in paths:
        file = disk.open(path)
        contents.append(file.read_blocking(0, file.size()))
        file.close()
    loaded = read_index(contents[0], contents[1])
    if loaded is None:
        yield _note(paths[0], 0, "broken; it is made again when it is needed")
        return
    index, covered = loaded
    segment = disk.open(segment_path)
    for offset, position in zip(index.offsets, index.positions, strict=True):
        base = segment.read_blocking(position, 8)
        if position < covered and int.from_bytes(base, "big") != offset:
            yield _error(paths[0], 0, f"offset {offset} is not at byte {position}")
            break
    segment.close()


def _find_strays(disk: Disk, checkpoint: Checkpoint) -> Iterator[Finding]:
    known = {snapshot.identity.directory for snapshot in checkpoint.logs}
    for name in disk.list_dir(ROOT):
        if name not in known and disk.exists(f"{name}/{PARTITION_METADATA}"):
            yield _note(name, 0, "a partition that the checkpoint does not know")


def _finding(is_note: bool, path: str, position: int, message: str) -> Finding:
    return (_note if is_note else _error)(path, position, message)


def _note(path: str, position: int, message: str) -> Finding:
    return Finding(severity=Severity.NOTE, path=path, position=position, message=message)


def _error(path: str, position: int, message: str) -> Finding:
    return Finding(severity=Severity.ERROR, path=path, position=position, message=message)
