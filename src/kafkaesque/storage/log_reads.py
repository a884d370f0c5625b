"""Reading a log: entries for peers, offsets by time, what retention gives up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafkaesque.env.disk import Buffer
from kafkaesque.model.errors import OffsetNotAvailable
from kafkaesque.model.ids import Offset, Term
from kafkaesque.model.records import decode_batch
from kafkaesque.model.sealed_batch import is_sealed
from kafkaesque.storage.batch_header import HEADER_BYTES, BatchPlace, read_place
from kafkaesque.storage.entries import EntryKind, EntryLike, LogEntry, Mark
from kafkaesque.storage.errors import EntriesGone, StorageCorrupt
from kafkaesque.storage.log_state import LogState
from kafkaesque.storage.positions import LogPositions
from kafkaesque.storage.read_steps import Cold, ReadRequest, Steps, run_cold, run_warm
from kafkaesque.storage.segment import NO_TIMESTAMP, Segment, walk

T = TypeVar("T")
#: Timestamp and offset of a record.
Found = tuple[int, Offset]

#: What one batch may decompress to when a timestamp is looked for in it.
DECOMPRESSED_BYTES_MAX = 1024 * 1024 * 1024
#: A search is made so often where the log changes each time.
SEARCHES_MAX = 10


def run(
    log: LogState,
    steps: Callable[[], Steps[T]],
    nothing: Callable[[], T],
    on_done: Callable[[T | Exception], None],
) -> None:
    """Run off the loop; a log that is cut or emptied meanwhile gives `nothing`.

    Where compaction has put other segments in place meanwhile, it is begun anew.
    """
    generation, layout = log.generation, log.layout

    def done(result: T | Exception) -> None:
        if log.generation != generation or log.is_deleted:
            on_done(nothing())
        elif log.layout != layout:
            run(log, steps, nothing, on_done)
        elif isinstance(result, FileNotFoundError):
            # Retention has removed the segment.
            on_done(nothing())
        else:
            on_done(result)

    run_cold(steps(), log.pool, log.disk, done)


def search(
    log: LogState,
    steps: Callable[[], Steps[Found | None]],
    on_done: Callable[[Found | Exception | None], None],
    searches_max: int = SEARCHES_MAX,
) -> None:
    """Look for a record off the loop, anew where the log has changed so that it may be another.

    Never one before the log's start. `OffsetNotAvailable` if the log has changed each time.
    """
    generation, layout, start = log.generation, log.layout, log.start_offset

    def done(result: Found | Exception | None) -> None:
        is_void = log.generation != generation or log.layout != layout
        if log.start_offset != start:
            # Retention has removed a segment, or a record that was found; younger ones are there.
            is_gone = isinstance(result, tuple) and result[1] < log.start_offset
            is_void = is_void or is_gone or isinstance(result, FileNotFoundError)
        if log.is_deleted:
            on_done(None)
        elif not is_void:
            on_done(result)
        elif searches_max > 1:
            search(log, steps, on_done, searches_max - 1)
        else:
            on_done(OffsetNotAvailable(f"{log!r} has changed whenever it was searched"))

    run_cold(steps(), log.pool, log.disk, done)


# -- in index space


def entries_from(log: LogState, first_index: int, bytes_max: int) -> list[EntryLike] | None:
    """See `GroupLog.entries_from`."""
    _check_index(log, first_index)
    if first_index > log.positions.last_index:
        return []
    in_memory = _entries_in_memory(log, first_index, bytes_max)
    if in_memory is not None:
        return _merge(log, first_index, in_memory[0], bytes_max, is_all=in_memory[1])
    try:
        data = run_warm(_read_entries(log, first_index, bytes_max), log.pool)
    except (Cold, StorageCorrupt):
        log.statistics.cold_reads += 1
        return None  # what is damaged is told by `entries_async`
    return _merge(log, first_index, data, bytes_max, is_all=False)


def entries_async(
    log: LogState,
    first_index: int,
    bytes_max: int,
    on_done: Callable[[list[EntryLike] | Exception], None],
) -> None:
    """See `GroupLog.entries_async`."""
    try:
        _check_index(log, first_index)
    except EntriesGone as error:
        on_done(error)
        return

    if first_index > log.positions.last_index:
        on_done([])
        return
    in_memory = _entries_in_memory(log, first_index, bytes_max)
    if in_memory is not None:
        on_done(_merge(log, first_index, in_memory[0], bytes_max, is_all=in_memory[1]))
    else:
        run(log, lambda: _read_all_entries(log, first_index, bytes_max), list, on_done)


def _check_index(log: LogState, first_index: int) -> None:
    if first_index <= log.positions.prev_index:
        raise EntriesGone(f"{log!r} begins after index {log.positions.prev_index}")


def _entries_in_memory(
    log: LogState, first_index: int, bytes_max: int
) -> tuple[list[EntryLike], bool] | None:
    """Return DATA entries from an index on until beyond `bytes_max`; and whether that is all."""
    offset = log.positions.offset_after(first_index - 1)
    found: list[EntryLike] = []
    size = 0
    if offset < log.written_end:
        kept = log.segments.tail.kept_from(offset, bytes_max)
        if kept is None:
            return None
        found += kept.entries
        size = kept.size_bytes
        if not kept.is_all:
            return found, False
    for entry in log.held_entries:
        if entry.last_index >= first_index:
            if size > bytes_max:
                return found, False
            size += len(entry.data)  # type: ignore[arg-type]
            found.append(entry)
    return found, True


def _read_all_entries(log: LogState, first_index: int, bytes_max: int) -> Steps[list[EntryLike]]:
    """Read DATA entries, and put marks between them."""
    data = yield from _read_entries(log, first_index, bytes_max)
    return _merge(log, first_index, data, bytes_max, is_all=False)


def _read_entries(log: LogState, first_index: int, bytes_max: int) -> Steps[list[EntryLike]]:
    """Read DATA entries of one segment, in one piece."""
    offset = log.positions.offset_after(first_index - 1)
    table = log.segments
    while table.segments and offset < log.written_end:
        # Segments may come and go while something is read: what is known of this one, is now.
        at = table.at_offset(offset)
        segment, end_offset = table.segments[at], table.end_of(at, log.written_end)
        position, place = yield from table.find_batch(segment, offset)
        if place is None:
            offset = end_offset
            continue
        length = min(max(bytes_max, place.size_bytes), segment.size - position)
        data = yield ReadRequest(segment.path, position, length)
        return _split(log, memoryview(data), segment, offset)
    return []


def _split(log: LogState, data: memoryview, segment: Segment, offset: int) -> list[EntryLike]:
    """Make entries of what was read, which must be batches that end at `offset` or after.

    Offsets and terms lie outside the checksum: they have to fit to what is known of the log, and to
    one another. The log does not know where compaction has left holes (its copy may have been made
    from one that has some), so any batch may stand behind one, if it ends before the next begins.

    Raises:
        StorageCorrupt: the very first batch cannot be right; what is good before another that
            cannot is returned.
    """
    entries: list[EntryLike] = []
    positions, end = log.positions, offset
    at = 0
    while len(data) - at >= HEADER_BYTES:
        place = read_place(data, at)
        if place is not None and place.base_offset >= log.written_end and log.is_held:
            return entries  # it is about to be cut off
        first = -1 if place is None else positions.index_of_offset(place.base_offset)
        if (
            place is None
            or place.last_offset >= log.written_end
            or not _fits(positions, place, first, end if entries else None)
        ):
            if entries:
                break
            raise StorageCorrupt(f"{segment.path}: no record batch of offset {offset} or after")
        if at + place.size_bytes > len(data):
            break
        if entries and place.base_offset > end and not _is_followed(data, at, place):
            break
        last = first + place.last_offset - place.base_offset
        end = place.last_offset + 1
        batch = data[at : at + place.size_bytes]
        entries.append(LogEntry(EntryKind.DATA, first, last, Term(place.term), batch))
        at += place.size_bytes
    if not entries:
        # So much was asked for, and nothing would look like a hole that compaction has left.
        raise StorageCorrupt(f"{segment.path}: it ends before the batch of offset {offset}")
    return entries


def _fits(positions: LogPositions, place: BatchPlace, first: int, end: int | None) -> bool:
    """Tell whether a batch can stand there; `end` is where the one before it ends."""
    last = first + place.last_offset - place.base_offset
    if last > positions.last_index or (end is not None and place.base_offset < end):
        return False
    # Retention may have moved the log's start over it: that takes nothing from its being right.
    return first <= positions.prev_index or place.term == positions.term_at(first)


def _is_followed(data: memoryview, at: int, place: BatchPlace) -> bool:
    """Tell whether a batch behind a hole is seen to end before the next one begins.

    If it is not, it may have been moved: whoever asks for it first is told which.
    """
    after = at + place.size_bytes
    following = read_place(data, after) if len(data) - after >= HEADER_BYTES else None
    return following is not None and following.base_offset > place.last_offset


def _merge(
    log: LogState, first_index: int, data: list[EntryLike], bytes_max: int, *, is_all: bool
) -> list[EntryLike]:
    """Put marks between DATA entries; `is_all`: none are missing up to the end or `bytes_max`.

    Where the files have no DATA entry any more, compaction has left a hole up to the end, or up to
    what is still held.
    """
    end: int = log.positions.last_index
    if data and not is_all:
        end = data[-1].last_index
    elif not data and log.held_entries:
        end = log.held_entries[0].first_index - 1
    marks = log.positions.marks_between(first_index, end)
    merged: list[EntryLike] = []
    size = 0
    at = 0
    for entry in data:
        while at < len(marks) and marks[at].index < entry.first_index:
            merged.append(_mark_entry(marks[at]))
            at += 1
        size += len(entry.data)  # type: ignore[arg-type]
        if size > bytes_max and merged:
            return merged
        merged.append(entry)
    merged.extend(_mark_entry(mark) for mark in marks[at:])
    return merged


def _mark_entry(mark: Mark) -> LogEntry:
    return LogEntry(mark.kind, mark.index, mark.index, mark.term, mark.payload)


# -- in offset space


def offset_for_timestamp(log: LogState, timestamp: int) -> Steps[Found | None]:
    """Find the first record that is not older than a timestamp.

    Source: Kafka's ListOffsets with a timestamp.
    """
    start = log.positions.start_offset
    for segment in tuple(log.segments.segments):
        if segment.max_timestamp < timestamp:
            continue
        index = yield from log.segments.index_of(segment)
        entry = index.before_time(timestamp)
        position = 0 if entry is None else entry[1]
        while True:
            position, place = yield from walk(
                segment, position, segment.size, lambda p, _: _is_newer(p, timestamp, start)
            )
            if place is None:
                break
            found = yield from _first_in_batch(log, segment, position, place, timestamp, start)
            if found is not None:
                return found
            position += place.size_bytes
    return None


def _is_newer(place: BatchPlace, timestamp: int, start_offset: int) -> bool:
    return place.max_timestamp >= timestamp and place.last_offset >= start_offset


def _first_in_batch(
    log: LogState,
    segment: Segment,
    position: int,
    place: BatchPlace,
    timestamp: int,
    start_offset: int,
) -> Steps[Found | None]:
    data: Buffer = yield ReadRequest(segment.path, position, place.size_bytes)
    if log.open_sealed is not None and is_sealed(data):
        data = log.open_sealed(data)
    for record in decode_batch(data, DECOMPRESSED_BYTES_MAX):
        if record.timestamp_ms >= timestamp and record.offset >= start_offset:
            return record.timestamp_ms, Offset(record.offset)
    return None


def max_timestamp(log: LogState) -> Steps[Found | None]:
    """Find the first of the records with the greatest timestamp (KIP-734)."""
    latest = max((s.max_timestamp for s in log.segments.segments), default=NO_TIMESTAMP)
    while latest > NO_TIMESTAMP:
        found = yield from offset_for_timestamp(log, latest)
        if found is not None:
            return found
        # It is before the start offset, or a header says more than its records.
        latest = yield from _next_latest(log, latest)
    return None


def _next_latest(log: LogState, below: int) -> Steps[int]:
    """Return the greatest timestamp of a batch that is visible and less than another."""
    start = log.positions.start_offset
    latest = NO_TIMESTAMP

    def note(place: BatchPlace, _: int) -> bool:
        nonlocal latest
        if place.last_offset >= start and place.max_timestamp < below:
            latest = max(latest, place.max_timestamp)
        return False

    for segment in tuple(log.segments.segments):
        yield from walk(segment, 0, segment.size, note)
    return latest


def retention_candidate(
    log: LogState,
    now_wall_ms: int,
    retention_ms: int,
    retention_bytes: int,
    high_watermark: int,
) -> Offset | None:
    """See `GroupLog.retention_candidate`."""
    table = log.segments
    start = log.positions.start_offset
    too_much = table.size_bytes - retention_bytes if retention_bytes >= 0 else -1
    for at, segment in enumerate(table.segments):
        end = table.end_of(at, log.written_end)
        if end > high_watermark or log.is_held:
            break
        newest = segment.created_ms if segment.max_timestamp < 0 else segment.max_timestamp
        is_old = 0 <= retention_ms < now_wall_ms - newest
        is_active = at == len(table.segments) - 1
        too_much -= segment.size
        if not is_old and (too_much < 0 or is_active):
            break
        start = max(start, end)
    return Offset(start) if start > log.positions.start_offset else None
