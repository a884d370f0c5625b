import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.sim.chatter import run

ROOT = Path(__file__).parents[3]


def run_apart(seed: int, hash_seed: int) -> str:
    return subprocess.run(
        [sys.executable, "-m", "tests.unit.sim.chatter", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": "src:."},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_history_in_every_process(seed: int) -> None:
    first, second = run_apart(seed, 1), run_apart(seed, 2)
    assert first == second
    history = run(seed).loop.history
    assert first.startswith(f"{history.digest()} {history.count}\n")


def test_different_seeds_give_different_histories() -> None:
    assert len({run(seed).loop.history.digest() for seed in range(4)}) == 4
