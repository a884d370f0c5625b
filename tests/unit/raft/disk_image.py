"""What stands on a member's disk, as a value that operations are applied to."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from kafkaesque.model.ids import Term
from kafkaesque.raft.configuration import PlacedConfiguration, read_configuration
from kafkaesque.raft.entries import EntryKind, EntryMeta, HardState, TermStart
from kafkaesque.raft.restored_state import RestoredState


@dataclass(slots=True)
class Write:
    """One operation in a member's journal; they become durable in order."""

    hard_state: HardState | None = None
    truncate_to: int | None = None
    entries: list[EntryMeta] = field(default_factory=list)
    #: (index, term, configuration) that take the place of the whole log.
    snapshot: tuple[int, Term, PlacedConfiguration] | None = None
    #: The log starts after this index; what is before it was committed.
    start_after: tuple[int, Term, PlacedConfiguration] | None = None
    #: An entry that compaction has removed, by its last index.
    removed: int | None = None
    #: The member is over its loss.
    is_readmitted: bool = False
    #: The term starts afterwards: a checkpoint that the driver keeps.
    term_starts: list[TermStart] = field(default_factory=list)


class DiskImage:
    """Hard state, entries, log start."""

    def __init__(self, base: PlacedConfiguration) -> None:
        self.hard_state = HardState(Term(0), None)
        self.start: tuple[int, Term] = (0, Term(0))
        self.entries: list[EntryMeta] = []
        self.last_index = 0
        self.term_starts: list[TermStart] = []
        self.base = base
        #: The number of the loss after which all of this was copied.
        self.amnesia = 0

    def copy(self) -> DiskImage:
        other = DiskImage(self.base)
        other.hard_state, other.start = self.hard_state, self.start
        other.entries, other.last_index = list(self.entries), self.last_index
        other.term_starts, other.amnesia = self.term_starts, self.amnesia
        return other

    def apply(self, write: Write) -> None:
        if write.hard_state is not None:
            self.hard_state = write.hard_state
        if write.snapshot is not None:
            index, term, self.base = write.snapshot
            self.start = (index, term)
            self.entries, self.last_index = [], index
        if write.truncate_to is not None and write.truncate_to < self.last_index:
            while self.entries and self.entries[-1].last_index > write.truncate_to:
                self.entries.pop()
            self.last_index = write.truncate_to
        if write.entries:
            self.entries.extend(write.entries)
            self.last_index = write.entries[-1].last_index
        if write.start_after is not None:
            index, term, self.base = write.start_after
            self.start = (index, term)
            self.entries = [entry for entry in self.entries if entry.last_index > index]
        if write.is_readmitted:
            self.amnesia = 0
        if write.removed is not None:
            self.entries = [e for e in self.entries if e.last_index != write.removed]
        self.term_starts = write.term_starts

    def term_at(self, index: int) -> Term:
        at = bisect_right(self.term_starts, index, key=lambda start: start.first_index) - 1
        return self.term_starts[at].term if at >= 0 else self.start[1]

    def has(self, index: int, term: Term) -> bool:
        """Tell whether the entry around `index` is there, or was before it was compacted."""
        if index <= self.start[0]:
            return True
        return index <= self.last_index and self.term_at(index) == term

    def entries_after(self, index: int) -> list[EntryMeta]:
        return self.entries[bisect_right(self.entries, index, key=lambda e: e.last_index) :]

    def restored(self) -> RestoredState:
        placed = [self.base]
        for entry in self.entries:
            if entry.kind is EntryKind.CONFIG and entry.last_index > self.base.index:
                configuration = read_configuration(entry.data)  # type: ignore[arg-type]
                placed.append(PlacedConfiguration(entry.last_index, configuration))
        return RestoredState(
            hard_state=self.hard_state,
            log_start=self.start,
            term_starts=self.term_starts,
            last_index=self.last_index,
            configurations=placed,
            amnesia=self.amnesia,
        )
