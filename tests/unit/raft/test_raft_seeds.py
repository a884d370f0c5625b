"""Thousands of short runs in which a seed decides what goes wrong."""

from __future__ import annotations

import pytest

from tests.unit.raft.seeded import SeededRun

SEEDS_PER_TEST = 150


@pytest.mark.parametrize("first", range(0, 1500, SEEDS_PER_TEST), ids=lambda first: f"from-{first}")
def test_claims_hold_and_the_cluster_comes_together(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            SeededRun(seed, reads=seed % 5 == 0).run(steps=(150, 500)[seed % 2])
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
