"""Gives ready messages to those who ask for some, in turn.

A demand is a `Take` that waits, or a session's credit. Each in turn is given its share of what is
ready: a `Take` is answered with what it then has, and credit stays until it is used up.

A session asks anew with each `Take`, so it has no demand for a moment although it has room; it is
expected for that moment. Where sessions have priorities, a demand waits while one of a higher
priority could be served, or is expected. Messages that are to be had at once or never wait for who
is expected, too.
"""

from collections import deque
from collections.abc import Iterable
from itertools import groupby

from kafkaesque.queues.context import Context
from kafkaesque.queues.decisions import NEVER, Assign
from kafkaesque.queues.group_order import LOOKED_AT_MAX
from kafkaesque.queues.policy import Sharing
from kafkaesque.queues.ready import FAIR_EVERY
from kafkaesque.queues.requests import (
    TAKEN_MAX,
    UNBOUNDED,
    Claim,
    Deliver,
    Grant,
    Take,
    Taken,
    WaitName,
)
from kafkaesque.queues.runs import Run, length_of, offsets_of, runs_of
from kafkaesque.queues.sent_before import SentBefore
from kafkaesque.queues.sessions import Sessions
from kafkaesque.tables.log_table import RequestToken

#: Messages that one demand is given in one turn.
SHARE_MAX = 4_096
#: Messages that are given out in one turn, before others have theirs.
SERVED_MAX = 16_384
#: So long a session is expected to ask again. One that does not cannot take more at present.
EXPECTED_MS = 250
#: Demands that may wait in one queue.
DEMANDS_MAX = 100_000


class _Demand:
    __slots__ = (
        "bytes",
        "deadline_ms",
        "has_groups",
        "lock_ms",
        "messages",
        "name",
        "session",
        "token",
    )

    def __init__(self, session: bytes | None, messages: int, size: int, lock_ms: int) -> None:
        self.session = session
        self.messages = messages
        self.bytes = size
        self.lock_ms = lock_ms
        #: Of a `Take`.
        self.token: RequestToken | None = None
        #: Whether several of one group may come together.
        self.has_groups = False
        self.deadline_ms: int | None = None
        #: By which the wait can be made longer.
        self.name: WaitName | None = None

    @property
    def is_open(self) -> bool:
        """Whether it may be given more; credit of bytes may be overdrawn by one message."""
        return self.messages > 0 and self.bytes > 0


class Distributor:
    """See the module."""

    __slots__ = (
        "_context",
        "_credit",
        "_demands",
        "_expected",
        "_has_more",
        "_named",
        "_picks",
        "_sent_before",
        "_sessions",
        "is_behind",
    )

    def __init__(self, context: Context, sessions: Sessions) -> None:
        self._context = context
        self._sessions = sessions
        self._demands: deque[_Demand] = deque()
        self._credit: dict[bytes, _Demand] = {}
        #: Demands that can be made longer.
        self._named: dict[WaitName, _Demand] = {}
        #: Sessions that have room and no demand, and until when they are expected: in that order.
        self._expected: dict[bytes, int] = {}
        self._sent_before = SentBefore(context.state.end)
        self._picks = 0
        #: Whether there may be more to give than the last turn had time for.
        self.is_behind = False
        #: Whether a search has not come to the end of what is ready.
        self._has_more = False

    @property
    def is_full(self) -> bool:
        """Whether no more demands may wait."""
        return len(self._demands) >= DEMANDS_MAX

    @property
    def expects_anybody(self) -> bool:
        """Whether a session that has room will ask for more in a moment."""
        return bool(self._expected)

    @property
    def has_demands(self) -> bool:
        """Whether anybody waits."""
        return bool(self._demands)

    def grant(self, grant: Grant) -> None:
        """Add to a session's credit."""
        demand = self._credit.get(grant.session)
        if demand is None:
            demand = _Demand(grant.session, 0, 0, 0)
            self._credit[grant.session] = demand
        has_waited = demand.is_open
        demand.messages = min(demand.messages + grant.messages, UNBOUNDED)
        demand.bytes = min(demand.bytes + grant.bytes, UNBOUNDED)
        demand.lock_ms = self._lock_ms(grant.lock_ms)
        if not has_waited:
            self._maybe_wait(demand)

    def take(self, take: Take) -> None:
        """Let a demand wait: at the end of this turn it has something, or waits on."""
        demand = _Demand(
            take.session, take.messages_max, take.bytes_max, self._lock_ms(take.lock_ms)
        )
        demand.token = take.token
        demand.has_groups = take.has_groups
        demand.deadline_ms = self._context.now.now_ms + take.wait_ms
        self._demands.append(demand)
        if take.name is not None:
            demand.name = take.name
            self._named[take.name] = demand
        if take.session is not None:
            self._expected.pop(take.session, None)

    def extend(self, name: WaitName, wait_ms: int) -> None:
        """Let a demand wait so long from now, if it still waits; never less than it would."""
        demand = self._named.get(name)
        if demand is not None and demand.deadline_ms is not None:
            demand.deadline_ms = max(demand.deadline_ms, self._context.now.now_ms + wait_ms)

    def expect(self, session: bytes) -> None:
        """Let others wait for a moment: this session has room, and will ask."""
        self._expected.pop(session, None)
        self._expected[session] = self._context.now.now_ms + EXPECTED_MS

    def take_back(self, runs: Iterable[Run]) -> None:
        """Messages are ready again, and nobody has ever been sent one of them."""
        self._sent_before.take_back(runs)

    def forget(self, session: bytes) -> None:
        """Let a session's demands be over."""
        self._credit.pop(session, None)
        self._expected.pop(session, None)
        for demand in [each for each in self._demands if each.session == session]:
            self._demands.remove(demand)
            self._answer_late(demand)

    def serve(self) -> None:
        """Give what there is to those who wait."""
        self.is_behind = self._has_more = False
        if self._expected:
            self._expect_no_longer()
        served = 0
        while served < SERVED_MAX:
            now_served = self._serve_each()
            served += now_served
            if not now_served:
                self.is_behind = self._has_more
                return
        self.is_behind = True

    def _serve_each(self) -> int:
        """Give each its share once; return how many messages were given."""
        before = self._context.state.flight_count
        least = self._least_priority()
        for _ in range(len(self._demands)):
            if self._room() <= 0 or not self._has_some_ready():
                break
            demand = self._demands.popleft()
            if self._may_have(demand) and self._is_its_turn(demand, least):
                self._serve_one(demand)
            self._maybe_wait(demand)
        return self._context.state.flight_count - before

    def expire(self) -> None:
        """Answer those who have waited long enough."""
        now_ms = self._context.now.now_ms
        late = [
            each
            for each in self._demands
            if each.deadline_ms is not None and each.deadline_ms <= now_ms
        ]
        for demand in late:
            self._demands.remove(demand)
            self._answer_late(demand)
            if demand.session is not None:
                self.expect(demand.session)

    def next_deadline_ms(self) -> int | None:
        """Return when the first has waited long enough, or None."""
        deadlines = (each.deadline_ms for each in self._demands)
        first = min((each for each in deadlines if each is not None), default=None)
        if first is None or not self._expected or not self._sessions.are_ranked:
            return first
        return min(first, next(iter(self._expected.values())))

    # -- inside

    def _maybe_wait(self, demand: _Demand) -> None:
        """Let a demand be served again if it may have more."""
        if demand.is_open:
            self._demands.append(demand)

    def _lock_ms(self, asked_ms: int | None) -> int:
        return self._context.state.policy.lock_ms if asked_ms is None else asked_ms

    def _may_have(self, demand: _Demand) -> bool:
        if demand.session is None:
            return self._context.state.policy.sharing is Sharing.ALL
        return self._sessions.is_active(demand.session)

    def _expect_no_longer(self) -> None:
        """Forget those who have not asked in time."""
        now_ms = self._context.now.now_ms
        while self._expected:
            session, until_ms = next(iter(self._expected.items()))
            if until_ms > now_ms:
                return
            del self._expected[session]

    def _least_priority(self) -> int | None:
        """Return the highest priority of those who could be given some; None: nobody is ranked."""
        sessions = self._sessions
        if not sessions.are_ranked or self._context.state.policy.sharing is not Sharing.ALL:
            return None
        waiting = (each.session for each in self._demands if each.session is not None)
        ranks = map(sessions.priority_of, (*waiting, *self._expected))
        return max(ranks, default=None)

    def _is_its_turn(self, demand: _Demand, least: int | None) -> bool:
        """Whether no session of a higher priority comes first; what asks for itself does not."""
        if least is None or demand.session is None:
            return True
        return self._sessions.priority_of(demand.session) >= least

    def _room(self) -> int:
        """Return how many more may be in flight."""
        most = self._context.state.policy.in_flight_max
        return most - self._context.state.flight_count if most else UNBOUNDED

    def _answer_late(self, demand: _Demand) -> None:
        self._forget_name(demand)
        if demand.token is not None:
            self._context.answer(demand.token, Taken())

    def _forget_name(self, demand: _Demand) -> None:
        if demand.name is not None:
            self._named.pop(demand.name, None)

    def _serve_one(self, demand: _Demand) -> None:
        count_max = min(demand.messages, self._room(), self._share(demand))
        runs = self._affordable(self._next(demand, count_max), demand.bytes)
        if not runs:
            return
        state = self._context.state
        claims: list[Claim] = []
        excused: list[tuple[int, int]] = []
        for run in runs:
            if state.excused:
                numbers = zip(range(*run), state.excused.values(*run), strict=True)
                excused += [each for each in numbers if each[1]]
            demand.bytes -= state.size_of(*run)
            claims += claims_of(run.first, [each + 1 for each in state.attempts.values(*run)])
        session = self._sessions.open(demand.session)
        until_ms = self._context.now.now_ms + demand.lock_ms if demand.lock_ms else NEVER
        self._context.decide(Assign(session, until_ms, tuple(sorted(runs))))
        count = length_of(runs)
        is_filled = demand.messages == count < TAKEN_MAX
        demand.messages -= count
        taken = Taken(
            claims=tuple(claims), excused=tuple(excused), unsent_from=self._sent_before.end
        )
        self._sent_before.give_out(runs)
        self._hand_over(demand, taken, is_filled=is_filled)

    def _hand_over(self, demand: _Demand, taken: Taken, *, is_filled: bool) -> None:
        if demand.token is not None:
            self._forget_name(demand)
            self._context.answer(demand.token, taken)
            demand.messages = 0
            if demand.session is not None and not is_filled:
                self.expect(demand.session)
        elif demand.session is not None:
            self._context.release(Deliver(session=demand.session, claims=taken.claims))

    def _share(self, demand: _Demand) -> int:
        """Return how many one demand is given, so that others are given some, too."""
        is_shared = self._context.state.policy.sharing is Sharing.ALL
        if demand.token is not None or not is_shared:
            return SHARE_MAX
        share = -(-self._context.state.ready_count // (len(self._demands) + 1))
        return max(1, min(share, SHARE_MAX))

    def _next(self, demand: _Demand, count_max: int) -> list[Run]:
        """Return the next messages, in the order in which they are to be given out."""
        state = self._context.state
        if state.fair_groups.sorted_count and not self._is_fair_by_group:
            state.fair_groups.unsort()
        if state.group_order.groups:
            order = state.group_order
            find = order.free_in_order if demand.has_groups else order.free_offsets
            free = find(count_max)
            self._has_more = state.group_order.looked_at >= LOOKED_AT_MAX
            return list(runs_of(free))
        if self._is_fair_by_group and state.fair_groups.groups:
            return self._next_of_groups(count_max)
        if state.policy.is_fair and state.policy.priorities > 1:
            return self._next_fairly(count_max)
        return state.ready.peek(count_max)

    @property
    def _is_fair_by_group(self) -> bool:
        state = self._context.state
        return state.policy.is_fair_by_group and not state.group_order.groups

    def _has_some_ready(self) -> bool:
        state = self._context.state
        return state.ready.count > 0 or state.fair_groups.sorted_count > 0

    def _next_of_groups(self, count_max: int) -> list[Run]:
        """Return the next messages of groups in turn; runs keep the order of turns."""
        fair = self._context.state.fair_groups
        picked = fair.next_offsets(count_max)
        self._has_more = fair.looked_at >= LOOKED_AT_MAX
        return [Run(offset, offset + 1) for offset in picked]

    def _next_fairly(self, count_max: int) -> list[Run]:
        """Return mostly the highest priorities, and the lowest every eighth time."""
        ready = self._context.state.ready
        highest = offsets_of(ready.peek(count_max))
        lowest = offsets_of(ready.peek(count_max // FAIR_EVERY + 1, from_lowest=True))
        picked: dict[int, None] = {}
        while len(picked) < min(count_max, ready.count):
            self._picks += 1
            source = lowest if self._picks % FAIR_EVERY == 0 else highest
            offset = next((each for each in source if each not in picked), None)
            if offset is None:
                offset = next(each for each in highest if each not in picked)
            picked[offset] = None
        return [Run(offset, offset + 1) for offset in picked]

    def _affordable(self, runs: list[Run], bytes_max: int) -> list[Run]:
        """Return as many as the credit of bytes allows, and one at least."""
        state = self._context.state
        if bytes_max >= UNBOUNDED or not state.policy.is_sized:
            return runs
        if sum(state.size_of(*run) for run in runs) <= bytes_max:
            return runs
        affordable: list[Run] = []
        left = bytes_max
        for first, end in runs:
            for offset in range(first, end):
                left -= state.size_of(offset, offset + 1)
                if left < 0 and (affordable or offset > first):
                    if offset > first:
                        affordable.append(Run(first, offset))
                    return affordable
            affordable.append(Run(first, end))
        return affordable


def claims_of(first: int, attempts: list[int]) -> list[Claim]:
    """Return messages that lie together as claims, by their attempts."""
    claims: list[Claim] = []
    for attempt, group in groupby(attempts):
        end = first + sum(1 for _ in group)
        claims.append(Claim(first, end, attempt))
        first = end
    return claims
