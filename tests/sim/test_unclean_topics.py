"""Unclean elections in runs of the simulator: see `kafkaesque.sim.unclean`."""

from dataclasses import replace
from typing import Any

import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.upkeep import log_starts
from kafkaesque.broker.upkeep.group_recovery import GroupRecovery
from kafkaesque.model.ids import Offset
from kafkaesque.sim.faults import Fault
from kafkaesque.sim.nemesis import SURVIVABLE
from kafkaesque.sim.options import (
    LONG_RUN,
    SimOptions,
    draw_options,
    with_faults,
    with_lost_majorities,
)
from kafkaesque.sim.runner import SimReport, run_seed
from kafkaesque.storage.log_store import LogStore
from tests.sim.seeds import some_of

#: Majorities are lost, and little else happens.
LOSSES = SimOptions(
    activities=("unclean",),
    brokers=5,
    session_timeout_ms=500,
    duration_ms=60_000,
    kinds=("delay",),
    partitions=1,
    between_ms=5_000,
    busy_percent=1,
)


#: Brokers die and are cut off in between, too.
HARSHER = replace(
    LOSSES, kinds=("absence", "kill", "block"), between_ms=1_500, session_timeout_ms=300
)


def _find(seeds: range | tuple[int, ...], options: SimOptions = LOSSES) -> list[str]:
    for seed in seeds:
        found = run_seed(seed, options).anomalies
        if found:
            return found
    return []


def _explain(report: SimReport) -> str:
    lines = "\n".join(report.lines[-40:])
    return f"seed {report.seed}: {report.anomalies}\n{lines}"


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_what_is_acknowledged_since_the_last_unclean_election_is_there() -> None:
    counts: dict[str, int] = {}
    for seed in some_of(range(8)):
        report = run_seed(seed, LOSSES)
        assert report.ok, _explain(report)
        for name, count in report.counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in ("unclean elections", "given up", "resets", "deletions there"):
        assert counts[name] > 0, f"no {name}"


def test_one_long_run_in_eight_has_unclean_elections_and_brokers_enough() -> None:
    drawn = [draw_options(seed, LONG_RUN) for seed in range(100)]
    chosen = [each for each in drawn if "unclean" in each.activities]
    assert 5 < len(chosen) < 20
    assert not any("unclean" in draw_options(seed).activities for seed in range(100))
    for seed, each in enumerate(drawn):
        options = with_faults(seed, with_lost_majorities(seed, each), "all")
        assert options.brokers == (5 if each in chosen else 3)
        # Of a partition of one replica nothing would be left.
        assert (options.damaged is None) == (each in chosen)
        assert (options.kinds == SURVIVABLE) == (each in chosen)


@pytest.mark.extended
def test_a_start_that_is_believed_without_its_term_deletes_what_came_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One replica was away; then the two others are cut off, and go on writing and deleting."""
    options = replace(LOSSES, duration_ms=14_000, busy_percent=None)
    cut = [(one, other) for one in ("b4", "b5") for other in ("b1", "b2", "b3")]
    links = tuple(name for one, other in cut for name in (one, other, other, one))
    plan = [
        Fault(kind="absence", targets=("b1",), begin_ms=200, end_ms=1_700),
        Fault(kind="block", targets=links, begin_ms=1_650, end_ms=6_000),
    ]
    report = run_seed(5, options, plan)
    assert report.ok, _explain(report)
    assert report.counts["unclean elections"] == 2

    def believe(partition: Partition, start: Any) -> Offset:
        return min(Offset(start.offset), partition.settled_offset)

    monkeypatch.setattr(log_starts, "_believed", believe)
    found = run_seed(5, options, plan).anomalies
    assert any(what.startswith("unclean: overdeleted") for what in found), found


@pytest.mark.extended
def test_copies_that_count_while_they_are_made_anew_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_log = LogStore.open_log

    def whole(self: LogStore, **arguments: Any) -> Any:
        arguments["may_be_lost"] = False
        return open_log(self, **arguments)

    monkeypatch.setattr(LogStore, "open_log", whole)
    found = _find((1, 2), HARSHER)
    assert any(what.startswith("unclean: made anew") for what in found), found


def test_copies_that_are_not_made_anew_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupRecovery, "is_given_up", lambda self, group, log: False)
    monkeypatch.setattr(
        "kafkaesque.broker.metadata.recovery_state.RecoveryState.is_given_up", _never
    )
    assert _find((2, 5)), "replicas keep another history, and nobody noticed"


def _never(*_: Any) -> bool:
    return False


@pytest.mark.extended
def test_an_acknowledgement_before_the_commit_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where elections are unclean, a majority that lives loses nothing."""
    answer_later = Partition._answer_later

    def at_once(self: Partition, acks: int, *arguments: Any) -> None:
        answer_later(self, 0, *arguments)

    monkeypatch.setattr(Partition, "_answer_later", at_once)
    assert _find((0, 1)), "acknowledged before the commit, and nobody noticed"
