"""A queue's engine, on the leader: what is asked becomes decisions and effects.

The engine runs ahead of commit: a decision holds at once, and its effects wait until it is
committed. What the engine knows beside the state (who is attached, who waits) is soft, and is made
anew with each leader.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kafkaesque.model.errors import InvalidConfig
from kafkaesque.queues import decisions as d
from kafkaesque.queues import requests as r
from kafkaesque.queues.claims import good_runs, is_over_bound
from kafkaesque.queues.context import Context
from kafkaesque.queues.decisions import NEVER, Reason
from kafkaesque.queues.distributor import Distributor, claims_of
from kafkaesque.queues.policy import Sharing, Undeliverable
from kafkaesque.queues.requests import ADMITTED, Admission, Done, Refusal, Request, Verdict
from kafkaesque.queues.runs import Run, offsets_of, runs_of
from kafkaesque.queues.sessions import Sessions
from kafkaesque.queues.upkeep import Upkeep, counted

_FULL: Final = Admission(Verdict.FULL)


class Engine:
    """See the module."""

    __slots__ = ("_context", "_distributor", "_sessions", "_upkeep", "has_arrivals", "has_ended")

    def __init__(self, context: Context) -> None:
        """Begin to lead: what is on its way elsewhere is asked for again."""
        self._context = context
        self._sessions = Sessions(context)
        self._distributor = Distributor(context, self._sessions)
        self._upkeep = Upkeep(context)
        #: Messages have arrived since `work`.
        self.has_arrivals = True
        #: A transaction has ended since.
        self.has_ended = True
        moving = context.state.moving
        for offset in sorted(moving, key=lambda each: (moving[each].target, moving[each].sequence)):
            context.ask_to_move(offset)

    @property
    def session_count(self) -> int:
        """How many sessions are attached."""
        return len(self._sessions)

    @property
    def absent_sessions(self) -> list[bytes]:
        """Sessions of before this leader that have not come back, while that is waited for."""
        return self._sessions.absent

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody waits for messages."""
        return self._distributor.has_demands

    def extend_wait(self, name: r.WaitName, wait_ms: int) -> None:
        """Let a `Take` that still waits wait so long from now."""
        self._distributor.extend(name, wait_ms)

    def handle(self, request: Request) -> None:
        """Take a request, and do what follows from it."""
        _HANDLERS[type(request)](self, request)
        self.work()

    def work(self) -> None:
        """Do what is due, and give out what there is."""
        self.has_arrivals = False
        if self.has_ended:
            self.has_ended = False
            self._sessions.close_left()
            self._upkeep.on_transaction_ended()
        with self._activating():
            self._sessions.end_grace()
        self._upkeep.do()
        self._distributor.serve()
        self._upkeep.end_what_nobody_took(is_anybody_expected=self._distributor.expects_anybody)
        self._distributor.expire()

    def next_deadline_ms(self) -> int | None:
        """Return when `work` is needed, in lock time; None: not before somebody asks."""
        has_work = self._upkeep.is_behind or self._distributor.is_behind or self.has_arrivals
        if has_work:
            return self._context.now.now_ms
        parts = (self._upkeep, self._distributor, self._sessions)
        deadlines = (part.next_deadline_ms() for part in parts)
        return min((each for each in deadlines if each is not None), default=None)

    def admit(self, identities: list[bytes], sizes: list[int]) -> list[Admission]:
        """Say of each message whether it may be appended; those that may are appended in this turn.

        An identity is empty, or 16 bytes.
        """
        count, size = counted(self._context)
        known = self._known_count()
        is_full = self._is_full(count + len(sizes), size + sum(sizes), known)
        if not is_full and not any(identities):
            return [ADMITTED] * len(sizes)
        admissions: list[Admission] = []
        twins: dict[bytes, int] = {}
        for number, (identity, each) in enumerate(zip(identities, sizes, strict=True)):
            admission = self._known(identity, twins)
            if admission is None:
                is_full = self._is_full(count + 1, size + each, known + len(twins) + bool(identity))
                admission = _FULL if is_full else ADMITTED
                if not is_full:
                    count, size = count + 1, size + each
                    if identity:
                        twins[identity] = number
            admissions.append(admission)
        return admissions

    def _known(self, identity: bytes, twins: dict[bytes, int]) -> Admission | None:
        state = self._context.state
        window_ms = state.policy.deduplication_ms
        if not identity or not window_ms:
            return None
        if identity in twins:
            return Admission(Verdict.DUPLICATE, twin=twins[identity])
        original = state.identities.find(identity, self._context.now.wall_ms, window_ms)
        return None if original is None else Admission(Verdict.DUPLICATE, original)

    def _known_count(self) -> int:
        """Return how many identities are known that the queue's limit counts."""
        state = self._context.state
        window_ms = state.policy.deduplication_ms
        if not window_ms:
            return 0
        return state.identities.count_within(self._context.now.wall_ms, window_ms)

    def _is_full(self, count: int, size: int, identities: int) -> bool:
        policy = self._context.state.policy
        if policy.deduplication_ms and identities > policy.deduplication_count:
            return True
        if not policy.refuses:
            return False
        return bool(
            policy.holds_nothing
            or (policy.messages_max and count > policy.messages_max)
            or (policy.bytes_max and size > policy.bytes_max)
        )

    # -- whether anybody uses the queue

    @property
    def is_used(self) -> bool:
        """Whether somebody is attached, waits for messages or has some."""
        context = self._context
        return bool(len(self._sessions) or self.is_waited_for or context.state.flight_count)

    def _note_use(self, request: r.NoteUse) -> None:
        self._use()
        self._context.answer(request.token, Done())

    def _note_disuse(self, request: r.NoteDisuse) -> None:
        if not self.is_used:
            note = d.NoteDisuse(request.unused_ms, request.wall_ms, request.step_ms)
            self._context.decide(note)
        self._context.answer(request.token, Done())

    def _use(self) -> None:
        """Have it that the next leader counts anew, before anybody is told that he may use it."""
        if self._context.state.disuse is not None:
            self._context.decide(d.NoteUse())

    # -- sessions

    def _attach(self, request: r.Attach) -> None:
        if request.is_leaving:
            with self._activating():
                self._distributor.forget(request.session)
                self._sessions.leave(request.session)
            claims = self._claims_of(request.session)
            self._context.answer(request.token, r.Attached(is_active=False, claims=claims))
            return
        if self._sessions.is_full:
            self._refuse(request, Refusal.OVER_BOUND)
            return
        is_new = request.session not in self._sessions
        is_attached = self._sessions.attach(
            request.session, priority=request.priority, is_exclusive=request.is_exclusive
        )
        if not is_attached:
            self._refuse(request, Refusal.EXCLUSIVE)
        else:
            if request.is_anew:
                self._distributor.forget(request.session)
            if is_new:
                self._use()
            if is_new or request.is_anew:
                self._distributor.expect(request.session)
            is_active = self._sessions.is_active(request.session)
            claims = self._claims_of(request.session)
            self._context.answer(request.token, r.Attached(is_active=is_active, claims=claims))

    def _claims_of(self, session: bytes) -> tuple[r.Claim, ...]:
        state = self._context.state
        owned = state.owned.get(self._sessions.number_of(session) or -1)
        if owned is None:
            return ()
        return tuple(
            claim
            for run in owned.runs()
            for claim in claims_of(run.first, state.attempts.values(*run))
        )

    def _detach(self, request: r.Detach) -> None:
        with self._activating():
            self._distributor.forget(request.session)
            self._sessions.detach(request.session, is_failed=request.is_failed)
        self._context.answer(request.token, Done())

    @contextmanager
    def _activating(self) -> Iterator[None]:
        """Tell the session that has become the active one, where only one is."""
        before = self._sessions.active
        yield
        active = self._sessions.active
        is_single = self._context.state.policy.sharing is not Sharing.ALL
        if is_single and active is not None and active != before:
            self._context.release(r.Activate(session=active))

    def _grant(self, request: r.Grant) -> None:
        if request.session not in self._sessions:
            self._refuse(request, Refusal.NO_SESSION)
        elif min(request.messages, request.bytes, request.lock_ms or 0) < 0:
            self._refuse(request, Refusal.INVALID)
        elif self._distributor.is_full:
            self._refuse(request, Refusal.OVER_BOUND)
        else:
            self._distributor.grant(request)
            self._context.answer(request.token, Done())

    def _take(self, request: r.Take) -> None:
        is_sane = request.messages_max > 0 and request.bytes_max > 0
        if not is_sane or min(request.wait_ms, request.lock_ms or 0) < 0:
            self._refuse(request, Refusal.INVALID)
        elif request.session is not None and request.session not in self._sessions:
            self._refuse(request, Refusal.NO_SESSION)
        elif request.session is None and self._context.state.policy.sharing is not Sharing.ALL:
            self._refuse(request, Refusal.NOT_ATTACHED)
        elif self._distributor.is_full:
            self._refuse(request, Refusal.OVER_BOUND)
        else:
            self._use()
            self._distributor.take(request)

    # -- messages in flight

    def _settle(self, request: r.Settle) -> None:
        self._with_claims(
            request,
            lambda runs: self._context.decide(d.Remove(Reason.SETTLED, runs)),
            may_be_late=request.may_be_late,
        )

    def _give_back(self, request: r.GiveBack) -> None:
        def give_back(runs: d.Runs) -> None:
            self._context.give_back(
                offsets_of(runs),
                is_failed=request.is_failed,
                to_tail=request.to_tail,
                delay_ms=request.delay_ms,
            )
            if request.is_unsent:
                self._distributor.take_back(runs)

        self._with_claims(request, give_back)

    def _reject(self, request: r.Reject) -> None:
        self._with_claims(
            request,
            lambda runs: self._context.give_up(Reason.REJECTED, offsets_of(runs)),
            may_be_late=request.may_be_late,
        )

    def _extend(self, request: r.Extend) -> None:
        if request.lock_ms < 0:
            self._refuse(request, Refusal.INVALID)
            return
        until_ms = self._context.now.now_ms + request.lock_ms if request.lock_ms else NEVER
        self._with_claims(request, lambda runs: self._context.decide(d.Extend(until_ms, runs)))

    def _stage(self, request: r.Stage) -> None:
        self._with_claims(
            request, lambda runs: self._context.decide(d.Stage(request.transaction, runs))
        )

    def _finish(self, request: r.Finish) -> None:
        if request.transaction in self._context.state.staged.values():
            self._context.decide(d.Finish(request.transaction, request.is_committed))
            self._sessions.close_left()
            self._upkeep.look_again()
        self._context.answer(request.token, Done())

    def _with_claims(
        self,
        request: r.Settle | r.GiveBack | r.Reject | r.Extend | r.Stage,
        do: Callable[[d.Runs], None],
        *,
        may_be_late: bool = False,
    ) -> None:
        if is_over_bound(request.claims):
            self._refuse(request, Refusal.OVER_BOUND)
            return
        runs, stale = good_runs(self._context.state, request.claims, may_be_late=may_be_late)
        if runs:
            do(runs)
        self._context.answer(request.token, Done(stale=stale))

    # -- the whole queue

    def _purge(self, request: r.Purge) -> None:
        self._upkeep.purge(request.token, takes_in_flight=request.takes_in_flight)

    def _configure(self, request: r.Configure) -> None:
        try:
            request.policy.check()
        except InvalidConfig:
            self._refuse(request, Refusal.INVALID)
            return
        if request.policy != self._context.state.policy:
            self._context.decide(d.Configure(request.policy))
            self._upkeep.look_again()
        self._context.answer(request.token, Done())

    def _redrive(self, request: r.Redrive) -> None:
        end = self._context.state.end if request.target else 0
        self._context.decide(d.Redrive(request.target, end))
        self._upkeep.on_redrive()
        self._context.answer(request.token, Done())

    def _unpark(self, request: r.Unpark) -> None:
        runs = runs_of(offset for offset, _ in self._context.state.parked.items())
        if runs:
            self._context.decide(d.Unpark(runs))
            self._upkeep.look_again()
        self._context.answer(request.token, Done())

    def _moved(self, request: r.Moved) -> None:
        self._context.bury(request.offsets)
        self._context.answer(request.token, Done())

    def _not_moved(self, request: r.NotMoved) -> None:
        moving = self._context.state.moving
        by_reason: dict[Reason, list[int]] = {}
        for offset in sorted(each for each in set(request.offsets) if each in moving):
            by_reason.setdefault(moving[offset].reason, []).append(offset)
        drops = self._context.state.policy.undeliverable is Undeliverable.DROP
        for reason, offsets in by_reason.items():
            runs = runs_of(offsets)
            self._context.decide(d.Remove(reason, runs) if drops else d.Park(reason, runs))
        self._context.answer(request.token, Done())

    def _arrived(self, request: r.Arrived) -> None:
        runs = request.arrival.runs
        if runs and runs[0].first < self._context.state.end:
            self._refuse(request, Refusal.INVALID)
            return
        if runs:
            self._context.decide(d.Arrive(request.arrival))
        self._context.answer(request.token, Done())

    def _overflowed(self, request: r.Overflowed) -> None:
        refused = range(request.first, request.end)
        self._context.give_up(Reason.TOO_LONG, filter(self._context.waits, refused))
        self._context.answer(request.token, Done())

    def _seek(self, request: r.Seek) -> None:
        if request.offset < 0:
            self._refuse(request, Refusal.INVALID)
            return
        self._context.decide(d.Seek(request.offset))
        self._sessions.close_left()
        self._upkeep.look_again()
        self._context.answer(request.token, Done())

    def _drop(self, request: r.Drop) -> None:
        live = self._context.state.live
        runs = tuple(
            Run(first, min(end, request.before))
            for first, end in live.runs()
            if first < request.before
        )
        if runs:
            self._context.decide(d.Remove(Reason.EXPIRED, runs))
            self._upkeep.look_again()
        self._context.answer(request.token, Done())

    def _refuse(self, request: Any, why: Refusal) -> None:
        self._context.answer(request.token, r.Refused(why=why))


_HANDLERS: dict[type[Request], Callable[[Engine, Any], None]] = {
    r.Attach: Engine._attach,
    r.Detach: Engine._detach,
    r.Grant: Engine._grant,
    r.Take: Engine._take,
    r.Settle: Engine._settle,
    r.GiveBack: Engine._give_back,
    r.Reject: Engine._reject,
    r.Extend: Engine._extend,
    r.Stage: Engine._stage,
    r.Finish: Engine._finish,
    r.Purge: Engine._purge,
    r.Configure: Engine._configure,
    r.Redrive: Engine._redrive,
    r.Unpark: Engine._unpark,
    r.Moved: Engine._moved,
    r.NotMoved: Engine._not_moved,
    r.Arrived: Engine._arrived,
    r.Overflowed: Engine._overflowed,
    r.Seek: Engine._seek,
    r.Drop: Engine._drop,
    r.NoteUse: Engine._note_use,
    r.NoteDisuse: Engine._note_disuse,
}
