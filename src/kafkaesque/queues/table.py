"""A queue as a table on a partition: the state on each replica, and the engine where it leads.

Two kinds of logs carry queues. In a queue's *own* log messages stand beside the decisions about
them, and the table follows both. A *cursor's* decisions stand in another log than the messages, and
those are brought to it as requests (`Arrived`) once they are committed.
"""

from itertools import islice

from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import Offset
from kafkaesque.model.live_offsets import OffsetRanges
from kafkaesque.queues.arrival import Arrivals, told_of
from kafkaesque.queues.claims import good_runs
from kafkaesque.queues.context import Context
from kafkaesque.queues.decisions import Decision, read_decision, write_decision
from kafkaesque.queues.engine import Engine
from kafkaesque.queues.joined import end_in, joined_of, told_of_joined
from kafkaesque.queues.replay import arrive, finish, pend, replay, stage, undo
from kafkaesque.queues.requests import Admission, Browsed, Claim, Effect, Request, WaitName
from kafkaesque.queues.runs import Run, length_of
from kafkaesque.queues.snapshot import live_in, read_state, write_state
from kafkaesque.queues.state import State, Undo
from kafkaesque.queues.tally import Tally
from kafkaesque.tables.log_table import Instant
from kafkaesque.tables.replicated import ReplicatedTable

#: Messages that one look at a queue shows.
BROWSED_MAX = 10_000

_ZERO = Offset(0)


class QueueTable(ReplicatedTable[Request, Effect, Undo]):
    """See the module, and `kafkaesque.tables.replicated` for how it is driven."""

    __slots__ = ("_arrivals", "_context", "_decided", "_engine", "has_own_log", "state", "tally")

    def __init__(
        self,
        number: int,
        start_offset: Offset = _ZERO,
        *,
        has_own_log: bool = True,
        tally: Tally | None = None,
        arrivals: Arrivals | None = None,
    ) -> None:
        """`tally` and `arrivals` are those of all queues of a broker."""
        self.has_own_log = has_own_log
        self.tally = Tally() if tally is None else tally
        self._arrivals = Arrivals() if arrivals is None else arrivals
        self._decided: Decision | None = None
        super().__init__(number, start_offset)

    # -- what may be asked without deciding

    def admit(self, identities: list[bytes], sizes: list[int], now: Instant) -> list[Admission]:
        """Say of messages whether they may be appended, on the leader.

        Those that may have to be appended before the next call, or not at all. A duplicate is to be
        confirmed when its original is committed.
        """
        self._set_now(now)
        engine = self._leading_engine()
        return engine.admit(identities, sizes)

    def extend_wait(self, name: WaitName, wait_ms: int, now: Instant) -> None:
        """Let a `Take` wait so long from now, if it still waits at this leader."""
        if self._engine is not None:
            self._set_now(now)
            self._leading_engine().extend_wait(name, wait_ms)

    def browse(self, start: int, count_max: int) -> list[Browsed]:
        """Return messages from an offset on, as they stand here now; nothing is acquired."""
        state = self.state
        return [
            Browsed(
                offset=offset,
                place=state.place_of(offset),
                attempts=state.attempts[offset],
                failures=state.failures_of(offset),
                priority=state.ready.priorities[offset],
                not_before_ms=state.delayed[offset],
                not_after_ms=state.expiry[offset],
            )
            for offset in islice(state.live.offsets(start), min(count_max, BROWSED_MAX))
            if offset not in state.pending
        ]

    @property
    def admits_all(self) -> bool:
        """Whether messages may be appended without `admit`."""
        policy = self.state.policy
        return not policy.deduplication_ms and not policy.refuses

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody waits for messages, on the leader."""
        return self._engine is not None and self._engine.is_waited_for

    @property
    def is_used(self) -> bool:
        """Whether somebody is attached, waits for messages or has some, on the leader."""
        return self._engine is not None and self._engine.is_used

    @property
    def absent_sessions(self) -> list[bytes]:
        """Sessions that have messages and have not come back to this leader yet."""
        return [] if self._engine is None else self._engine.absent_sessions

    @property
    def consumer_count(self) -> int:
        """How many sessions are attached, on the leader."""
        return 0 if self._engine is None else self._engine.session_count

    # -- see `ReplicatedTable`

    def _clear(self) -> None:
        self.state = State()
        self._engine: Engine | None = None

    def _apply(self, decision: bytes) -> Undo:
        decided, self._decided = self._decided, None
        return replay(self.state, decided or read_decision(decision))

    def _undo(self, changes: Undo) -> None:
        undo(changes)

    def told_of(self, header: BatchHeader, data: Buffer) -> bytes:
        if header.is_transactional:
            return told_of_joined(header, data, self.wall_ms)
        return told_of(header, data, self.wall_ms) if self.has_own_log else b""

    def _follow(self, header: BatchHeader, data: Buffer, base_offset: Offset) -> Undo | None:
        if header.is_transactional:
            return self._follow_joined(header, data, base_offset)
        if not self.has_own_log:
            return None
        # The queue's time may be ahead of the clock that stamped the batch: a message is no older.
        arrival = self._arrivals.read(header, data, base_offset, self.wall_ms)
        changes = arrive(self.state, arrival)
        if self._engine is not None:
            self._engine.has_arrivals = True
            self.tally.arrived += length_of(arrival.runs)
        return changes

    def _follow_joined(self, header: BatchHeader, data: Buffer, base_offset: int) -> Undo | None:
        joined = joined_of(header, data, base_offset, self.wall_ms)
        if joined.arrival is None:
            return stage(self.state, header.producer_id, joined.staged)
        if not self.has_own_log:
            return None
        if self._engine is not None:
            self.tally.arrived += length_of(joined.arrival.runs)
        return pend(self.state, header.producer_id, joined.arrival)

    def _follow_control(self, header: BatchHeader, data: Buffer) -> Undo | None:
        is_committed = end_in(data)
        if is_committed is None:
            return None
        if self._engine is not None:
            self._engine.has_arrivals = self._engine.has_ended = True
        wall_ms = max(self.wall_ms, header.max_timestamp_ms)
        return finish(self.state, header.producer_id, wall_ms, is_committed=is_committed)

    def is_staged(self, claims: tuple[Claim, ...]) -> bool:
        """Whether an open transaction settles some of these messages."""
        staged = self.state.staged
        return bool(staged) and any(
            offset in staged for first, end, _ in claims for offset in range(first, end)
        )

    def staging_of(self, claims: tuple[Claim, ...]) -> tuple[tuple[Run, ...], tuple[Claim, ...]]:
        """Return the messages that claims are good for, and the claims that are not, on the leader.

        What is good is so until the next call: it has to be appended before that, or not at all.
        """
        return good_runs(self.state, claims)

    def _write_state(self) -> bytes:
        return write_state(self.state)

    def _read_state(self, data: bytes) -> None:
        self.state = read_state(data)

    @property
    def _floor(self) -> Offset | None:
        if not self.has_own_log:
            return None
        first = self.state.live.first()
        return None if first is None else Offset(first)

    @property
    def _may_have_holes(self) -> bool:
        return self.has_own_log

    def _live_in(self, state: bytes) -> OffsetRanges | None:
        return live_in(state) if self.has_own_log else None

    def _decide(self, request: Request) -> None:
        self._leading_engine().handle(request)

    def _on_leading(self) -> None:
        self._context = Context(self.state, self._log, self.release)
        self._context.now = self.now
        self._engine = Engine(self._context)

    def _on_due(self) -> None:
        self._leading_engine().work()

    def _next_deadline_ms(self) -> int | None:
        return None if self._engine is None else self._engine.next_deadline_ms()

    def unlead(self) -> None:
        super().unlead()
        self._engine = None

    # -- inside

    def _log(self, decision: Decision) -> None:
        # It is applied within the call: there is no need to read what was just written.
        self._decided = decision
        before = self.tally.on_deciding(self.state, decision)
        self.log(write_decision(decision))
        self.tally.on_decided(self.state, decision, before)

    def _leading_engine(self) -> Engine:
        if self._engine is None:
            raise InvariantBroken("a queue's engine runs only where its log is led")
        self._context.now = self.now
        return self._engine
