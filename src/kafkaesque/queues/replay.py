"""What each decision does to a queue's state: nothing here asks the time, the policy or a client.

The one exception is what arrives: how its delay, its priority and the end of its life are read from
the message depends on the policy in force at that place of the log.
"""

from collections.abc import Callable
from typing import Any

from kafkaesque.queues import decisions as d
from kafkaesque.queues.ages import Ages
from kafkaesque.queues.arrival import Arrival, Details
from kafkaesque.queues.decisions import Decision, Reason
from kafkaesque.queues.runs import Run, length_of, offsets_of, runs_of
from kafkaesque.queues.state import Disuse, Pending, Place, State, Undo


def replay(state: State, decision: Decision) -> Undo:
    """Change the state as a decision says; return what takes it back.

    Raises:
        InvariantBroken: the decision does not fit to the state.
    """
    state.journal = []
    _DO[type(decision)](state, decision)
    return state.journal


def arrive(state: State, arrival: Arrival) -> Undo:
    """Take messages that have come into the queue; return what takes that back."""
    state.journal = []
    _arrive(state, arrival)
    return state.journal


def pend(state: State, transaction: int, arrival: Arrival) -> Undo:
    """Take messages of an open transaction; return what takes that back."""
    state.journal = []
    if arrival.runs:
        count = _note_arrival(state, arrival)
        _count_bytes(state, arrival, count)
        details = {each.offset: each for each in arrival.details}
        for offset in offsets_of(arrival.runs):
            said = details.get(offset) or Details(offset)
            state.pend(offset, Pending(transaction, arrival.wall_ms, said))
    return state.journal


def finish(state: State, transaction: int, wall_ms: int, *, is_committed: bool) -> Undo:
    """End a transaction, as a marker says: its messages are there, and what it settles is gone.

    Or its messages are gone, and what it was to settle is with those who have it. Return what takes
    that back.
    """
    state.journal = []
    staged = sorted(offset for offset, each in state.staged.items() if each == transaction)
    for offset in staged:
        if is_committed:
            state.leave(offset, offset + 1)
            state.forget(offset, offset + 1)
        else:
            state.unstage(offset)
    if is_committed:
        _count_removed(state, Reason.SETTLED, len(staged))
    ended = sorted(offset for offset, each in state.pending.items() if each[0] == transaction)
    for offset in ended:
        pending = state.pending[offset]
        state.leave(offset, offset + 1)
        if is_committed and not _is_twin(state, pending.details, wall_ms):
            _admit(state, pending, wall_ms)
        else:
            state.forget(offset, offset + 1)
    return state.journal


def _is_twin(state: State, details: Details, wall_ms: int) -> bool:
    """Whether a message with the same id has come since; of two transactions the first one wins."""
    window_ms = state.policy.deduplication_ms
    if not window_ms or not details.identity:
        return False
    return state.identities.find(details.identity, wall_ms, window_ms) is not None


def _admit(state: State, pending: Pending, wall_ms: int) -> None:
    details = pending.details
    run = Run(details.offset, details.offset + 1)
    _note_identities(state, Arrival(runs=(run,), wall_ms=wall_ms, sizes=(0,), details=(details,)))
    _place(state, run, {details.offset: details}, pending.wall_ms)


def stage(state: State, transaction: int, runs: tuple[Run, ...]) -> Undo:
    """Have messages in flight settled with a transaction; return what takes that back.

    Their locks stay as they are, and end nothing before the transaction has ended.
    """
    state.journal = []
    for offset in offsets_of(runs):
        state.stage(offset, transaction)
    return state.journal


def undo(changes: Undo) -> None:
    """Take back what `replay` or `arrive` did; all that was done later is taken back already."""
    for function, arguments in reversed(changes):
        function(*arguments)


# -- arrivals


def _arrive(state: State, arrival: Arrival) -> None:
    if not arrival.runs:
        return
    count = _note_arrival(state, arrival)
    _count_bytes(state, arrival, count)
    _note_identities(state, arrival)
    details = {each.offset: each for each in arrival.details}
    for run in arrival.runs:
        _place(state, run, details, arrival.wall_ms)


def _note_arrival(state: State, arrival: Arrival) -> int:
    """Let messages live that are nowhere yet; return how many."""
    first, count = arrival.runs[0].first, length_of(arrival.runs)
    before = state.ages.note(first, arrival.wall_ms, state.floor)
    if before is not None:
        state.do(state.ages.take_back, before)
    state.set("end", arrival.runs[-1].end)
    for run in arrival.runs:
        state.live.add(*run)
        state.do(state.live.remove, *run)
    return count


def _count_bytes(state: State, arrival: Arrival, count: int) -> None:
    sizes = arrival.sizes
    total = sum(sizes) if len(sizes) == count else sizes[0] * count
    state.set("arrived_count", state.arrived_count + count)
    state.set("arrived_bytes", state.arrived_bytes + total)
    if not state.policy.is_sized:
        return
    if len(sizes) != count:
        sizes = sizes * count
    at = 0
    for first, end in arrival.runs:
        # A size of 0 would be taken for one that is not known.
        values = [max(1, size) for size in sizes[at : at + end - first]]
        state.sizes.put(first, values)
        state.do(state.sizes.clear, first, end)
        at += end - first


def _note_identities(state: State, arrival: Arrival) -> None:
    window_ms = state.policy.deduplication_ms
    if not window_ms or not any(each.identity for each in arrival.details):
        return
    identities = state.identities
    state.do(identities.end, identities.begin(arrival.wall_ms, window_ms))
    for each in arrival.details:
        if each.identity:
            before = identities.note(each.identity, each.offset)
            state.do(identities.take_back, each.identity, before)


def _place(state: State, run: Run, details: dict[int, Details], wall_ms: int) -> None:
    due_ms = wall_ms + state.policy.delay_ms if state.policy.delay_ms else 0
    said = [details.get(offset) for offset in range(*run)] if details else []
    if not any(said):
        _place_run(state, run.first, run.end, due_ms)
        return
    known = [each or Details(offset) for offset, each in enumerate(said, run.first)]
    _note_details(state, run, known)
    times = [each.not_before_ms or due_ms for each in known]
    start = 0
    for at in range(1, len(times) + 1):
        if at == len(times) or times[at] != times[start]:
            due_ms = times[start] if times[start] > wall_ms else 0
            _place_run(state, run.first + start, run.first + at, due_ms)
            start = at


def _note_details(state: State, run: Run, known: list[Details]) -> None:
    """Keep what messages say of themselves, so far as the policy cares."""
    policy = state.policy
    priorities = [min(each.priority, policy.priorities - 1) for each in known]
    if any(priorities):
        state.ready.priorities.put(run.first, priorities)
        state.do(state.ready.priorities.clear, *run)
    groups = [each.group for each in known]
    if policy.is_ordered and any(groups):
        state.group_order.groups.put(run.first, groups)
        state.do(state.group_order.groups.clear, *run)
    if policy.is_fair_by_group and any(groups):
        state.fair_groups.groups.put(run.first, groups)
        state.do(state.fair_groups.groups.clear, *run)
    for each in known:
        if each.not_after_ms:
            state.set_times(state.expiry, each.offset, each.offset + 1, each.not_after_ms)


def _place_run(state: State, first: int, end: int, due_ms: int) -> None:
    if due_ms:
        state.begin_delay(first, end, due_ms)
    else:
        state.put_ready(first, end)


# -- decisions


def _on_arrive(state: State, decision: d.Arrive) -> None:
    _arrive(state, decision.arrival)


def _assign(state: State, decision: d.Assign) -> None:
    for first, end in decision.runs:
        state.take_ready(first, end)
        before = state.attempts.values(first, end)
        state.attempts.put(first, [attempts + 1 for attempts in before])
        state.do(state.attempts.put, first, before)
        state.begin_flight(decision.session, first, end)
        if decision.until_ms != d.NEVER:
            state.set_times(state.locks, first, end, decision.until_ms)


def _extend(state: State, decision: d.Extend) -> None:
    for first, end in decision.runs:
        state.clear_times(state.locks, first, end)
        if decision.until_ms != d.NEVER:
            state.set_times(state.locks, first, end, decision.until_ms)


def _release(state: State, decision: d.Release) -> None:
    for first, end in decision.runs:
        state.leave(first, end)
        if not decision.is_failed:
            for offset in range(first, end):
                state.set_column(state.excused, offset, state.excused[offset] + 1)
        _give_back(state, decision, first, end)


def _give_back(state: State, decision: d.Release, first: int, end: int) -> None:
    if decision.due_ms:
        state.begin_delay(first, end, decision.due_ms)
    elif decision.to_tail:
        for offset in range(first, end):
            state.put_ready_at_tail(offset)
    else:
        state.put_ready(first, end)


def _due(state: State, decision: d.Due) -> None:
    due = state.delayed.pop_due(decision.until_ms, decision.count_max)
    for run in runs_of(sorted(offset for _, offset in due)):
        state.end_delay(*run)
        state.put_ready(*run)


def _remove(state: State, decision: d.Remove) -> None:
    for first, end in decision.runs:
        state.leave(first, end)
        state.forget(first, end)
    _count_removed(state, decision.reason, length_of(decision.runs))


def _kill(state: State, decision: d.Kill) -> None:
    for first, end in decision.runs:
        state.leave(first, end)
        for offset in range(first, end):
            state.begin_move(offset, decision.reason, decision.target)


def _bury(state: State, decision: d.Bury) -> None:
    for offset in offsets_of(decision.runs):
        reason = state.moving[offset].reason
        state.end_move(offset)
        state.forget(offset, offset + 1)
        _count_removed(state, reason, 1)


def _park(state: State, decision: d.Park) -> None:
    for first, end in decision.runs:
        state.leave(first, end)
        state.parked.fill(first, end, decision.reason + 1)
        state.do(state.parked.clear, first, end)


def _unpark(state: State, decision: d.Unpark) -> None:
    for first, end in decision.runs:
        state.leave(first, end)
        for offset in range(first, end):
            state.set_column(state.excused, offset, state.attempts[offset])
        state.put_ready(first, end)


def _purge(state: State, decision: d.Purge) -> None:
    stays = (Place.IN_FLIGHT, Place.MOVING, Place.PENDING)
    runs = []
    for first, end in state.live.runs():
        if first >= decision.end:
            break
        parts = state.parts(first, min(end, decision.end))
        runs += [run for place, _, run in parts if place not in stays]
    for run in runs:
        state.leave(*run)
        state.forget(*run)
    _count_removed(state, Reason.PURGED, length_of(runs))


def _configure(state: State, decision: d.Configure) -> None:
    was_sized = state.policy.is_sized
    state.set("policy", decision.policy)
    if decision.policy.is_sized and not was_sized and not state.size_assumed:
        mean = max(1, state.arrived_bytes // max(1, state.arrived_count))
        state.set("size_assumed", mean)
        state.count_bytes_anew()


def _open_session(state: State, decision: d.OpenSession) -> None:
    state.set("session_last", max(state.session_last, decision.session))
    state.sessions[decision.session] = decision.identity
    state.do(state.sessions.pop, decision.session)


def _close_session(state: State, decision: d.CloseSession) -> None:
    identity = state.sessions.pop(decision.session)
    state.do(state.sessions.__setitem__, decision.session, identity)


def _stage(state: State, decision: d.Stage) -> None:
    for first, end in decision.runs:
        state.clear_times(state.locks, first, end)
        for offset in range(first, end):
            state.stage(offset, decision.transaction)


def _finish(state: State, decision: d.Finish) -> None:
    staged = sorted(
        offset
        for offset, transaction in state.staged.items()
        if transaction == decision.transaction
    )
    for offset in staged:
        state.leave(offset, offset + 1)
        if decision.is_committed:
            state.forget(offset, offset + 1)
        else:
            state.set_column(state.excused, offset, state.excused[offset] + 1)
            state.put_ready(offset, offset + 1)
    if decision.is_committed:
        _count_removed(state, Reason.SETTLED, len(staged))


def _redrive(state: State, decision: d.Redrive) -> None:
    state.set("redrive_target", decision.target)
    state.set("redrive_end", decision.end)


def _seek(state: State, decision: d.Seek) -> None:
    for run in list(state.live.runs()):
        state.leave(*run)
        state.forget(*run)
        _count_removed(state, Reason.PURGED, run.end - run.first)
    state.set("ages", Ages())
    state.set("end", decision.offset)
    state.set("seek_count", state.seek_count + 1)


def _note_disuse(state: State, decision: d.NoteDisuse) -> None:
    state.set("disuse", Disuse(decision.unused_ms, decision.wall_ms, decision.step_ms))


def _note_use(state: State, _: d.NoteUse) -> None:
    state.set("disuse", None)


def _count_removed(state: State, reason: Reason, count: int) -> None:
    before = state.removed[reason]
    state.removed[reason] = before + count
    state.do(state.removed.__setitem__, reason, before)


_DO: dict[type[Decision], Callable[[State, Any], None]] = {
    d.Arrive: _on_arrive,
    d.Assign: _assign,
    d.Extend: _extend,
    d.Release: _release,
    d.Due: _due,
    d.Remove: _remove,
    d.Kill: _kill,
    d.Bury: _bury,
    d.Park: _park,
    d.Unpark: _unpark,
    d.Purge: _purge,
    d.Configure: _configure,
    d.OpenSession: _open_session,
    d.CloseSession: _close_session,
    d.Stage: _stage,
    d.Finish: _finish,
    d.Redrive: _redrive,
    d.Seek: _seek,
    d.NoteDisuse: _note_disuse,
    d.NoteUse: _note_use,
}
