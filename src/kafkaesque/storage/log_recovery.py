"""Brings one log back: from its checkpoint, then through the write-ahead log's records in order.

See `group_log` for what may be found in the segments, and why. Everything here waits for the disk
and is for the start only. It can be interrupted and begun again: until the next checkpoint neither
that one nor the write-ahead log is changed, and what it overwrites in segments is what the
write-ahead log says.
"""

from kafkaesque.env.disk import File
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.ids import Index, NodeId, Term
from kafkaesque.storage.batch_header import HEADER, LENGTH_OVERHEAD
from kafkaesque.storage.entries import EntryKind, HardState, LogEntry, Mark
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_snapshot import LogSnapshot, read_start
from kafkaesque.storage.positions import LogPositions
from kafkaesque.storage.read_steps import run_blocking
from kafkaesque.storage.segment import Segment
from kafkaesque.storage.segment_index import SegmentIndex
from kafkaesque.storage.wal_format import RecordKind, WalRecord
from kafkaesque.storage.workbench import Workbench

#: What is read at once when a segment is taken in.
ABSORB_BYTES = 1024 * 1024

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex")


class LogRecovery:
    """One log on its way back."""

    def __init__(self, bench: Workbench, log: GroupLog, start_prev: int) -> None:
        self._bench = bench
        self.log = log
        #: Before this index the log is going to be given up: it does not matter what was there.
        self._start_prev = start_prev
        #: Take in what is behind the last segment's known end.
        self._absorb = False
        #: Batches that were only in the page cache are gone: the log ends here.
        self._is_cut_short = False
        self.cut_bytes = 0

    @property
    def can_absorb(self) -> bool:
        """Whether files may hold more than the checkpoint says."""
        return self._absorb

    def restore(self, snapshot: LogSnapshot) -> None:
        """Begin with what a checkpoint says."""
        log, table = self.log, self.log.segments
        log.positions = LogPositions.restore(
            snapshot.start, snapshot.marks, snapshot.spans, snapshot.last_index
        )
        log.hard_state = snapshot.hard_state
        log.commit_hint = Index(snapshot.commit_hint)
        log.write_caching = snapshot.write_caching
        self._absorb = snapshot.absorb
        for base, size, latest, created_ms in snapshot.segments:
            table.restore_segment(base, created_ms, size, latest)

    def replay(self, record: WalRecord) -> None:
        """Do what a record says.

        Raises:
            StorageCorrupt: it does not fit to what is there.
        """
        if record.kind == RecordKind.HARD_STATE:
            vote = NodeId(record.last_index) if record.last_index else None
            self.log.hard_state = max(
                self.log.hard_state, HardState(Term(record.term), vote), key=_hard_state_order
            )
        elif record.kind == RecordKind.RESET:
            self._reset(record)
        elif not self._is_cut_short:
            self._replay_entry(record)

    def _replay_entry(self, record: WalRecord) -> None:
        positions = self.log.positions
        match record.kind:
            case RecordKind.DATA:
                if self._reach(record.prev_index):
                    self._absorb = False
                    self._write(record)
            case RecordKind.NOOP | RecordKind.CONFIG:
                if self._reach(record.prev_index):
                    kind = EntryKind(record.kind)
                    index, term = Index(record.last_index), Term(record.term)
                    positions.add_mark(Mark(index, term, kind, bytes(record.payload)))
            case RecordKind.TERM:
                positions.begin_term(record.term, record.first_index)
            case RecordKind.TRUNCATE:
                self._truncate(record)
            case RecordKind.START:
                self._advance(record)
            case RecordKind.SEGMENT:
                if self._reach(record.prev_index):
                    self._begin_segment(record.first_index)
            case _:
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
        entry = LogEntry(
            EntryKind.DATA, record.first_index, record.last_index, Term(record.term), payload
        )
        self.log.segments.write([(entry, payload, base, fields[8])])

    def _truncate(self, record: WalRecord) -> None:
        self._reach(record.prev_index)
        self._absorb = False
        log, table = self.log, self.log.segments
        if log.positions.last_index < record.last_index:
            self._is_cut_short = True
            return
        self._is_cut_short = False
        log.positions.truncate_to(record.last_index)
        end = log.positions.end_offset
        table.tail.truncate(end)
        for segment in table.take_from(end):
            self._bench.pool.drop(segment.path)
        cut = run_blocking(table.find_cut(end), self._bench.pool)
        if cut is not None:
            table.apply_cut(cut)

    def _advance(self, record: WalRecord) -> None:
        log, table = self.log, self.log.segments
        if not self._reach(record.last_index):
            return
        log.positions.advance(record.first_index, record.last_index)
        boundary = log.positions.offset_after(log.positions.prev_index)
        count = 0
        while count < len(table.segments) and (
            table.end_of(count, log.positions.end_offset) <= boundary
        ):
            count += 1
        table.take_before(count)

    def _reset(self, record: WalRecord) -> None:
        log = self.log
        log.positions = LogPositions(read_start(record.payload))
        log.segments.take_from(0)
        log.segments.tail.clear()
        self._absorb = False
        self._is_cut_short = False

    def _begin_segment(self, base_offset: int) -> None:
        log, table = self.log, self.log.segments
        if base_offset != log.positions.end_offset:
            raise StorageCorrupt(f"{log!r}: a segment from {base_offset} does not follow its end")
        if table.segments and not table.segments[-1].size:
            table.take_from(table.segments[-1].base_offset)
        segment = table.add_segment(base_offset, self._bench.clock.wall_ms())
        segment.index = SegmentIndex()
        self._bench.pool.get(segment.path, create=True)
        log.write_caching = True
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
            self._bench.statistics.recovery_bytes += taken
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
            self._take_in(2**63 - 1)
        while table.segments and not table.segments[-1].size:
            table.take_from(table.segments[-1].base_offset)
        log.commit_hint = min(log.commit_hint, log.last_index)
        self._remove_unlisted()
        self.verify()
        for segment in table.segments:
            file = self._bench.pool.get(segment.path)
            if file.size() > segment.size:
                self.cut_bytes += file.size() - segment.size
                file.truncate(segment.size)
                table.dirty[segment] = None
        if table.segments:
            table.remove_files(table.segments[-1].paths()[1:])
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
                what = "is missing" if size < 0 else f"has only {size} of {segment.size} bytes"
                raise StorageCorrupt(
                    f"{segment.path} {what}: it was damaged after it was synced; check the disk,"
                    " then remove this replica so that it is copied from another"
                )

    def _remove_unlisted(self) -> None:
        table = self.log.segments
        listed = {path for segment in table.segments for path in segment.paths()}
        directory = table.directory
        unlisted = [
            f"{directory}/{name}"
            for name in self._bench.disk.list_dir(directory)
            if name.endswith(SEGMENT_SUFFIXES) and f"{directory}/{name}" not in listed
        ]
        if unlisted:
            table.remove_files(tuple(unlisted))


def _hard_state_order(state: HardState) -> tuple[int, int]:
    return state.term, state.vote or 0
