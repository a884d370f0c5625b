"""Rules that change under faults: after the bound nobody reads or writes what was taken away."""

from __future__ import annotations

import pytest

from kafkaesque.access.decisions import Judge
from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.upkeep.access_freshness import AccessFreshness
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.sim.faults import Ground
from kafkaesque.sim.nemesis import Nemesis, PlanOptions, make_plan
from tests.sim.guarded import SLACK_MS, STALE_MS, Guarded
from tests.sim.seeds import first_of

FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
#: The clock of one that runs slowly counts the bound for longer: none of these.
KINDS = (
    "kill",
    "restart",
    "rolling restart",
    "absence",
    "power cut",
    "pause",
    "block",
    "flapping",
    "delay",
    "loss",
    "reset",
)
DURATION_MS = 120_000


def cut_off(run: Guarded, name: str) -> None:
    """Cut a broker off from the others; clients reach it still."""
    for other in run.cluster.names:
        if other != name:
            run.world.wire.block(name, other)
            run.world.wire.block(other, name)


def heal(run: Guarded, name: str) -> None:
    for other in run.cluster.names:
        if other != name:
            run.world.wire.unblock(name, other)
            run.world.wire.unblock(other, name)


def given_then_cut_off_then_taken(run: Guarded) -> None:
    """What b3's clients may do is taken away by the others, of whom it hears nothing."""
    run.admin.give(lambda: None)
    run.loop.run_until(lambda: all(each.code == 0 for each in run.clients), 30_000)
    cut_off(run, "b3")
    run.loop.run_for(1_000)
    run.admin.take(lambda: None)
    run.loop.run_until(lambda: run.admin.taken_ms is not None, 60_000)


def test_rights_that_are_taken_away_end_within_a_second_where_nothing_is_wrong() -> None:
    run = Guarded(1)
    run.admin.give(lambda: None)
    run.loop.run_until(lambda: all(each.code == 0 for each in run.clients), 30_000)
    run.admin.take(lambda: None)
    run.loop.run_until(lambda: run.admin.taken_ms is not None, 30_000)
    run.loop.run_for(1_000)
    assert [each.code for each in run.clients] == [FORBIDDEN] * 6


def test_a_broker_that_is_cut_off_stops_at_the_bound_and_goes_on_when_it_hears_again() -> None:
    run = Guarded(2)
    given_then_cut_off_then_taken(run)
    # Within the bound it goes by what it knows.
    assert run.clients[-1].code == 0
    run.loop.run_for(STALE_MS + SLACK_MS + 500)
    assert [each.code for each in run.clients] == [FORBIDDEN] * 4 + [None] * 2
    assert run.found == []
    heal(run, "b3")
    run.loop.run_until(lambda: run.clients[-1].code == FORBIDDEN, 60_000)
    run.admin.give(lambda: None)
    run.loop.run_until(lambda: all(each.code == 0 for each in run.clients), 120_000)


def test_a_broker_that_was_paused_does_not_go_on_with_old_rules() -> None:
    run = Guarded(3)
    run.admin.give(lambda: None)
    run.loop.run_until(lambda: all(each.code == 0 for each in run.clients), 30_000)
    machine = run.world.machines["b3"]
    machine.pause()
    run.admin.take(lambda: None)
    run.loop.run_until(lambda: run.admin.taken_ms is not None, 60_000)
    run.loop.run_for(STALE_MS + SLACK_MS + 500)
    machine.resume()
    run.loop.run_for(3_000)
    assert run.found == []
    assert run.clients[-1].code != 0


def test_a_broker_that_never_takes_its_rules_for_old_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AccessFreshness, "is_stale", property(lambda _: False))
    run = Guarded(2)
    given_then_cut_off_then_taken(run)
    run.loop.run_for(STALE_MS + SLACK_MS + 1_000)
    assert run.found


@pytest.mark.parametrize("seed", first_of(range(4), 1))
def test_whatever_goes_wrong_nobody_gets_by_what_was_taken_away(seed: int) -> None:
    assert storm(Guarded(seed), seed) == []


@pytest.mark.extended
def test_a_broker_that_never_hears_of_changed_rules_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judge(access: Access) -> Judge:
        if access._judge.rules_epoch < 6:
            access._judge = access._judge.after(access.state)
        return access._judge

    monkeypatch.setattr(Access, "judge", property(judge))
    assert storm(Guarded(0), 0)


def storm(run: Guarded, seed: int) -> list[str]:
    """Let everything go wrong for two minutes; return what was seen that must not be."""
    names = run.cluster.names
    ground = Ground(
        run.world, run.cluster.boot, stop=run.cluster.restart, is_back=run.cluster.is_back
    )
    nemesis = Nemesis(ground)
    plan = make_plan(seed, names, PlanOptions(duration_ms=DURATION_MS, kinds=KINDS))
    nemesis.commit(plan, DURATION_MS)
    run.admin.start()
    run.loop.run_for(DURATION_MS + 5_000)
    run.admin.is_stopped = True
    assert run.admin.turns >= 2
    assert run.allowed
    assert run.refused
    return run.found
