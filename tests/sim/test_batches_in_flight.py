"""Producers that send without waiting for answers, as clients do."""

import pytest

from kafkaesque.broker.partitions.refused_batches import RefusedBatches
from kafkaesque.sim.options import SimOptions, with_faults
from kafkaesque.sim.runner import run_seed

OPTIONS = SimOptions(in_flight=5, min_insync=2, between_ms=500)
#: In these, disks fill up and replicas are missing while batches follow one another.
SEEDS = (6, 25, 38)


@pytest.mark.parametrize("seed", SEEDS)
def test_none_is_told_that_it_is_out_of_order(seed: int) -> None:
    report = run_seed(seed, with_faults(seed, OPTIONS, "all"))
    assert report.ok, report.anomalies
    assert report.acknowledged > 100


def test_that_one_does_not_wait_for_the_refused_one_before_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RefusedBatches, "keeps_back", lambda *_: False)
    found = [each for seed in SEEDS for each in _anomalies(seed)]
    assert any("OUT_OF_ORDER_SEQUENCE_NUMBER" in each for each in found), found


def _anomalies(seed: int) -> list[str]:
    return run_seed(seed, with_faults(seed, OPTIONS, "all")).anomalies
