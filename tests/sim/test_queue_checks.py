"""Queues under every fault, and brokers with a planted bug, which the checkers have to find."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kafkaesque.broker.queues import mover as mover_module
from kafkaesque.broker.queues.mover import Mover
from kafkaesque.broker.queues.putting import Moving
from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.queues import arrival as arrival_module
from kafkaesque.queues import decisions as d
from kafkaesque.queues import replay as replay_module
from kafkaesque.queues import requests as r
from kafkaesque.queues import snapshot as snapshot_module
from kafkaesque.queues.arrival import Arrival, arrival_of
from kafkaesque.queues.column import Column
from kafkaesque.queues.context import Context
from kafkaesque.queues.deduplication import Identities
from kafkaesque.queues.group_order import GroupOrder
from kafkaesque.queues.runs import runs_of
from kafkaesque.queues.state import State
from kafkaesque.queues.table import QueueTable
from kafkaesque.sim import runner as runner_module
from kafkaesque.sim.options import SimOptions, with_faults
from kafkaesque.sim.queues import worker as worker_module
from kafkaesque.sim.queues.history import What
from kafkaesque.sim.queues.specs import FAMILIES
from kafkaesque.sim.runner import SimReport, run_seed
from kafkaesque.tables.log_table import Instant
from kafkaesque.tables.replicated import ReplicatedTable
from tests.sim.seeds import first_of, some_of

QUEUES = SimOptions(activities=("queues",), between_ms=500, min_insync=2)
SEEDS_MAX = 12


def only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let runs have the queues of one family, so that each seed says something of them."""
    (family,) = [each for each in FAMILIES if each[0].name == name]
    monkeypatch.setattr(
        runner_module, "draw_queues", lambda _: {spec.name: spec for spec in family}
    )


def find(what: str, options: SimOptions = QUEUES) -> SimReport:
    """Return the first report that has an anomaly of this name."""
    found: list[str] = []
    for seed in range(SEEDS_MAX):
        report = run_seed(seed, options)
        found += report.anomalies
        if any(each.startswith(f"queues: {what}") for each in report.anomalies):
            return report
    pytest.fail(f"nobody noticed: {found[:10]}")


@pytest.mark.parametrize("seed", first_of(some_of(range(9)), 1))
def test_queues_are_kept_through_every_fault(seed: int) -> None:
    report = run_seed(seed, with_faults(seed, QUEUES, "all"))
    assert report.ok, report.anomalies
    assert report.counts["settled"] > 10


@pytest.mark.extended
def test_a_lock_time_that_jumps_at_a_change_of_leader_ends_locks_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lead = ReplicatedTable.lead

    def jump(self: ReplicatedTable[Any, Any, Any], now: Instant) -> None:
        self.lock_ms += 5_000
        lead(self, now)

    monkeypatch.setattr(ReplicatedTable, "lead", jump)
    only(monkeypatch, "plain")
    find("lock ended early")


def test_an_attempt_that_does_not_count_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    release = replay_module._DO[d.Release]

    def excuse(state: State, decision: d.Release) -> None:
        release(state, msgspec.structs.replace(decision, is_failed=False))

    monkeypatch.setitem(replay_module._DO, d.Release, excuse)
    only(monkeypatch, "plain")
    find("forgotten attempt")


@pytest.mark.extended
def test_a_settlement_that_only_its_leader_knows_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = QueueTable._log

    def keep_settlements(self: QueueTable, decision: d.Decision) -> None:
        if isinstance(decision, d.Remove) and decision.reason is d.Reason.SETTLED:
            self._decided = decision
            self._turn_undos.append(self._apply(b""))
        else:
            log(self, decision)

    monkeypatch.setattr(QueueTable, "_log", keep_settlements)
    only(monkeypatch, "plain")
    find("settled again")


@pytest.mark.extended
def test_effects_before_commit_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: ReplicatedTable[Any, Any, Any], effect: object) -> None:
        self._ready.append(effect)

    monkeypatch.setattr(ReplicatedTable, "release", at_once)
    only(monkeypatch, "plain")
    find("", replace(QUEUES, kinds=("block", "kill"), between_ms=400))


@pytest.mark.extended
def test_a_dead_letter_that_is_sent_again_as_another_one_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mover_module, "BatchOptions", lambda **_: BatchOptions())
    monkeypatch.setattr(Moving, "_append", append_whatever_it_is)
    monkeypatch.setattr(worker_module, "_FATES", (What.REJECT, What.SETTLE))
    only(monkeypatch, "retried")
    find("doubled dead letter")


def append_whatever_it_is(self: Moving, batch: bytearray) -> None:
    self._host.partition().produce(batch, acks=0, timeout_ms=0, on_done=lambda _: None)


def test_a_dead_letter_that_is_not_sent_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Mover, lane: Any, *_: object) -> None:
        self._report(lane, 1, lambda offsets: r.Moved(token=lane.host.new_token(), offsets=offsets))

    monkeypatch.setattr(Mover, "_send", forget)
    only(monkeypatch, "retried")
    find("lost dead letter")


@pytest.mark.extended
def test_groups_that_nothing_holds_are_in_two_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupOrder, "hold", lambda _, __: None)
    monkeypatch.setattr(GroupOrder, "unhold", lambda _, __: None)
    only(monkeypatch, "ordered")
    find("group")


@pytest.mark.extended
def test_an_identity_that_is_forgotten_is_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identities, "find", lambda *_: None)
    only(monkeypatch, "unique")
    find("doubled identity")


def test_a_message_that_is_dropped_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(self: Context, offsets: Iterable[int], **_: object) -> None:
        self.decide(d.Remove(d.Reason.TOO_LONG, runs_of(offsets)))

    monkeypatch.setattr(Context, "give_back", drop)
    only(monkeypatch, "plain")
    find("lost message")


@pytest.mark.extended
def test_a_limit_that_nobody_counts_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "_has_failed_too_often", lambda *_: False)
    only(monkeypatch, "retried")
    find("over the limit")


def test_priorities_that_nobody_looks_at_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival_module, "arrival_of", without_priorities)
    only(monkeypatch, "ranked")
    find("out of order")


def without_priorities(*arguments: Any) -> Arrival:
    arrival = arrival_of(*arguments)
    return replace(arrival, details=tuple(each._replace(priority=0) for each in arrival.details))


@pytest.mark.extended
@pytest.mark.parametrize("column", ["excused", "attempts", "parked"])
def test_a_snapshot_that_leaves_something_out_is_seen(
    monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    columns = snapshot_module._columns

    def leave_out(state: State) -> tuple[Column, ...]:
        left_out = getattr(state, column)
        return tuple(each for each in columns(state) if each is not left_out)

    monkeypatch.setattr(snapshot_module, "_columns", leave_out)
    only(monkeypatch, "short")
    find("")
