"""Brings one log back: from its checkpoint, then through the write-ahead log's records in order.

Theory of operation. See `group_log` for what may be found in the segments, and why. What a record
still to come cuts off, empties or gives up may already be gone from the files, or overwritten. So
all cuts are known beforehand (`LogFate`), and nothing is restored, written or looked for that does
not last. What is left is strict: it has to be there.

Everything here waits for the disk and is for the start only. It can be interrupted and begun again:
until the next checkpoint neither that one nor the write-ahead log is changed, and what it writes
into segments is what the write-ahead log says.
"""

from dataclasses import dataclass, field

from kafkaesque.env.disk import File
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.ids import NO_NODE, Index, Term, read_node
from kafkaesque.storage.batch_header import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, read_place
from kafkaesque.storage.entries import EntryKind, HardState, LogEntry, Mark
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_snapshot import LogSnapshot, SegmentSummary, read_start
from kafkaesque.storage.positions import LogPositions
from kafkaesque.storage.segment import NO_TIMESTAMP, SCAN_BYTES, Segment
from kafkaesque.storage.segment_index import SegmentIndex
from kafkaesque.storage.segment_swap import (
    LOG_SUFFIXES,
    Replacement,
    apply_replacement,
    finish_swap,
    is_leftover,
    read_replacement,
)
from kafkaesque.storage.segment_table import Cut
from kafkaesque.storage.wal_format import RecordKind, WalRecord
from kafkaesque.storage.workbench import Workbench

#: What is read at once when a segment is taken in.
ABSORB_BYTES = 1024 * 1024
#: Before this index everything goes: the log is emptied.
ALL_GONE = -1
NEVER_CUT = 2**63 - 1

#: Records that `LogFate` wants to see.
FATEFUL = (
    RecordKind.TRUNCATE,
    RecordKind.RESET,
    RecordKind.START,
    RecordKind.DELETE,
    RecordKind.REPLACE,
    RecordKind.ROLL,
)


@dataclass(slots=True)
class LogFate:
    """What the write-ahead log is going to do to a log, in the order in which it does."""

    #: Per TRUNCATE the index it cuts after; per RESET `ALL_GONE`.
    cuts: list[int] = field(default_factory=list)
    #: The last index that is given up at the front.
    start_prev: int = 0
    is_deleted: bool = False
    replacements: list[Replacement] = field(default_factory=list)
    #: The first index of a segment that was begun, if that lasts, and when the segment was made.
    rolls: dict[int, int] = field(default_factory=dict)

    def note(self, record: WalRecord) -> None:
        """Take a record into account."""
        match record.kind:
            case RecordKind.TRUNCATE:
                self.cuts.append(record.last_index)
                end = record.last_index
                self.rolls = {index: ms for index, ms in self.rolls.items() if index <= end}
            case RecordKind.RESET:
                self.cuts.append(ALL_GONE)
                self.rolls.clear()
            case RecordKind.START:
                self.start_prev = record.last_index
            case RecordKind.DELETE:
                self.is_deleted = True
            case RecordKind.REPLACE:
                self.replacements.append(read_replacement(record.payload))
            case RecordKind.ROLL:
                self.rolls[record.first_index] = record.last_index

    def bounds(self) -> list[int]:
        """Return what lasts before the first cut, between it and the second, and so on."""
        bounds = [NEVER_CUT]
        for cut in reversed(self.cuts):
            bounds.append(min(bounds[-1], cut))
        return bounds[::-1]


class LogRecovery:
    """One log on its way back."""

    def __init__(self, bench: Workbench, log: GroupLog, fate: LogFate) -> None:
        self._bench = bench
        self.log = log
        self._bounds = fate.bounds()
        self._cuts_done = 0
        #: Before this index the log is going to be given up: it does not matter what was there.
        self._start_prev = fate.start_prev
        self._replacements = fate.replacements
        self._rolls = fate.rolls
        #: Where clients were told that the log starts; what is before it may have to be taken in.
        self._start_offset = 0
        #: Take in what is behind the last segment's known end.
        self._absorb = False
        #: Batches that were only in the page cache are gone: the log ends here.
        self._is_cut_short = False
        self.cut_bytes = 0

    @property
    def _bound(self) -> int:
        """The last index that outlasts all cuts to come."""
        return self._bounds[self._cuts_done]

    def restore(self, snapshot: LogSnapshot) -> None:
        """Begin with what a checkpoint says, as far as it lasts.

        Raises:
            StorageCorrupt: a segment is not what it was.
        """
        log, table = self.log, self.log.segments
        log.hard_state = snapshot.hard_state
        log.amnesia = snapshot.amnesia
        log.write_caching = snapshot.write_caching
        log.was_cached = snapshot.was_cached
        if self._bound == ALL_GONE:
            return
        log.positions = LogPositions.restore(
            snapshot.start, snapshot.marks, snapshot.spans, snapshot.last_index
        )
        log.commit_hint = Index(snapshot.commit_hint)
        log.restore_cleaning(snapshot.cleaned)
        segments = self._finish_swaps(snapshot)
        self._absorb = snapshot.absorb
        if self._bound < snapshot.last_index:
            log.positions.truncate_to(self._bound)
        end = log.positions.end_offset
        given_up = log.positions.offset_after(min(self._start_prev, log.positions.last_index))
        ends = [*(segment.base_offset for segment in segments[1:]), end]
        for segment, segment_end in zip(segments, ends, strict=False):
            if segment.base_offset < end and min(segment_end, end) > given_up:
                table.restore_segment(
                    segment.base_offset,
                    segment.created_ms,
                    segment.size_bytes,
                    segment.max_timestamp,
                )
        if self._bound < snapshot.last_index and table.segments:
            table.apply_cut(self._find_cut(table.segments[-1], end))
        self.verify()

    def _finish_swaps(self, snapshot: LogSnapshot) -> tuple[SegmentSummary, ...]:
        """Put compacted segments in place whose record is durable; return what segments there are.

        The checkpoint knows the old ones, which may be gone already.
        """
        segments, directory = snapshot.segments, self.log.identity.directory
        for replacement in self._replacements:
            segments = apply_replacement(segments, replacement)
            finish_swap(self._bench.disk, directory, replacement)
            self._bench.dirty_directories[directory] = None
        return segments

    def _find_cut(self, segment: Segment, offset: int) -> Cut:
        """Find where a segment has to end, though it may have been cut there already.

        What lies behind that place may be anything.
        """
        file = self._bench.pool.get(segment.path)
        position, latest, end_offset = 0, NO_TIMESTAMP, segment.base_offset
        data, data_at = b"", 0
        while end_offset < offset and position < segment.size:
            if position + HEADER_BYTES > data_at + len(data):
                data, data_at = file.read_blocking(position, SCAN_BYTES), position
            place = None
            if len(data) >= HEADER_BYTES:
                place = read_place(data, position - data_at)
            if place is None or place.base_offset < offset <= place.last_offset:
                raise StorageCorrupt(
                    f"{segment.path} cannot be cut at offset {offset}: it is good up to offset"
                    f" {end_offset}, byte {position}, only"
                )
            if place.base_offset >= offset:
                break
            end_offset = place.last_offset + 1
            latest = max(latest, place.max_timestamp)
            position += place.size_bytes
        return Cut(segment, position, latest)

    def replay(self, record: WalRecord) -> None:
        """Do what a record says.

        Raises:
            StorageCorrupt: it does not fit to what is there.
        """
        match record.kind:
            case RecordKind.HARD_STATE:
                vote = read_node(record.last_index)
                self.log.hard_state = HardState(
                    Term(record.term), None if vote == NO_NODE else vote
                )
            case RecordKind.AMNESIA:
                self.log.amnesia = record.first_index
            case RecordKind.RESET:
                self._reset(record)
            case RecordKind.START:
                self._advance(record)
            case RecordKind.TRUNCATE:
                self._pass_cut(record)
            case RecordKind.REPLACE:
                pass  # done in `restore`, for all that a checkpoint knows was before it
            case RecordKind.ROLL:
                pass  # done in `_write`, for the batch may be before it
            case _:
                if not self._is_cut_short and self._lasts(record):
                    self._replay_entry(record)

    def _lasts(self, record: WalRecord) -> bool:
        """Tell whether nothing is going to cut off what a record brings."""
        match record.kind:
            case RecordKind.SEGMENT:
                return record.prev_index < self._bound
            case RecordKind.TERM:
                return record.first_index <= self._bound
            case _:
                return record.last_index <= self._bound

    def _replay_entry(self, record: WalRecord) -> None:
        positions = self.log.positions
        if record.kind == RecordKind.TERM:
            positions.begin_term(record.term, record.first_index)
        elif not self._reach(record.prev_index):
            return
        elif record.kind == RecordKind.DATA:
            self._absorb = False
            self._write(record)
        elif record.kind == RecordKind.SEGMENT:
            self._begin_segment(record)
        elif record.kind in (RecordKind.NOOP, RecordKind.CONFIG):
            index, term = Index(record.last_index), Term(record.term)
            positions.add_mark(Mark(index, term, EntryKind(record.kind), bytes(record.payload)))
        else:
            raise StorageCorrupt(f"a record of kind {record.kind} in the write-ahead log")

    # -- single records

    def _write(self, record: WalRecord) -> None:
        positions, payload = self.log.positions, record.payload
        fields = HEADER.unpack_from(payload)
        base = positions.add_data(record.first_index, record.last_index, record.term)
        if base != fields[0] or fields[1] + LENGTH_OVERHEAD != len(payload):
            raise StorageCorrupt(
                f"{self.log!r}: the write-ahead log has a batch of offset {fields[0]} for {base}"
            )
        if record.last_index <= self._start_prev:
            return
        entry = LogEntry(
            EntryKind.DATA, record.first_index, record.last_index, Term(record.term), payload
        )
        created_ms = self._roll(record.first_index)
        self.log.segments.write([(entry, payload, base, fields[8])], now_ms=created_ms)

    def _roll(self, first_index: int) -> int:
        """Go on in another segment if there was one from this index on; return the time of then.

        That is not the time of now, or one that was begun since would seem to be too old already.
        """
        table, created_ms = self.log.segments, self._rolls.get(first_index)
        if created_ms is not None:
            self._drop_empty_end()
            table.roll_next = True
            return created_ms
        return table.segments[-1].created_ms if table.segments else self._bench.clock.wall_ms()

    def _drop_empty_end(self) -> None:
        table = self.log.segments
        while table.segments and not table.segments[-1].size:
            table.take_from(table.segments[-1].base_offset)

    def _pass_cut(self, record: WalRecord) -> None:
        """A cut has no work left to do; but it is known from here on what is missing for good."""
        self._cuts_done += 1
        index = min(record.last_index, self._bound)
        if self._absorb and not self._is_cut_short:
            self._take_in(index)
        self._absorb = False
        positions = self.log.positions
        if positions.last_index < index:
            self._is_cut_short = True
        positions.cap_start()
        self._start_offset = min(self._start_offset, positions.end_offset)

    def _advance(self, record: WalRecord) -> None:
        positions = self.log.positions
        if positions.last_index < record.last_index:
            self._reach(record.last_index)
        self._start_offset = record.first_index
        start_offset = min(record.first_index, positions.end_offset)
        positions.advance(start_offset, min(record.last_index, positions.last_index))

    def _reset(self, record: WalRecord) -> None:
        self._cuts_done += 1
        self.log.positions = LogPositions(read_start(record.payload))
        self._start_offset = 0
        self._absorb = False
        self._is_cut_short = False
        if self._bound < self.log.positions.last_index and self._bound != ALL_GONE:
            raise StorageCorrupt(f"{self.log!r} is cut before its beginning")

    def _begin_segment(self, record: WalRecord) -> None:
        log, table = self.log, self.log.segments
        base_offset = record.first_index
        created_ms = record.last_index or self._bench.clock.wall_ms()
        if base_offset != log.positions.end_offset:
            raise StorageCorrupt(f"{log!r}: a segment from {base_offset} does not follow its end")
        self._drop_empty_end()
        segment = table.add_segment(base_offset, created_ms)
        segment.index = SegmentIndex()
        log.write_caching = log.was_cached = True
        self._absorb = True

    # -- what only segments have

    def _reach(self, index: int) -> bool:
        """See that the log ends at an index; False, for good, if batches up to it are gone."""
        positions = self.log.positions
        if positions.last_index < index and self._absorb:
            self._take_in(index)
        if positions.last_index < index <= self._start_prev:
            positions.skip_to(index)
        if positions.last_index == index:
            return True
        if positions.last_index > index:
            raise StorageCorrupt(
                f"{self.log!r} ends at index {positions.last_index}, but the write-ahead log goes"
                f" on after {index}"
            )
        if not self.log.write_caching:
            raise StorageCorrupt(
                f"{self.log!r} ends at index {positions.last_index}, but the write-ahead log goes"
                f" on after {index}: entries between are missing"
            )
        self._is_cut_short = True
        return False

    def _take_in(self, index_max: int) -> None:
        """Take good batches behind the last segment's end, up to an index."""
        table, positions = self.log.segments, self.log.positions
        if not table.segments:
            return
        segment = table.segments[-1]
        file = self._bench.pool.get(segment.path, create=True)
        want = ABSORB_BYTES
        while segment.size < file.size():
            data = file.read_blocking(segment.size, want)
            taken = 0
            for batch in scan_batches(data).batches:
                first = positions.index_of_offset(batch.base_offset)
                last = first + batch.last_offset_delta
                term = batch.partition_leader_epoch
                if (
                    batch.base_offset < positions.end_offset
                    or last > index_max
                    or term < positions.last_term
                ):
                    return
                positions.add_data(first, last, term)
                self._note(segment, batch.base_offset, batch.size_bytes, batch.max_timestamp_ms)
                taken += batch.size_bytes
            if not taken:
                if len(data) < want:
                    return
                want *= 2
            else:
                want = ABSORB_BYTES

    def _note(self, segment: Segment, base: int, size: int, latest: int) -> None:
        index = segment.index
        if index is None:
            index = segment.index = SegmentIndex(covered_from=segment.size)
        if not index.positions or (
            segment.size - index.positions[-1] >= segment.index_interval_bytes
        ):
            index.add(base, segment.size, segment.max_timestamp)
        segment.max_timestamp = max(segment.max_timestamp, latest)
        segment.size += size
        self.log.segments.dirty[segment] = None

    # -- the end

    def finish(self) -> None:
        """Take in the rest, make the files as long as they should be, remove what is not listed.

        Raises:
            StorageCorrupt: something is missing.
        """
        log, table = self.log, self.log.segments
        if self._absorb and not self._is_cut_short:
            self._take_in(NEVER_CUT)
        # Batches that were only in the page cache may be gone, from before the new start on.
        start_offset = min(self._start_offset, log.positions.end_offset)
        log.positions.advance(start_offset, log.positions.prev_index)
        self._drop_empty_end()
        gone = 0
        while gone < len(table.segments) and (
            table.end_of(gone, log.end_offset) <= log.base_offset
        ):
            gone += 1
        table.take_before(gone)
        log.commit_hint = min(log.commit_hint, log.last_index)
        self._remove_unlisted()
        self.verify()
        for segment in table.segments:
            file = self._bench.pool.get(segment.path)
            if file.size() > segment.size:
                self.cut_bytes += file.size() - segment.size
                file.truncate(segment.size)
                table.dirty[segment] = None
        if self._cuts_done and table.segments:
            # It may have been cut just before the process died, and what was behind comes back.
            table.dirty[table.segments[-1]] = None
        # What was taken in has virtual positions that no longer fit together.
        table.reset_positions()
        table.roll_next = log.write_caching

    def verify(self) -> None:
        """Look whether all files are there and long enough.

        Raises:
            StorageCorrupt: one is not.
        """
        for segment in self.log.segments.segments:
            try:
                file: File | None = self._bench.pool.get(segment.path)
            except FileNotFoundError:
                file = None
            size = -1 if file is None else file.size()
            if size < segment.size:
                raise StorageCorrupt(_too_short(segment, size))

    def _remove_unlisted(self) -> None:
        """Remove files of segments that are not there, and indexes that may be out of date."""
        table = self.log.segments
        listed = {path for segment in table.segments for path in segment.paths()}
        if table.segments:
            listed.difference_update(table.segments[-1].paths()[1:])
        directory = table.directory
        unlisted = [
            f"{directory}/{name}"
            for name in self._bench.disk.list_dir(directory)
            if is_leftover(name)
            or (name.endswith(LOG_SUFFIXES) and f"{directory}/{name}" not in listed)
        ]
        if unlisted:
            table.remove_files(tuple(unlisted))


def _too_short(segment: Segment, size: int) -> str:
    what = "is missing" if size <= 0 else f"has only {size} of {segment.size} bytes"
    return (
        f"{segment.path} {what}: it was damaged after it was synced; check the disk, then stop"
        f" this broker and remove the directory {segment.directory}, so that the replica is copied"
        " from another at the next start"
    )
