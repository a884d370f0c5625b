"""Thousands of short runs with recoveries, and what they find when the protocol lacks something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kafkaesque.raft import recovery
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.core import RaftCore
from kafkaesque.raft.errors import RaftInvariantBroken
from kafkaesque.raft.recovery import Founding, Survivor, find_founding
from tests.unit.raft.checker import Violation
from tests.unit.raft.seeded_recovery import RecoveryRun

SEEDS_PER_TEST = 150
#: A planted bug is to be found within so many seeds.
SEEDS_MAX = 400


@pytest.mark.parametrize("first", range(0, 600, SEEDS_PER_TEST), ids=lambda first: f"from-{first}")
def test_claims_hold_whatever_is_formed_anew(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            RecoveryRun(seed).run(steps=500)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def be_content_with_one_survivor_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "survivors_needed", lambda voters: voters - (voters // 2 + 1))


def forget_formations_that_were_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(
        survivors: Sequence[Survivor], decided: Sequence[tuple[int, Configuration]]
    ) -> Founding | None:
        return find_founding(survivors, [])

    monkeypatch.setattr("tests.unit.raft.test_raft_recovery_seeds.FIND", find)


def go_on_in_the_earlier_formation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RaftCore, "enter_formation", RaftCore.know_formation)
    monkeypatch.setattr(RaftCore, "has_entered", True)


def let_any_survivor_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(
        survivors: Sequence[Survivor], decided: Sequence[tuple[int, Configuration]]
    ) -> Founding | None:
        found = find_founding(survivors, decided)
        return None if found is None else replace(found, leader=found.voters[0])

    monkeypatch.setattr("tests.unit.raft.test_raft_recovery_seeds.FIND", find)


FIND = find_founding


def run_seeds(count: int) -> None:
    for seed in range(count):
        RecoveryRun(seed, find=FIND).run(steps=500)


# What takes a longer row of accidents is planted in the model that is explored whole.
@pytest.mark.parametrize(
    "plant",
    [
        be_content_with_one_survivor_less,
        forget_formations_that_were_decided,
        go_on_in_the_earlier_formation,
        let_any_survivor_found,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((Violation, RaftInvariantBroken)):
        run_seeds(SEEDS_MAX)
