"""The segments of one log: writing them, and finding offsets, places and times in them."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import NamedTuple

from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.storage.batch_header import HEADER_BYTES, BatchPlace, read_place
from kafkaesque.storage.compaction_plan import SourceSegment
from kafkaesque.storage.config import SegmentOptions, StorageConfig
from kafkaesque.storage.entries import EntryLike
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.log_snapshot import SegmentSummary
from kafkaesque.storage.read_steps import ReadRequest, Steps
from kafkaesque.storage.segment import (
    NO_TIMESTAMP,
    Segment,
    add_to_index,
    load_index,
    rebuild_index,
    walk,
)
from kafkaesque.storage.segment_index import SegmentIndex
from kafkaesque.storage.tail_cache import LogTail
from kafkaesque.storage.workbench import Workbench

#: A batch to be written: entry, bytes, base offset, maximal timestamp.
Run = list[tuple[EntryLike, Buffer, int, int]]


class Cut(NamedTuple):
    """Where a segment has to end."""

    segment: Segment
    position: int
    max_timestamp: int


class SegmentTable:
    """The segments in order; the last one is written, unless `roll_next` asks for another."""

    __slots__ = (
        "_bases",
        "_bench",
        "_on_opened",
        "_virtual_end",
        "directory",
        "dirty",
        "index_interval_bytes",
        "noted",
        "roll_next",
        "segment_bytes_max",
        "segment_ms_max",
        "segments",
        "tail",
    )

    def __init__(
        self, bench: Workbench, directory: str, on_opened: Callable[[Segment], None]
    ) -> None:
        self._bench = bench
        self._on_opened = on_opened
        self.directory = directory
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self._virtual_end = 0
        self.tail = LogTail(bench.cache)
        #: Written since the last checkpoint began.
        self.dirty: dict[Segment, None] = {}
        #: Written before that, and maybe not synced yet.
        self.noted: tuple[Segment, ...] = ()
        self.roll_next = False
        self.set_options(SegmentOptions())

    def set_options(self, options: SegmentOptions) -> None:
        """Take the topic's options for what is written from now on."""
        config: StorageConfig = self._bench.config
        self.segment_bytes_max = options.segment_bytes_max or config.segment_bytes_max
        self.segment_ms_max = options.segment_ms_max or config.segment_ms_max
        self.index_interval_bytes = options.index_interval_bytes or config.index_interval_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def last_base(self) -> int:
        """Where the last segment begins; 0 if there is none."""
        return self._bases[-1] if self._bases else 0

    def sources(self, end_offset: int) -> list[SourceSegment]:
        """Return the first segments as compaction sees them, as far as they end by an offset."""
        return [
            SourceSegment(s.base_offset, end, s.size, s.max_timestamp, s.created_ms)
            for s, end in zip(self.segments, self._bases[1:], strict=False)
            if end <= end_offset
        ]

    # -- writing

    def write(self, run: Run, *, now_ms: int | None = None) -> None:
        """Write batches at the end, one call to the disk per segment; buffered.

        `now_ms` is the time that segments are made at and grow old by; the clock's if not given.

        Raises:
            DiskFailed: also when full; a part may have been written.
        """
        bench = self._bench
        if now_ms is None:
            now_ms = bench.clock.wall_ms()
        at, count = 0, len(run)
        while at < count:
            segment = self._segment_for(run[at], now_ms)
            room = self.segment_bytes_max - segment.size
            begin = at
            buffers: list[Buffer] = []
            while at < count:
                data = run[at][1]
                room -= len(data)
                if room < 0 and buffers:
                    break
                buffers.append(data)
                at += 1
            bench.pool.get(segment.path).write_at(segment.size, buffers)
            self.dirty[segment] = None
            self._note_written(segment, run[begin:at] if at - begin != count else run)

    def _note_written(self, segment: Segment, run: Run) -> None:
        bench, tail = self._bench, self.tail
        index = segment.index
        if index is None:
            index = segment.index = SegmentIndex(covered_from=segment.size)
        interval = segment.index_interval_bytes
        position, virtual = segment.size, segment.virtual_base
        for entry, data, base_offset, latest in run:
            positions = index.positions
            if not positions or position - positions[-1] >= interval:
                add_to_index(index, interval, base_offset, position, segment.max_timestamp)
            if latest > segment.max_timestamp:
                segment.max_timestamp = latest
            size = len(data)
            position += size
            tail.add(entry, base_offset, virtual + position, size)
        bench.statistics.segment_bytes += position - segment.size
        segment.size = position
        self._virtual_end = virtual + position

    def _segment_for(self, item: tuple[EntryLike, Buffer, int, int], now_ms: int) -> Segment:
        if self.segments:
            active = self.segments[-1]
            if (
                not self.roll_next
                and active.size + len(item[1]) <= self.segment_bytes_max
                and now_ms - active.created_ms <= self.segment_ms_max
            ):
                return active
            self.close_segment(active)
        return self._open_segment(item[2], now_ms)

    def _open_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = self.add_segment(base_offset, now_ms)
        file = self._bench.pool.get(segment.path, create=True)
        if file.size():
            # Not to be cut, for that could be undone by a power cut.
            self.remove_files(segment.paths())
            self._bench.pool.get(segment.path, create=True)
        segment.index = SegmentIndex()
        self.roll_next = False
        self._bench.dirty_directories[self.directory] = None
        self._on_opened(segment)
        return segment

    def add_segment(self, base_offset: int, created_ms: int) -> Segment:
        """Add an empty segment at the end, without touching a file."""
        segment = Segment(self.directory, base_offset, created_ms, self.index_interval_bytes)
        segment.virtual_base = self._virtual_end
        self.segments.append(segment)
        self._bases.append(base_offset)
        return segment

    def restore_segment(
        self, base_offset: int, created_ms: int, size: int, max_timestamp: int
    ) -> Segment:
        """Add a segment whose file is known to be there."""
        segment = self.add_segment(base_offset, created_ms)
        segment.size = size
        segment.max_timestamp = max_timestamp
        self._virtual_end += size
        return segment

    def close_segment(self, segment: Segment) -> None:
        """Write the index of a segment that is not written any more; buffered, and never needed."""
        index = segment.index
        if index is None or index.covered_from or not segment.size:
            return
        contents = index.write(segment.size)
        for path, content in zip(segment.sparse_index_paths(), contents, strict=True):
            file = self._bench.pool.get(path, create=True)
            file.truncate(0)
            file.write_at(0, [content])
        self._bench.indexes.touch(segment)

    # -- cutting

    def take_from(self, offset: int) -> list[Segment]:
        """Remove and return the segments that begin at or after an offset."""
        keep = bisect_right(self._bases, offset - 1)
        taken = self.segments[keep:]
        del self.segments[keep:], self._bases[keep:]
        self._virtual_end = taken[0].virtual_base if taken else self._virtual_end
        self._forget(taken)
        return taken

    def take_before(self, count: int) -> list[Segment]:
        """Remove and return the first segments."""
        taken = self.segments[:count]
        del self.segments[:count], self._bases[:count]
        self._forget(taken)
        return taken

    def _forget(self, taken: list[Segment]) -> None:
        for segment in taken:
            segment.is_removed = True
            self.dirty.pop(segment, None)
            self._bench.indexes.forget(segment)

    def find_run(self, bases: tuple[int, ...]) -> int | None:
        """Return where segments with these base offsets stand one after another, if they do."""
        at = bisect_right(self._bases, bases[0]) - 1 if bases else -1
        return at if at >= 0 and tuple(self._bases[at : at + len(bases)]) == bases else None

    def find_rest(self, bases: tuple[int, ...]) -> tuple[int, int]:
        """Return where a run stands, and how many are left: its end may have been cut off."""
        at = bisect_left(self._bases, bases[0])
        count = 0
        for have, base in zip(self._bases[at:], bases, strict=False):
            if have != base:
                break
            count += 1
        return at, count

    def replace(self, at: int, count: int, new: SegmentSummary) -> None:
        """Let one segment, whose files are in place, stand for several."""
        taken = self.segments[at : at + count]
        segment = Segment(
            self.directory, new.base_offset, new.created_ms, self.index_interval_bytes
        )
        segment.size = new.size_bytes
        segment.max_timestamp = new.max_timestamp
        segment.virtual_base = taken[0].virtual_base
        if at + count < len(self._bases):
            self.tail.forget_before(self._bases[at + count])
        else:
            # What came after them was cut off, and this is where the log goes on.
            self.tail.clear()
            self._virtual_end = segment.virtual_base + segment.size
        self.segments[at : at + count] = [segment]
        self._bases[at : at + count] = [new.base_offset]
        self._forget(taken)

    def find_cut(self, offset: int) -> Steps[Cut | None]:
        """Find where the last segment has to end so that the log ends before an offset."""
        if not self.segments:
            return None
        segment = self.segments[-1]
        _, start, latest = yield from self._floor(segment, offset - 1)

        def stop(place: BatchPlace, position: int) -> bool:
            nonlocal latest
            if place.base_offset >= offset:
                return True
            if place.last_offset >= offset:
                raise StorageCorrupt(
                    f"{segment.path} cannot be cut at offset {offset}: that is inside a batch"
                )
            latest = max(latest, place.max_timestamp)
            return False

        position, _ = yield from walk(segment, start, segment.size, stop)
        return Cut(segment, position, latest)

    def apply_cut(self, cut: Cut) -> None:
        """Let a segment end earlier; buffered."""
        segment, position, latest = cut
        if position >= segment.size and segment.index is not None:
            return
        self._bench.pool.get(segment.path).truncate(position)
        segment.size = position
        segment.max_timestamp = latest
        self._virtual_end = segment.virtual_base + position
        if segment.index is None:
            segment.index = SegmentIndex(covered_from=position)
        segment.index.truncate(position)
        self._bench.indexes.forget(segment)
        self.remove_files(segment.paths()[1:])
        self.dirty[segment] = None

    def reset_positions(self) -> None:
        """Forget the tail, and count positions anew; after recovery."""
        self.tail.clear()
        self._virtual_end = 0
        for segment in self.segments:
            segment.virtual_base = self._virtual_end
            self._virtual_end += segment.size

    def remove_files(self, paths: tuple[str, ...]) -> None:
        """Remove files of this log."""
        for path in paths:
            self._bench.pool.drop(path)
            self._bench.disk.remove(path)
        self._bench.dirty_directories[self.directory] = None

    # -- finding

    def at_offset(self, offset: int) -> int:
        """Return which segment an offset is in, or would be in."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def end_of(self, at: int, log_end: int) -> int:
        """Return the offset after a segment's last one."""
        return self._bases[at + 1] if at + 1 < len(self._bases) else log_end

    def index_of(self, segment: Segment) -> Steps[SegmentIndex]:
        """Return a segment's whole index, loaded or rebuilt if need be."""
        index = segment.index
        if index is None or index.covered_from:
            end = segment.size if index is None else index.covered_from
            older = yield from load_index(segment)
            if older is None:
                older = yield from rebuild_index(segment, end)
                self._bench.statistics.indexes_rebuilt += 1
            # Much may have happened meanwhile.
            if segment.index is None:
                segment.index = older
            elif segment.index.covered_from:
                segment.index.prepend(older)
            index = segment.index
        if not self.segments or segment is not self.segments[-1]:
            self._bench.indexes.touch(segment)
        return index

    def _floor(self, segment: Segment, offset: int) -> Steps[tuple[int, int, int]]:
        """Return a batch at or before an offset's: base offset, position, latest time before it."""
        index = segment.index
        entry = None if index is None else index.before_offset(offset)
        if entry is None and (index is None or index.covered_from):
            index = yield from self.index_of(segment)
            entry = index.before_offset(offset)
        return (segment.base_offset, 0, NO_TIMESTAMP) if entry is None else entry

    def find_batch(self, segment: Segment, offset: int) -> Steps[tuple[int, BatchPlace | None]]:
        """Find a segment's first batch that ends at or after an offset.

        Offsets lie outside the checksum: one that begins after the offset, as behind a hole that
        compaction has left, is believed only if it ends before the next one begins.

        Raises:
            StorageCorrupt: there is none where one must be, or it cannot be the right one.
        """
        for attempt in range(2):
            base, start, _ = yield from self._floor(segment, offset)
            try:
                position, place = yield from self._walk_to(segment, base, start, offset)
            except StorageCorrupt:
                if attempt or not start or (yield from self._is_index_right(segment, start)):
                    raise
            else:
                if place is not None and place.base_offset > offset:
                    yield from self._check_behind_hole(segment, position, place)
                return position, place
            # The index is not this file's: make another, once.
            segment.index = None
            self.remove_files(segment.sparse_index_paths())
        raise StorageCorrupt(f"{segment.path}: no way to offset {offset}")

    def _walk_to(
        self, segment: Segment, base: int, start: int, offset: int
    ) -> Steps[tuple[int, BatchPlace | None]]:
        """Walk to the first batch that ends at or after an offset, from one that the index names.

        Raises:
            StorageCorrupt: the segment is damaged there, or the index is not its own.
        """

        def stop(place: BatchPlace, position: int) -> bool:
            if position == start and start and place.base_offset != base:
                raise StorageCorrupt(
                    f"{segment.path}: the batch at byte {position} says that it begins with offset"
                    f" {place.base_offset}, and the index says {base}"
                )
            return place.last_offset >= offset

        return (yield from walk(segment, start, segment.size, stop))

    def _check_behind_hole(self, segment: Segment, position: int, place: BatchPlace) -> Steps[None]:
        """See that a batch behind a hole ends before what follows it begins.

        Raises:
            StorageCorrupt: it does not, or what follows cannot be read: it may have been moved.
        """
        after = position + place.size_bytes
        following = None
        if after < segment.size:
            data = yield ReadRequest(segment.path, after, HEADER_BYTES)
            found = read_place(data, 0) if len(data) == HEADER_BYTES else None
            following = -1 if found is None else found.base_offset
        else:
            at = bisect_right(self._bases, segment.base_offset)
            following = self._bases[at] if at < len(self._bases) else None
        if following is not None and following <= place.last_offset:
            raise StorageCorrupt(
                f"{segment.path}: the batch at byte {position} says that it has the offsets"
                f" {place.base_offset} to {place.last_offset}, which does not fit to what follows"
            )

    def _is_index_right(self, segment: Segment, start: int) -> Steps[bool]:
        """Tell whether a segment's index fits to its file next to an entry for `start`.

        Then it is the file that is damaged there, and the index still leads to the rest of it.
        """
        index = segment.index
        if index is None:
            return False
        at = bisect_left(index.positions, start)
        for near in (at, at + 1, at - 1):
            # That the first entry is right says nothing: it is the same in every index.
            if 0 < near < len(index.positions):
                position, offset = index.positions[near], index.offsets[near]
                data = yield ReadRequest(segment.path, position, HEADER_BYTES)
                place = read_place(data, 0) if len(data) == HEADER_BYTES else None
                if place is not None and place.base_offset == offset:
                    return True
        return False

    def locate(
        self, offset: int, bytes_max: int, limit: int, log_end: int
    ) -> Steps[list[FileRange]]:
        """Find whole batches from an offset up to a limit, all within one segment.

        Raises:
            StorageCorrupt: the very first one is damaged; before another that is, the range ends.
        """
        active = self.segments[-1] if self.segments else None
        size_now = 0 if active is None else active.size
        while self.segments:
            # Segments may come and go while something is read: what is known of this one, is now.
            at = self.at_offset(offset)
            segment, end_offset = self.segments[at], self.end_of(at, log_end)
            size = size_now if segment is active else segment.size
            position, place = yield from self.find_batch(segment, offset)
            if place is None:
                if end_offset >= log_end:
                    return []
                offset = end_offset
                continue
            if place.last_offset >= end_offset:
                raise StorageCorrupt(
                    f"{segment.path}: the batch at byte {position} says it ends with offset "
                    f"{place.last_offset}, which cannot be"
                )
            if place.last_offset >= limit:
                return []
            cap = position + bytes_max
            if end_offset <= limit and size <= cap:
                end = size
            else:
                end = yield from self._find_end(segment, position, place, cap, limit)
            file = self._bench.pool.get(segment.path)
            return [FileRange(file, position, end - position)]
        return []

    def _find_end(
        self,
        segment: Segment,
        position: int,
        first: BatchPlace,
        cap: int,
        limit: int,
    ) -> Steps[int]:
        """Return where to stop, at least after the first batch, and not after byte `cap`."""
        start = position + first.size_bytes
        index = segment.index
        if index is not None:
            by_place, by_offset = index.before_position(cap), index.before_offset(limit)
            if by_place is not None and by_offset is not None:
                start = max(start, min(by_place[1], by_offset[1]))
        good_end = start

        def stop(place: BatchPlace, at: int) -> bool:
            nonlocal good_end
            if at + place.size_bytes > cap or place.last_offset >= limit:
                return True
            good_end = at + place.size_bytes
            return False

        try:
            end, _ = yield from walk(segment, start, segment.size, stop)
        except StorageCorrupt:
            return good_end
        return end

    def locate_in_tail(self, offset: int, bytes_max: int, limit: int) -> list[FileRange] | None:
        """Do what `locate` does without looking at a file, or return None."""
        tail = self.tail
        at = tail.find(offset)
        if at is None:
            return None
        if tail.last_offset(at) >= limit:
            return []
        segment = self.segments[self.at_offset(tail.last_offset(at))]
        segment_end = segment.virtual_base + segment.size
        begin, end = tail.range_from(at, bytes_max, segment_end, limit)
        file = self._bench.pool.get(segment.path)
        return [FileRange(file, begin - segment.virtual_base, end - begin)]
