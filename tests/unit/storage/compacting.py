"""Logs with keys, runs of compaction over them, and what they say afterwards."""

import dataclasses
from array import array
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from kafkaesque.model.batch import assign_offsets, scan_batches
from kafkaesque.model.batch_encoder import (
    BatchOptions,
    EndMarker,
    MarkerType,
    encode_batch,
    encode_end_marker,
)
from kafkaesque.model.ids import Term
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.storage.compaction_plan import (
    AbortedColumns,
    CompactionOptions,
    CompactionPlan,
)
from kafkaesque.storage.compactor import CleanedGroup, CompactionResult, compact
from kafkaesque.storage.config import StorageConfig
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.helpers import TIME_MS, World

#: Keys and values of one batch.
Pairs = Sequence[tuple[bytes | None, bytes | None]]

#: Every run is due, and joins what it finds.
EAGER = CompactionOptions(
    dirty_ratio_min=0.0, delete_retention_ms=1000, segment_bytes_max=4096, index_interval_bytes=64
)
CONFIG = StorageConfig(
    segment_bytes_max=1024,
    index_interval_bytes=64,
    wal_bytes=64 * 1024,
    wal_files_max=3,
    open_files_max=16,
    sync_files_max=4,
    cache_bytes_max=4 * 1024,
    free_bytes_min=0,
)
FAR = 2**62


def put(
    log: GroupLog,
    pairs: Pairs,
    *,
    term: int | None = None,
    timestamp_ms: int = TIME_MS,
    options: BatchOptions | None = None,
) -> int:
    """Append a batch with these keys and values; return its base offset."""
    records = [Record(at, timestamp_ms + at, *pair) for at, pair in enumerate(pairs)]
    return append(log, encode_batch(records, options or BatchOptions()), len(pairs), term)


def put_marker(log: GroupLog, producer_id: int, kind: MarkerType) -> int:
    """Append the end of a transaction; return its offset."""
    marker = EndMarker(type=kind, coordinator_epoch=0)
    data = encode_end_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=5)
    return append(log, data, 1)


def append(log: GroupLog, data: bytearray, count: int, term: int | None = None) -> int:
    """Append a batch that covers so many offsets; return its base offset."""
    term = term or max(log.last_term, 1)
    base, first = log.end_offset, log.last_index + 1
    assign_offsets(data, 0, base, term)
    entry = LogEntry(EntryKind.DATA, first, first + count - 1, Term(term), bytes(data))
    log.append([entry])
    return base


def checkpoint(world: World) -> None:
    """Have a checkpoint made of all there is."""
    world.commit()
    world.store.request_checkpoint()
    world.disk.settle()


def close_segment(world: World, log: GroupLog) -> None:
    """Let what follows go into another segment, and have a checkpoint that knows that.

    One batch is appended for it, of a key that nobody else uses.
    """
    log.segments.roll_next = True
    put(log, [(b"last", b"%d" % log.end_offset)])
    checkpoint(world)


class AbortedTransaction(NamedTuple):
    """A producer's records that were never to be seen, up to the marker."""

    producer_id: int
    first_offset: int
    last_offset: int


def columns_of(aborted: Sequence[AbortedTransaction]) -> AbortedColumns:
    """Return aborted transactions as a plan has them."""
    return AbortedColumns(*(array("q", [each[at] for each in aborted]) for at in range(3)))


def plan_for(
    log: GroupLog,
    *,
    limit_offset: int = FAR,
    everywhere_offset: int = FAR,
    now_ms: int = TIME_MS,
    options: CompactionOptions = EAGER,
    aborted: Sequence[AbortedTransaction] = (),
    producers: Mapping[int, int] | None = None,
) -> CompactionPlan | None:
    """Return what a driver would hand to the passes."""
    plan = log.compaction_plan(
        now_wall_ms=now_ms,
        limit_offset=limit_offset,
        everywhere_offset=everywhere_offset,
        options=options,
    )
    if plan is None:
        return None
    return dataclasses.replace(plan, aborted=columns_of(aborted), producers=producers or {})


def run(world: World, log: GroupLog, plan: CompactionPlan | None) -> CompactionResult | None:
    """Do what a driver does, up to the checkpoint after it."""
    if plan is None:
        return None
    steps = compact(world.disk, plan)
    while True:
        try:
            step = next(steps)
        except StopIteration as stop:
            result = stop.value
            break
        if isinstance(step, CleanedGroup):
            assert log.replace_segments(step)
            world.commit()
    assert isinstance(result, CompactionResult)
    log.note_cleaned(result)
    checkpoint(world)
    return result


def batches_of(log: GroupLog) -> list[bytes]:
    """Return all batches, found offset by offset through `locate`."""
    found: list[bytes] = []
    offset = int(log.start_offset)
    while offset < log.end_offset:
        ranges = log.locate_blocking(offset, 1, log.end_offset)
        if not ranges:
            break
        (piece,) = ranges
        data = piece.file.read_blocking(piece.position, piece.length)
        scan = scan_batches(data)
        assert scan.end == len(data)
        (header,) = scan.batches
        assert header.last_offset >= offset
        found.append(data)
        offset = header.next_offset
    return found


def records_of(log: GroupLog) -> list[Record]:
    """Return all records, markers included."""
    return [record for data in batches_of(log) for record in decode_batch(data, 1 << 20)]


def table_of(log: GroupLog, aborted: Container[int] = ()) -> dict[bytes, bytes]:
    """Return the last value of each key, for those that have one; markers and aborted aside."""
    table: dict[bytes, bytes] = {}
    for data in batches_of(log):
        (header,) = scan_batches(data).batches
        if header.is_control:
            continue
        for record in decode_batch(data, 1 << 20):
            assert record.key is not None
            if record.offset in aborted:
                continue
            table.pop(record.key, None)
            if record.value is not None:
                table[record.key] = record.value
    return table
