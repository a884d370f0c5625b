"""Tables on a partition, under every fault: see `lock_table`; `lock_seeds` runs more seeds."""

import pytest

from kafkaesque.tables import replicated
from kafkaesque.tables.replicated import ReplicatedTable
from tests.sim.lock_seeds import LOCKS, SNAPSHOT_BYTES, run_seed
from tests.sim.lock_table import run_locks


@pytest.fixture(autouse=True)
def often_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated, "SNAPSHOT_BYTES", SNAPSHOT_BYTES)


@pytest.mark.extended
def test_locks_are_kept_through_every_fault() -> None:
    grants = starts = 0
    for seed in range(4):
        report = run_seed(seed)
        assert report.ok, (seed, report.anomalies)
        grants += report.counts["grants"]
        starts += report.counts["log start"]
    assert grants > 100
    assert starts > 0, "nothing of the log was given up"


@pytest.mark.extended
def test_effects_before_commit_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: ReplicatedTable[object, object, object], effect: object) -> None:
        self._ready.append(effect)

    monkeypatch.setattr(ReplicatedTable, "release", at_once)
    found: list[str] = []
    for seed in range(30):
        found += run_locks(seed, LOCKS).anomalies
        if any(what.startswith("locks: ") for what in found):
            return
    pytest.fail(f"what was not committed was answered, and nobody noticed: {found}")
