"""The queue's checkers must find mistakes that are put in on purpose, or they prove nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.queues import decisions as d
from kafkaesque.queues import engine as engine_module
from kafkaesque.queues import replay as replay_module
from kafkaesque.queues import snapshot
from kafkaesque.queues.claims import good_runs
from kafkaesque.queues.column import Column
from kafkaesque.queues.context import Context
from kafkaesque.queues.distributor import Distributor
from kafkaesque.queues.engine import Engine
from kafkaesque.queues.fair_groups import FairGroups
from kafkaesque.queues.group_order import GroupOrder
from kafkaesque.queues.ready import Ready
from kafkaesque.queues.requests import Claim
from kafkaesque.queues.sessions import Sessions
from kafkaesque.queues.state import State
from kafkaesque.queues.table import QueueTable
from kafkaesque.queues.timetable import Timetable
from kafkaesque.queues.upkeep import Upkeep
from kafkaesque.tables.replicated import ReplicatedTable
from tests.property.queue_walk import walk, walk_in_turns

Patch = Callable[[pytest.MonkeyPatch], None]


def effects_before_commit(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: ReplicatedTable[Any, Any, Any], effect: object) -> None:
        self._ready.append(effect)

    patch.setattr(ReplicatedTable, "release", at_once)


def locks_that_end_early(patch: pytest.MonkeyPatch) -> None:
    real = Timetable.pop_due
    patch.setattr(Timetable, "pop_due", lambda self, now, most: real(self, now + 3, most))


def lock_time_begins_anew(patch: pytest.MonkeyPatch) -> None:
    real = ReplicatedTable.lead

    def lead(self: ReplicatedTable[Any, Any, Any], now: Any) -> None:
        real(self, now)
        self._lock_base_ms = 0

    patch.setattr(ReplicatedTable, "lead", lead)


def attempts_forgotten_on_release(patch: pytest.MonkeyPatch) -> None:
    real = replay_module._give_back

    def give_back(state: State, decision: d.Release, first: int, end: int) -> None:
        state.clear_column(state.attempts, first, end)
        state.clear_column(state.excused, first, end)
        real(state, decision, first, end)

    patch.setattr(replay_module, "_give_back", give_back)


def attempts_missing_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    real = snapshot._columns
    patch.setattr(
        snapshot,
        "_columns",
        lambda state: tuple(each for each in real(state) if each is not state.attempts),
    )


def old_claims_believed(patch: pytest.MonkeyPatch) -> None:
    def believe(state: State, claims: tuple[Claim, ...], *, may_be_late: bool = False) -> object:
        newest = [
            Claim(offset, offset + 1, state.attempts[offset])
            for claim in claims
            for offset in range(claim.first, claim.end)
        ]
        return good_runs(state, tuple(newest), may_be_late=may_be_late)

    patch.setattr(engine_module, "good_runs", believe)


def settlement_not_undone(patch: pytest.MonkeyPatch) -> None:
    def forget(self: State, first: int, end: int) -> None:
        self.live.remove(first, end)
        for column in (self.attempts, self.excused, self.sizes, self.ready.priorities):
            self.clear_column(column, first, end)
        self.clear_column(self.group_order.groups, first, end)
        self.clear_times(self.expiry, first, end)

    patch.setattr(State, "forget", forget)


def locks_not_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "clear_times", lambda self, table, first, end: table.clear(first, end))


def groups_not_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupOrder, "hold", lambda self, group: None)
    patch.setattr(GroupOrder, "unhold", lambda self, group: None)


def retries_do_not_hold_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "_tried", lambda self, first, end: [])


def groups_brought_back_from_the_end(patch: pytest.MonkeyPatch) -> None:
    def bring_back(self: GroupOrder, group: int) -> None:
        waiting = self._waiting.get(group)
        if waiting is None:
            return
        offset = list(waiting.offsets())[-1]
        waiting.remove(offset, offset + 1)
        self._ready.put(offset, offset + 1)
        if not waiting:
            del self._waiting[group]

    patch.setattr(GroupOrder, "_bring_back", bring_back)


def oldest_group_first(patch: pytest.MonkeyPatch) -> None:
    def next_offsets(self: FairGroups, count_max: int) -> list[int]:
        self._look(count_max)
        return sorted([*self._ready.all(), *self.sorted_offsets()])[:count_max]

    patch.setattr(FairGroups, "next_offsets", next_offsets)


def dead_letters_numbered_anew(patch: pytest.MonkeyPatch) -> None:
    real = State.begin_move

    def begin_move(self: State, offset: int, reason: d.Reason, target: str) -> None:
        self.sequences[target] = len(self.moving)
        real(self, offset, reason, target)

    patch.setattr(State, "begin_move", begin_move)


def dead_letters_not_asked_for_again(patch: pytest.MonkeyPatch) -> None:
    """Then they stay on their way for ever, which the walk sees at its end."""
    real = Context.ask_to_move

    def ask(self: Context, offset: int) -> None:
        if self.state.moving[offset].sequence % 2 == 0:
            real(self, offset)

    patch.setattr(Context, "ask_to_move", ask)


def attempts_limit_ignored_by_one(patch: pytest.MonkeyPatch) -> None:
    real = State.failures_of
    patch.setattr(
        Context,
        "_has_failed_too_often",
        lambda self, offset: 0 < self.state.policy.attempts_max <= real(self.state, offset) + 1,
    )


def lives_that_end_early(patch: pytest.MonkeyPatch) -> None:
    real = Context.give_up

    def give_up(self: Context, reason: d.Reason, offsets: Any) -> None:
        real(self, d.Reason.EXPIRED if reason is d.Reason.ATTEMPTS else reason, offsets)

    patch.setattr(Context, "give_up", give_up)


def limits_that_count_too_much(patch: pytest.MonkeyPatch) -> None:
    real = Upkeep._excess
    patch.setattr(Upkeep, "_excess", lambda self: tuple(each + (each > 0) for each in real(self)))


def full_queues_admit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "_is_full", lambda self, count, size, identities: False)


def duplicates_admitted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "_known", lambda self, identity, twins: None)


def twins_admitted(patch: pytest.MonkeyPatch) -> None:
    real = Engine._known
    patch.setattr(Engine, "_known", lambda self, identity, twins: real(self, identity, {}))


def too_many_in_flight(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Distributor, "_room", lambda self: 1_000)


def priorities_upside_down(patch: pytest.MonkeyPatch) -> None:
    real = Ready.peek
    patch.setattr(
        Ready, "peek", lambda self, most, from_lowest=False: real(self, most, from_lowest=True)
    )


def tail_before_the_others(patch: pytest.MonkeyPatch) -> None:
    real = Ready.put_at_tail
    patch.setattr(Ready, "put_at_tail", lambda self, offset, place: real(self, offset, 1))


def sessions_closed_with_messages(patch: pytest.MonkeyPatch) -> None:
    def detach(self: Sessions, session: bytes, *, is_failed: bool) -> None:
        self._attached.pop(session, None)
        number = self._numbers.pop(session, None)
        if number is not None:
            self._context.decide(d.CloseSession(number))

    patch.setattr(Sessions, "detach", detach)


def staged_messages_given_back(patch: pytest.MonkeyPatch) -> None:
    real = replay_module._finish
    patch.setitem(
        replay_module._DO,
        d.Finish,
        lambda state, decision: real(state, d.Finish(decision.transaction, False)),
    )


def staged_locks_end(patch: pytest.MonkeyPatch) -> None:
    def stage(state: State, decision: d.Stage) -> None:
        for first, end in decision.runs:
            for offset in range(first, end):
                state.stage(offset, decision.transaction)

    patch.setitem(replay_module._DO, d.Stage, stage)


def purge_takes_what_is_in_flight(patch: pytest.MonkeyPatch) -> None:
    def purge(state: State, decision: d.Purge) -> None:
        for first, end in [run for run in state.live.runs() if run.end <= decision.end]:
            state.leave(first, end)
            state.forget(first, end)

    patch.setitem(replay_module._DO, d.Purge, purge)


def floor_without_what_is_in_flight(patch: pytest.MonkeyPatch) -> None:
    def floor(self: QueueTable) -> int | None:
        ready = self.state.ready.all()
        return ready[0] if ready else None

    patch.setattr(QueueTable, "_floor", property(floor))


def bytes_not_counted_back(patch: pytest.MonkeyPatch) -> None:
    real = State._count_waiting
    patch.setattr(State, "_count_waiting", lambda self, change: real(self, max(change, 0)))


def sparse_blocks_lose_a_number(patch: pytest.MonkeyPatch) -> None:
    real = Column._set_sparse

    def set_sparse(self: Column, number: int, block: Any, at: int, value: int) -> None:
        real(self, number, block, at if at < 40 else 40, value)

    patch.setattr(Column, "_set_sparse", set_sparse)


def snapshots_without_tails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ready, "places", lambda self: [])


def holes_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicatedTable, "_is_behind_hole", lambda *_: False)


def messages_gone_from_a_batch_passed_over(patch: pytest.MonkeyPatch) -> None:
    def is_behind_hole(self: ReplicatedTable[Any, Any, Any], _: object, base_offset: int) -> bool:
        return base_offset > self.end_offset

    patch.setattr(ReplicatedTable, "_is_behind_hole", is_behind_hole)


def what_lives_told_of_one_too_late(patch: pytest.MonkeyPatch) -> None:
    """As if it were known of the log's end, and not of the snapshot's begin."""
    real = ReplicatedTable.live_before

    def live_before(self: ReplicatedTable[Any, Any, Any], end_offset: Any) -> Any:
        live = real(self, end_offset)
        return live and replace(live, end_offset=self.committed_offset)

    patch.setattr(ReplicatedTable, "live_before", live_before)


PLANTED = [
    effects_before_commit,
    locks_that_end_early,
    lock_time_begins_anew,
    attempts_forgotten_on_release,
    attempts_missing_in_snapshots,
    old_claims_believed,
    settlement_not_undone,
    locks_not_undone,
    groups_not_held,
    retries_do_not_hold_groups,
    groups_brought_back_from_the_end,
    dead_letters_numbered_anew,
    dead_letters_not_asked_for_again,
    attempts_limit_ignored_by_one,
    lives_that_end_early,
    limits_that_count_too_much,
    full_queues_admit,
    duplicates_admitted,
    twins_admitted,
    too_many_in_flight,
    priorities_upside_down,
    tail_before_the_others,
    sessions_closed_with_messages,
    staged_messages_given_back,
    staged_locks_end,
    purge_takes_what_is_in_flight,
    floor_without_what_is_in_flight,
    bytes_not_counted_back,
    sparse_blocks_lose_a_number,
    snapshots_without_tails,
    holes_passed_over,
    messages_gone_from_a_batch_passed_over,
    what_lives_told_of_one_too_late,
]

#: A right queue survives them all; each mistake is found by one of them.
SEEDS = range(100)


def walk_all() -> None:
    for seed in SEEDS:
        walk(seed)


def test_groups_are_served_in_turn() -> None:
    for seed in SEEDS:
        walk_in_turns(seed)


def test_groups_that_are_not_served_in_turn_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    oldest_group_first(monkeypatch)
    with pytest.raises(AssertionError, match="more than its share"):
        test_groups_are_served_in_turn()


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    walk_all()


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_mistake_is_found(plant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaesqueError)):
        walk_all()
