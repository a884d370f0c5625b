"""The skeleton of a table that lives on a partition: on each replica, and ahead of commit.

Theory of operation. Every replica applies the log to its table as it is appended (`apply`), and
takes back what is cut off (`cut`): each decision that is applied returns what undoes it, which is
kept until the decision is committed. So the state is that of the log's end, on every replica, and
what is kept beside it is bounded by what is not committed.

The leader's table decides (`decide`, `tick`): a decision is bytes, is applied at once like any that
comes from the log, and is logged at the end of the turn, all of a turn in one control batch behind
the records of that turn. Decisions are logged, not requests: replay is mechanical, and how the
leader came to them may change from release to release. What follows from a turn outside (answers,
deliveries: *effects*) is released when all of the log that it may depend on is committed. When
leadership is lost, effects that are not released are dropped, and who waits is refused; decisions
that are in the log stay applied until they are cut off, because they may be committed yet.

A table begins with a snapshot: what the log says of it before the first one that is found is no
whole story, and is passed over. A leader whose table has none logs one at once. The others follow
every `SNAPSHOT_BYTES` of decisions or `SNAPSHOT_RECORD_BYTES` of records, or four times the size of
the last one. A small one comes sooner, because a start replays what is behind it batch by batch:
when batches of `SNAPSHOT_FACTOR_OF_BATCHES` times its size have come, so that snapshots stay a few
percent of what is written, and not before `SNAPSHOT_BATCH_BYTES`. The log has to keep all from the
newest committed one on, and from the kind's own floor on (`start_held_at`). A kind may say which
records live by a snapshot (`_live_in`): then all else may be removed that is before the newest
committed one, this table's control batches, too (`live_before`). Such a log has holes. A table that
is fed with one knows no more what the state is, and begins again with the next snapshot: there is
one, because nothing is removed but before one.

Time is a field of what is logged. Deadlines go by the *lock time*: the leader's monotonic clock,
which goes on at the last lock time in the log when another replica leads. A change of leaders may
lengthen deadlines, and never shortens one. The wall's time does not go back either: where a leader
finds it ahead of its own clock, it lets it go on at half the pace until its clock has caught up, so
that what waits for a moment does not wait until then.
"""

from collections import deque
from typing import Generic, TypeVar

from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import Offset
from kafkaesque.model.live_offsets import LiveRecords, OffsetRanges
from kafkaesque.tables.log_table import Instant
from kafkaesque.tables.logged import BATCH_BYTES, CONTROL_KEY, PART_BYTES_MAX, Logged, LoggedKind

RequestT = TypeVar("RequestT")
EffectT = TypeVar("EffectT")
UndoT = TypeVar("UndoT")

#: A snapshot follows so many bytes of decisions, if the last one was not much longer.
SNAPSHOT_BYTES = 256 * 1024
#: It follows so many bytes of records, too, if the table follows records: until then the log keeps
#: what the table does not need any more.
SNAPSHOT_RECORD_BYTES = 8 * 1024 * 1024
SNAPSHOT_FACTOR = 4
#: It follows so many bytes of batches, too, of which each counts with what a decision's takes ...
SNAPSHOT_BATCH_BYTES = 16 * 1024
#: ... or as many times the size of the last one.
SNAPSHOT_FACTOR_OF_BATCHES = 32
#: Of so many snapshots it is known what lives by them: the newest may not be everywhere yet.
LIVES_MAX = 4
#: A wall time that is ahead of the leader's clock goes on so many times more slowly than that.
SLOWER = 2
#: A leader takes no more requests while so many of its batches are not committed.
UNCOMMITTED_MAX = 10_000


_ZERO = Offset(0)


class _Applied(Generic[UndoT]):
    """One batch that is applied and not committed; what it was before it, and the floor after."""

    __slots__ = (
        "base_offset",
        "floor",
        "is_base",
        "live",
        "lock_ms",
        "next_offset",
        "parts",
        "snapshot_at",
        "undos",
        "wall_ms",
        "was_incomplete",
    )

    def __init__(self, base_offset: int, next_offset: int, lock_ms: int, wall_ms: int) -> None:
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.lock_ms = lock_ms
        self.wall_ms = wall_ms
        self.undos: list[UndoT] = []
        self.floor: Offset | None = None
        #: Where the snapshot begins that ends here, and what lives by it.
        self.snapshot_at: Offset | None = None
        self.live: OffsetRanges | None = None
        #: Whether the state began with that snapshot, and what the log was like before it.
        self.is_base = False
        self.was_incomplete = False
        #: Parts of a snapshot that had come before this batch.
        self.parts: tuple[tuple[int, bytes], ...] = ()


class ReplicatedTable(Generic[RequestT, EffectT, UndoT]):
    """See the module; a kind of table fills in what raises `NotImplementedError` here."""

    __slots__ = (
        "_applied",
        "_batch_bytes_since_snapshot",
        "_bytes_since_snapshot",
        "_committed_floor",
        "_decisions",
        "_effects",
        "_held_from",
        "_lives",
        "_lock_base_ms",
        "_parts",
        "_ready",
        "_record_bytes_since_snapshot",
        "_snapshot_bytes",
        "_snapshot_offset",
        "_turn_effects",
        "_turn_undos",
        "_wall_from",
        "committed_offset",
        "end_offset",
        "is_based",
        "is_incomplete",
        "is_leading",
        "lock_ms",
        "now",
        "number",
        "unconfirmed",
        "wall_ms",
    )

    def __init__(self, number: int, start_offset: Offset = _ZERO) -> None:
        """`number` is the table's on its partition."""
        self.number = number
        self.is_leading = False
        #: On the leader, while it decides: lock time, and the wall's, which does not go back.
        self.now = Instant(0, 0)
        #: How far the leader's clock is ahead of the lock time.
        self._lock_base_ms = 0
        #: From there on the wall's time goes on at least slowly.
        self._wall_from = self.now
        self._reset(start_offset)

    def _drop_effects(self) -> None:
        self._effects: deque[tuple[Offset, list[EffectT]]] = deque()
        self._ready: list[EffectT] = []
        self.unconfirmed: list[EffectT] = []

    def _reset(self, start_offset: Offset) -> None:
        #: The log is applied up to there.
        self.end_offset = start_offset
        self.committed_offset = start_offset
        #: Whether the state is known: a snapshot was found.
        self.is_based = False
        #: It is not, and the log has a hole: what was removed there must not be taken for nothing.
        self.is_incomplete = False
        #: The last times in the log.
        self.lock_ms = self.wall_ms = 0
        self._applied: deque[_Applied[UndoT]] = deque()
        self._parts: list[tuple[int, bytes]] = []
        self._snapshot_offset: Offset | None = None
        #: Where the log begins, if the state is known from a snapshot in its midst on.
        self._held_from: Offset | None = None
        self._snapshot_bytes = 0
        self._count_anew()
        self._committed_floor: Offset | None = None
        self._lives: list[tuple[Offset, LiveRecords]] = []
        self._decisions: list[bytes] = []
        self._turn_undos: list[UndoT] = []
        self._turn_effects: list[EffectT] = []
        self._drop_effects()
        self._clear()

    # -- what a kind fills in

    def _clear(self) -> None:
        """Be as empty as at the very beginning; nothing is scheduled."""
        raise NotImplementedError

    def _apply(self, decision: bytes) -> UndoT:
        """Change the state as a decision says; return what `_undo` needs to take it back.

        It depends on nothing but the state and the decision.
        """
        raise NotImplementedError

    def _undo(self, undo: UndoT) -> None:
        """Take back the newest decision, or batch of records, that is not taken back."""
        raise NotImplementedError

    def told_of(self, header: BatchHeader, data: Buffer) -> bytes:
        """Return what followers have to know of a batch that is about to be sealed, on the leader.

        It stands beside the ciphertext: who follows needs no key.
        """
        return b""

    def _follow(self, header: BatchHeader, data: Buffer, base_offset: Offset) -> UndoT | None:
        """Take note of records that were appended; None: they are nothing to the table."""
        return None

    def _follow_control(self, header: BatchHeader, data: Buffer) -> UndoT | None:
        """Take note of a marker, or of a control batch that is not known; None: it says nothing."""
        return None

    def _write_state(self) -> bytes:
        """Return the state as bytes: equal states give equal bytes."""
        raise NotImplementedError

    def _read_state(self, data: bytes) -> None:
        """Take a state; the table is empty before."""
        raise NotImplementedError

    @property
    def _floor(self) -> Offset | None:
        """The first record that the state needs, if it needs any."""
        return None

    @property
    def _may_have_holes(self) -> bool:
        """Whether `_live_in` says something."""
        return False

    def _live_in(self, state: bytes) -> OffsetRanges | None:
        """Return which records before a snapshot live by it; all others are never needed again.

        None: the kind does not say. What is dead by one snapshot is so by all that follow, so what
        may come to live yet, as with an open transaction, lives.
        """
        return None

    def _decide(self, request: RequestT) -> None:
        """Take a request: `log` what is decided, `release` what follows, in that order."""
        raise NotImplementedError

    def _on_leading(self) -> None:
        """This replica leads: forget what was soft, and schedule what the state waits for."""
        raise NotImplementedError

    def _on_due(self) -> None:
        """Do what is due at `now.now_ms`, the lock time."""
        raise NotImplementedError

    def _next_deadline_ms(self) -> int | None:
        """Return when `_on_due` is needed next, in lock time."""
        raise NotImplementedError

    # -- what a kind uses

    def log(self, decision: bytes) -> None:
        """Decide: it is applied at once, and logged at the end of the turn."""
        self._turn_undos.append(self._apply(decision))
        self._decisions.append(decision)

    def release(self, effect: EffectT) -> None:
        """Let this be done when all is committed that has been decided until now."""
        self._turn_effects.append(effect)

    # -- following the log

    def apply(
        self, header: BatchHeader, data: Buffer, base_offset: Offset, logged: Logged | None
    ) -> None:
        """Take a batch that has come into the log; one that this table knows already is skipped.

        `logged` is what `read_logged` says of it.
        """
        next_offset = Offset(base_offset + header.last_offset_delta + 1)
        if next_offset <= self.end_offset:
            return
        self._expect_no_turn()
        if self._may_have_holes and self._is_behind_hole(header, base_offset):
            self._lose_base(base_offset)
        self.end_offset = next_offset
        applied: _Applied[UndoT] = _Applied(base_offset, next_offset, self.lock_ms, self.wall_ms)
        if logged is None:
            if not self.is_based:
                return
            if header.is_control:
                undo = self._follow_control(header, data)
            else:
                undo = self._follow(header, data, base_offset)
            if undo is None:
                return
            applied.undos.append(undo)
            self._record_bytes_since_snapshot += header.size_bytes
            self._batch_bytes_since_snapshot += BATCH_BYTES
        elif logged.table != self.number:
            return
        elif logged.kind is LoggedKind.SNAPSHOT:
            self._take_part(applied, logged)
        elif self.is_based:
            applied.undos.extend(map(self._apply, logged.decisions))
            self._note_times(logged)
            self._count(logged)
        else:
            return
        self._push(applied)

    def commit(self, high_watermark: Offset) -> None:
        """All before it is certain."""
        if high_watermark <= self.committed_offset:
            return
        self.committed_offset = high_watermark
        applied = self._applied
        while applied and applied[0].next_offset <= high_watermark:
            first = applied.popleft()
            self._committed_floor = first.floor
            if first.snapshot_at is not None:
                self._note_snapshot(first.snapshot_at, first)
        effects = self._effects
        while effects and effects[0][0] <= high_watermark:
            self._ready.extend(effects.popleft()[1])

    def cut(self, end_offset: Offset) -> bool:
        """The log ends there now: take back what was applied after it.

        False: some of it was committed, and cannot be taken back, or the snapshot that the table
        was taken up with is gone. The table is empty then, and is to be fed with the log again.
        """
        self.abandon_turn()
        while self._effects and self._effects[-1][0] > end_offset:
            self._effects.pop()
        if end_offset < self.committed_offset:
            self._reset(Offset(0))
            return False
        applied = self._applied
        while applied and applied[-1].next_offset > end_offset:
            last = applied.pop()
            if last.is_base:
                if self._held_from is not None:
                    self._reset(Offset(0))
                    return False
                self._clear()
                self.is_based, self.is_incomplete = False, last.was_incomplete
            for undo in reversed(last.undos):
                self._undo(undo)
            self.lock_ms, self.wall_ms, self._parts = last.lock_ms, last.wall_ms, [*last.parts]
        self.end_offset = min(self.end_offset, end_offset)
        return True

    def begin_at(self, start_offset: Offset, held_from: Offset | None = None) -> None:
        """The log begins anew, there: what is known is none of it.

        With `held_from` it begins there, and the table is fed from a snapshot in its midst on. That
        may not be committed: the log is needed as it is until it is.
        """
        self._reset(start_offset)
        self._held_from = held_from

    def snapshot(self) -> tuple[Offset, bytes]:
        """Return the state and the offset that it is as of: the log's end, on this replica.

        It is certain when that is committed; logged at the end, it is committed with it.
        """
        self._expect_no_turn()
        return self.end_offset, self._write_state()

    def install(self, offset: Offset, state: bytes, lock_ms: int, wall_ms: int) -> None:
        """Begin with a state as of an offset; the log from there on follows."""
        self._reset(offset)
        self._begin(state, lock_ms, wall_ms)

    def start_held_at(self) -> Offset | None:
        """Return what the log has to keep: all from here on; None if the table needs nothing."""
        snapshot, floor = self._snapshot_offset, self._committed_floor
        if snapshot is None:
            return self._held_from
        if floor is None:
            return snapshot
        return min(snapshot, floor)

    def live_before(self, end_offset: Offset, *, is_forecast: bool = False) -> LiveRecords | None:
        """Return what is needed of the log before the newest snapshot that ends by an offset.

        None: all of it. Without that snapshot nobody can do without what is removed: it is
        committed, and `end_offset` says who has it. Earlier ones are not asked for again, but for a
        forecast, of what will be said when more have it.
        """
        lives = self._lives
        found = [each for each in lives if each[0] <= end_offset]
        if not found:
            return None
        if not is_forecast:
            del lives[: len(found) - 1]
        return found[-1][1]

    # -- leading

    def lead(self, now: Instant) -> None:
        """Decide from now on; all of the log is applied, and will be committed if this one leads.

        Lock time goes on where the log has left it.
        """
        self.is_leading = True
        self._drop_effects()
        self._lock_base_ms = now.now_ms - self.lock_ms
        self._wall_from = Instant(self.lock_ms, self.wall_ms)
        self._set_now(now)
        if self.is_based:
            self._on_leading()

    def unlead(self) -> None:
        """Decide no more; who waits is to be refused by the host."""
        self.abandon_turn()
        self._drop_effects()
        self.is_leading = False

    @property
    def has_room(self) -> bool:
        """Whether a request may be taken."""
        return len(self._applied) < UNCOMMITTED_MAX and len(self._effects) < UNCOMMITTED_MAX

    def decide(self, request: RequestT, now: Instant) -> None:
        """Take a request, ahead of commit; `turn` has to follow in the same turn of the loop."""
        self._expect_leading()
        self._set_now(now)
        self._decide(request)

    def tick(self, now: Instant) -> None:
        """Do what is due; `turn` has to follow in the same turn of the loop."""
        self._expect_leading()
        self._set_now(now)
        self._on_due()

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is needed next, by the leader's clock."""
        if not self.is_leading or not self.is_based:
            return None
        due_ms = self._next_deadline_ms()
        return None if due_ms is None else due_ms + self._lock_base_ms

    def turn(self) -> Logged | None:
        """Return what was decided in this turn and is to be logged; `on_logged` follows, or
        `abandon_turn`.
        """
        if not self._decisions:
            self._end_turn_without_decisions()
            return None
        return Logged(
            kind=LoggedKind.DECISIONS,
            table=self.number,
            lock_ms=self.now.now_ms,
            wall_ms=self.now.wall_ms,
            decisions=tuple(self._decisions),
        )

    def on_logged(self, logged: Logged, base_offset: Offset, next_offset: Offset) -> None:
        """What `turn` or `snapshot_parts` said has been proposed, and stands there if it stands."""
        applied: _Applied[UndoT] = _Applied(base_offset, next_offset, self.lock_ms, self.wall_ms)
        self.end_offset = next_offset
        if logged.kind is LoggedKind.SNAPSHOT:
            self._take_part(applied, logged)
        else:
            applied.undos, self._turn_undos = self._turn_undos, []
            self._decisions = []
            self._note_times(logged)
            self._count(logged)
            if self._turn_effects:
                self._effects.append((next_offset, self._turn_effects))
                self._turn_effects = []
        self._push(applied)

    def abandon_turn(self) -> None:
        """What was decided in this turn does not come into the log: take it back."""
        for undo in reversed(self._turn_undos):
            self._undo(undo)
        self._turn_undos, self._decisions, self._turn_effects = [], [], []

    def snapshot_parts(self) -> list[Logged]:
        """Return the parts of a snapshot that is due, to be logged at the log's end now.

        Each is followed by `on_logged`. It is due, too, where the log has none; but for one of
        which parts were removed.
        """
        if self.is_incomplete or (self.is_based and not self._is_snapshot_due):
            return []
        state = self.snapshot()[1]
        pieces = [
            state[at : at + PART_BYTES_MAX] for at in range(0, len(state), PART_BYTES_MAX)
        ] or [b""]
        return [
            Logged(
                kind=LoggedKind.SNAPSHOT,
                table=self.number,
                lock_ms=self.now.now_ms,
                wall_ms=self.now.wall_ms,
                parts_before=position,
                parts_left=len(pieces) - 1 - position,
                part=piece,
            )
            for position, piece in enumerate(pieces)
        ]

    @property
    def _is_snapshot_due(self) -> bool:
        least = SNAPSHOT_FACTOR * self._snapshot_bytes
        least_of_batches = SNAPSHOT_FACTOR_OF_BATCHES * (self._snapshot_bytes + BATCH_BYTES)
        return (
            self._bytes_since_snapshot >= max(SNAPSHOT_BYTES, least)
            or self._record_bytes_since_snapshot >= max(SNAPSHOT_RECORD_BYTES, least)
            or self._batch_bytes_since_snapshot >= max(SNAPSHOT_BATCH_BYTES, least_of_batches)
        )

    def take_ready(self) -> list[EffectT]:
        """Return the effects that may happen now, in order."""
        ready, self._ready = self._ready, []
        return ready

    def take_unconfirmed(self) -> list[EffectT]:
        """Return effects that nothing stands for but this replica's memory.

        They may happen once it is certain that this broker led when they were decided.
        """
        unconfirmed, self.unconfirmed = self.unconfirmed, []
        return unconfirmed

    # -- inside

    def _push(self, applied: _Applied[UndoT]) -> None:
        applied.floor = self._floor
        self._applied.append(applied)

    def _take_part(self, applied: _Applied[UndoT], logged: Logged) -> None:
        applied.parts = tuple(self._parts)
        if logged.parts_before != len(self._parts):
            self._parts = []  # what was begun was never finished
            if logged.parts_before:
                return
        self._parts.append((applied.base_offset, logged.part))
        if self.is_based:
            self._note_times(logged)
        if logged.parts_left:
            return
        parts, self._parts = self._parts, []
        state = b"".join(part for _, part in parts)
        applied.snapshot_at, applied.live = Offset(parts[0][0]), self._live_in(state)
        self._snapshot_bytes = len(state)
        self._count_anew()
        if not self.is_based:
            applied.is_base, applied.was_incomplete = True, self.is_incomplete
            self._begin(state, logged.lock_ms, logged.wall_ms)
            if self.is_leading:
                self._on_leading()

    def _count(self, logged: Logged) -> None:
        count = sum(map(len, logged.decisions))
        self._bytes_since_snapshot += count
        self._batch_bytes_since_snapshot += BATCH_BYTES + count

    def _count_anew(self) -> None:
        self._bytes_since_snapshot = self._record_bytes_since_snapshot = 0
        self._batch_bytes_since_snapshot = 0

    def _begin(self, state: bytes, lock_ms: int, wall_ms: int) -> None:
        self._clear()
        self._read_state(state)
        self.is_based, self.is_incomplete = True, False
        self.lock_ms, self.wall_ms = lock_ms, wall_ms

    def _note_snapshot(self, offset: Offset, applied: _Applied[UndoT]) -> None:
        self._snapshot_offset = offset
        if applied.live is None:
            return
        live = LiveRecords(end_offset=offset, offsets=applied.live, control_key=CONTROL_KEY)
        self._lives.append((Offset(applied.next_offset), live))
        if len(self._lives) > LIVES_MAX:
            self._thin_out()

    def _thin_out(self) -> None:
        """Forget what lives by one snapshot, but the oldest and the newest.

        The oldest is to stay until a newer one will do, or none might ever. Of the others that one
        goes whose neighbours are nearest to each other: where replicas are far behind, a few that
        follow one another closely would all be too new, for ever.
        """
        ends = [end for end, _ in self._lives]
        gaps = [after - before for before, after in zip(ends, ends[2:], strict=False)]
        del self._lives[1 + gaps.index(min(gaps))]

    def _is_behind_hole(self, header: BatchHeader, base_offset: Offset) -> bool:
        """Whether something was removed directly before a batch, or from it."""
        if self.is_leading:
            return False
        is_whole = header.is_control or header.record_count > header.last_offset_delta
        return base_offset > self.end_offset or not is_whole

    def _lose_base(self, base_offset: Offset) -> None:
        """What the state is, the next snapshot says.

        What is before it cannot be taken back one by one any more; it is committed, or nothing of
        it would have been removed.
        """
        self._clear()
        self.is_based, self.is_incomplete = False, True
        self.committed_offset = max(self.committed_offset, base_offset)
        self._applied.clear()
        self._parts = []
        self._snapshot_offset = self._committed_floor = None
        self._lives = []

    def _note_times(self, logged: Logged) -> None:
        self.lock_ms = max(self.lock_ms, logged.lock_ms)
        self.wall_ms = max(self.wall_ms, logged.wall_ms)

    def _set_now(self, now: Instant) -> None:
        lock_ms = max(self.lock_ms, now.now_ms - self._lock_base_ms)
        begun = self._wall_from
        wall_ms = max(self.wall_ms, begun.wall_ms + (lock_ms - begun.now_ms) // SLOWER)
        self.now = Instant(lock_ms, max(wall_ms, now.wall_ms))
        if now.wall_ms >= wall_ms:
            self._wall_from = self.now

    def _end_turn_without_decisions(self) -> None:
        effects, self._turn_effects = self._turn_effects, []
        if not effects:
            return
        if self.end_offset > self.committed_offset:
            self._effects.append((self.end_offset, effects))
        else:
            self.unconfirmed.extend(effects)

    def _expect_leading(self) -> None:
        if not self.is_leading or not self.is_based:
            raise InvariantBroken("only a leader's table that has begun decides")

    def _expect_no_turn(self) -> None:
        if self._decisions:
            raise InvariantBroken("what was decided in a turn has not been logged at its end")
