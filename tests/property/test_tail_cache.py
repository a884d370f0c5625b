"""What logs keep of their newest entries, beside plain lists of all that they have."""

from dataclasses import dataclass, field

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaesque.model.ids import Index, Term
from kafkaesque.storage import tail_cache
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.tail_cache import BYTES_PER_PLACE, ENTRY_OVERHEAD_BYTES, LogTail, TailCache

LOGS = 2
#: Nothing is dropped for want of room.
ROOMY = 10**9
ROOMS = (0, 1_000, 5_000, 20_000, ROOMY, ROOMY, ROOMY, ROOMY)
COUNTS = st.integers(0, 12)
#: Whereabouts in a log, and how far from the end of the entry there.
SHARES = st.floats(0, 1.1)
NEAR = st.integers(-1, 2)


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry and where it lies."""

    entry: LogEntry
    first_offset: int
    last_offset: int
    begin: int
    end: int


@dataclass(slots=True)
class Log:
    """A tail, and what the log has."""

    tail: LogTail
    placed: list[Placed] = field(default_factory=list)
    #: Replicas have the log up to this index, as they have told.
    everywhere: int = 0
    #: What is before this offset lies elsewhere since it was compacted.
    compacted_to: int = 0

    @property
    def end_offset(self) -> int:
        return self.placed[-1].last_offset + 1 if self.placed else 0

    @property
    def end(self) -> int:
        return self.placed[-1].end if self.placed else 0

    def near(self, share: float, by: int) -> int:
        """Return the last offset of an entry, or one beside it: mistakes are made there."""
        if not self.placed:
            return 0
        at = min(int(share * len(self.placed)), len(self.placed) - 1)
        return max(0, self.placed[at].last_offset + by)

    def is_there(self, placed: Placed) -> bool:
        """Tell whether an entry lies where it was written."""
        return placed.last_offset >= self.compacted_to


class TailMachine(RuleBasedStateMachine):
    """Adds, releases, cuts and compacts; whatever is found is what the lists have."""

    @initialize(bytes_max=st.sampled_from(ROOMS), gap_max=st.integers(1, 5), count=COUNTS)
    def begin(self, bytes_max: int, gap_max: int, count: int) -> None:
        """The logs have something from the start: nothing can be seen of empty ones."""
        self.gap_max, tail_cache.GAP_MAX = tail_cache.GAP_MAX, gap_max
        self.bytes_max = bytes_max
        self.cache = TailCache(bytes_max)
        self.logs = [Log(LogTail(self.cache)) for _ in range(LOGS)]
        for at in range(LOGS):
            self._add(self.logs[at], [100] * count, width=1 + at, hole=0)

    def teardown(self) -> None:
        if hasattr(self, "gap_max"):
            tail_cache.GAP_MAX = self.gap_max

    @rule(
        at=st.integers(0, LOGS - 1),
        sizes=st.lists(st.integers(1, 2_000), min_size=1, max_size=8),
        width=st.integers(1, 3),
        hole=st.sampled_from([0, 0, 0, 2]),
    )
    def add(self, at: int, sizes: list[int], width: int, hole: int) -> None:
        """A hole is what compaction has left in the log that this one is copied from."""
        self._add(self.logs[at], sizes, width, hole)

    def _add(self, log: Log, sizes: list[int], width: int, hole: int) -> None:
        for size in sizes:
            base = log.end_offset + hole
            last = base + width - 1
            entry = LogEntry(EntryKind.DATA, Index(base + 1), Index(last + 1), Term(1), b"x" * size)
            log.placed.append(Placed(entry, base, last, log.end, log.end + size))
            log.tail.add(entry, base, log.end, size)

    @rule(at=st.integers(0, LOGS - 1), share=SHARES, by=NEAR)
    def release(self, at: int, share: float, by: int) -> None:
        log = self.logs[at]
        index = min(log.near(share, by), log.end_offset)
        log.everywhere = max(log.everywhere, index)
        log.tail.release_to(index)

    @rule(at=st.integers(0, LOGS - 1), share=st.floats(0, 1))
    def truncate(self, at: int, share: float) -> None:
        log = self.logs[at]
        keep = int(len(log.placed) * share)
        del log.placed[keep:]
        log.everywhere = min(log.everywhere, log.end_offset)
        log.compacted_to = min(log.compacted_to, log.end_offset)
        log.tail.truncate(log.end_offset)

    @rule(at=st.integers(0, LOGS - 1), share=SHARES, by=NEAR)
    def compact(self, at: int, share: float, by: int) -> None:
        log = self.logs[at]
        log.compacted_to = max(log.compacted_to, min(log.near(share, by), log.end_offset))
        log.tail.forget_before(log.compacted_to)

    @rule(at=st.integers(0, LOGS - 1))
    def clear(self, at: int) -> None:
        log = self.logs[at]
        log.tail.clear()
        log.placed.clear()
        log.everywhere = log.compacted_to = 0

    @rule(
        at=st.integers(0, LOGS - 1),
        share=SHARES,
        by=NEAR,
        bytes_max=st.integers(0, 6_000),
        limit_share=SHARES,
        limit_by=NEAR,
    )
    def find(
        self, at: int, share: float, by: int, bytes_max: int, limit_share: float, limit_by: int
    ) -> None:
        log = self.logs[at]
        offset, limit = log.near(share, by), log.near(limit_share, limit_by)
        found = log.tail.find(offset)
        rest = [each for each in log.placed if each.last_offset >= offset]
        if found is None:
            return
        assert rest
        assert log.tail.last_offset(found) == rest[0].last_offset
        assert rest[0].last_offset >= log.compacted_to
        if rest[0].last_offset >= limit:
            return
        end = rest[0].end
        for each in rest[1:]:
            if each.last_offset >= limit or each.end > rest[0].begin + bytes_max:
                break
            end = each.end
        assert log.tail.range_from(found, bytes_max, log.end, limit) == (rest[0].begin, end)

    @rule(at=st.integers(0, LOGS - 1), share=SHARES, by=NEAR, bytes_max=st.integers(0, 6_000))
    def read_kept(self, at: int, share: float, by: int, bytes_max: int) -> None:
        log = self.logs[at]
        offset = log.near(share, by)
        kept = log.tail.kept_from(offset, bytes_max)
        if kept is None:
            return
        rest = [each for each in log.placed if each.last_offset >= offset]
        found = rest[: len(kept.entries)]
        assert list(kept.entries) == [each.entry for each in found]
        assert kept.is_all == (len(found) == len(rest))
        assert kept.size_bytes == found[-1].end - found[0].begin
        assert found[-1].begin - found[0].begin <= bytes_max
        assert kept.is_all or kept.size_bytes > bytes_max

    @invariant()
    def what_is_kept_is_counted_and_bounded(self) -> None:
        if not hasattr(self, "cache"):
            return
        size = 0
        for log in self.logs:
            for each in log.placed:
                is_kept = log.tail.kept_from(each.last_offset, 0) is not None
                if is_kept:
                    size += each.end - each.begin + ENTRY_OVERHEAD_BYTES
                is_wanted = each.entry.last_index > log.everywhere and log.is_there(each)
                assert is_wanted or not is_kept
                assert is_kept or not (is_wanted and self.bytes_max == ROOMY)
        assert self.cache.size_bytes == size <= self.bytes_max
        places = sum(len(log.tail) for log in self.logs)
        assert places <= self.bytes_max // BYTES_PER_PLACE

    @invariant()
    def places_are_known_while_there_is_room(self) -> None:
        if not hasattr(self, "cache"):
            return
        for log in self.logs:
            for each in log.placed:
                found = [log.tail.find(offset) for offset in (each.first_offset, each.last_offset)]
                assert log.is_there(each) or found == [None, None]
                if self.bytes_max == ROOMY and log.is_there(each):
                    assert found[0] == found[1] is not None


TestTail = TailMachine.TestCase
# A mistake makes most runs fail, each in another way: to look for the lines that all have in common
# takes minutes.
TestTail.settings = settings(
    max_examples=3 * settings().max_examples,
    report_multiple_bugs=False,
    phases=[each for each in settings().phases if each is not Phase.explain],
)
