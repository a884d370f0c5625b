"""Links between brokers and whoever is controller are struck, and nothing else is."""

from collections.abc import Sequence

import pytest

from kafkaesque.raft.leadership import Leadership
from kafkaesque.sim import nemesis
from kafkaesque.sim.faults import Fault
from kafkaesque.sim.nemesis import PlanOptions, plan_around_controller
from kafkaesque.sim.options import SimOptions, name_brokers
from kafkaesque.sim.runner import run_seed
from tests.sim.seeds import first_of

OPTIONS = SimOptions(brokers=4, duration_ms=8_000, activities=("topics", "commits", "moves"))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many faults in eight seconds as there are in a minute of a long run."""
    monkeypatch.setattr(nemesis, "CONTROLLER_GAP_MS_MAX", 4_000)


def plan(seed: int) -> Sequence[Fault]:
    names = name_brokers(OPTIONS.brokers)
    return plan_around_controller(seed, names, PlanOptions(duration_ms=OPTIONS.duration_ms))


@pytest.mark.parametrize("seed", first_of(range(2), 1))
def test_nothing_is_lost_where_brokers_and_the_controller_do_not_reach_each_other(
    seed: int,
) -> None:
    report = run_seed(seed, OPTIONS, plan(seed))
    assert report.ok, report.anomalies
    assert report.faults > 2
    assert report.acknowledged > 100


@pytest.mark.extended
def test_a_broker_that_nobody_tells_what_it_has_missed_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Leadership, "_tick_peer", lambda self, peer: None)
    monkeypatch.setattr(Leadership, "on_peer_seen", lambda self, node: None)
    found = run_seed(0, OPTIONS, plan(0)).anomalies
    assert any(each.startswith("stuck") for each in found), found
