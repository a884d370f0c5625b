"""Copies that are throttled beside retention that is faster than they are."""

import pytest

from kafkaesque.broker.replication import raft_replica
from kafkaesque.sim.options import SimOptions, draw_brokers, draw_options, with_faults
from kafkaesque.sim.runner import SimReport, run_seed
from kafkaesque.storage.readable_log import ReadableLog

OPTIONS = SimOptions(
    brokers=5, duration_ms=12_000, kinds=("kill", "pause"), activities=("moves", "throttles")
)


def run(seed: int) -> SimReport:
    return run_seed(seed, OPTIONS)


def test_throttled_copies_come_to_their_end() -> None:
    report = run(0)
    assert report.ok, report.anomalies
    assert report.counts["moves"]
    assert report.counts["throttles"]


def test_that_records_are_deleted_before_they_are_copied_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raft_replica, "EntriesGone", ZeroDivisionError)
    assert any("EntriesGone" in each for each in run(3).anomalies)


@pytest.mark.extended
def test_retention_that_takes_too_much_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ReadableLog.retention_candidate

    def too_much(self: ReadableLog, now: int, ms: int, size: int, end: int) -> object:
        return right(self, now, ms, size // 4 if size > 0 else size, end)

    monkeypatch.setattr(ReadableLog, "retention_candidate", too_much)
    report = run_seed(1, SimOptions(activities=("deletions",)))
    assert any("retention is to leave" in each for each in report.anomalies), report.anomalies


def test_seeds_draw_throttles_and_brokers_with_all_faults_and_mostly_three() -> None:
    brokers = [draw_brokers(seed, "all") for seed in range(200)]
    assert set(brokers) == {3, 4, 5}
    assert 120 < brokers.count(3) < 180
    assert {draw_brokers(seed, "survivable") for seed in range(200)} == {3}
    drawn = [
        with_faults(seed, draw_options(seed, SimOptions(brokers=count)), "all").activities
        for seed, count in enumerate(brokers)
    ]
    throttled = [activities for activities in drawn if "throttles" in activities]
    assert 10 < len(throttled) < 45
    assert any("moves" in activities for activities in throttled)
    assert not any("throttles" in draw_options(seed).activities for seed in range(200))
