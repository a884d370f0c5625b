"""What becomes of messages without anybody asking: locks end, delays and lives end, limits hold.

Whoever waits is served before what has just come can be too much or too old: a message that is to
be had at once or never is given to a consumer that has room. It is kept for a moment where a
consumer that has room is expected to ask.

Each step of upkeep does a bounded piece; `is_behind` says that there is more to do at once.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from kafkaesque.queues.context import Context
from kafkaesque.queues.decisions import Due, Purge, Reason, Redrive, Remove
from kafkaesque.queues.distributor import EXPECTED_MS
from kafkaesque.queues.requests import Done
from kafkaesque.queues.runs import offsets_of, runs_of
from kafkaesque.queues.state import Place
from kafkaesque.tables.log_table import RequestToken

#: Messages that one step looks at.
STEP_MAX = 10_000
#: Offsets that one step purges.
PURGE_STEP = 262_144
#: Messages that are on their way at once while a queue is redriven.
REDRIVEN_MAX = 1_000
#: By the wall's time nothing is waited for longer than this without looking: it may be set.
LOOK_AGAIN_MS = 10_000


class _Purging(NamedTuple):
    token: RequestToken
    end: int
    takes_in_flight: bool


class Upkeep:
    """See the module."""

    __slots__ = (
        "_context",
        "_known_to",
        "_lived_to",
        "_old_at_once",
        "_purged_to",
        "_purges",
        "_redriven_to",
        "is_behind",
    )

    def __init__(self, context: Context) -> None:
        self._context = context
        state = context.state
        for timetable in (state.locks, state.delayed, state.expiry):
            timetable.enter_anew()
        #: Messages before it were looked at when their lives ended by the queue's policy.
        self._lived_to = 0
        #: Messages from it on have come in this turn.
        self._known_to = state.end
        #: Those whose lives were over when they came, and that may still be taken; rising.
        self._old_at_once: list[int] = []
        self._redriven_to = 0
        self._purged_to = 0
        self._purges: list[_Purging] = []
        self.is_behind = False

    def look_again(self) -> None:
        """Lives may end that did not when they were looked at."""
        self._lived_to = 0
        self._context.state.expiry.enter_anew()

    def on_transaction_ended(self) -> None:
        """So may locks of what a transaction was to settle."""
        self.look_again()
        self._context.state.locks.enter_anew()

    def on_redrive(self) -> None:
        """Messages are to be moved."""
        self._redriven_to = 0

    def purge(self, token: RequestToken, *, takes_in_flight: bool) -> None:
        """Let all that waits now be gone, perhaps with what is in flight, and answer then."""
        self._purges.append(_Purging(token, self._context.state.end, takes_in_flight))
        self._purged_to = 0

    def do(self) -> None:
        """Do what is due before anybody is served."""
        self.is_behind = False
        self._end_locks()
        self._end_delays()
        self._end_lives()
        self._end_old_lives()
        self._go_on_purging()
        self._go_on_redriving()

    def end_what_nobody_took(self, *, is_anybody_expected: bool) -> None:
        """Do what is due after that; what has just come waits for who is expected to ask."""
        state = self._context.state
        lately_ms = self._context.now.wall_ms - EXPECTED_MS
        late = state.ages.arrived_by(lately_ms, state.end) if is_anybody_expected else state.end
        kept = bisect_left(self._old_at_once, late)
        over = [each for each in self._old_at_once[:kept] if self._context.may_expire(each)]
        del self._old_at_once[:kept]
        self._context.give_up(Reason.EXPIRED, over)
        self._keep_limits(late)
        self._known_to = state.end

    def next_deadline_ms(self) -> int | None:
        """Return when something is due, in lock time, or None."""
        state, now = self._context.state, self._context.now
        lock_ms = state.locks.next_due_ms()
        walls = (
            state.delayed.next_due_ms(),
            state.expiry.next_due_ms(),
            self._next_old_ms(),
            self._next_late_ms(),
        )
        wall_ms = min((each for each in walls if each is not None), default=None)
        if wall_ms is None:
            return lock_ms
        by_wall_ms = now.now_ms + min(max(0, wall_ms - now.wall_ms), LOOK_AGAIN_MS)
        return by_wall_ms if lock_ms is None else min(lock_ms, by_wall_ms)

    # -- inside

    def _end_locks(self) -> None:
        due = self._context.state.locks.pop_due(self._context.now.now_ms, STEP_MAX)
        if due:
            self.is_behind = self.is_behind or len(due) == STEP_MAX
            staged = self._context.state.staged
            offsets = sorted(offset for _, offset in due if offset not in staged)
            self._context.give_back(offsets, is_failed=True, to_tail=False, delay_ms=None)

    def _end_delays(self) -> None:
        delayed, wall_ms = self._context.state.delayed, self._context.now.wall_ms
        due_ms = delayed.next_due_ms()
        if due_ms is not None and due_ms <= wall_ms:
            before = delayed.count
            self._context.decide(Due(wall_ms, STEP_MAX))
            self.is_behind = self.is_behind or before - delayed.count == STEP_MAX

    def _end_lives(self) -> None:
        """End lives that messages limit; those in flight are looked at when they come back."""
        state = self._context.state
        due = state.expiry.pop_due(self._context.now.wall_ms, STEP_MAX)
        if due:
            self.is_behind = self.is_behind or len(due) == STEP_MAX
            over = sorted(offset for _, offset in due if self._context.may_expire(offset))
            fresh = bisect_left(over, self._known_to)
            self._old_at_once += over[fresh:]
            self._context.give_up(Reason.EXPIRED, over[:fresh])

    def _end_old_lives(self) -> None:
        """End the lives of messages that have lived as long as the queue lets them."""
        state, ttl_ms = self._context.state, self._context.state.policy.ttl_ms
        if not ttl_ms or not state.live:
            return
        until = state.ages.arrived_by(self._context.now.wall_ms - ttl_ms, state.end)
        if until <= self._lived_to:
            return
        looked_at = list(islice(self._living(self._lived_to, until), STEP_MAX))
        self.is_behind = self.is_behind or len(looked_at) == STEP_MAX
        self._lived_to = looked_at[-1] + 1 if len(looked_at) == STEP_MAX else until
        over = [offset for offset in looked_at if self._context.may_expire(offset)]
        self._context.give_up(Reason.EXPIRED, over)

    def _next_old_ms(self) -> int | None:
        state = self._context.state
        if not state.policy.ttl_ms:
            return None
        first = next(state.live.offsets(self._lived_to), None)
        return None if first is None else state.ages.arrived_ms(first) + state.policy.ttl_ms

    def _next_late_ms(self) -> int | None:
        """Return when something has waited long enough for who was expected to ask."""
        state, policy = self._context.state, self._context.state.policy
        first = next(iter(self._old_at_once), None)
        if first is None and policy.holds_nothing and not policy.refuses:
            first = next(self._heads(), None)
        return None if first is None else state.ages.arrived_ms(first) + EXPECTED_MS

    def _living(self, start: int, end: int) -> Iterator[int]:
        for offset in self._context.state.live.offsets(start):
            if offset >= end:
                return
            yield offset

    def _keep_limits(self, late: int) -> None:
        """Drop what is too much; of a queue that holds nothing, what came before `late`."""
        state = self._context.state
        if state.policy.refuses:
            return
        count, size = self._excess()
        heads: list[int] = []
        for offset in self._heads() if count > 0 or size > 0 else ():
            if len(heads) == STEP_MAX or (count <= 0 and size <= 0):
                break
            if state.policy.holds_nothing and offset >= late:
                continue
            heads.append(offset)
            count, size = count - 1, size - state.size_of(offset, offset + 1)
        self._context.give_up(Reason.TOO_LONG, sorted(heads))
        self.is_behind = self.is_behind or len(heads) == STEP_MAX

    def _excess(self) -> tuple[int, int]:
        """Return how many messages and bytes a queue is too long by; not more than 0: it is not."""
        policy = self._context.state.policy
        count, size = counted(self._context)
        if policy.holds_nothing:
            return count, 0
        return (
            count - policy.messages_max if policy.messages_max else 0,
            size - policy.bytes_max if policy.bytes_max else 0,
        )

    def _heads(self) -> Iterator[int]:
        """Return the messages that a queue that is too long loses first, in that order."""
        state = self._context.state
        if state.policy.priorities > 1 and state.ready.count:
            yield from offsets_of(state.ready.peek(STEP_MAX, from_lowest=True))
            return
        for offset in state.live.offsets():
            if self._context.waits(offset):
                yield offset

    def _go_on_purging(self) -> None:
        while self._purges:
            token, end, takes_in_flight = self._purges[0]
            begin = max(self._purged_to, self._context.state.floor)
            self._purged_to = min(end, begin + PURGE_STEP)
            if self._context.state.floor < self._purged_to:
                if takes_in_flight:
                    self._purge_in_flight(begin, self._purged_to)
                self._context.decide(Purge(self._purged_to))
            if self._purged_to < end:
                self.is_behind = True
                return
            del self._purges[0]
            self._context.answer(token, Done())

    def _purge_in_flight(self, begin: int, end: int) -> None:
        state = self._context.state
        offsets = [
            offset
            for offset in self._living(begin, end)
            if state.place_of(offset) is Place.IN_FLIGHT and offset not in state.staged
        ]
        if offsets:
            self._context.decide(Remove(Reason.PURGED, runs_of(offsets)))

    def _go_on_redriving(self) -> None:
        state = self._context.state
        target, end = state.redrive_target, state.redrive_end
        rate = state.policy.redrive_rate
        if not target or len(state.moving) >= min(rate or REDRIVEN_MAX, REDRIVEN_MAX):
            return
        # What is on its way cannot be called back: with a rate, not more than a second's.
        most = min(rate - len(state.moving), REDRIVEN_MAX) if rate else REDRIVEN_MAX
        places = (Place.READY, Place.PARKED)
        living = list(islice(self._living(self._redriven_to, end), most))
        found = [offset for offset in living if state.place_of(offset) in places]
        if found:
            self._context.move(Reason.REDRIVEN, target, runs_of(found))
        if len(living) < most:
            self._context.decide(Redrive("", 0))
        else:
            self._redriven_to = living[-1] + 1
            self.is_behind = True


def counted(context: Context) -> tuple[int, int]:
    """Return the messages and bytes that a queue's limits count."""
    state = context.state
    count, size = state.ready_count + state.delayed.count, state.waiting_bytes
    if state.pending:
        count += len(state.pending)
        size += sum(state.size_of(each, each + 1) for each in state.pending)
    if state.policy.counts_in_flight:
        return count + state.flight_count, size + state.flight_bytes
    return count, size
