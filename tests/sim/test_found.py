"""What seeds have found, each as the seed and the few faults that it needs.

The faults are written down, because what a seed draws changes with the planner. How to get there:
run the seed with parts of its report's `plan` left out, as long as the same anomaly shows. Brokers
change, and the same faults strike at other moments then: what can be had without a seed is kept as
a test of its room, or in `test_unreadable`.
"""

from typing import NamedTuple

import pytest

from kafkaesque.sim.faults import Fault
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed

ALL_3 = ("b1", "b2", "b3")


class Found(NamedTuple):
    """A failure of the past."""

    what: str
    seed: int
    options: SimOptions
    plan: tuple[Fault, ...]


def _fault(
    kind: str, targets: tuple[str, ...], begin_ms: int, end_ms: int, strength: float = 0.0
) -> Fault:
    return Fault(kind=kind, targets=targets, begin_ms=begin_ms, end_ms=end_ms, strength=strength)


FOUND = (
    Found(
        "where a log starts, inside a segment that was only in the page cache, was forgotten",
        30_035,
        SimOptions(write_caching=True, activities=("deletions",), snapshot_records=4),
        (
            _fault("kill", ALL_3, 1_000, 3_019),
            _fault("kill", ALL_3, 4_246, 6_879),
            _fault("restart", ALL_3, 8_975, 10_000),
        ),
    ),
    Found(
        "a producer was forgotten with its records: what it sent once more was taken for new",
        50_141,
        SimOptions(brokers=1, replicas=1, activities=("deletions",)),
        (
            _fault("pause", ("b1",), 1_181, 3_369),
            _fault("reset", ("b1",), 1_504, 1_633, 0.3),
            _fault("power cut", ("b1",), 2_189, 4_447),
            _fault("slow disk", ("b1",), 3_305, 5_505, 50.0),
            _fault("reset", ("b1",), 5_499, 9_186, 0.3),
            _fault("absence", ("b1",), 7_438, 9_604),
        ),
    ),
)


@pytest.mark.parametrize("found", FOUND, ids=[str(found.seed) for found in FOUND])
def test_what_was_found_stays_away(found: Found) -> None:
    report = run_seed(found.seed, found.options, found.plan)
    assert report.ok, f"{found.what}: {report.anomalies}\n" + "\n".join(report.lines[-40:])
    assert report.acknowledged > 100, "the clients did something"
