"""What a log knows of itself without reading: where it begins and ends, its terms and its files."""

from collections.abc import Callable

from kafkaesque.env.disk import Buffer, Disk
from kafkaesque.model.ids import Index, NodeId, Offset, Term
from kafkaesque.storage.entries import EntryLike, HardState, LogIdentity, TermSpan
from kafkaesque.storage.file_pool import FilePool
from kafkaesque.storage.positions import LogPositions
from kafkaesque.storage.segment import Segment
from kafkaesque.storage.segment_table import Run, SegmentTable
from kafkaesque.storage.statistics import StorageStatistics
from kafkaesque.storage.workbench import SharedLog, Workbench

#: After every offset.
FAR_OFFSET = 2**63 - 1


class LogState(SharedLog):
    """What is known of a log without reading; see `GroupLog` for what `held` means."""

    __slots__ = (
        "_bench",
        "_held",
        "_written_end",
        "amnesia",
        "commit_hint",
        "hard_state",
        "layout",
        "open_sealed",
        "positions",
        "segments",
    )

    def __init__(self, bench: Workbench, identity: LogIdentity) -> None:
        super().__init__(identity)
        self._bench = bench
        self.positions = LogPositions()
        self.segments = SegmentTable(bench, identity.directory, self._on_segment_opened)
        self.hard_state = HardState(Term(0), None)
        #: The number of the loss of an earlier log and its votes, until it is over; 0: none.
        self.amnesia = 0
        #: A commit index that once was true; not durable by itself.
        self.commit_hint = Index(0)
        #: Counts what only moves them: a search that was under way is made again.
        self.layout = 0
        #: Returns a sealed batch in the clear, or raises a `RequestRefused`.
        self.open_sealed: Callable[[Buffer], Buffer] | None = None
        #: Batches that wait for their segment; None: files are as they should be.
        self._held: Run | None = None
        #: While held: how far segments can be read.
        self._written_end = 0

    def __repr__(self) -> str:
        return f"GroupLog({self.identity.directory!r}, group {self.identity.group})"

    def _on_segment_opened(self, segment: Segment) -> None:
        """A new segment file is there."""

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

    # -- what reading needs

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
