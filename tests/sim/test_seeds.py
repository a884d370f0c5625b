"""Whole clusters under faults: nothing acknowledged is lost, doubled, moved or reordered.

What a seed has found is kept in `test_found`, as the faults that mattered.
"""

import os
import subprocess
import sys

import pytest

from kafkaesque.sim.runner import SimOptions, SimReport, run_seed
from tests.sim.seeds import first_of, some_of


def _explain(report: SimReport) -> str:
    lines = "\n".join(report.lines[-40:])
    return f"seed {report.seed}: {report.anomalies}\n{lines}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", first_of(range(0, 20, 5), 2))
def test_nothing_acknowledged_is_lost_under_any_survivable_fault(first: int) -> None:
    for seed in some_of(range(first, first + 5)):
        report = run_seed(seed)
        assert report.ok, _explain(report)
        assert report.acknowledged > 100, "the clients did something"
        assert report.faults > 0


@pytest.mark.timeout(300)
def test_power_cuts_of_the_whole_cluster_lose_nothing_acknowledged() -> None:
    options = SimOptions(kinds=("power cut",), between_ms=1_000, duration_ms=6_000, all_one_in=1)
    for seed in some_of(range(1_000, 1_008)):
        report = run_seed(seed, options)
        assert report.ok, _explain(report)


def _digest(seed: int, hash_seed: str) -> str:
    script = (
        "from kafkaesque.sim.runner import run_seed, SimOptions\n"
        f"print(run_seed({seed}, SimOptions(duration_ms=4_000)).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
        timeout=280,
    )
    return done.stdout.strip()


def test_the_same_seed_has_the_same_history_in_every_process() -> None:
    digests = {_digest(11, hash_seed) for hash_seed in ("1", "2")}
    assert len(digests) == 1
    assert _digest(12, "1") not in digests, "another seed has another history"


def test_a_plan_that_is_given_is_the_plan_that_would_be_drawn() -> None:
    options = SimOptions(duration_ms=4_000)
    drawn = run_seed(13, options)
    given = run_seed(13, options, drawn.plan)
    assert given.digest == drawn.digest
    fewer = run_seed(13, options, drawn.plan[:1])
    assert fewer.digest != drawn.digest
    assert fewer.faults == 1
