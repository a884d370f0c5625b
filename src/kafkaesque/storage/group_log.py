"""One Raft group's log: batches in segments, marks beside them, and two ways to count both.

Theory of operation. `append` writes batches into the active segment at once, through the page
cache, and queues everything for the write-ahead log; what is durable is known when the store's
group commit reports. After a crash the write-ahead log since the last checkpoint is the truth and
segments are rewritten from it, so what a segment holds may be torn, too long or too short beyond
the checkpoint, but never before it. ROLL records say where segments began: recovery does not know
the topic's options, and without these could put all in one. To keep it so, bytes that a checkpoint
covers are overwritten or removed only after the record that says so is durable:

- `truncate_to` and `reset_to` change what is known at once, and the files only after their group
  commit ("held" until then). Batches appended meanwhile go to the write-ahead log and wait in
  memory for their segment.
- `advance_start` removes files after its group commit.
- `replace_segments` puts compacted segments in place after its group commit (see `segment_swap`).

With `write_caching` batches are not in the write-ahead log. Then recovery takes what it finds in
the segments after the checkpoint, checked, and must not misplace it: a mark that was lost would
shift all indexes behind it. So a mark ends the segment, and a segment begun since the checkpoint
counts only if its SEGMENT record is there. After a truncation batches go to the write-ahead log
until a checkpoint covers it, because old ones could be found behind the new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkaesque.env.disk import Buffer
from kafkaesque.model.errors import DiskFailed, InvariantBroken, OffsetOutOfRange
from kafkaesque.model.ids import NO_NODE, Index, NodeId, Offset, Term, write_node
from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.storage.batch_header import HEADER, LENGTH_OVERHEAD, MAGIC
from kafkaesque.storage.compaction_plan import (
    CleanState,
    CompactionOptions,
    CompactionPlan,
    plan_compaction,
)
from kafkaesque.storage.compactor import CleanedGroup, CompactionResult
from kafkaesque.storage.config import SegmentOptions
from kafkaesque.storage.entries import (
    EntryKind,
    EntryLike,
    HardState,
    LogEntry,
    LogIdentity,
    LogStart,
    Mark,
)
from kafkaesque.storage.live_plan import plan_live_cleaning
from kafkaesque.storage.log_cleaning import LogCleaning
from kafkaesque.storage.log_snapshot import FrozenLog, write_start
from kafkaesque.storage.positions import LogPositions
from kafkaesque.storage.read_steps import run_cold
from kafkaesque.storage.readable_log import ReadableLog
from kafkaesque.storage.segment import Segment
from kafkaesque.storage.segment_swap import (
    Replacement,
    discard_cleaned,
    finish_swap,
    key_index_path,
    paths_of,
    stage_swap,
    write_replacement,
)
from kafkaesque.storage.segment_table import Cut, Run
from kafkaesque.storage.wal_format import RecordKind
from kafkaesque.storage.workbench import Workbench

__all__ = ["EntryKind", "GroupLog", "LogEntry"]

_DATA = EntryKind.DATA
_header = HEADER.unpack_from


class GroupLog(ReadableLog):
    """See the module; made by `LogStore` only."""

    __slots__ = (
        "_barrier",
        "_cleaning",
        "_cut_at",
        "_doomed",
        "_is_settling",
        "_segment_commit",
        "_wal_always",
        "was_cached",
        "write_caching",
    )

    def __init__(self, bench: Workbench, identity: LogIdentity) -> None:
        super().__init__(bench, identity)
        #: Data goes to the page cache only; changed by `set_options`.
        self.write_caching = False
        #: It has been so at some time: what a majority had acknowledged may have been lost, also
        #: where that was long before now.
        self.was_cached = False
        #: Batches go to the write-ahead log in spite of write caching.
        self._wal_always = False
        #: While held: where the last segment has to end, and the group commit to wait for.
        self._cut_at: int | None = None
        self._barrier = 0
        self._is_settling = False
        #: The group commit that makes the newest SEGMENT record durable.
        self._segment_commit = 0
        #: Segments to be removed, each list with its group commit.
        self._doomed: list[tuple[int, list[Segment]]] = []
        self._cleaning = LogCleaning()

    @property
    def keeps_cached(self) -> bool:
        """Whether a batch that was just appended outlasts the process without a group commit.

        Recovery takes from the page cache only what lies in a segment of which the write-ahead log
        has a record, and nothing behind a truncation.
        """
        return (
            self.write_caching
            and not self._wal_always
            and self._segment_commit <= self._bench.durable_commit
        )

    # -- writing

    def append(self, entries: Sequence[EntryLike]) -> None:
        """Write entries at the end; buffered, durable with the next group commit.

        With write caching only marks become durable; batches are buffered, for good.

        Raises:
            DiskFailed: the disk failed. Whether it has room is asked before (`LogStore.refusal`).
            InvariantBroken: they do not fit to the end of the log.
        """
        self._refuse_if_failed()
        bench = self._bench
        positions, queue, group = self.positions, bench.wal.queue, self.identity.group
        to_wal = not self.write_caching or self._wal_always
        run: Run = []
        for entry in entries:
            first, last, term = entry.first_index, entry.last_index, entry.term
            before = positions.last_index
            if entry.kind != _DATA:
                if run and self.write_caching:
                    self._write(run)
                    run = []
                self._append_mark(entry)
                continue
            data: Buffer = entry.data  # type: ignore[assignment]
            base, length, epoch, magic, _, _, delta, _, latest = _header(data)
            if (
                magic != MAGIC
                or epoch != term
                or delta != last - first
                or length + LENGTH_OVERHEAD != len(data)
                or base != positions.add_data(first, last, term)
            ):
                raise InvariantBroken(
                    f"{self!r}: the batch at offset {base} of epoch {epoch}, {len(data)} bytes, is"
                    f" not the entry {first} to {last} of term {term}"
                )
            if to_wal:
                queue(
                    group, 0, term=term, first_index=first, last_index=last,
                    prev_index=before, payload=data,
                )  # fmt: skip
            run.append((entry, data, base, latest))
        bench.dirty_logs[self] = None
        if run:
            self._write(run)

    def _append_mark(self, entry: EntryLike) -> None:
        payload = bytes(entry.data)  # type: ignore[call-overload]
        kind = EntryKind(entry.kind)
        if entry.first_index != entry.last_index:
            raise InvariantBroken(f"{self!r}: a mark from {entry.first_index} is not one wide")
        before = self.positions.last_index
        self.positions.add_mark(Mark(Index(entry.last_index), entry.term, kind, payload))
        self._queue(
            RecordKind(kind),
            term=entry.term,
            first_index=entry.first_index,
            last_index=entry.last_index,
            prev_index=before,
            payload=payload,
        )
        if self.write_caching:
            self.segments.roll_next = True

    def _write(self, run: Run) -> None:
        if self._held is not None:
            self._held.extend(run)
            return
        try:
            self.segments.write(run)
        except DiskFailed as error:
            self._bench.fail(error)
            raise

    def release_to(self, index: int) -> None:
        """Keep in memory no longer what every replica has: the log up to an index."""
        self.segments.tail.release_to(index)

    def begin_term(self, term: Term, first_index: int) -> None:
        """Let a term begin in the hole before the next entry; durable like an entry.

        Needed only where a compacted log is copied: otherwise terms begin with their entries.
        """
        self._refuse_if_failed()
        self.positions.begin_term(term, first_index)
        self._queue(RecordKind.TERM, term=term, first_index=first_index)

    def save_hard_state(self, term: Term, vote: NodeId | None) -> None:
        """Write what a voter must not forget; queued, durable with the next group commit.

        Raises:
            InvariantBroken: the term would go back, or the vote of a term change.
        """
        old = self.hard_state
        if term < old.term or (term == old.term and old.vote not in (None, vote)):
            raise InvariantBroken(f"{self!r}: hard state from {old} to {(term, vote)}")
        self._refuse_if_failed()
        self.hard_state = HardState(term, vote)
        self._queue(
            RecordKind.HARD_STATE,
            term=term,
            last_index=write_node(NO_NODE if vote is None else vote),
        )

    def save_amnesia(self, amnesia: int) -> None:
        """Remember the number of the loss of an earlier log, or 0 that it is over.

        Queued, durable with the next group commit.
        """
        self._refuse_if_failed()
        self.amnesia = amnesia
        self._queue(RecordKind.AMNESIA, first_index=amnesia)

    def save_commit_hint(self, index: int) -> None:
        """Remember a commit index; free, and durable whenever a checkpoint happens to be made."""
        self.commit_hint = Index(index)

    def truncate_to(self, index: int) -> None:
        """Cut everything after an index; queued, durable with the next group commit.

        The log starts at its new end at the latest.

        Raises:
            InvariantBroken: the index is not in the log, or inside a batch.
        """
        self._refuse_if_failed()
        if index == self.positions.last_index and index >= self.positions.prev_index:
            return
        self._cut(index)

    def cap_start(self) -> bool:
        """Let the log start at its end, if it is to start later; queued like a truncation.

        Tell whether it was.

        A snapshot may say that it is to start where it has yet to grow to; and a power cut may have
        taken what was before the start (`write_caching`).
        """
        self._refuse_if_failed()
        is_later = self.positions.start_offset > self.positions.end_offset
        if is_later:
            self._cut(self.positions.last_index)
        return is_later

    def _cut(self, index: int) -> None:
        before, end_before = self.positions.last_index, self.positions.end_offset
        self.positions.truncate_to(index)
        self.generation += 1
        self._queue(RecordKind.TRUNCATE, last_index=index, prev_index=before)
        end = self.positions.end_offset
        self._wal_always = True
        if end < end_before or self._held is not None:
            self._hold(end)

    def advance_start(self, offset: int) -> None:
        """Let clients see nothing before an offset, and remove segments that end before it.

        Queued, durable with the next group commit; then the files go, too. All before the offset
        has to be committed.

        Raises:
            OffsetOutOfRange: the offset is after the log's end.
        """
        self._refuse_if_failed()
        positions = self.positions
        if offset <= positions.start_offset:
            return
        if offset > positions.end_offset:
            raise OffsetOutOfRange(f"{self!r} ends at {positions.end_offset}, before {offset}")
        table = self.segments
        gone = table.at_offset(offset)
        if table.segments and offset == positions.end_offset and self._held is None:
            gone = len(table.segments)
        for _, replacement in self._cleaning.pending:
            # They go with a later start: what is being replaced has to be there until it is.
            gone = min(gone, table.at_offset(replacement.new.base_offset))
        prev_index = positions.prev_index
        if gone:
            base = table.end_of(gone - 1, positions.end_offset)
            prev_index = max(prev_index, positions.index_of_offset(base - 1))
        positions.advance(offset, prev_index)
        self._doom(table.take_before(gone))
        self._queue(RecordKind.START, first_index=offset, last_index=prev_index)

    def reset_to(
        self,
        *,
        start_offset: int,
        index: int,
        term: Term,
        configuration: tuple[int, bytes] | None = None,
        base_offset: int | None = None,
    ) -> None:
        """Empty the log and let it begin after (index, term), as a snapshot says.

        `base_offset` is the sender's `base_offset`: the number of record positions up to `index`;
        `start_offset` if it is not given. Queued, durable with the next group commit.
        """
        base = start_offset if base_offset is None else base_offset
        if not 0 <= base <= min(start_offset, index):
            raise InvariantBroken(f"{self!r}: {base} records cannot lie up to index {index}")
        self._refuse_if_failed()
        mark = None
        if configuration is not None:
            mark = Mark(Index(configuration[0]), term, EntryKind.CONFIG, configuration[1])
        start = LogStart(
            start_offset=Offset(start_offset),
            prev_index=Index(index),
            prev_term=term,
            marks_before=index - base,
            configuration=mark,
        )
        self._queue(RecordKind.RESET, payload=write_start(start))
        self.positions = LogPositions(start)
        self.generation += 1
        self._wal_always = True
        if self._held is not None:
            self._held.clear()
        self._hold(0)
        self._written_end = base

    # -- compaction

    def compaction_plan(
        self,
        *,
        now_wall_ms: int,
        limit_offset: int,
        everywhere_offset: int,
        options: CompactionOptions,
    ) -> CompactionPlan | None:
        """Return what a run of compaction should clean now, or None if none is due.

        Only closed segments that a durable checkpoint covers and that end at or before
        `limit_offset`, which must be settled: committed, and before every open transaction.
        Of tombstones and markers none go from `everywhere_offset` on, which some replica lacks.
        None also while an earlier run's replacements are not covered: ask for a checkpoint.
        """
        if self._held is not None or not self._cleaning.is_settled:
            return None
        return plan_compaction(
            directory=self.identity.directory,
            segments=self.segments.sources(self._cleaning.closed_end),
            state=self._cleaning.state,
            limit_offset=limit_offset,
            everywhere_offset=everywhere_offset,
            held_offset=self._cleaning.held_offset,
            now_ms=now_wall_ms,
            options=options,
        )

    def live_plan(
        self,
        live: LiveRecords,
        *,
        now_wall_ms: int,
        limit_offset: int,
        everywhere_offset: int,
        options: CompactionOptions,
        is_forecast: bool = False,
    ) -> CompactionPlan | None:
        """Return the same where a table says which records are needed.

        With `is_forecast` it is what will be due when a checkpoint covers all closed segments.
        """
        if not is_forecast and (self._held is not None or not self._cleaning.is_settled):
            return None
        closed_end = self.segments.last_base if is_forecast else self._cleaning.closed_end
        return plan_live_cleaning(
            directory=self.identity.directory,
            segments=self.segments.sources(closed_end),
            live=live,
            state=self._cleaning.state,
            limit_offset=limit_offset,
            everywhere_offset=everywhere_offset,
            now_ms=now_wall_ms,
            options=options,
        )

    @property
    def has_closed(self) -> bool:
        """Whether there is a segment that is not written any more: no other can be cleaned."""
        return len(self.segments.segments) > 1

    def mark_for_checkpoint(self) -> bool:
        """Let the next checkpoint cover the closed segments; False if one does already.

        Nobody would do that for a log that is not written any more.
        """
        if self.segments.last_base <= self._cleaning.closed_end and self._cleaning.is_settled:
            return False
        self._bench.dirty_logs[self] = None
        return True

    @property
    def closed_end(self) -> int:
        """What is before it a durable checkpoint knows as closed."""
        return self._cleaning.closed_end

    @property
    def clean_state(self) -> CleanState:
        """How far the log has been compacted."""
        return self._cleaning.state

    @property
    def is_replacing(self) -> bool:
        """Whether a replacement waits for its group commit; no checkpoint is noted until then."""
        return bool(self._cleaning.pending)

    def replace_segments(self, cleaned: CleanedGroup) -> bool:
        """Let a cleaned segment, written and synced, take the place of those it was made from.

        Queued; done when that is durable, with the next group commit. False, and the new files
        are removed, if the log has changed meanwhile: then the run is void.

        Raises:
            DiskFailed: the device refused; the store is fenced.
        """
        self._refuse_if_failed()
        bench, table, directory = self._bench, self.segments, self.identity.directory
        replacement = cleaned.replacement
        bases, base = replacement.old_bases, replacement.new.base_offset
        at = table.find_run(bases)
        try:
            if (
                at is None
                or self._held is not None
                or at + len(bases) >= len(table.segments)
                or not self._cleaning.may_replace(
                    bases, table.segments[at + len(bases)].base_offset
                )
                or sum(s.size for s in table.segments[at : at + len(bases)]) != cleaned.old_bytes
            ):
                discard_cleaned(bench.disk, directory, base)
                return False
            stage_swap(bench.disk, directory, base)
        except DiskFailed as error:
            bench.fail(error)
            raise
        self._queue(RecordKind.REPLACE, payload=write_replacement(replacement))
        # No names are synced: the new files have durable ones, and with the record any will do.
        self._cleaning.add(bench.next_commit, replacement)
        bench.unsettled[self] = None
        bench.ask_submit()
        return True

    def note_cleaned(self, result: CompactionResult) -> None:
        """A run is over, and `replace_segments` has taken all of its groups.

        Durable whenever a checkpoint is made; if that is lost, the run is made again.
        """
        if result.end_offset <= self._cleaning.closed_end:
            state = CleanState(result.end_offset, result.horizon_ms)
            if result.live_count >= 0:
                state = state._replace(live_count=result.live_count, live_bytes=result.new_bytes)
            self._cleaning.state = state
            self._cleaning.held_offset = result.held_offset
            self._bench.dirty_logs[self] = None

    def _swap(self, replacement: Replacement) -> None:
        bench, table, directory = self._bench, self.segments, self.identity.directory
        bases = replacement.old_bases
        for base in bases:
            for path in (*paths_of(directory, base), key_index_path(directory, base)):
                bench.pool.drop(path)
        # Also if the log was emptied meanwhile: the record says so, and the files go in their turn.
        finish_swap(bench.disk, directory, replacement)
        at, count = table.find_rest(bases)
        if count:
            # Not all are left where the log's end was cut off meanwhile: that cut is made in this.
            table.replace(at, count, replacement.new)
            self.layout += 1
        bench.dirty_directories[directory] = None
        bench.dirty_logs[self] = None

    # -- options

    def set_options(self, options: SegmentOptions, *, write_caching: bool) -> None:
        """Take a topic's options for what is written from now on."""
        self.segments.set_options(options)
        if write_caching == self.write_caching:
            return
        self.write_caching = write_caching
        self.was_cached = self.was_cached or write_caching
        self.segments.roll_next = True
        if not write_caching:
            # What follows in the write-ahead log stands on batches that are not in it.
            self._bench.sync_too[self] = self._bench.next_commit
        self._bench.dirty_logs[self] = None

    # -- inside: records

    def _queue(
        self,
        kind: RecordKind,
        *,
        term: int = 0,
        first_index: int = 0,
        last_index: int = 0,
        prev_index: int = 0,
        payload: Buffer = b"",
    ) -> None:
        self._bench.wal.queue(
            self.identity.group,
            kind,
            term=term,
            first_index=first_index,
            last_index=last_index,
            prev_index=prev_index,
            payload=payload,
        )
        self._bench.dirty_logs[self] = None

    def _refuse_if_failed(self) -> None:
        bench = self._bench
        if bench.has_failed and bench.blocked is not None:
            raise bench.blocked
        if bench.is_closing:
            raise InvariantBroken(f"{self!r} is changed after the store was closed")

    def _on_segment_opened(self, segment: Segment) -> None:
        if self._bench.is_recovering:
            return
        base, created_ms = segment.base_offset, segment.created_ms
        index = self.positions.index_of_offset(base)
        if not self.write_caching or self._wal_always:
            # Of what is only in the write-ahead log this is all that tells where files end.
            self._queue(RecordKind.ROLL, first_index=index, last_index=created_ms)
            return
        self._queue(
            RecordKind.SEGMENT, first_index=base, last_index=created_ms, prev_index=index - 1
        )
        self._segment_commit = self._bench.next_commit
        # Or a file that had this name could come back, with batches that look like ours.
        self._bench.names_to_sync[self.identity.directory] = None
        self._bench.ask_submit()

    # -- inside: files follow when records are durable

    def _hold(self, end: int) -> None:
        """Let the segments end at an offset, once the record just queued is durable."""
        if self._held is None:
            self._held = []
            self._written_end = self.positions.end_offset
        else:
            last_index = self.positions.last_index
            while self._held and self._held[-1][0].last_index > last_index:
                self._held.pop()
        self._written_end = min(self._written_end, end)
        table = self.segments
        table.tail.truncate(end)
        self._doom(table.take_from(end))
        self._cleaning.on_cut(end, table.last_base)
        self._cut_at = end if self._cut_at is None else min(self._cut_at, end)
        self._barrier = self._bench.next_commit
        self._bench.unsettled[self] = None

    def _doom(self, segments: list[Segment]) -> None:
        if segments:
            self._doomed.append((self._bench.next_commit, segments))
            self._bench.unsettled[self] = None

    def on_committed(self, commit: int) -> None:
        """A group commit is durable: do to the files what waited for it."""
        while (replacement := self._cleaning.take_due(commit)) is not None:
            self._swap(replacement)
        while self._doomed and self._doomed[0][0] <= commit:
            for segment in self._doomed.pop(0)[1]:
                self.segments.remove_files(segment.paths())
        self._maybe_settle()

    def _maybe_settle(self) -> None:
        if self._held is None:
            if not self._doomed and not self._cleaning.pending:
                self._bench.unsettled.pop(self, None)
        elif self._barrier <= self._bench.durable_commit and not self._is_settling:
            self._settle()

    def _settle(self) -> None:
        self._is_settling = True
        cut_at, barrier = self._cut_at, self._barrier

        def on_found(cut: Cut | Exception | None) -> None:
            self._is_settling = False
            if self.is_deleted:
                return
            if barrier != self._barrier:
                # It was cut again meanwhile.
                self._maybe_settle()
            elif isinstance(cut, Exception):
                failed = cut if isinstance(cut, DiskFailed) else DiskFailed(f"cannot cut: {cut}")
                self._bench.fail(failed)
            else:
                self._release(cut)

        steps = self.segments.find_cut(cut_at if cut_at is not None else 0)
        run_cold(steps, self._bench.pool, self._bench.disk, on_found)

    def _release(self, cut: Cut | None) -> None:
        held = self._held
        try:
            if cut is not None:
                self.segments.apply_cut(cut)
            self._held = self._cut_at = None
            if held:
                self.segments.write(held)
        except DiskFailed as error:
            self._bench.fail(error)
            return
        self._maybe_settle()
        # Somebody may have waited for this, to make a checkpoint or to close.
        self._bench.ask_submit()

    # -- inside: checkpoints

    def freeze(self) -> FrozenLog:
        """Return what a checkpoint keeps of this log, as it is now."""
        return FrozenLog(
            self.identity,
            self.hard_state,
            self.positions.freeze(),
            self.commit_hint,
            self.write_caching,
            self.write_caching and not self._wal_always,
            tuple(
                [
                    (segment.base_offset, segment.size, segment.max_timestamp, segment.created_ms)
                    for segment in self.segments.segments
                ]
            ),
            self._cleaning.state,
            self.amnesia,
            self.was_cached,
        )

    def restore_cleaning(self, state: CleanState) -> None:
        """Take what a checkpoint says of compaction; for recovery."""
        self._cleaning.state = state

    def on_noted(self) -> list[Segment]:
        """See `SharedLog`."""
        self._cleaning.on_noted(self.segments.last_base)
        table = self.segments
        segments = list(table.dirty)
        table.noted = tuple(segments)
        table.dirty.clear()
        return segments

    def unsynced_segments(self) -> Iterator[Segment]:
        """See `SharedLog`."""
        yield from self.segments.noted
        yield from self.segments.dirty

    def on_checkpointed(self, generation: int) -> None:
        """See `SharedLog`."""
        self.segments.noted = ()
        self._cleaning.on_checkpointed()
        if generation == self.generation and self._wal_always:
            self._wal_always = False
            self.segments.roll_next = self.segments.roll_next or self.write_caching
