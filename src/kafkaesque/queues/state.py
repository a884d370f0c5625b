"""What is known of a queue's messages: where each is, and the changes that may be taken back.

Theory of operation. A message that lives is in exactly one place: *ready*, *delayed*, *in flight*,
*parked* (set aside until somebody decides), *moving* (a dead letter on its way, or one that is
moved on request), or *pending* (of a transaction that is open). One that does not live is nowhere:
it was settled or removed, or its offset was never a message of this queue, such as a control
batch's. `live` has all that live; its lowest is the floor, from which on the log is needed.

Every change notes in the journal what takes it back. So a decision is undone by doing the journal
backwards, whatever the decision was.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.queues.ages import Ages
from kafkaesque.queues.arrival import Details
from kafkaesque.queues.column import Column
from kafkaesque.queues.decisions import Reason
from kafkaesque.queues.deduplication import Identities
from kafkaesque.queues.fair_groups import FairGroups
from kafkaesque.queues.group_order import GroupOrder
from kafkaesque.queues.offset_set import OffsetSet
from kafkaesque.queues.policy import Policy
from kafkaesque.queues.ready import Placed, Ready
from kafkaesque.queues.runs import Run
from kafkaesque.queues.timetable import Timetable

#: What takes changes back, newest last.
Undo = list[tuple[Callable[..., object], tuple[object, ...]]]


class Place(IntEnum):
    """Where a message is."""

    NOWHERE = 0
    READY = 1
    DELAYED = 2
    IN_FLIGHT = 3
    PARKED = 4
    MOVING = 5
    #: It came in a transaction that is open.
    PENDING = 6


class Moving(NamedTuple):
    """A message on its way to another queue or topic."""

    reason: Reason
    target: str
    #: Its number among all that went there from here; it is there once.
    sequence: int


class Pending(NamedTuple):
    """A message of an open transaction."""

    transaction: int
    #: When it arrived.
    wall_ms: int
    #: What it says of itself.
    details: Details


class Disuse(NamedTuple):
    """What is written down of a queue that nobody uses."""

    unused_ms: int
    #: When that was so, by the clock of the leader of then.
    wall_ms: int
    #: The next note is due when it is so much longer.
    step_ms: int


class State:
    """See the module."""

    __slots__ = (
        "ages",
        "arrived_bytes",
        "arrived_count",
        "attempts",
        "delayed",
        "disuse",
        "end",
        "excused",
        "expiry",
        "fair_groups",
        "flight_bytes",
        "flight_count",
        "group_order",
        "identities",
        "journal",
        "live",
        "locks",
        "moving",
        "owned",
        "owners",
        "parked",
        "pending",
        "policy",
        "ready",
        "redrive_end",
        "redrive_target",
        "removed",
        "seek_count",
        "sequences",
        "session_last",
        "sessions",
        "size_assumed",
        "sizes",
        "staged",
        "waiting_bytes",
    )

    def __init__(self) -> None:
        self.journal: Undo = []
        self.policy = Policy()
        #: The offset after the last message that has arrived.
        self.end = 0
        self.live = OffsetSet()
        self.ready = Ready()
        self.group_order = GroupOrder(self.ready)
        self.fair_groups = FairGroups(self.ready)
        self.ages = Ages()
        self.identities = Identities()
        #: When delayed messages are ready, and when messages' lives end, by the wall's time.
        self.delayed = Timetable()
        self.expiry = Timetable()
        #: When locks end, by lock time.
        self.locks = Timetable()
        #: The session that has a message in flight, plus one; and the messages of each.
        self.owners = Column("I")
        self.owned: dict[int, OffsetSet] = {}
        self.flight_count = self.flight_bytes = 0
        #: How often a message was given out, and how often that does not count as a failure.
        self.attempts = Column("I")
        self.excused = Column("I")
        #: Bytes of messages, where they are counted; `size_assumed` for others.
        self.sizes = Column("I")
        self.size_assumed = 0
        #: Bytes of those that are ready or delayed.
        self.waiting_bytes = 0
        self.arrived_count = self.arrived_bytes = 0
        #: Why messages are parked, plus one.
        self.parked = Column("B")
        self.moving: dict[int, Moving] = {}
        self.sequences: dict[str, int] = {}
        #: Messages in flight that a transaction settles, and which.
        self.staged: dict[int, int] = {}
        #: Messages that nobody may have before their transaction is committed.
        self.pending: dict[int, Pending] = {}
        self.sessions: dict[int, bytes] = {}
        self.session_last = 0
        self.redrive_target, self.redrive_end = "", 0
        #: How often a cursor was told where to go on.
        self.seek_count = 0
        #: None: somebody uses the queue, or nothing was written down since.
        self.disuse: Disuse | None = None
        #: How many were removed, by reason.
        self.removed = [0] * len(Reason)

    # -- what is where

    @property
    def floor(self) -> int:
        """The first message that lives; the end if none does."""
        first = self.live.first()
        return self.end if first is None else first

    @property
    def ready_count(self) -> int:
        """How many messages could be given out, were their groups free."""
        return self.ready.count + self.group_order.waiting_count + self.fair_groups.sorted_count

    def place_of(self, offset: int) -> Place:
        """Return where a message is."""
        if offset not in self.live:
            return Place.NOWHERE
        if self.owners[offset]:
            return Place.IN_FLIGHT
        if offset in self.moving:
            return Place.MOVING
        if self.parked[offset]:
            return Place.PARKED
        if self.delayed[offset]:
            return Place.DELAYED
        return Place.PENDING if offset in self.pending else Place.READY

    def size_of(self, first: int, end: int) -> int:
        """Return the bytes of a run, as they are counted; 0 where they are not."""
        assumed = self.size_assumed
        if not self.sizes:
            return assumed * (end - first)
        sizes = self.sizes.values(first, end)
        return sum(sizes) + (assumed * sizes.count(0) if assumed else 0)

    def failures_of(self, offset: int) -> int:
        """Return how many attempts have failed."""
        return self.attempts[offset] - self.excused[offset]

    def parts(self, first: int, end: int) -> Iterator[tuple[Place, int, Run]]:
        """Return a run in parts of one place each, and of one owner (plus one; else 0)."""
        owners = self.owners.values(first, end)
        if owners[0] and owners.count(owners[0]) == len(owners):
            yield Place.IN_FLIGHT, owners[0], Run(first, end)
            return
        if self._is_all_ready(first, end, owners):
            yield Place.READY, 0, Run(first, end)
            return
        keyed = ((self.place_of(offset), owners[offset - first]) for offset in range(first, end))
        for key, group in groupby(enumerate(keyed, first), lambda pair: pair[1]):
            offsets = [offset for offset, _ in group]
            yield *key, Run(offsets[0], offsets[-1] + 1)

    def _is_all_ready(self, first: int, end: int, owners: list[int]) -> bool:
        if any(owners) or self.moving or self.parked or self.delayed.count or self.pending:
            return False
        return self.live.has_all(first, end)

    # -- changes, each of which notes what takes it back

    def do(self, undo: Callable[..., object], *arguments: object) -> None:
        """Note what takes back what was just done."""
        self.journal.append((undo, arguments))

    def set(self, name: str, value: object) -> None:
        """Change a plain attribute."""
        self.do(setattr, self, name, getattr(self, name))
        setattr(self, name, value)

    def set_column(self, column: Column, offset: int, value: int) -> None:
        """Change one number of a column."""
        before = column[offset]
        if before != value:
            column[offset] = value
            self.do(column.__setitem__, offset, before)

    def clear_column(self, column: Column, first: int, end: int) -> None:
        """Clear the numbers of a run."""
        if column:
            before = column.values(first, end)
            if any(before):
                column.clear(first, end)
                self.do(column.put, first, before)

    def clear_times(self, timetable: Timetable, first: int, end: int) -> None:
        """Clear the times of a run."""
        if timetable.count:
            before = timetable.clear(first, end)
            if any(before):
                self.do(timetable.restore, first, before)

    def set_times(self, timetable: Timetable, first: int, end: int, due_ms: int) -> None:
        """Set the times of a run that has none."""
        timetable.set(first, end, due_ms)
        self.do(timetable.clear, first, end)

    def put_ready(self, first: int, end: int) -> None:
        """Let a run be ready, each in its old place."""
        self.ready.put(first, end)
        self.do(self._take, first, end)
        self._count_waiting(self.size_of(first, end))

    def put_ready_at_tail(self, offset: int) -> None:
        """Let a message be ready, behind all that are there."""
        self.ready.put_at_tail(offset, self.end)
        self.do(self._take, offset, offset + 1)
        self._count_waiting(self.size_of(offset, offset + 1))

    def take_ready(self, first: int, end: int) -> None:
        """Let a run not be ready any more."""
        self.do(self.ready.put_back, first, end, self._take(first, end))
        self._count_waiting(-self.size_of(first, end))

    def _take(self, first: int, end: int) -> tuple[Placed, ...]:
        order, fair = self.group_order, self.fair_groups
        if not order.groups and not fair.sorted_count:
            return self.ready.take(first, end)
        at_tail: tuple[Placed, ...] = ()
        for offset in range(first, end):
            if fair.is_sorted(offset):
                fair.take(offset)
            elif order.is_waiting(offset):
                order.take_waiting(offset)
            else:
                at_tail += self.ready.take(offset, offset + 1)
                order.on_taken(offset)
        return at_tail

    def begin_flight(self, session: int, first: int, end: int) -> None:
        """Let a run be in flight."""
        self._own(session, first, end)
        self.do(self._disown, session, first, end)
        self._hold(first, end)

    def end_flight(self, session: int, first: int, end: int) -> None:
        """Let a run, all of one session, not be in flight any more."""
        self._disown(session, first, end)
        self.do(self._own, session, first, end)
        self._unhold(first, end)
        self.clear_times(self.locks, first, end)
        if self.staged:
            for offset in range(first, end):
                self.unstage(offset)

    def _own(self, session: int, first: int, end: int) -> None:
        self.owners.fill(first, end, session + 1)
        self.owned.setdefault(session, OffsetSet()).add(first, end)
        self.flight_count += end - first
        self.flight_bytes += self.size_of(first, end)
        self.fair_groups.count_flight(first, end, 1)

    def _disown(self, session: int, first: int, end: int) -> None:
        self.owners.clear(first, end)
        owned = self.owned[session]
        owned.remove(first, end)
        if not owned:
            del self.owned[session]
        self.flight_count -= end - first
        self.flight_bytes -= self.size_of(first, end)
        self.fair_groups.count_flight(first, end, -1)

    def begin_delay(self, first: int, end: int, due_ms: int) -> None:
        """Let a run be delayed to then."""
        self.set_times(self.delayed, first, end, due_ms)
        self._hold_tried(first, end)
        self._count_waiting(self.size_of(first, end))

    def end_delay(self, first: int, end: int) -> None:
        """Let a run not be delayed any more."""
        self.clear_times(self.delayed, first, end)
        self._unhold_tried(first, end)
        self._count_waiting(-self.size_of(first, end))

    def stage(self, offset: int, transaction: int) -> None:
        """Let a transaction settle a message in flight."""
        self.staged[offset] = transaction
        self.do(self.staged.pop, offset)

    def unstage(self, offset: int) -> None:
        """Let no transaction settle it."""
        transaction = self.staged.pop(offset, None)
        if transaction is not None:
            self.do(self.staged.__setitem__, offset, transaction)

    def pend(self, offset: int, pending: Pending) -> None:
        """Let a message wait for the end of its transaction."""
        self.pending[offset] = pending
        self.do(self.pending.pop, offset)

    def unpend(self, offset: int) -> None:
        """Let it not wait any more."""
        self.do(self.pending.__setitem__, offset, self.pending.pop(offset))

    def begin_move(self, offset: int, reason: Reason, target: str) -> None:
        """Let a message be on its way, with the target's next number."""
        sequence = self.sequences.get(target, 0)
        self.sequences[target] = sequence + 1
        self.moving[offset] = Moving(reason, target, sequence)
        self.do(self._take_move_back, offset, target, sequence)

    def _take_move_back(self, offset: int, target: str, sequence: int) -> None:
        del self.moving[offset]
        if sequence:
            self.sequences[target] = sequence
        else:
            del self.sequences[target]

    def end_move(self, offset: int) -> None:
        """Let a message not be on its way any more."""
        self.do(self.moving.__setitem__, offset, self.moving.pop(offset))

    def leave(self, first: int, end: int) -> None:
        """Take a run out of wherever it is, to put it elsewhere.

        Raises:
            InvariantBroken: some of it does not live.
        """
        for place, owner, run in self.parts(first, end):
            match place:
                case Place.READY:
                    self.take_ready(*run)
                case Place.IN_FLIGHT:
                    self.end_flight(owner - 1, *run)
                case Place.DELAYED:
                    self.end_delay(*run)
                case Place.PARKED:
                    self.clear_column(self.parked, *run)
                case Place.MOVING:
                    for offset in range(*run):
                        self.end_move(offset)
                case Place.PENDING:
                    for offset in range(*run):
                        self.unpend(offset)
                case Place.NOWHERE:
                    raise InvariantBroken(f"offsets {run.first} to {run.end} do not live")

    def forget(self, first: int, end: int) -> None:
        """Let a run that was taken out of its place not live any more."""
        self.live.remove(first, end)
        self.do(self.live.add, first, end)
        columns = (self.attempts, self.excused, self.sizes, self.ready.priorities)
        for column in (*columns, self.group_order.groups, self.fair_groups.groups):
            self.clear_column(column, first, end)
        self.clear_times(self.expiry, first, end)

    def count_bytes_anew(self) -> None:
        """Count what is there as it is counted now."""
        in_flight = [run for owned in self.owned.values() for run in owned.runs()]
        flight_bytes = sum(self.size_of(*run) for run in in_flight)
        aside = [*self.moving, *self.pending, *(offset for offset, _ in self.parked.items())]
        aside_bytes = sum(self.size_of(offset, offset + 1) for offset in aside)
        live_bytes = sum(self.size_of(*run) for run in self.live.runs())
        self.set("flight_bytes", flight_bytes)
        self.set("waiting_bytes", live_bytes - flight_bytes - aside_bytes)

    def _count_waiting(self, change: int) -> None:
        if change:
            self.set("waiting_bytes", self.waiting_bytes + change)

    # -- groups

    def _hold(self, first: int, end: int) -> None:
        self._for_groups(first, end, self.group_order.hold, self.group_order.unhold)

    def _unhold(self, first: int, end: int) -> None:
        self._for_groups(first, end, self.group_order.unhold, self.group_order.hold)

    def _hold_tried(self, first: int, end: int) -> None:
        """Messages that wait after an attempt hold their groups; others do not."""
        for offset in self._tried(first, end):
            self._hold(offset, offset + 1)

    def _unhold_tried(self, first: int, end: int) -> None:
        for offset in self._tried(first, end):
            self._unhold(offset, offset + 1)

    def _tried(self, first: int, end: int) -> list[int]:
        if not self.group_order.groups:
            return []
        return [offset for offset in range(first, end) if self.attempts[offset]]

    def _for_groups(
        self, first: int, end: int, change: Callable[[int], None], undo: Callable[[int], None]
    ) -> None:
        if not self.group_order.groups:
            return
        for group in self.group_order.groups.values(first, end):
            if group:
                change(group)
                self.do(undo, group)
