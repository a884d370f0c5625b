"""What one log knows of its compaction: what may be replaced, and what is about to be."""

from kafkaesque.storage.compaction_plan import CleanState
from kafkaesque.storage.segment_swap import Replacement


class LogCleaning:
    """Bookkeeping only; `GroupLog` moves the files.

    Only segments that a durable checkpoint knows as closed may be replaced: the write-ahead log has
    nothing of them any more, so recovery never writes them again. What was replaced must not be
    replaced again before a checkpoint covers that (`segment_swap` says why).
    """

    __slots__ = ("_fresh", "_is_noted", "_noted_end", "closed_end", "held_offset", "pending",
                 "state")  # fmt: skip

    def __init__(self) -> None:
        #: How far the log is clean.
        self.state = CleanState()
        #: Up to here the last run has left tombstones or markers that not all replicas have.
        self.held_offset = -1
        #: Replacements that wait for their group commit.
        self.pending: list[tuple[int, Replacement]] = []
        #: Segments that end at or before this offset may be replaced.
        self.closed_end = 0
        self._noted_end = 0
        #: Bases of segments that no checkpoint covers as they are now.
        self._fresh: set[int] = set()
        #: The checkpoint that is being made covers all there is.
        self._is_noted = False

    @property
    def is_settled(self) -> bool:
        """Whether a checkpoint covers all replacements, so that another run may begin."""
        return not self.pending and not self._fresh

    def may_replace(self, bases: tuple[int, ...], end_offset: int) -> bool:
        """Tell whether adjacent segments that end at an offset may be replaced now."""
        return bool(bases) and end_offset <= self.closed_end and self._fresh.isdisjoint(bases)

    def add(self, commit: int, replacement: Replacement) -> None:
        """A replacement was queued; a checkpoint that is being made does not cover it."""
        self.pending.append((commit, replacement))
        self._fresh.add(replacement.new.base_offset)
        self._is_noted = False

    def take_due(self, commit: int) -> Replacement | None:
        """Return the next replacement whose group commit is durable."""
        if self.pending and self.pending[0][0] <= commit:
            return self.pending.pop(0)[1]
        return None

    def on_noted(self, last_base: int) -> None:
        """A checkpoint is being made; the last segment begins at `last_base`."""
        self._noted_end = last_base
        self._is_noted = True

    def on_checkpointed(self) -> None:
        """That checkpoint is durable."""
        self.closed_end = self._noted_end
        if self._is_noted:
            self._fresh.clear()

    def on_cut(self, end_offset: int, last_base: int) -> None:
        """The log ends at `end_offset` now, and its last segment begins at `last_base`."""
        self.closed_end = min(self.closed_end, last_base)
        self._noted_end = min(self._noted_end, last_base)
        if end_offset < self.state.end_offset:
            self.state = CleanState(end_offset, self.state.horizon_ms)
