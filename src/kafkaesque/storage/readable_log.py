"""What a log knows and gives: numbers without reading, batches and entries by reading."""

from collections.abc import Callable

from kafkaesque.env.disk import Buffer, Disk, FileRange
from kafkaesque.model.errors import OffsetOutOfRange
from kafkaesque.model.ids import Index, NodeId, Offset, Term
from kafkaesque.storage import log_reads
from kafkaesque.storage.entries import EntryLike, HardState, LogIdentity, TermSpan
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.file_pool import FilePool
from kafkaesque.storage.positions import LogPositions
from kafkaesque.storage.read_steps import Cold, Steps, run_blocking, run_warm
from kafkaesque.storage.segment import Segment
from kafkaesque.storage.segment_table import Run, SegmentTable
from kafkaesque.storage.statistics import StorageStatistics
from kafkaesque.storage.workbench import Workbench

#: After every offset.
FAR_OFFSET = 2**63 - 1


class ReadableLog:
    """The reading half of `GroupLog`, which see for what `held` means."""

    __slots__ = (
        "_bench",
        "_held",
        "_written_end",
        "amnesia",
        "commit_hint",
        "generation",
        "hard_state",
        "identity",
        "is_deleted",
        "layout",
        "positions",
        "segments",
    )

    def __init__(self, bench: Workbench, identity: LogIdentity) -> None:
        self._bench = bench
        self.identity = identity
        self.positions = LogPositions()
        self.segments = SegmentTable(bench, identity.directory, self._on_segment_opened)
        self.hard_state = HardState(Term(0), None)
        #: The number of the loss of an earlier log and its votes, until it is over; 0: none.
        self.amnesia = 0
        #: A commit index that once was true; not durable by itself.
        self.commit_hint = Index(0)
        #: Counts what makes positions that were read before void.
        self.generation = 0
        #: Counts what only moves them: a search that was under way is made again.
        self.layout = 0
        self.is_deleted = False
        #: Batches that wait for their segment; None: files are as they should be.
        self._held: Run | None = None
        #: While held: how far segments can be read.
        self._written_end = 0

    def __repr__(self) -> str:
        return f"GroupLog({self.identity.directory!r}, group {self.identity.group})"

    def _on_segment_opened(self, segment: Segment) -> None:
        """A new segment file is there."""

    # -- what is known without reading

    @property
    def group(self) -> int:
        """The Raft group."""
        return self.identity.group

    @property
    def start_offset(self) -> Offset:
        """The first offset that clients may read."""
        return Offset(self.positions.start_offset)

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record gets; buffered, not durable."""
        return Offset(self.positions.end_offset)

    @property
    def start_index(self) -> Index:
        """The last index that is not in the log any more; 0 if all are."""
        return Index(self.positions.prev_index)

    @property
    def start_term(self) -> Term:
        """The term at `start_index`."""
        return Term(self.positions.prev_term)

    @property
    def base_offset(self) -> Offset:
        """How many record positions there are up to `start_index`; a snapshot has to say it."""
        return Offset(self.positions.offset_after(self.positions.prev_index))

    @property
    def last_index(self) -> Index:
        """The last entry's last index; buffered, not durable."""
        return Index(self.positions.last_index)

    @property
    def last_term(self) -> Term:
        """The term at `last_index`."""
        return Term(self.positions.last_term)

    @property
    def term_spans(self) -> list[TermSpan]:
        """The terms, oldest first; the first span may begin at or before `start_index`."""
        return self.positions.spans

    @property
    def term(self) -> Term:
        """The term of the hard state."""
        return self.hard_state.term

    @property
    def vote(self) -> NodeId | None:
        """The vote of the hard state."""
        return self.hard_state.vote

    @property
    def configurations(self) -> list[tuple[Index, bytes]]:
        """The configurations that count, oldest first, with their indexes."""
        return [(mark.index, mark.payload) for mark in self.positions.configurations()]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self.segments.size_bytes

    def offset_of_index(self, index: int) -> Offset:
        """Return the offset of the record at an index; for a mark, that of the next record."""
        return Offset(self.positions.offset_of_index(index))

    def offset_after(self, index: int) -> Offset:
        """Return the number of record positions up to and including an index.

        For a commit index this is the high watermark.
        """
        return Offset(self.positions.offset_after(index))

    def index_of_offset(self, offset: int) -> Index:
        """Return the index of the record at an offset."""
        return Index(self.positions.index_of_offset(offset))

    def term_before(self, offset: int) -> int:
        """Return the term of the record before an offset; -1 if this log cannot tell.

        It can from `base_offset` to `end_offset`. The same term there in two logs says that they
        have, or had, the same records up to that offset.
        """
        return self.positions.term_before(offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, Offset]:
        """Return (the greatest epoch up to `epoch`, its end offset); (-1, -1) if unknown."""
        found, end = self.positions.end_of_epoch(epoch)
        return found, Offset(end)

    @property
    def is_held(self) -> bool:
        """Whether the files do not have what the log has, because a group commit is waited for."""
        return self._held is not None

    # -- reading

    @property
    def pool(self) -> FilePool:
        """The broker's open files."""
        return self._bench.pool

    @property
    def disk(self) -> Disk:
        """The broker's disk."""
        return self._bench.disk

    @property
    def statistics(self) -> StorageStatistics:
        """The broker's counters."""
        return self._bench.statistics

    @property
    def written_end(self) -> int:
        """The offset before which batches are in the segments."""
        return self.positions.end_offset if self._held is None else self._written_end

    @property
    def _files_end(self) -> int:
        """The offset after the last batch in the files.

        While a cut is waited for, what it cuts off is still there: then nobody knows.
        """
        return self.positions.end_offset if self._held is None else FAR_OFFSET

    @property
    def held_entries(self) -> list[EntryLike]:
        """Entries behind that."""
        return [] if self._held is None else [item[0] for item in self._held]

    def _check_offset(self, offset: int) -> None:
        if not self.positions.start_offset <= offset <= self.positions.end_offset:
            raise OffsetOutOfRange(
                f"{self!r} holds offsets {self.start_offset} to {self.end_offset}, not {offset}"
            )

    def locate(self, offset: int, bytes_max: int, limit_offset: int) -> list[FileRange] | None:
        """Return where whole batches lie, from the one with `offset` up to `limit_offset`.

        At least one batch, if there is one, even if it is longer than `bytes_max`; a segment's end
        may end it early. None: it is not known without the device, use `locate_async`.

        Raises:
            OffsetOutOfRange: before the log's start or after its end.
        """
        self._check_offset(offset)
        limit = min(limit_offset, self.written_end)
        if offset >= limit:
            return []
        found = self.segments.locate_in_tail(offset, bytes_max, limit)
        if found is not None:
            return found
        steps = self.segments.locate(offset, bytes_max, limit, self._files_end)
        try:
            return run_warm(steps, self._bench.pool)
        except (Cold, StorageCorrupt):
            return None  # what is damaged is told by `locate_async`

    def locate_async(
        self,
        offset: int,
        bytes_max: int,
        limit_offset: int,
        on_done: Callable[[list[FileRange] | Exception], None],
    ) -> None:
        """Do the same off the loop; `on_done` at once if nothing has to be read for it."""
        try:
            self._check_offset(offset)
        except OffsetOutOfRange as error:
            on_done(error)
            return
        limit = min(limit_offset, self.written_end)
        if offset >= limit:
            on_done([])
            return

        def steps() -> Steps[list[FileRange]]:
            return self.segments.locate(offset, bytes_max, limit, self._files_end)

        log_reads.run(self, steps, list, on_done)

    def locate_blocking(self, offset: int, bytes_max: int, limit_offset: int) -> list[FileRange]:
        """Do the same, waiting; for start-up only."""
        self._check_offset(offset)
        limit = min(limit_offset, self.written_end)
        if offset >= limit:
            return []
        steps = self.segments.locate(offset, bytes_max, limit, self._files_end)
        return run_blocking(steps, self._bench.pool)

    def cached_batches(self, offset: int, bytes_max: int, limit_offset: int) -> list[Buffer] | None:
        """Return what `locate` would find as the very buffers, or None if they are not kept."""
        self._check_offset(offset)
        return log_reads.cached_batches(self, offset, bytes_max, limit_offset)

    def entries_from(self, first_index: int, bytes_max: int) -> list[EntryLike] | None:
        """Return entries whose last index is at least `first_index`, marks included.

        At least one if there is one, and not more than `bytes_max` bytes beyond that. None: use
        `entries_async`.

        Raises:
            EntriesGone: the log begins later.
        """
        return log_reads.entries_from(self, first_index, bytes_max)

    def entries_async(
        self,
        first_index: int,
        bytes_max: int,
        on_done: Callable[[list[EntryLike] | Exception], None],
    ) -> None:
        """Do the same off the loop; `on_done` at once if nothing has to be read for it."""
        log_reads.entries_async(self, first_index, bytes_max, on_done)

    def offset_for_timestamp(
        self, timestamp: int, on_done: Callable[[tuple[int, Offset] | Exception | None], None]
    ) -> None:
        """Find (timestamp, offset) of the first record that is not older; None if there is none.

        It is not looked at whether that is committed. `OffsetNotAvailable`: ask again.
        """
        log_reads.search(self, lambda: log_reads.offset_for_timestamp(self, timestamp), on_done)

    def max_timestamp(
        self, on_done: Callable[[tuple[int, Offset] | Exception | None], None]
    ) -> None:
        """Find (timestamp, offset) of the first of the newest records; None in an empty log.

        `OffsetNotAvailable`: ask again.
        """
        log_reads.search(self, lambda: log_reads.max_timestamp(self), on_done)

    def retention_candidate(
        self, now_wall_ms: int, retention_ms: int, retention_bytes: int, high_watermark: int
    ) -> Offset | None:
        """Return where the log should start by its topic's options (-1: no limit), if later.

        Whole segments before the high watermark are given up; by size never the active one.
        """
        return log_reads.retention_candidate(
            self, now_wall_ms, retention_ms, retention_bytes, high_watermark
        )
