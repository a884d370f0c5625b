"""Leaders of a queue are killed while much is in flight; planted bugs are counted by their names.

`kafkaesque sim queue-kills` has more kills, and more messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from kafkaesque.broker.queues.mover import Mover
from kafkaesque.queues import decisions as d
from kafkaesque.queues import engine
from kafkaesque.queues import requests as r
from kafkaesque.queues.context import Context
from kafkaesque.queues.group_order import GroupOrder
from kafkaesque.queues.runs import runs_of
from kafkaesque.queues.table import QueueTable
from kafkaesque.sim.queues import checks
from kafkaesque.sim.queues.kills import KillReport, kill_leaders
from kafkaesque.sim.queues.promises import PROMISES
from kafkaesque.tables.log_table import Instant
from kafkaesque.tables.replicated import ReplicatedTable

IN_FLIGHT = 200
KILLS = 6


def kept(seed: int = 1) -> KillReport:
    return kill_leaders(seed, KILLS, IN_FLIGHT)


def test_nothing_is_lost_or_forgotten_when_leaders_are_killed() -> None:
    report = kept()
    assert report.anomalies == []
    assert report.broken == dict.fromkeys(PROMISES, 0)
    assert report.kills == KILLS
    assert report.in_flight_least > IN_FLIGHT // 2
    for what in ("settled", "failed", "released", "dead letters"):
        assert report.counts[what], what


def test_every_name_of_a_promise_is_one_of_the_checkers() -> None:
    names = " ".join((checks.__doc__ or "").split())
    for name in (each for some in PROMISES.values() for each in some):
        assert f"*{name}*" in names, name


@pytest.mark.extended
def test_a_message_that_is_dropped_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(self: Context, offsets: Iterable[int], **_: object) -> None:
        self.decide(d.Remove(d.Reason.TOO_LONG, runs_of(offsets)))

    monkeypatch.setattr(Context, "give_back", drop)
    assert kept().broken["lost"]


@pytest.mark.extended
def test_lock_time_that_jumps_ends_locks_early(monkeypatch: pytest.MonkeyPatch) -> None:
    lead = ReplicatedTable.lead

    def jump(self: ReplicatedTable[Any, Any, Any], now: Instant) -> None:
        self.lock_ms += 100_000
        lead(self, now)

    monkeypatch.setattr(ReplicatedTable, "lead", jump)
    assert kept().broken["locks ended early"]


@pytest.mark.extended
def test_settlements_that_give_back_are_settled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settle, settlements = engine._HANDLERS[r.Settle], itertools.count()

    def give_back(self: engine.Engine, request: r.Settle) -> None:
        if next(settlements) % 10:
            settle(self, request)
        else:
            self._give_back(r.GiveBack(token=request.token, claims=request.claims, is_failed=False))

    monkeypatch.setitem(engine._HANDLERS, r.Settle, give_back)
    assert kept().broken["settled again"]


@pytest.mark.extended
def test_attempts_that_only_the_leader_knows_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = QueueTable._log

    def keep(self: QueueTable, decision: d.Decision) -> None:
        if isinstance(decision, d.Assign):
            self._decided = decision
            self._turn_undos.append(self._apply(b""))
        else:
            log(self, decision)

    monkeypatch.setattr(QueueTable, "_log", keep)
    assert kept().broken["attempts forgotten"]


@pytest.mark.extended
def test_groups_that_nothing_holds_are_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupOrder, "hold", lambda _, __: None)
    monkeypatch.setattr(GroupOrder, "unhold", lambda _, __: None)
    assert kept().broken["out of order in a group"]


@pytest.mark.extended
def test_dead_letters_that_are_not_sent_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Mover, lane: Any, *_: object) -> None:
        self._report(lane, 1, lambda offsets: r.Moved(token=lane.host.new_token(), offsets=offsets))

    monkeypatch.setattr(Mover, "_send", forget)
    assert kept().broken["dead letters lost or doubled"]
